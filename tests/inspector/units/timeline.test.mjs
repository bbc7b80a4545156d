// The pure parts of the timeline, without a browser: filters, rows, groups.

import assert from "node:assert/strict";
import { test } from "node:test";

import { matcher, parse, problem } from "../../../emulator/inspector/timeline_filter.js";
import {
  arrange,
  cause,
  comingRows,
  createJournal,
  take,
  why,
} from "../../../emulator/inspector/timeline_rows.js";

const raw = (changes = {}) => ({
  seq: 1,
  at_ms: 1000,
  duration_ms: 0,
  message_id: "msg_aaaa",
  attempt: 1,
  attempts: 4,
  method: "POST",
  url: "https://app.test/orders",
  via: "network",
  status: 200,
  error: null,
  excerpt: null,
  retry: null,
  created_ms: 1000,
  created_by: "publish",
  source_message_id: null,
  schedule_id: null,
  queue: null,
  url_group: null,
  labels: [],
  ...changes,
});

function journalOf(...raws) {
  const journal = createJournal();
  take(journal, raws);
  return journal;
}

const found = (filter, ...raws) => {
  const matches = matcher(parse(filter)) ?? (() => true);
  return journalOf(...raws.map((each, at) => raw({ seq: at + 1, ...each })))
    .rows.filter(matches)
    .map((row) => row.seq);
};

test("a filter has fields, words and quoted values", () => {
  assert.deepEqual(parse('status:failed  LABEL:"two words" https://x "free text" url:'), [
    { field: "status", value: "failed" },
    { field: "label", value: "two words" },
    { field: null, value: "https://x" },
    { field: null, value: "free text" },
  ]);
  assert.equal(matcher(parse("  ")), null);
});

test("all terms of a filter hold together", () => {
  const rows = [{ status: 503, labels: ["nightly"] }, { status: 503 }, { labels: ["nightly"] }];
  assert.deepEqual(found("status:failed label:nightly", ...rows), [1]);
});

test("a status is a word, a number or a class", () => {
  const rows = [
    { status: 200 },
    { status: 503, retry: "x" },
    { status: null, error: "connection refused" },
    { status: 404 },
  ];
  assert.deepEqual(found("status:failed", ...rows), [2, 3, 4]);
  assert.deepEqual(found("status:ok", ...rows), [1]);
  assert.deepEqual(found("status:retrying", ...rows), [2]);
  assert.deepEqual(found("status:503", ...rows), [2]);
  assert.deepEqual(found("status:4xx", ...rows), [4]);
  assert.deepEqual(
    found("status:chaos", ...rows, { chaos: { id: "5.1", did: "left out of order" } }),
    [5],
  );
  assert.match(problem(parse("status:broken")), /status:broken is none of failed/);
  assert.equal(problem(parse("status:503 url:x")), null);
});

test("a URL with a star matches as a whole, another one as a part", () => {
  const rows = [
    { url: "https://app.test/orders" },
    { url: "https://app.test/orders/7" },
    { url: "https://app.test/a+b" },
  ];
  assert.deepEqual(found("url:*/orders", ...rows), [1]);
  assert.deepEqual(found("url:orders", ...rows), [1, 2]);
  assert.deepEqual(found("url:app.test/orders*", ...rows), [1, 2]);
  assert.deepEqual(found("url:*a+b", ...rows), [3]);
});

test("the other fields and free text find what they name", () => {
  const rows = [
    { schedule_id: "daily" },
    { queue: "orders" },
    { message_id: "msg_zzTM3f" },
    { status: 500, excerpt: "db locked" },
  ];
  assert.deepEqual(found("schedule:daily", ...rows), [1]);
  assert.deepEqual(found("queue:ord*", ...rows), [2]);
  assert.deepEqual(found("id:tm3f", ...rows), [3]);
  assert.deepEqual(found('"db locked"', ...rows), [4]);
});

