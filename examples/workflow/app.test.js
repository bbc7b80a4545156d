import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { CRM, createApp } from "./app.js";
import { createWorld } from "./emulator.js";

// The address that the application has in production. The emulator forwards it to the server below,
// and signs for it.
const APP = "https://app.example.com";
const sendMail = mock.fn(async () => {});
const isActive = mock.fn(async () => false);
const texts = () => sendMail.mock.calls.map((call) => call.arguments[1]);

let world, server, local;

beforeEach(async () => {
  sendMail.mock.resetCalls();
  world = await createWorld();
  const app = createApp({ env: world.env, url: APP, sendMail, isActive });
  await new Promise((ready) => (server = app.listen(0, "127.0.0.1", ready)));
  local = `http://127.0.0.1:${server.address().port}`;
  await world.forward(APP, local);
});

afterEach(async () => {
  server.close();
  await world.close();
});

const offers = (...sequence) => world.respond(`${CRM}/*`, ...sequence);
const json = { "Content-Type": "application/json" };
const half = { status: 200, headers: json, body: JSON.stringify({ offer: "half the price" }) };

async function signUp(email) {
  const body = JSON.stringify({ email });
  const response = await fetch(`${local}/users`, { method: "POST", body, headers: { "Content-Type": "application/json" } });
  return (await response.json()).workflowRunId;
}

test("thirty days", async () => {
  await offers(half);
  const runId = await signUp("ada@example.com");
  await world.advance("0s");
  assert.deepEqual(texts(), ["Welcome!"]);
  await world.advance("3d");
  assert.deepEqual(texts().slice(1), ["We miss you."]);
  await world.advance("27d");
  assert.deepEqual(texts().slice(2), ["Your trial ends. We offer half the price."]);

  const run = await world.call("GET", `/runs/${runId}`);
  assert.equal(run.state, "RUN_SUCCESS");
  assert.deepEqual(JSON.parse(run.result), { offer: "half the price" });
});

test("who is active is not reminded", async () => {
  await offers(half);
  isActive.mock.mockImplementationOnce(async () => true);
  await signUp("ada@example.com");
  await world.advance("30d");
  assert.deepEqual(texts(), ["Welcome!", "Your trial ends. We offer half the price."]);
});

test("who signs up twice is welcomed once", async () => {
  await offers(half);
  await signUp("ada@example.com");
  await signUp("ada@example.com");
  await world.advance("1d");
  assert.deepEqual(texts(), ["Welcome!"]);
});

test("the offer survives an outage", async () => {
  await offers({ status: 503 }, half);
  await signUp("ada@example.com");
  await world.advance("31d");
  assert.equal(texts().at(-1), "Your trial ends. We offer half the price.");
});
