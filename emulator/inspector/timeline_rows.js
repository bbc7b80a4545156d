// Rows of the timeline: what happened, and what is to come. Pure, and slim: there may be 100,000 of them.

import { duration, shortId } from "./format.js";

const NOTHING = Object.freeze([]);
// What is due to be forgotten is no delivery.
const EXPIRIES = /_expiry$/;

/** What the journal of one world is for the page: rows in the order of `seq`, and the failed ones by message and attempt. */
export function createJournal() {
  return { rows: [], failed: new Map(), texts: new Map(), whole: false };
}

/** Take in rows as the server tells them, live ones at the end, a page of older ones (newest first) at the beginning. Says how many were new. */
export function take(journal, raws, older = false) {
  const { rows } = journal;
  const first = rows[0]?.seq ?? Infinity, last = rows.at(-1)?.seq ?? 0;
  const fresh = raws.filter(({ seq }) => (older ? seq < first : seq > last)).map((raw) => pastRow(raw, journal));
  if (older) journal.rows = fresh.reverse().concat(rows);
  else rows.push(...fresh);
  return fresh.length;
}

function pastRow(raw, { failed, texts }) {
  // Texts that many rows have are kept once.
  const once = (text) => (text === null ? null : texts.get(text) ?? (texts.set(text, text), text));
  const row = {
    kind: "past", seq: raw.seq, at: raw.at_ms, created: raw.created_ms, id: raw.message_id, n: raw.attempt, of: raw.attempts, method: once(raw.method), url: once(raw.url),
    via: once(raw.via), status: raw.status, error: once(raw.error), said: once(raw.excerpt), retry: once(raw.retry), by: once(raw.created_by), source: raw.source_message_id,
    schedule: once(raw.schedule_id), queue: once(raw.queue), group: once(raw.url_group), labels: raw.labels.length ? raw.labels.map(once) : NOTHING,
  };
  if (row.retry !== null) failed.set(`${row.id} ${row.n}`, row);
  return row;
}

/** What is to come, in its order; `live` are the messages that have not ended, which know their labels and more. */
export function comingRows(upcoming, live = []) {
  const known = new Map(live.map((message) => [message.message_id, message]));
  const row = (item, kind) => {
    const message = known.get(item.message_id);
    return {
      kind, what: item.kind, at: item.at_ms ?? item.earliest_ms ?? null, id: item.message_id ?? null, n: item.retry ? item.retry + 1 : item.attempt ?? (message ? message.attempts + 1 : null),
      of: message?.max_attempts ?? null, method: message?.method ?? "", url: item.url ?? item.destination ?? item.key ?? "", status: null, error: null, said: null, retry: null, why: item.why,
      schedule: item.schedule_id ?? message?.schedule_id ?? null, queue: message?.queue ?? null, group: message?.url_group ?? null, labels: message?.labels ?? NOTHING,
    };
  };
  const rows = [...upcoming.waiting.map((item) => row(item, "waits")), ...upcoming.items.filter((item) => !EXPIRIES.test(item.kind)).map((item) => row(item, "due"))];
  return rows.sort((one, other) => (one.at ?? 0) - (other.at ?? 0));
}

export const isGood = (row) => row.status >= 200 && row.status < 300;

/** Why a delivery came when it came. */
export function why(row, journal) {
  if (row.kind !== "past") return row.why;
  if (row.n > 1) return `retry ${row.n - 1}${row.of ? ` of ${row.of - 1}` : ""}: ${journal.failed.get(`${row.id} ${row.n - 1}`)?.retry ?? "of an attempt that failed"}`;
  const waited = row.at - row.created, after = waited > 0 ? `, ${duration(waited)} after it was made` : "";
  const made = { callback: `callback of ${shortId(row.source)}`, failure_callback: `failure callback of ${shortId(row.source)}`, dead_letter: "again from the dead letters", schedule: `schedule ${row.schedule}` }[row.by];
  return `${made ?? (row.queue ? `queue ${row.queue}` : row.group ? `URL group ${row.group}` : row.by === "publish" ? "published" : row.by)}${after}`;
}

const ADVICE = [
  [/connection refused/, "nothing listens there: start your application, or add a rule for it"],
  [/not known|resolve|lookup/, "the name is not known: check the URL, or add a rule for it"],
  [/egress refused/, "allow the host with --allow-host, or add a rule for it"],
  [/timed? ?out/, "answer faster, or publish with a longer timeout"],
  [/TLS/, "the certificate or the protocol is wrong: try http://, or a rule that forwards"],
  [/reset|disconnect|middle/, "the application ended the connection: see its log"],
];
const ADVICE_BY_STATUS = { 3: "redirects are not followed: publish to the final address", 401: "does it check signatures with this world's keys?", 403: "does it check signatures with this world's keys?", 404: "there is no such path: check the URL", 405: "the path takes another method" };

/** Why an attempt failed, in words, and what can be done; null if it did not. */
export function cause(row) {
  if (isGood(row)) return null;
  const ruled = row.via === "rule" && "a destination rule answered: see Rules";
  if (row.error !== null) {
    let host = "";
    try {
      host = new URL(row.url).host;
    } catch {
      // An address that no browser reads is shown as it is.
    }
    return { text: /connection refused/.test(row.error) && host && !ruled ? `connection refused: nothing listens on ${host}` : row.error, advice: ruled || ADVICE.find(([pattern]) => pattern.test(row.error))?.[1] || "see the attempt for what was sent" };
  }
  const tries = row.n > 1 && row.retry === null ? ` after ${row.n} tries` : "";
  const advice = ruled || (ADVICE_BY_STATUS[row.status] ?? ADVICE_BY_STATUS[Math.floor(row.status / 100)]) || (row.status >= 500 ? "the application failed: see its log" : "see what the answer says");
  return { text: `${row.status}${tries}${row.said ? `: ${row.said}` : ""}`, advice };
}

/**
 * What is shown, from above to below: rows, the line of now ({kind: "now"}) and heads of groups ({kind: "group"}).
 * `by` is "", "message", "schedule" or "destination"; `open` holds the keys of groups that are unfolded.
 */
export function arrange(past, coming, { matches = null, by = "", open = new Set(), newestFirst = false }) {
  const before = matches ? past.filter(matches) : past, after = matches ? coming.filter(matches) : coming;
  if (!by) {
    const all = before.concat({ kind: "now" }, after);
    return newestFirst ? all.reverse() : all;
  }
  const keyOf = { message: (row) => row.id, schedule: (row) => row.schedule, destination: (row) => row.url }[by];
  const groups = new Map();
  for (const row of [...before, ...after]) {
    const key = keyOf(row) || `no ${by}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  const last = (rows) => rows.findLast((row) => row.kind === "past")?.seq ?? Infinity;
  return [...groups].sort(([, one], [, other]) => last(other) - last(one)).flatMap(([key, rows]) => {
    const isOpen = open.has(key), done = rows.filter((row) => row.kind === "past");
    const head = { kind: "group", key, isOpen, url: rows[0].url, count: done.length, failed: done.filter((row) => !isGood(row)).length, last: done.at(-1) ?? null, next: rows.find((row) => row.kind !== "past" && row.at) ?? null };
    return isOpen ? [head, ...rows] : [head];
  });
}