test("the journal takes live rows at its end and older pages at its beginning, each row once", () => {
  const journal = journalOf(raw({ seq: 7 }), raw({ seq: 9 }));
  assert.equal(
    take(journal, [raw({ seq: 9 }), raw({ seq: 7 }), raw({ seq: 5 }), raw({ seq: 3 })], true),
    2,
  );
  assert.equal(take(journal, [raw({ seq: 9 }), raw({ seq: 11 })]), 1);
  assert.deepEqual(
    journal.rows.map((row) => row.seq),
    [3, 5, 7, 9, 11],
  );
});

test("the journal forgets the oldest rows of very many", () => {
  const journal = createJournal(100),
    seqs = () => journal.rows.map((row) => row.seq);
  for (let seq = 1; seq < 110; seq += 1)
    take(journal, [raw({ seq, message_id: `m${seq}`, retry: "10s" })]);
  assert.equal(seqs().length, 109);
  take(journal, [raw({ seq: 110, message_id: "m110", retry: "10s" })]);
  assert.deepEqual(
    [seqs().length, seqs()[0], journal.retries.size, journal.retries.has("m10 1")],
    [100, 11, 100, false],
  );
});

test("a delivery says why it came then", () => {
  const journal = journalOf(
    raw({ seq: 1, status: 503, retry: "Retry-After: 10 -> 10s" }),
    raw({ seq: 2, attempt: 2, at_ms: 11_000 }),
    raw({ seq: 3, created_by: "schedule", schedule_id: "daily" }),
    raw({ seq: 4, created_by: "callback", source_message_id: "msg_1" }),
    raw({ seq: 5, queue: "orders", at_ms: 3000 }),
  );
  const rows = journal.rows.toSorted((one, other) => one.seq - other.seq);
  assert.deepEqual(
    rows.map((row) => why(row, journal)),
    [
      "published",
      "retry 1 of 3: Retry-After: 10 -> 10s",
      "schedule daily",
      "callback of msg_1",
      "queue orders, 2 s after it was made",
    ],
  );
});

test("a failed attempt says its cause and what to do", () => {
  const causeOf = (changes) => cause(journalOf(raw(changes)).rows[0]);
  assert.equal(causeOf({}), null);
  assert.deepEqual(
    causeOf({ status: null, error: "connection refused", url: "http://localhost:3000/x" }),
    {
      text: "connection refused: nothing listens on localhost:3000",
      advice: "nothing listens there: start your application, or add a rule for it",
    },
  );
  assert.equal(
    causeOf({ status: 500, excerpt: "db locked", attempt: 3, attempts: 3 }).text,
    "500 after 3 tries: db locked",
  );
  const control = causeOf({ status: null, error: "the control API takes no deliveries" });
  assert.match(control.advice, /not by a message/);
  assert.match(causeOf({ status: 401 }).advice, /keys/);
  assert.match(causeOf({ status: 302 }).advice, /redirects/);
  assert.match(causeOf({ status: null, error: "no URL", url: "::" }).text, /no URL/);
});

test("what is to come is in order, without what is only forgotten, and knows its message", () => {
  const upcoming = {
    waiting: [
      { kind: "queue", why: "waits", message_id: "m1", url: "https://q.test", earliest_ms: null },
    ],
    items: [
      { kind: "message_expiry", at_ms: 4, why: "" },
      {
        kind: "retry",
        at_ms: 5,
        why: "retry 1 of 3",
        message_id: "m2",
        url: "https://r.test",
        retry: 1,
      },
    ],
  };
  const rows = comingRows(upcoming, [
    {
      message_id: "m2",
      labels: ["red"],
      attempts: 1,
      max_attempts: 4,
      method: "PUT",
      schedule_id: null,
      queue: null,
      url_group: null,
    },
  ]);
  assert.deepEqual(
    rows.map(({ kind, at, n, of, method, labels }) => ({ kind, at, n, of, method, labels })),
    [
      { kind: "waits", at: null, n: null, of: null, method: "", labels: [] },
      { kind: "due", at: 5, n: 2, of: 4, method: "PUT", labels: ["red"] },
    ],
  );
});

