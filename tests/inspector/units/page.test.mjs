// The state of the page, its formats, its calls: without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.sessionStorage = { getItem: () => null };
const { target } = await import("../../../emulator/inspector/api.js");
const { asCurl, asPython, asTypeScript } = await import("../../../emulator/inspector/languages.js");
const { messageAssertions, runAssertions } =
  await import("../../../emulator/inspector/assertions.js");
const { bodyOf, duration, hex, instant, inZone, prettyJson, relative, shortId, withArrows } =
  await import("../../../emulator/inspector/format.js");
const { createStore, nowOf } = await import("../../../emulator/inspector/store.js");

const row = (seq) => ({
  seq,
  at_ms: seq,
  message_id: `m${seq}`,
  attempt: 1,
  attempts: 1,
  method: "POST",
  url: "https://a.test",
  via: "rule",
  status: 200,
  error: null,
  excerpt: null,
  retry: null,
  created_ms: seq,
  created_by: "publish",
  source_message_id: null,
  schedule_id: null,
  queue: null,
  url_group: null,
  labels: [],
});

test("listeners are told of another state, and of nothing else", () => {
  const store = createStore();
  let told = 0;
  const end = store.subscribe(() => {
    told += 1;
  });
  store.dispatch({ type: "connection", value: "connecting" });
  assert.equal(told, 0);
  store.dispatch({ type: "clock", clock: { now_ms: 1, rate: 0 } });
  store.dispatch({ type: "clock", clock: { now_ms: 2 } });
  assert.deepEqual(store.state.clock, { now_ms: 2, rate: 0, held: undefined });
  end();
  store.dispatch({ type: "changed" });
  assert.equal(told, 2);
  assert.throws(() => store.dispatch({ type: "nothing" }));
});

test("a move counts the deliveries that the stream tells meanwhile", () => {
  const store = createStore();
  store.dispatch({
    type: "moving",
    moving: { label: "1 day", from_ms: 0, now_ms: 0, deliveries: 0 },
  });
  store.dispatch({ type: "attempts", rows: [row(5)] });
  store.dispatch({ type: "attempts", rows: [row(5)] });
  store.dispatch({ type: "attempts", rows: [row(3)], older: true, whole: true });
  assert.deepEqual(
    [store.state.moving.deliveries, store.state.moving.now_ms, store.state.journal.whole],
    [1, 5, true],
  );
});

test("after a reset the history begins anew, and pages of the old one are not taken in", () => {
  const store = createStore(),
    { journal } = store.state;
  store.dispatch({ type: "attempts", rows: [row(5)] });
  store.dispatch({ type: "reset" });
  store.dispatch({ type: "attempts", journal, rows: [row(3)], older: true });
  assert.deepEqual([store.state.journal.rows.length, store.state.journal.whole], [0, true]);
  store.dispatch({ type: "world", world: "w2" });
  assert.deepEqual([store.state.world, store.state.journal.whole], ["w2", false]);
});

test("times and ids are short and say what they leave out", () => {
  assert.equal(instant(1_767_225_600_000, "Europe/Berlin"), "Thu 1 Jan 2026 01:00:00");
  assert.deepEqual(
    [duration(12), duration(1500), duration(90_000), duration(3 * 86_400_000)],
    ["12 ms", "1.5 s", "1 min 30 s", "3 d"],
  );
  assert.deepEqual(
    [relative(22_000, 0), relative(0, 22_000), relative(5, 5)],
    ["in 22 s", "22 s ago", "now"],
  );
  assert.equal(shortId("msg_26hZabcdefghijtM3fxx"), "msg_26hZ…tM3fxx");
});

test("JSON stays as it was written but for the spaces between", () => {
  assert.equal(
    prettyJson('{"2":1,"1":12345678901234567890,"a":["x,y",[]]}'),
    '{\n  "2": 1,\n  "1": 12345678901234567890,\n  "a": [\n    "x,y",\n    []\n  ]\n}',
  );
  assert.equal(prettyJson("{no"), null);
});

test("a body is shown as what it is", () => {
  assert.equal(bodyOf(null, btoa("\xff\x00A")).kind, "binary");
  assert.equal(
    bodyOf("a=1&b=%20", null, "application/x-www-form-urlencoded").pretty,
    "a = 1\nb =  ",
  );
  assert.deepEqual(
    [bodyOf("", null).kind, bodyOf("{}", null).kind, bodyOf("x", null).kind],
    ["empty", "json", "text"],
  );
  assert.match(hex(Uint8Array.of(0x3c, 0xff)), /^000000 {2}3c ff +<·$/);
});

test("a call can be copied, whatever it holds", () => {
  const call = {
    method: "POST",
    path: "/v2/publish/x",
    query: { a: ["1", "2"], b: null },
    headers: { X: "it's" },
    body: "@file",
  };
  assert.equal(target(call), "/v2/publish/x?a=1&a=2");
  assert.equal(
    asCurl(call, { origin: "http://h" }),
    "curl \\\n  -X POST \\\n  'http://h/v2/publish/x?a=1&a=2' \\\n  -H 'X: it'\\''s' \\\n  --data-raw '@file'",
  );
  assert.match(asPython(call, { origin: "http://h" }), /content="@file".encode\(\)/);
});

