// The workflows of runs.mjs as an application of Express or Hono, by FRAMEWORK. It counts the calls of each of them.
import { createServer } from "node:net";
import { client, invoking, seen, thirdParty, workflows } from "./runs.mjs";

const counts = {};
const count = (path) => (counts[path] = (counts[path] ?? 0) + 1);
// Its own address has to be known before it can listen.
const port = await new Promise((found) => {
  const probe = createServer().listen(0, "127.0.0.1", () => {
    const { port } = probe.address();
    probe.close(() => found(port));
  });
});
const origin = `http://127.0.0.1:${port}`;
process.env.ORIGIN = origin;

/** What the tests ask: what was seen, and any call of the client, such as ["dlq", "list"] with its arguments. */
async function answer(path, body) {
  if (path === "/seen") return { counts, ...seen };
  if (path === "/reset") {
    for (const each of [counts, ...Object.values(seen)]) for (const key of Object.keys(each)) delete each[key];
    return {};
  }
  const method = body.method.pop();
  const owner = body.method.reduce((object, name) => object[name], client);
  try {
    return { result: await owner[method](...(body.arguments ?? [])) };
  } catch (error) {
    return { status: error.status ?? null, error: String(error.message) };
  }
}

const CONTROL = ["/seen", "/reset", "/client"];
const THIRD_PARTIES = ["/third-party", "/notifier", "/start-notifications", "/webhook-caller"];

async function express() {
  const { default: express } = await import("express");
  const { createWorkflow, serve, serveMany } = await import("@upstash/workflow/express");
  const app = express();
  app.use((request, response, next) => (count(request.path), next()));
  app.use(express.json());
  for (const [name, workflow] of Object.entries(workflows(origin))) app.use(`/${name}`, serve(...[workflow].flat()));
  for (const path of CONTROL) app.post(path, async (request, response) => response.json(await answer(path, request.body)));
  for (const path of THIRD_PARTIES) {
    app.all(path, async (request, response) => {
      const [status, body, headers = {}] = await thirdParty(path, request.method, request.headers, request.body);
      response.status(status).set(headers);
      typeof body === "string" ? response.send(body) : response.json(body);
    });
  }
  app.post("/plain", (request, response) => response.send("no workflow"));
  app.use("/many", serveMany(invoking(createWorkflow)));
  await new Promise((ready) => app.listen(port, "127.0.0.1", ready));
}

async function hono() {
  const { Hono } = await import("hono");
  const { serve: listen } = await import("@hono/node-server");
  const { createWorkflow, serve, serveMany } = await import("@upstash/workflow/hono");
  const app = new Hono();
  app.use(async (context, next) => (count(context.req.path), next()));
  for (const [name, workflow] of Object.entries(workflows(origin))) app.post(`/${name}`, serve(...[workflow].flat()));
  for (const path of CONTROL) app.post(path, async (context) => context.json(await answer(path, await context.req.json())));
  for (const path of THIRD_PARTIES) {
    app.all(path, async (context) => {
      const text = await context.req.text();
      const given = text ? JSON.parse(text) : undefined;
      const headers = context.req.header();
      const [status, body, more = {}] = await thirdParty(path, context.req.method, headers, given);
      return typeof body === "string" ? context.text(body, status, more) : context.json(body, status, more);
    });
  }
  app.post("/plain", (context) => context.text("no workflow"));
  app.post("/many/*", serveMany(invoking(createWorkflow)));
  await new Promise((ready) => listen({ fetch: app.fetch, port, hostname: "127.0.0.1" }, ready));
}

await { express, hono }[process.env.FRAMEWORK]();
console.log(`listening on ${origin}`);
