import assert from "node:assert/strict";
import { after, before, beforeEach, mock, test } from "node:test";
import { createApp } from "./app.js";
import { advance, control, deliveries } from "./emulator.js";

// The address that the application has in production. The emulator forwards it to the server below,
// and signs for it.
const APP = "https://app.example.com";
const sendMail = mock.fn(async () => {});
const mails = () => sendMail.mock.calls.map((call) => call.arguments[0]);

let server, local;

before(async () => {
  const app = createApp({ url: APP, sendMail });
  app.set("env", "test"); // Express logs errors otherwise.
  await new Promise((ready) => (server = app.listen(0, "127.0.0.1", ready)));
  local = `http://127.0.0.1:${server.address().port}`;
});

after(() => server.close());

beforeEach(async () => {
  sendMail.mock.resetCalls();
  await control("POST", "/reset");
  await control("PUT", "/clock", { rate: 0 });
  await control("POST", "/destinations", { match: { url: `${APP}/*` }, forward_to: local });
});

const post = (path, body, headers = {}) =>
  fetch(local + path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", ...headers },
  });

test("the welcome mail goes out a day after the signup", async () => {
  await post("/signups", { email: "ada@example.com" });
  await advance("23h59m");
  assert.deepEqual(mails(), []);
  await advance("1m");
  assert.deepEqual(mails(), ["ada@example.com"]);
});

test("a double click is welcomed once", async () => {
  const answers = [];
  for (let click = 1; click <= 2; click++) {
    answers.push(await (await post("/signups", { email: "ada@example.com" })).json());
  }
  assert.deepEqual(answers[0], answers[1]);
  await advance("2d");
  assert.deepEqual(mails(), ["ada@example.com"]);
});

test("while mails cannot be sent, the job is tried again", async () => {
  sendMail.mock.mockImplementationOnce(async () => {
    throw new Error("the mail server is down");
  });
  await post("/signups", { email: "ada@example.com" });
  await advance("2d");
  const attempts = await deliveries(`${APP}/jobs/welcome`);
  assert.deepEqual(attempts.map((attempt) => attempt.response.status), [500, 200]);
  assert.equal(attempts[0].headers["Upstash-Message-Id"][0], attempts[1].headers["Upstash-Message-Id"][0]);
});

test("nobody but the service can start the job", async () => {
  await post("/signups", { email: "ada@example.com" });
  await advance("1d");
  const [delivery] = await deliveries(`${APP}/jobs/welcome`);
  const genuine = { "Upstash-Signature": delivery.headers["Upstash-Signature"][0] };

  assert.equal((await post("/jobs/welcome", { email: "eve@example.com" })).status, 401);
  assert.equal((await post("/jobs/welcome", { email: "eve@example.com" }, genuine)).status, 401);
  assert.deepEqual(mails(), ["ada@example.com"]);
});
