import { Client } from "@upstash/workflow";
import { serve } from "@upstash/workflow/express";
import express, { type Express } from "express";

export const CRM = "https://crm.example.com";
export const PAYMENTS = "https://payments.example.com";

export interface Surroundings {
  /** The address at which the service reaches this application, without a slash at the end. */
  url: string;
  /** The variables of the clients: `process.env` in production, those of a world in a test. */
  env: Record<string, string | undefined>;
  sendMail(email: string, text: string): Promise<void>;
  isActive(email: string): Promise<boolean>;
}

type User = { email: string };

/** Three workflows of thirty days, each one function. `POST /start/NAME` with an email starts one. */
export function createApp({ url, env, sendMail, isActive }: Surroundings): Express {
  const client = new Client({ baseUrl: env.QSTASH_URL, token: env.QSTASH_TOKEN });
  const app = express();
  app.use(express.json());

  app.post("/start/:name", async (request, response) => {
    const { name } = request.params;
    response.status(201).json(await client.trigger({ url: `${url}/${name}`, body: request.body, retries: 2 }));
  });
  /** What somebody did whom a trial waits for. */
  app.post("/subscriptions", async (request, response) => {
    await client.notify({ eventId: `subscribed ${request.body.email}`, eventData: request.body.plan });
    response.sendStatus(204);
  });

  app.use(
    "/onboarding",
    serve<User>(
      async (context) => {
        const { email } = context.requestPayload;
        await context.run("welcome", () => sendMail(email, "Welcome!"));
        await context.sleep("three days", "3d");
        if (!(await context.run("check", () => isActive(email)))) {
          await context.run("remind", () => sendMail(email, "We miss you."));
        }
        await context.sleep("until the thirtieth day", "27d");
        const { status, body } = await context.call<{ offer: string }>("offer", {
          url: `${CRM}/offers`,
          method: "POST",
          body: JSON.stringify({ email }),
          retries: 2,
        });
        const offer = status === 200 ? body.offer : "nothing";
        await context.run("farewell", () => sendMail(email, `We offer ${offer}.`));
        return { offer };
      },
      { baseUrl: url, env },
    ),
  );

  app.use(
    "/trial",
    serve<User>(
      async (context) => {
        const { email } = context.requestPayload;
        const bought = await context.waitForEvent<string>("a subscription", `subscribed ${email}`, { timeout: "30d" });
        const text = bought.timeout ? "Your trial is over." : `Thank you for ${bought.eventData}.`;
        await context.run("close", () => sendMail(email, text));
        return { plan: bought.timeout ? null : bought.eventData };
      },
      { baseUrl: url, env },
    ),
  );

  app.use(
    "/invoice",
    serve<User>(
      async (context) => {
        const { email } = context.requestPayload;
        for (const day of [0, 10, 20, 30]) {
          if (day > 0) await context.sleep(`until day ${day}`, "10d");
          const { status } = await context.call(`charge on day ${day}`, {
            url: `${PAYMENTS}/charges`,
            method: "POST",
            body: JSON.stringify({ email }),
          });
          if (status === 200) return { paid: day };
          await context.run(`tell on day ${day}`, () => sendMail(email, `Your card was declined on day ${day}.`));
        }
        await context.run("suspend", () => sendMail(email, "Your account is suspended."));
        return { paid: null };
      },
      { baseUrl: url, env },
    ),
  );

  return app;
}
