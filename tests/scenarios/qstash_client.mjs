// The public JavaScript client drives every resource it has. Run by test_qstash_npm.py, beside an
// installed @upstash/qstash; destinations below APP are forwarded to the test's receiver.
import assert from "node:assert/strict";
import { Client, Receiver, custom, openai, upstash } from "@upstash/qstash";

const { EMULATOR_URL, EPOCH_MS } = process.env;
const APP = "https://app.example.com";
const DOWN = "https://down.example.com";
const epoch = Number(EPOCH_MS);

// Everything the client needs comes from the environment: its own variables, or its dev mode.
const client = new Client();

async function control(method, path, body) {
  const response = await fetch(`${EMULATOR_URL}/_emulator${path}`, { method, body: JSON.stringify(body) });
  assert.ok(response.ok, await response.clone().text());
  const text = await response.text();
  return text ? JSON.parse(text) : undefined;
}

const advance = (by) => control("POST", "/clock/advance", { by });
const deliveries = async (url) => (await control("GET", `/deliveries?url=${url}`)).deliveries;

async function publishing() {
  const sent = await client.publishJSON({
    url: `${APP}/json`,
    body: { a: 1 },
    headers: { "X-Team": "t" },
    method: "PUT",
  });
  const [delivery] = await deliveries(`${APP}/json`);
  assert.equal(delivery.method, "PUT");
  assert.equal(delivery.body, '{"a":1}');
  assert.deepEqual(delivery.headers["X-Team"], ["t"]);
  assert.deepEqual(delivery.headers["Content-Type"], ["application/json"]);
  assert.equal(Object.keys(delivery.headers).some((name) => name.toLowerCase().includes("telemetry")), false);
  const message = await client.messages.get(sent.messageId);
  assert.equal(message.url, `${APP}/json`);
  assert.equal(message.urlGroup, undefined);

  const full = await client.publish({
    url: `${APP}/full`,
    body: "secret",
    retries: 1,
    retryDelay: "1000 * retried",
    delay: "10d",
    timeout: 30,
    callback: `${APP}/told`,
    failureCallback: `${APP}/failed`,
    label: ["one", "two"],
    flowControl: { key: "k", parallelism: 2, rate: 5, period: "1h30m3s" },
    redact: { body: true, header: ["authorization"] },
    headers: { Authorization: "Bearer x" },
  });
  const record = await client.messages.get(full.messageId);
  assert.equal(record.notBefore, epoch + 864_000_000);
  assert.equal(record.maxRetries, 1);
  assert.equal(record.retryDelayExpression, "1000 * retried");
  assert.deepEqual(record.labels, ["one", "two"]);
  assert.equal(record.flowControlKey, "k");
  assert.equal(record.ratePerSecond, 5);
  assert.equal(record.period, 5403);
  assert.ok(record.body.startsWith("REDACTED:"));
  assert.ok(record.header.Authorization[0].startsWith("REDACTED:"));
  assert.deepEqual(await client.messages.cancel(full.messageId), { cancelled: 1 });

  const empty = await client.publish({ url: `${APP}/empty` });
  assert.equal((await client.messages.get(empty.messageId)).body, undefined);
  const first = await client.publish({ url: `${APP}/dedup`, deduplicationId: "d" });
  const again = await client.publish({ url: `${APP}/dedup`, deduplicationId: "d" });
  assert.deepEqual(again, { messageId: first.messageId, deduplicated: true });
  await client.publish({ url: `${APP}/content`, body: "x", contentBasedDeduplication: true });
  const same = await client.publish({ url: `${APP}/content`, body: "x", contentBasedDeduplication: true });
  assert.equal(same.deduplicated, true);
  const later = await client.publish({ url: `${APP}/later`, notBefore: epoch / 1000 + 3600 });
  assert.equal((await client.messages.get(later.messageId)).notBefore, epoch + 3_600_000);
  await assert.rejects(client.publish({ url: "nowhere" }), (error) => error.status === 404 || error.status === 400);
  await assert.rejects(client.publish({ url: `${APP}/x`, retryDelay: "foo(1)" }), /Upstash-Retry-Delay/);
}

