// Rows of the timeline: what happened, and what is to come. Pure, and slim: there may be 100,000 of them.

import { duration, shortId } from "./format.js";

const NOTHING = Object.freeze([]);
// As many rows as a tab holds with ease; the lists find older ones.
const MOST = 200_000;

/**
 * A journal: rows in the order in which the attempts began, and why retries came, by message and attempt. The server
 * counts attempts (`seq`) in the order in which they ended; `oldest` is the first of those that are known (D-512).
 */
export const createJournal = (most = MOST) => ({
  rows: [],
  oldest: null,
  newest: 0,
  retries: new Map(),
  texts: new Map(),
  whole: false,
  most,
});

/** Take in rows, live ones in their order, older ones from the newest to the oldest. Says how many were new. */
export function take(journal, raws, older = false) {
  const { retries, most, newest } = journal;
  const first = journal.oldest?.seq ?? Infinity;
  const found = raws.filter(({ seq }) => (older ? seq < first : seq > newest));
  if (!found.length) return 0;
  const fresh = found.map((raw) => pastRow(raw, journal));
  if (older) fresh.reverse();
  journal.newest = Math.max(newest, found[0].seq, found.at(-1).seq);
  if (older || !journal.oldest) journal.oldest = older ? found.at(-1) : found[0];
  if (older) journal.rows = fresh.concat(journal.rows);
  else journal.rows.push(...fresh);
  const { rows } = journal;
  sortByStart(rows, older ? 0 : rows.length - fresh.length, older ? fresh.length : rows.length);
  // A tenth at once, because each time moves all of them.
  if (rows.length >= most + most / 10)
    for (const { id, n } of rows.splice(0, rows.length - most)) retries.delete(`${id} ${n}`);
  return fresh.length;
}

/** Put rows `from` to `to` among the others, which are sorted. What ends in the order in which it began stays. */
function sortByStart(rows, from, to) {
  const isBefore = (one, other) =>
    one.at < other.at || (one.at === other.at && one.seq < other.seq);
  for (let index = Math.max(from, 1); index < rows.length; index += 1) {
    const row = rows[index];
    let place = index;
    for (; place > 0 && isBefore(row, rows[place - 1]); place -= 1) rows[place] = rows[place - 1];
    rows[place] = row;
    // The rows behind are in order, and none of them belongs further up.
    if (place === index && index >= to) return;
  }
}

function pastRow(raw, { retries, texts }) {
  // Texts that many rows have are kept once.
  const once = (text) => text && (texts.get(text) ?? (texts.set(text, text), text));
  const retry = once(raw.retry);
  if (retry !== null) retries.set(`${raw.message_id} ${raw.attempt}`, retry);
  return {
    kind: "past",
    seq: raw.seq,
    at: raw.at_ms,
    created: raw.created_ms,
    id: raw.message_id,
    n: raw.attempt,
    of: raw.attempts,
    method: once(raw.method),
    url: once(raw.url),
    via: once(raw.via),
    forwarded: once(raw.forwarded_to ?? null),
    status: raw.status,
    took: raw.took_ms,
    lasted: raw.duration_ms,
    sent: raw.request_bytes ?? null,
    received: raw.response_bytes ?? null,
    run: once(raw.workflow_run_id ?? null),
    step: once(raw.step ?? null),
    error: once(raw.error),
    said: once(raw.excerpt),
    retry,
    by: once(raw.created_by),
    source: raw.source_message_id,
    schedule: once(raw.schedule_id),
    queue: once(raw.queue),
    group: once(raw.url_group),
    chaos: once(raw.chaos?.did),
    labels: raw.labels.length ? raw.labels.map(once) : NOTHING,
  };
}

/** What is to come, in its order; `live` are the messages that have not ended: they know their labels and more. */
export function comingRows({ waiting, items }, live = []) {
  const known = new Map(live.map((message) => [message.message_id, message]));
  const rowOf = (kind) => (item) => {
    const message = known.get(item.message_id) ?? {};
    return {
      kind,
      what: item.kind,
      at: item.at_ms ?? item.earliest_ms ?? null,
      id: item.message_id,
      why: item.why,
      n: item.retry ? item.retry + 1 : (item.attempt ?? (message.attempts + 1 || null)),
      of: message.max_attempts ?? null,
      method: message.method ?? "",
      url: item.url ?? item.destination ?? item.key ?? "",
      run: item.workflow_run_id ?? message.workflow_run_id ?? null,
      step: item.step ?? message.step ?? null,
      schedule: item.schedule_id ?? message.schedule_id,
      queue: message.queue,
      group: message.url_group,
      chaos: item.chaos?.did,
      labels: message.labels ?? NOTHING,
    };
  };
  // What is due to be forgotten is no delivery.
  const due = items.filter(({ kind }) => !kind.endsWith("_expiry"));
  return [...waiting.map(rowOf("waits")), ...due.map(rowOf("due"))].sort(
    (one, other) => one.at - other.at,
  );
}

const isPast = (row) => row.kind === "past";
export const isGood = ({ status }) => status >= 200 && status < 300;

/** Which run a row is of, and which of its steps: the first call and the failure function are none. */
export const ofRun = ({ run, step, by }) =>
  run &&
  `run ${run}, ${step ? `step "${step}"` : by === "failure_callback" ? "failure function" : "first call"}`;

