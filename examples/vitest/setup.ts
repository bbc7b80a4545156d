import { createApp, type Surroundings } from "./app.ts";
import type { World } from "./emulator.ts";

/** The address that the application has in production. The emulator calls it there, and signs for it. */
export const APP = "https://app.example.com";
export const ADA = "ada@example.com";

/** The application in a world, and the texts of the mails that it has sent. */
export async function begin(world: World, others: Partial<Surroundings> = {}) {
  const mails: string[] = [];
  const app = createApp({
    url: APP,
    env: world.env,
    sendMail: async (_email, text) => void mails.push(text),
    isActive: async () => false,
    ...others,
  });
  const address = await world.mount(APP, app);
  /** A call of the application; the answer is the id of the run that it started, if any. */
  async function post(path: string, body: object): Promise<string | undefined> {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch(address + path, { method: "POST", body: JSON.stringify(body), headers });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.status === 201 ? (await response.json()).workflowRunId : undefined;
  }
  return { mails, post };
}
