// Loaded before the application (node --require), so that its modules are instrumented. Where the spans go is said by
// OTEL_EXPORTER_OTLP_ENDPOINT, what the application is called by OTEL_SERVICE_NAME.
const { ExpressInstrumentation } = require("@opentelemetry/instrumentation-express");
const { HttpInstrumentation } = require("@opentelemetry/instrumentation-http");
const { UndiciInstrumentation } = require("@opentelemetry/instrumentation-undici");
const { NodeSDK } = require("@opentelemetry/sdk-node");

// The workflow client publishes each step by fetch, which is undici.
const instrumentations = [new HttpInstrumentation(), new ExpressInstrumentation(), new UndiciInstrumentation()];
new NodeSDK({ instrumentations }).start();
