import { Client as QStash } from "@upstash/qstash";
import { Client as Workflow } from "@upstash/workflow";

// Where the service is they read from QSTASH_URL, or from QSTASH_DEV.
const qstash = new QStash({ token: process.env.QSTASH_TOKEN });
const workflow = new Workflow({ token: process.env.QSTASH_TOKEN });

/** An order: its workflow begins, and a day later the customer is asked for a review, and in a week once more. */
export async function POST(request: Request) {
  const order = await request.json();
  const url = process.env.APP_URL ?? "http://localhost:3000";
  const { workflowRunId } = await workflow.trigger({ url: `${url}/api/fulfil`, body: order });
  await qstash.publishJSON({ url: `${url}/api/remind`, body: order, delay: "1d", retries: 3 });
  await qstash.publishJSON({ url: `${url}/api/remind-edge`, body: order, delay: "7d", retries: 3 });
  return Response.json({ workflowRunId }, { status: 201 });
}
