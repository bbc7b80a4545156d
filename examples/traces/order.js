// An order in three steps: the workflow client for Node.js in Express, with OpenTelemetry's own instrumentation.

import { serve } from "@upstash/workflow/express";
import express from "express";

const port = Number(process.env.PORT ?? 3000);
const url = process.env.APP_URL ?? `http://127.0.0.1:${port}`;

const order = async (context) => {
  await context.run("charge", () => "charged");
  await context.sleep("an hour", "1h");
  await context.run("ship", () => console.log("shipped"));
};

const app = express();
app.use(express.json());
app.use("/order", serve(order, { baseUrl: url, env: process.env }));
app.listen(port, () => console.log(`listening on ${url}`));
