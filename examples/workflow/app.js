import { Client } from "@upstash/workflow";
import { serve } from "@upstash/workflow/express";
import express from "express";

export const CRM = "https://crm.example.com";

/**
 * Thirty days of onboarding, as one function.
 *
 * @param env the variables of the clients; in development mode they need none
 * @param url the address at which the service reaches this application, without a slash at the end
 * @param sendMail called with an address and a text; if it fails, that step is tried again
 * @param isActive called with an address
 */
export function createApp({ env, url, sendMail, isActive }) {
  const client = new Client({ baseUrl: env.QSTASH_URL, token: env.QSTASH_TOKEN });
  const app = express();
  app.use(express.json());

  app.post("/users", async (request, response) => {
    const { email } = request.body;
    // Who signs up twice is welcomed once.
    const workflowRunId = Buffer.from(email).toString("base64url");
    response.status(201).json(await client.trigger({ url: `${url}/onboarding`, body: { email }, workflowRunId }));
  });

  const onboarding = async (context) => {
    const { email } = context.requestPayload;
    await context.run("welcome", () => sendMail(email, "Welcome!"));
    await context.sleep("three days", "3d");
    if (!(await context.run("check", () => isActive(email)))) {
      await context.run("remind", () => sendMail(email, "We miss you."));
    }
    await context.sleep("until the thirtieth day", "27d");
    const call = { url: `${CRM}/offers`, method: "POST", body: JSON.stringify({ email }), retries: 2 };
    const { status, body } = await context.call("offer", call);
    const offer = (status === 200 && body.offer) || "nothing";
    await context.run("farewell", () => sendMail(email, `Your trial ends. We offer ${offer}.`));
    return { offer };
  };
  app.use("/onboarding", serve(onboarding, { baseUrl: url, env }));

  return app;
}