test("a call is written with the client of its dialect where there is one", () => {
  const call = {
    method: "POST",
    path: "/v2/publish/https://a.test/x",
    headers: {
      Authorization: "Bearer t",
      "Content-Type": "application/json",
      "Upstash-Delay": "10s",
      "Upstash-Retries": "2",
      "Upstash-Forward-X-A": "b",
      "Upstash-Flow-Control-Key": "k",
    },
    body: "{}",
  };
  const dialect = { header_prefix: "Upstash-" };
  const text = asTypeScript(call, { origin: "http://h", dialect });
  assert.match(text, /^import { Client } from "@upstash\/qstash";/);
  assert.match(text, /new Client\({ baseUrl: "http:\/\/h", token: "t" }\)/);
  const [, options] = /client\.publish\((.*)\);$/s.exec(text);
  assert.deepEqual(new Function(`return ${options}`)(), {
    url: "https://a.test/x",
    delay: "10s",
    retries: 2,
    headers: { "Content-Type": "application/json", "X-A": "b", "Upstash-Flow-Control-Key": "k" },
    body: "{}",
  });
  const queued = { ...call, path: "/v2/enqueue/q/https://a.test/x" };
  assert.match(
    asTypeScript(queued, { dialect, origin: "" }),
    /queue\({ queueName: "q" }\)\.enqueue/,
  );
  const triggered = { ...call, path: "/v2/trigger/https://a.test/x" };
  assert.match(asTypeScript(triggered, { dialect, origin: "" }), /@upstash\/workflow.*trigger/s);
  for (const other of [
    { ...call, path: "/_emulator/reset" },
    { ...call, path: "/v2/dlq/1" },
  ])
    assert.match(asTypeScript(other, { dialect, origin: "" }), /^const response = await fetch/);
  assert.match(asTypeScript(call, { origin: "" }), /^const response = await fetch/);
});

test("instants in sentences are those of the page, and those of another zone's clock stay its", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");
  const shown = (text) => inZone(text, now, "Europe/Berlin");
  assert.equal(shown("due at 2026-01-01T23:30:00.000Z."), "due at 2\u00a0Jan\u00a000:30:00.");
  assert.equal(shown("in 2027-01-01T00:00:00.500Z"), "in 1\u00a0Jan\u00a02027\u00a001:00:00.500");
  assert.equal(shown("fires at 2026-01-01T00:30:00-05:00 in X"), "fires at 00:30:00 in X");
  assert.equal(shown("https://a/2026-01-01T00:00:00Z"), "https://a/2026-01-01T00:00:00Z");
  assert.equal(
    withArrows("Retry-After: 10 -> 10s, a -> b"),
    "Retry-After: 10\u00a0→\u00a010s, a -> b",
  );
});

test("what happened is an assertion in pytest and in vitest", () => {
  const sent = { method: "POST", body: '{"a":1}', headers: {}, response: { status: 200 } };
  const deliveries = [{ ...sent, created_ms: 0, at_ms: 1500 }];
  const { pytest, vitest } = messageAssertions("https://a.test", deliveries, { world: "w" });
  assert.match(pytest(), /^emulator\.verify\(\n {4}url="https:\/\/a\.test",\n/);
  assert.match(pytest(), /at=\["1500ms"\],\n {4}status=\[200\],\n {4}body_json={"a": 1},/);
  assert.match(vitest(), /world=w&url=https/);
  assert.match(
    vitest(),
    /expect\(JSON\.parse\(deliveries\.at\(-1\)\.body\)\)\.toEqual\({"a":1}\);/,
  );
  const steps = [{ type: "Initial" }, { type: "Run", name: "mail", out: "true" }];
  const run = { id: "wfr_1", state: "RUN_SUCCESS", result: "null", steps: [{ steps }] };
  assert.equal(
    runAssertions(run, { world: "default" }).pytest(),
    'emulator.verify_run(\n    "wfr_1",\n    state="RUN_SUCCESS",\n    steps=[{"name": "mail", "out": True}],\n)',
  );
});

test("the instant now is reckoned on from where the clock was, by its rate", () => {
  const store = createStore();
  assert.equal(nowOf(store.state), null);
  store.dispatch({ type: "clock", clock: { now_ms: 1000, rate: 60 }, at: 500 });
  assert.equal(nowOf(store.state, 500), 1000);
  assert.equal(nowOf(store.state, 1500), 61_000);
  store.dispatch({ type: "clock", clock: { rate: 0 }, at: 1500 });
  assert.equal(nowOf(store.state, 9000), 1000);
  store.dispatch({
    type: "moving",
    moving: { label: "1 day", from_ms: 1000, now_ms: 7000, deliveries: 0 },
  });
  assert.equal(nowOf(store.state), 7000);
});
