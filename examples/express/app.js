import { Client, Receiver } from "@upstash/qstash";
import express from "express";

const DAY_MS = 24 * 60 * 60 * 1000;

/**
 * Who signs up gets a welcome mail a day later.
 *
 * @param env the variables of the clients; in development mode they need none
 * @param url the address at which the service reaches this application, without a slash at the end
 * @param sendMail called with the address to welcome and the days since the signup; if it fails, the job is tried again
 */
export function createApp({ env, url, sendMail }) {
  const client = new Client({ baseUrl: env.QSTASH_URL, token: env.QSTASH_TOKEN });
  const receiver = new Receiver({
    currentSigningKey: env.QSTASH_CURRENT_SIGNING_KEY,
    nextSigningKey: env.QSTASH_NEXT_SIGNING_KEY,
  });
  const app = express();

  /** Lets only those calls pass that the service has signed for this very URL and body. */
  async function signedOnly(request, response, next) {
    try {
      await receiver.verify({
        signature: request.get("Upstash-Signature") ?? "",
        body: request.body ?? "",
        url: url + request.originalUrl,
      });
    } catch {
      return response.status(401).send("not signed by the service");
    }
    next();
  }

  app.post("/signups", express.json(), async (request, response) => {
    const { email } = request.body;
    const { messageId } = await client.publishJSON({
      url: `${url}/jobs/welcome`,
      body: { email, signedUp: Date.now() },
      delay: "1d",
      // A double click is one signup.
      deduplicationId: `welcome-${email}`,
    });
    response.status(202).json({ messageId });
  });

  // The signature covers the body as it was sent, so it must not be parsed before it is verified.
  app.post("/jobs/welcome", express.text({ type: "*/*" }), signedOnly, async (request, response) => {
    const { email, signedUp } = JSON.parse(request.body);
    await sendMail(email, Math.round((Date.now() - signedUp) / DAY_MS));
    response.json({ welcomed: email });
  });

  return app;
}