test("the line of now stands between the past and the future, in either order", () => {
  const past = journalOf(raw()).rows,
    coming = comingRows({
      waiting: [],
      items: [{ kind: "delivery", at_ms: 9, why: "", message_id: "m" }],
    });
  assert.deepEqual(
    arrange(past, coming, {}).map((row) => row.kind),
    ["past", "now", "due"],
  );
  assert.deepEqual(
    arrange(past, coming, { newestFirst: true }).map((row) => row.kind),
    ["due", "now", "past"],
  );
});

test("groups are counted, the latest first, and unfold", () => {
  const { rows } = journalOf(
    raw({ seq: 1 }),
    raw({ seq: 2, url: "https://b.test", status: 500 }),
    raw({ seq: 3 }),
  );
  const heads = arrange(rows, [], { by: "destination" });
  assert.deepEqual(
    heads.map(({ key, count, failed }) => [key, count, failed]),
    [
      ["https://app.test/orders", 2, 0],
      ["https://b.test", 1, 1],
    ],
  );
  assert.deepEqual(
    arrange(rows, [], { by: "destination", open: new Set(["https://b.test"]) }).map(
      (row) => row.kind,
    ),
    ["group", "group", "past"],
  );
  assert.equal(arrange(rows, [], { by: "schedule" })[0].key, "no schedule");
});

test("rows are in the order in which the attempts began, not in that in which they ended", () => {
  const journal = createJournal();
  take(
    journal,
    [
      { seq: 5, at_ms: 50 },
      { seq: 6, at_ms: 40 },
      { seq: 7, at_ms: 60 },
    ].map(raw),
  );
  take(
    journal,
    [
      { seq: 4, at_ms: 45 },
      { seq: 3, at_ms: 20 },
      { seq: 1, at_ms: 30 },
    ].map(raw),
    true,
  );
  take(journal, [raw({ seq: 8, at_ms: 10 })]);
  assert.deepEqual(
    journal.rows.map(({ at }) => at),
    [10, 20, 30, 40, 45, 50, 60],
  );
  assert.deepEqual([journal.oldest.seq, journal.newest], [1, 8]);
  assert.equal(
    take(journal, [raw({ seq: 8, at_ms: 10 })]) + take(journal, [raw({ seq: 3, at_ms: 20 })], true),
    0,
  );
});

test("what was due before now is above the line of now", () => {
  const coming = comingRows({
    waiting: [],
    items: [10, 20, 30].map((at_ms) => ({
      kind: "first_attempt",
      at_ms,
      url: "https://a.test",
      why: "",
    })),
  });
  const kinds = (now) => arrange([], coming, { by: "", now }).map(({ kind, at }) => at ?? kind);
  assert.deepEqual(kinds(null), ["now", 10, 20, 30]);
  assert.deepEqual(kinds(20), [10, "now", 20, 30]);
  assert.deepEqual(kinds(31), [10, 20, 30, "now"]);
});

test("rows of a run name it and their step, are found by both, and make groups", () => {
  const of = { workflow_run_id: "wfr_1", created_by: "batch" };
  const rows = [{ ...of, step: "send mail" }, { ...of, step: null }, {}];
  assert.deepEqual(found('run:wfr_* step:"send mail"', ...rows), [1]);
  assert.deepEqual(found("run:wfr_1", ...rows), [1, 2]);
  const journal = journalOf(...rows.map((each, at) => raw({ seq: at + 1, ...each })));
  assert.equal(why(journal.rows[0], journal), 'run wfr_1, step "send mail"');
  assert.equal(why(journal.rows[1], journal), "run wfr_1, first call");
  const heads = arrange(journal.rows, [], { by: "run" });
  assert.deepEqual(
    heads.map(({ key, count }) => [key, count]),
    [
      ["no run", 1],
      ["wfr_1", 2],
    ],
  );
});

test("attempts are sorted by what took long, without a line of now", () => {
  const journal = journalOf(
    ...[5, 20, null].map((took_ms, at) => raw({ seq: at + 1, took_ms, duration_ms: 9 })),
  );
  const sorted = (sort) => arrange(journal.rows, [], { sort }).map(({ seq }) => seq);
  assert.deepEqual(
    [sorted("-Took"), sorted("Took")],
    [
      [2, 3, 1],
      [1, 3, 2],
    ],
  );
});