async function groupsAndBatch() {
  await client.urlGroups.delete("g");
  const endpoints = [
    { name: "one", url: `${APP}/one` },
    { name: "two", url: `${APP}/two` },
  ];
  await client.urlGroups.addEndpoints({ name: "g", endpoints });
  const [group] = await client.urlGroups.list();
  assert.deepEqual(group.endpoints, endpoints);
  assert.deepEqual(await client.urlGroups.get("g"), group);
  const sent = await client.publishJSON({ urlGroup: "g", body: {} });
  assert.deepEqual(sent.map((item) => item.url), [`${APP}/one`, `${APP}/two`]);
  assert.equal((await client.messages.get(sent[0].messageId)).urlGroup, "g");
  const results = await client.batchJSON([
    { url: `${APP}/b1`, body: { n: 1 } },
    { urlGroup: "g", body: { n: 2 } },
    { url: `${APP}/b3`, queueName: "bq", body: { n: 3 } },
  ]);
  assert.equal(results.length, 3);
  assert.ok(results[0].messageId && results[2].messageId);
  assert.equal(results[1].length, 2);
  const [plain] = await client.batch([{ url: `${APP}/b4`, body: "x", delay: "1h" }]);
  assert.equal((await client.messages.get(plain.messageId)).notBefore, epoch + 3_600_000);
  await client.urlGroups.removeEndpoints({ name: "g", endpoints: [{ name: "one" }, { url: `${APP}/two` }] });
  assert.deepEqual(await client.urlGroups.list(), []);
}

async function cancelling() {
  await client.messages.cancel({ all: true });
  const sent = [];
  for (const label of ["a", "a", "b", "c", "c"]) {
    sent.push((await client.publish({ url: `${APP}/cancel`, delay: "1h", label })).messageId);
  }
  assert.deepEqual(await client.messages.cancel(sent.slice(0, 2)), { cancelled: 2 });
  assert.deepEqual(await client.messages.cancel({ filter: { label: ["b", "x"] } }), { cancelled: 1 });
  assert.deepEqual(await client.messages.cancel({ filter: { label: "none" } }), { cancelled: 0 });
  const filter = { url: `${APP}/cancel`, host: "app.example.com", path: "/cancel", fromDate: new Date(epoch) };
  assert.deepEqual(await client.messages.cancel({ filter, count: 1 }), { cancelled: 1 });
  assert.deepEqual(await client.messages.cancel({ all: true }), { cancelled: 1 });
  await assert.rejects(client.messages.cancel(sent[0]), (error) => error.status === 404);
}

async function schedules() {
  const { scheduleId } = await client.schedules.create({
    destination: `${APP}/cron`,
    cron: "*/10 * * * *",
    headers: { "test-header": "test-value" },
    body: "tick",
    delay: 10,
    retries: 1,
    timeout: 5,
    callback: `${APP}/told`,
    failureCallback: `${APP}/failed`,
    queueName: "sq",
    label: "sl",
  });
  const schedule = await client.schedules.get(scheduleId);
  assert.equal(schedule.isPaused, false);
  assert.equal(schedule.cron, "*/10 * * * *");
  assert.equal(schedule.delay, 10);
  assert.deepEqual(schedule.header, { "Content-Type": ["application/json"], "Test-Header": ["test-value"] });
  assert.deepEqual(await client.schedules.list(), [schedule]);
  await client.schedules.pause({ schedule: scheduleId });
  assert.equal((await client.schedules.get(scheduleId)).isPaused, true);
  await client.schedules.resume({ schedule: scheduleId });
  const { scheduleId: replaced } = await client.schedules.create({
    scheduleId,
    destination: `${APP}/other`,
    cron: "0 * * * *",
  });
  assert.equal(replaced, scheduleId);
  const after = await client.schedules.get(scheduleId);
  assert.equal(after.body, undefined);
  assert.equal(after.destination, `${APP}/other`);
  await advance("1h");
  assert.equal((await deliveries(`${APP}/other`)).length, 1);
  assert.deepEqual(Object.values((await client.schedules.get(scheduleId)).lastScheduleStates), ["SUCCESS"]);
  await client.schedules.delete(scheduleId);
  assert.deepEqual(await client.schedules.list(), []);
}

