"""An order in three steps: the workflow client for Python in FastAPI, with OpenTelemetry's own instrumentation."""

from __future__ import annotations

import os
from typing import Any

import uvicorn
from fastapi import FastAPI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from qstash import AsyncQStash, Receiver
from upstash_workflow import AsyncWorkflowContext  # type: ignore[import-untyped]  # it comes without types
from upstash_workflow.fastapi import Serve  # type: ignore[import-untyped]  # as above

PORT = int(os.environ.get("PORT", "3000"))
URL = os.environ.get("APP_URL", f"http://127.0.0.1:{PORT}")

# Where the spans go is said by OTEL_EXPORTER_OTLP_ENDPOINT, what the application is called by OTEL_SERVICE_NAME.
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
# The workflow client publishes each step with it.
HTTPXClientInstrumentor().instrument()

app = FastAPI()
FastAPIInstrumentor.instrument_app(app)
qstash = AsyncQStash(os.environ["QSTASH_TOKEN"], base_url=os.environ["QSTASH_URL"])
receiver = Receiver(os.environ["QSTASH_CURRENT_SIGNING_KEY"], os.environ["QSTASH_NEXT_SIGNING_KEY"])


@Serve(app).post("/order", qstash_client=qstash, receiver=receiver, base_url=URL)  # type: ignore[untyped-decorator]
async def order(context: AsyncWorkflowContext[dict[str, Any]]) -> None:
    await context.run("charge", lambda: "charged")
    await context.sleep("an hour", "1h")
    await context.run("ship", lambda: print("shipped", flush=True))


if __name__ == "__main__":
    uvicorn.run(app, port=PORT)
