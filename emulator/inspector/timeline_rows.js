// Rows of the timeline: what happened, and what is to come. Pure, and slim: there may be 100,000 of them.

import { duration, shortId } from "./format.js";

const NOTHING = Object.freeze([]);
// As many rows as a tab holds with ease; the lists find older ones.
const MOST = 200_000;

/** A journal: rows in the order of `seq`, and why retries came, by message and attempt. */
export const createJournal = (most = MOST) => ({ rows: [], retries: new Map(), texts: new Map(), whole: false, most });

/** Take in rows, live ones at the end, older ones (newest first) at the beginning. Says how many were new. */
export function take(journal, raws, older = false) {
  const { rows, retries, most } = journal, first = rows[0]?.seq ?? Infinity, last = rows.at(-1)?.seq ?? 0;
  const fresh = raws.filter(({ seq }) => (older ? seq < first : seq > last)).map((raw) => pastRow(raw, journal));
  if (older) journal.rows = fresh.reverse().concat(rows);
  else rows.push(...fresh);
  // A tenth at once, because each time moves all of them.
  if (rows.length >= most + most / 10) for (const { id, n } of rows.splice(0, rows.length - most)) retries.delete(`${id} ${n}`);
  return fresh.length;
}

function pastRow(raw, { retries, texts }) {
  // Texts that many rows have are kept once.
  const once = (text) => text && (texts.get(text) ?? (texts.set(text, text), text));
  const retry = once(raw.retry);
  if (retry !== null) retries.set(`${raw.message_id} ${raw.attempt}`, retry);
  return {
    kind: "past", seq: raw.seq, at: raw.at_ms, created: raw.created_ms, id: raw.message_id, n: raw.attempt, of: raw.attempts,
    method: once(raw.method), url: once(raw.url), via: once(raw.via), status: raw.status, error: once(raw.error), said: once(raw.excerpt), retry,
    by: once(raw.created_by), source: raw.source_message_id, schedule: once(raw.schedule_id), queue: once(raw.queue), group: once(raw.url_group),
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
      kind, what: item.kind, at: item.at_ms ?? item.earliest_ms ?? null, id: item.message_id, why: item.why,
      n: item.retry ? item.retry + 1 : item.attempt ?? (message.attempts + 1 || null), of: message.max_attempts ?? null, method: message.method ?? "",
      url: item.url ?? item.destination ?? item.key ?? "", schedule: item.schedule_id ?? message.schedule_id, queue: message.queue,
      group: message.url_group, chaos: item.chaos?.did, labels: message.labels ?? NOTHING,
    };
  };
  // What is due to be forgotten is no delivery.
  const due = items.filter(({ kind }) => !kind.endsWith("_expiry"));
  return [...waiting.map(rowOf("waits")), ...due.map(rowOf("due"))].sort((one, other) => one.at - other.at);
}

const isPast = (row) => row.kind === "past";
export const isGood = ({ status }) => status >= 200 && status < 300;

/** Why a delivery came when it came. */
export function why(row, { retries }) {
  if (!isPast(row)) return row.why;
  const { n, by, queue, group } = row, waited = row.at - row.created, source = shortId(row.source);
  if (n > 1) return `retry ${n - 1} of ${row.of - 1}: ${retries.get(`${row.id} ${n - 1}`) ?? "of an attempt that failed"}`;
  const through = queue ? `queue ${queue}` : group ? `URL group ${group}` : by === "publish" ? "published" : by;
  const made = { callback: `callback of ${source}`, failure_callback: `failure callback of ${source}`, dead_letter: "again from the dead letters",
    schedule: `schedule ${row.schedule}` }[by];
  return `${made ?? through}${waited > 0 ? `, ${duration(waited)} after it was made` : ""}`;
}

/** What can be done about an error or a status. */
const ADVICE = [
  [/connection refused/, "nothing listens there: start your application, or add a rule for it"],
  [/not known|resolve|lookup/, "the name is not known: check the URL, or add a rule for it"],
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
  const { error, status, n, said } = row, isRuled = row.via === "rule";
  const advice = isRuled ? "a destination rule answered: see Rules" : ADVICE.find(([pattern]) => pattern.test(error ?? status))[1];
  if (error === null) return { text: `${status}${n > 1 && row.retry === null ? ` after ${n} tries` : ""}${said ? `: ${said}` : ""}`, advice };
  const host = !isRuled && /connection refused/.test(error) && /^https?:\/\/([^/?#]+)/.exec(row.url)?.[1];
  return { text: host ? `connection refused: nothing listens on ${host}` : error, advice };
}

const KEYS = { message: "id", schedule: "schedule", destination: "url" };

/**
 * What is shown, from above to below: rows, the line of now ({kind: "now"}) and heads of groups ({kind: "group"}).
 * `by` is "", "message", "schedule" or "destination"; `open` holds the keys of groups that are unfolded.
 */
export function arrange(past, coming, { matches, by, open = new Set(), newestFirst }) {
  const [before, after] = [past, coming].map((rows) => (matches ? rows.filter(matches) : rows));
  if (!by) {
    const all = before.concat({ kind: "now" }, after);
    return newestFirst ? all.reverse() : all;
  }
  const groups = new Map();
  for (const row of before.concat(after)) {
    const key = row[KEYS[by]] || `no ${by}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  return [...groups].map(([key, rows]) => {
    const done = rows.filter(isPast), isOpen = open.has(key);
    return { kind: "group", key, isOpen, url: rows[0].url, count: done.length, failed: done.filter((row) => !isGood(row)).length,
      last: done.at(-1), next: rows.find((row) => !isPast(row) && row.at), rows: isOpen ? rows : [] };
  }).sort((one, other) => (other.last?.seq ?? Infinity) - (one.last?.seq ?? Infinity) || 0).flatMap((head) => [head, ...head.rows]);
}