async function queues() {
  for (const name of ["bq", "sq"]) await client.queue({ queueName: name }).delete();
  const queue = client.queue({ queueName: "q" });
  await queue.upsert({ parallelism: 2, paused: true });
  const { messageId } = await queue.enqueueJSON({ url: `${APP}/queued`, body: { q: 1 } });
  const record = await queue.get();
  assert.deepEqual([record.name, record.parallelism, record.paused, record.lag], ["q", 2, true, 1]);
  assert.equal((await client.messages.get(messageId)).queueName, "q");
  await queue.resume();
  assert.equal((await deliveries(`${APP}/queued`)).length, 1);
  await queue.enqueue({ url: `${APP}/queued`, body: "plain" });
  await queue.pause();
  assert.equal((await queue.get()).paused, true);
  assert.equal((await client.queue().list()).length, 1);
  await queue.delete();
  assert.deepEqual(await client.queue().list(), []);
}

async function deadLetters() {
  for (const n of [1, 2, 3, 4]) await client.publish({ url: `${DOWN}/${n}`, body: "b", retries: 0, label: `d${n}` });
  const page = await client.dlq.listMessages({ count: 3 });
  assert.equal(page.messages.length, 3);
  const rest = await client.dlq.listMessages({ cursor: page.cursor });
  assert.equal(rest.messages.length, 1);
  assert.equal(rest.cursor, undefined);
  const [entry, second] = page.messages;
  assert.equal(entry.responseStatus, 502);
  assert.equal(entry.responseBody, "Bad Gateway");
  const nothing = [{ responseStatus: 999 }, { label: "x" }, { queueName: "x" }, { fromDate: new Date(epoch * 2) }];
  for (const filter of nothing) {
    assert.deepEqual(await client.dlq.retry({ filter }), { cursor: undefined, responses: [] });
    assert.equal((await client.dlq.delete({ filter })).deleted, 0);
  }
  assert.equal((await client.dlq.listMessages({ filter: { label: "d2" } })).messages.length, 1);
  const retried = await client.dlq.retry(entry.dlqId);
  assert.ok(retried.responses?.[0]?.messageId ?? retried.messageId);
  assert.equal((await client.dlq.delete([entry.dlqId])).deleted, 0);
  await client.dlq.delete(second.dlqId);
  await assert.rejects(client.dlq.delete("1-1"), (error) => error.status === 404);
  assert.equal((await client.dlq.retry({ filter: { label: ["d3"] }, count: 1 })).responses.length, 1);
  // All of them fail again at once, and the loop comes to its end all the same.
  const pages = [];
  let cursor;
  do {
    const again = await client.dlq.retry({ all: true, count: 2, cursor });
    pages.push(again.responses.length);
    cursor = again.cursor;
  } while (cursor && pages.length < 10);
  assert.deepEqual(pages, [2, 1]);
  const all = await client.dlq.delete({ all: true });
  assert.equal(all.deleted, 3);
  assert.equal(all.cursor, undefined);
  assert.deepEqual((await client.dlq.listMessages()).messages, []);
}

async function logs() {
  const { messageId } = await client.publish({ url: `${APP}/logged`, body: "x", label: "logged" });
  const found = await client.logs({ messageIds: [messageId] });
  assert.deepEqual(found.logs.map((log) => log.state), ["DELIVERED", "ACTIVE", "CREATED"]);
  assert.equal(found.cursor, undefined);
  const filtered = await client.logs({ filter: { label: "logged", state: "DELIVERED" } });
  assert.equal(filtered.logs.length, 1);
  const page = await client.logs({ count: 2 });
  assert.equal(page.logs.length, 2);
  assert.equal(typeof page.cursor, "string");
  assert.ok(Array.isArray((await client.events()).events));
}

async function flowControl() {
  const key = "a-key";
  for (let n = 0; n < 2; n++) {
    await client.publish({ url: `${APP}/flow`, flowControl: { key, rate: 1, period: "1d", parallelism: 3 } });
  }
  const info = await client.flowControl.get(key);
  assert.deepEqual([info.rateMax, info.rateCount, info.ratePeriod, info.waitListSize], [1, 1, 86_400, 1]);
  assert.deepEqual([info.isPaused, info.isPinnedRate, info.isPinnedParallelism], [false, false, false]);
  await client.flowControl.pause(key);
  assert.equal((await client.flowControl.get(key)).isPaused, true);
  await client.flowControl.resetRate(key);
  assert.equal((await client.flowControl.get(key)).rateCount, 0);
  await client.flowControl.pin(key, { parallelism: 4, rate: 9, period: 60 });
  assert.equal((await client.flowControl.get(key)).isPinnedRate, true);
  await client.flowControl.unpin(key, { parallelism: true, rate: true });
  await client.flowControl.resume(key);
  const all = await client.flowControl.getGlobalParallelism();
  assert.deepEqual(all, { parallelismMax: 200, parallelismCount: 0 });
}

