import assert from "node:assert/strict";
import { createServer } from "node:http";
import { afterEach, beforeEach, mock, test } from "node:test";
import { createApp } from "./app.js";
import { createWorld, signedAt } from "./emulator.js";

// The address that the application has in production. The emulator forwards it to the server below,
// and signs for it.
const APP = "https://app.example.com";
const sendMail = mock.fn(async () => {});
const mails = () => sendMail.mock.calls.map((call) => call.arguments[0]);

let world, server, local;

/** The application in a world that begins at an instant. */
async function begin(epoch) {
  world = await createWorld(epoch);
  const app = createApp({ env: world.env, url: APP, sendMail });
  app.set("env", "test"); // Express logs errors otherwise.
  // At every delivery the application's clock is the world's.
  server = createServer((request, response) => {
    const signature = request.headers["upstash-signature"];
    if (signature) mock.timers.setTime(signedAt(signature));
    app(request, response);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  local = `http://127.0.0.1:${server.address().port}`;
  await world.forward(APP, local);
  mock.timers.enable({ apis: ["Date"], now: await world.now() });
}

async function end() {
  mock.timers.reset();
  server.close();
  await world.close();
}

beforeEach(async () => {
  sendMail.mock.resetCalls();
  await begin();
});

afterEach(end);

const post = (path, body, headers = {}) =>
  fetch(local + path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", ...headers },
  });

test("the welcome mail goes out a day after the signup", async () => {
  await post("/signups", { email: "ada@example.com" });
  await world.advance("23h59m");
  assert.deepEqual(mails(), []);
  await world.advance("1m");
  assert.deepEqual(mails(), ["ada@example.com"]);
});

for (const epoch of ["2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z"]) {
  test(`the mail counts the days since the signup at ${epoch}`, async () => {
    await end();
    await begin(epoch);
    await post("/signups", { email: "ada@example.com" });
    await world.advance("7d");
    assert.deepEqual(sendMail.mock.calls.map((call) => call.arguments), [["ada@example.com", 1]]);
  });
}

test("a double click is welcomed once", async () => {
  const answers = [];
  for (let click = 1; click <= 2; click++) {
    answers.push(await (await post("/signups", { email: "ada@example.com" })).json());
  }
  assert.deepEqual(answers[0], answers[1]);
  await world.advance("2d");
  assert.deepEqual(mails(), ["ada@example.com"]);
});

test("while mails cannot be sent, the job is tried again", async () => {
  world.mayFail = true;
  sendMail.mock.mockImplementationOnce(async () => {
    throw new Error("the mail server is down");
  });
  await post("/signups", { email: "ada@example.com" });
  await world.advance("2d");
  const attempts = await world.deliveries(`${APP}/jobs/welcome`);
  assert.deepEqual(attempts.map((attempt) => attempt.response.status), [500, 200]);
  assert.equal(attempts[0].headers["Upstash-Message-Id"][0], attempts[1].headers["Upstash-Message-Id"][0]);
});

test("nobody but the service can start the job", async () => {
  await post("/signups", { email: "ada@example.com" });
  await world.advance("1d");
  const [delivery] = await world.deliveries(`${APP}/jobs/welcome`);
  const genuine = { "Upstash-Signature": delivery.headers["Upstash-Signature"][0] };

  assert.equal((await post("/jobs/welcome", { email: "eve@example.com" })).status, 401);
  assert.equal((await post("/jobs/welcome", { email: "eve@example.com" }, genuine)).status, 401);
  assert.deepEqual(mails(), ["ada@example.com"]);
});