/** Why a delivery came when it came. */
export function why(row, { retries }) {
  if (!isPast(row)) return row.why;
  const { n, by, queue, group } = row;
  const waited = row.at - row.created;
  const source = shortId(row.source);
  if (n > 1) {
    const cause = retries.get(`${row.id} ${n - 1}`) ?? "of an attempt that failed";
    return `${row.run ? `${ofRun(row)}: ` : ""}retry ${n - 1} of ${row.of - 1}: ${cause}`;
  }
  const through = row.run
    ? ofRun(row)
    : queue
      ? `queue ${queue}`
      : group
        ? `URL group ${group}`
        : by === "publish"
          ? "published"
          : by;
  const made = {
    callback: `callback of ${source}`,
    failure_callback: `failure callback of ${source}`,
    dead_letter: "again from the dead letters",
    schedule: `schedule ${row.schedule}`,
  }[by];
  return `${(row.run ? through : made) ?? through}${waited > 0 ? `, ${duration(waited)} after it was made` : ""}`;
}

/** What can be done about an error or a status. */
const ADVICE = [
  [/connection refused/, "nothing listens there: start your application, or add a rule for it"],
  [/not known|resolve|lookup/, "the name is not known: check the URL, or add a rule for it"],
  [/takes no deliveries/, "call the control API from a test or the shell, not by a message"],
  [/egress refused/, "allow the host with --allow-host, or add a rule for it"],
  [/timed? ?out/, "answer faster, or publish with a longer timeout"],
  [/TLS/, "the certificate or the protocol is wrong: try http://, or a rule that forwards"],
  [/reset|disconnect|middle/, "the application ended the connection: see its log"],
  [/^3..$/, "redirects are not followed: publish to the final address"],
  [/^40[13]$/, "does it check signatures with this world's keys?"],
  [/^404$/, "there is no such path: check the URL"],
  [/^405$/, "the path takes another method"],
  [/^5..$/, "the application failed: see its log"],
  [/./, "see the attempt for what was sent and answered"],
];

/** Why an attempt failed, in words, and what can be done; null if it did not. */
export function cause(row) {
  if (isGood(row)) return null;
  const { error, status, n, said } = row;
  // Where a rule forwards, an application answers.
  const isRuled = row.via === "rule" && !row.forwarded;
  const advice = isRuled
    ? "a destination rule answered: see Rules"
    : ADVICE.find(([pattern]) => pattern.test(error ?? status))[1];
  if (error === null)
    return {
      text: `${status}${n > 1 && row.retry === null ? ` after ${n} tries` : ""}${said ? `: ${said}` : ""}`,
      advice,
    };
  const host =
    !isRuled &&
    /connection refused/.test(error) &&
    /^https?:\/\/([^/?#]+)/.exec(row.forwarded ?? row.url)?.[1];
  return { text: host ? `connection refused: nothing listens on ${host}` : error, advice };
}

const KEYS = { message: "id", run: "run", schedule: "schedule", destination: "url" };

/** By what attempts can be sorted instead of by their start. */
export const SORTS = {
  Request: (row) => row.url,
  Try: (row) => row.n,
  Result: (row) => row.status ?? 1000,
  Took: (row) => row.took ?? row.lasted,
  Size: (row) => (row.sent ?? 0) + (row.received ?? 0),
};

/**
 * What is shown, from above to below: rows, the line of now ({kind: "now"}) and heads of groups ({kind: "group"}).
 * What was due before `now` is above that line, even if nothing is known of its delivery yet.
 * `by` is "", "message", "run", "schedule" or "destination"; `open` holds the keys of groups that are unfolded.
 * `sort` is a name of SORTS, with a minus for the greatest first: then there are attempts alone, and no line.
 */
export function arrange(
  past,
  coming,
  { matches, by, sort, now = null, open = new Set(), newestFirst },
) {
  const [before, after] = [past, coming].map((rows) => (matches ? rows.filter(matches) : rows));
  if (sort) return sorted(before, sort);
  if (!by) {
    const isOver = (row) => now !== null && row.kind === "due" && row.at < now;
    const passed = after.filter(isOver);
    const ahead = passed.length ? after.filter((row) => !isOver(row)) : after;
    const all = before.concat(passed, { kind: "now" }, ahead);
    return newestFirst ? all.reverse() : all;
  }
  const groups = new Map();
  for (const row of before.concat(after)) {
    const key = row[KEYS[by]] || `no ${by}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  return [...groups]
    .map(([key, rows]) => {
      const done = rows.filter(isPast);
      const isOpen = open.has(key);
      return {
        kind: "group",
        key,
        isOpen,
        url: rows[0].url,
        count: done.length,
        failed: done.filter((row) => !isGood(row)).length,
        last: done.at(-1),
        next: rows.find((row) => !isPast(row) && row.at),
        rows: isOpen ? rows : [],
      };
    })
    .sort((one, other) => (other.last?.seq ?? Infinity) - (one.last?.seq ?? Infinity) || 0)
    .flatMap((head) => [head, ...head.rows]);
}

function sorted(rows, sort) {
  const value = SORTS[sort.replace("-", "")];
  const sign = sort.startsWith("-") ? -1 : 1;
  return rows.toSorted((one, other) => {
    const [left, right] = [value(one), value(other)];
    return sign * (typeof left === "string" ? left.localeCompare(right) : left - right);
  });
}
