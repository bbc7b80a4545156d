import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import { createInterface } from "node:readline";
import { gunzipSync } from "node:zlib";
import { createWorld } from "./emulator.js";

const ORDER = { email: "ada@example.com", item: "a book" };

let world, app, url;

// One world for all tests, because the application learns its variables when it starts.
before(async () => {
  world = await createWorld("2026-01-01T00:00:00Z");
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address();
  free.close();
  url = `http://127.0.0.1:${port}`;
  const variables = { ...process.env, ...world.env, APP_URL: url, UPSTASH_WORKFLOW_URL: url };
  const next = new URL(import.meta.resolve("next/dist/bin/next")).pathname;
  app = spawn(process.execPath, [next, "start", "--port", String(port)], { env: variables });
  app.stderr.pipe(process.stderr);
  for await (const line of createInterface(app.stdout)) if (line.includes("Ready")) return;
  throw new Error("the application has not started: `npm run build` comes before");
});

after(async () => {
  app.kill();
  await world.close();
});

const post = (path, body, headers = {}) =>
  fetch(url + path, { method: "POST", body: JSON.stringify(body), headers });
// Next.js compresses what it answers, and the journal has it as it came.
const json = ({ body, body_base64 }) => JSON.parse(body ?? gunzipSync(Buffer.from(body_base64, "base64")));
const answers = async (path) =>
  (await world.deliveries(url + path)).map(({ at, response }) => [at.slice(0, 10), response.status, json(response)]);

test("an order of thirty days", async () => {
  const response = await post("/api/orders", ORDER);
  assert.equal(response.status, 201);
  const { workflowRunId } = await response.json();
  await world.advance("29d");
  assert.equal((await world.call("GET", `/runs/${workflowRunId}`)).state, "RUN_STARTED");
  await world.advance("1d");
  const { state, result } = await world.call("GET", `/runs/${workflowRunId}`);
  assert.equal(state, "RUN_SUCCESS");
  assert.deepEqual(JSON.parse(result), { parcel: "a book for ada@example.com", kept: true });
});

test("the customer is asked after a day, and at the edge after a week", async () => {
  assert.deepEqual(await answers("/api/remind"), [
    ["2026-01-02", 200, { to: "ada@example.com", text: "How do you like a book?" }],
  ]);
  assert.deepEqual(await answers("/api/remind-edge"), [
    ["2026-01-08", 200, { to: "ada@example.com", text: "Would you order a book again?" }],
  ]);
});

for (const path of ["/api/remind", "/api/remind-edge", "/api/fulfil"]) {
  test(`nobody but the service can call ${path}`, async () => {
    const [delivery] = await world.deliveries(url + path);
    const genuine = { "Upstash-Signature": delivery.headers["Upstash-Signature"][0] };
    const other = { ...ORDER, email: "eve@example.com" };
    for (const headers of [{}, genuine]) assert.ok((await post(path, other, headers)).status >= 400);
  });
}