async function signatures() {
  const receiver = new Receiver();
  await client.publishJSON({ url: `${APP}/signed?a=1`, body: { s: 1 } });
  const [delivery] = await deliveries(`${APP}/signed?a=1`);
  const signature = delivery.headers["Upstash-Signature"][0];
  assert.ok(await receiver.verify({ signature, body: delivery.body, url: delivery.url }));
  await assert.rejects(receiver.verify({ signature, body: `${delivery.body}x` }));
  await assert.rejects(receiver.verify({ signature, body: delivery.body, url: `${APP}/other` }));
}

async function languageModels() {
  const model = "https://qstash.upstash.io/llm/v1/chat/completions";
  const body = { model: "m", messages: [{ role: "user", content: "hello" }] };
  const callback = `${APP}/completed`;
  const [canned] = (await client.chat().create({ provider: upstash(), ...body })).choices;
  assert.equal(canned.message.role, "assistant");
  const choice = { index: 0, message: { role: "assistant", content: "foo is a whale" }, finish_reason: "stop" };
  const completion = { id: "c1", object: "chat.completion", created: 1, model: "m", choices: [choice] };
  const respond = { headers: { "Content-Type": "application/json" }, body: JSON.stringify(completion) };
  await control("POST", "/destinations", { match: { url: "*/v1/chat/completions" }, respond });

  const told = async (url) => {
    const { body: text } = (await deliveries(callback)).at(-1);
    const { url: source, api, body: answer } = JSON.parse(text);
    assert.equal(source, url);
    assert.equal(api, url === model ? "llm" : undefined);
    assert.deepEqual(JSON.parse(Buffer.from(answer, "base64")), completion);
  };
  const api = { name: "llm", provider: upstash() };
  const { messageId } = await client.publishJSON({ api, body, callback });
  assert.equal((await client.messages.get(messageId)).url, model);
  await told(model);
  const [batched] = await client.batchJSON([{ api, body, callback }]);
  assert.ok(batched.messageId);
  await told(model);
  const queue = client.queue({ queueName: "llm" });
  assert.ok((await queue.enqueueJSON({ api, body, callback })).messageId);
  await told(model);
  await queue.delete();
  const providers = {
    "https://api.openai.com/v1/chat/completions": openai({ token: "t", organization: "o" }),
    "https://llm.example.com/v1/chat/completions": custom({ baseUrl: "https://llm.example.com", token: "t" }),
  };
  for (const [url, provider] of Object.entries(providers)) {
    assert.ok((await client.publishJSON({ api: { name: "llm", provider }, body, callback })).messageId);
    assert.deepEqual((await deliveries(url)).at(-1).headers.Authorization, ["Bearer t"]);
    await told(url);
  }

  const request = { provider: upstash(), model: "m", system: "foo is a whale", user: "what is foo?" };
  const answered = await client.chat().prompt(request);
  assert.equal(answered.choices.length, 1);
  assert.equal(answered.choices[0].message.content, "foo is a whale");
  const created = await client.chat().create({ provider: upstash(), ...body });
  assert.equal(created.choices[0].message.role, "assistant");
  for (const stream of [
    await client.chat().prompt({ ...request, stream: true }),
    await client.chat().create({ provider: upstash(), ...body, stream: true }),
  ]) {
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0].delta.content ?? "";
    assert.equal(text, "foo is a whale");
  }
  assert.deepEqual((await client.dlq.listMessages()).messages, []);
}

await control("POST", "/destinations", { match: { url: `${DOWN}/*` }, respond: { status: 502, body: "Bad Gateway" } });
// The signatures come first: after an hour of virtual time they are still good, but so they are by any clock.
const parts = [signatures, publishing, groupsAndBatch, cancelling, queues, deadLetters, logs, flowControl, languageModels, schedules];
for (const part of parts) {
  try {
    await part();
  } catch (error) {
    console.error(`${part.name}: ${error.stack}`);
    process.exit(1);
  }
}
console.log(`done: ${parts.length} parts`);
