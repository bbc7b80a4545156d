// The rows of the timeline: slim records of attempts, the filter over them, and what they say in words. Pure.

const urls = new Map();
const NO_LABELS = Object.freeze([]);

/** A row of an attempt as the control API lists it with `brief=true`. */
export function rowOf(attempt) {
  // One text for all rows of a destination: a hundred thousand rows share a few.
  if (!urls.has(attempt.url)) {
    if (urls.size > 5000) urls.clear();
    urls.set(attempt.url, attempt.url);
  }
  return {
    seq: attempt.seq, at: attempt.at_ms, id: attempt.message_id, n: attempt.attempt, of: attempt.attempts,
    method: attempt.method, url: urls.get(attempt.url), via: attempt.via, status: attempt.status, error: attempt.error,
    excerpt: attempt.excerpt, took: attempt.duration_ms, by: attempt.created_by, schedule: attempt.schedule_id,
    queue: attempt.queue, group: attempt.url_group, flow: attempt.flow_control_key,
    labels: attempt.labels.length ? attempt.labels : NO_LABELS, source: attempt.source_message_id,
  };
}

/** Kinds of due work that are no delivery, and that the axis leaves out. */
const EXPIRIES = /expiry|account|rate_window/;

/** Rows of what is to come, from the answers of `upcoming`. */
export function futureRows(upcoming) {
  return (upcoming?.items ?? []).filter((item) => !EXPIRIES.test(item.kind)).map((item, at) => ({
    seq: `u${at}`, at: item.at_ms, id: item.message_id ?? null, kind: item.kind, url: item.url ?? item.destination ?? "",
    n: item.retry ? item.retry + 1 : item.attempt ?? 1, of: item.retries ? item.retries + 1 : null,
    schedule: item.schedule_id ?? null, why: item.why, labels: NO_LABELS, method: "",
  }));
}

export const isDelivered = (row) => row.status >= 200 && row.status < 300;

/** "delivered", "failed, retried", "failed" (the last attempt), or the kind of what is to come. */
export function stateOf(row) {
  if (row.kind) return row.kind === "delivery" ? "due" : row.kind;
  if (isDelivered(row)) return "delivered";
  return row.n < row.of ? "retry" : "failed";
}

/** Why it came when it came. */
export function reasonOf(row) {
  if (row.why) return row.why;
  const parts = [];
  if (row.n > 1) parts.push(`retry ${row.n - 1}`);
  if (row.schedule) parts.push(`schedule ${row.schedule}`);
  else if (row.by === "callback" || row.by === "failure_callback") parts.push(row.by.replace("_", " "));
  else if (row.by === "dead_letter") parts.push("from a dead letter");
  if (row.queue) parts.push(`queue ${row.queue}`);
  if (row.group) parts.push(`group ${row.group}`);
  if (row.flow) parts.push(`flow ${row.flow}`);
  return parts.join(" · ");
}

/** Why an attempt failed, in words, and what to do; empty for one that did not. */
export function causeOf(row) {
  if (row.kind || isDelivered(row)) return "";
  const end = row.n >= row.of ? (row.of > 1 ? ` after ${row.of - 1} ${row.of === 2 ? "retry" : "retries"}` : "") : "";
  if (row.error) return `${row.error}${end}${adviceFor(row.error)}`;
  return `${row.status}${end}${row.excerpt ? `: ${row.excerpt.replace(/\s+/g, " ")}` : ", without a body"}`;
}

function adviceFor(error) {
  if (/refused/i.test(error)) return " – start what listens there, or add a rule";
  if (/timed? ?out|deadline/i.test(error)) return " – it took longer than the message's timeout";
  if (/resolve|dns|name/i.test(error)) return " – no such host: mistyped, or add a rule";
  if (/external/i.test(error)) return " – external: --allow-host, or add a rule";
  return "";
}

// -- the filter -------------------------------------------------------------------------------

const NAMES = {
  status: (row, value) => statusMatches(row, value),
  url: (row, value) => glob(value).test(row.url),
  label: (row, value) => row.labels.some((label) => glob(value).test(label)),
  schedule: (row, value) => glob(value || "*").test(row.schedule ?? ""),
  queue: (row, value) => glob(value || "*").test(row.queue ?? ""),
  group: (row, value) => glob(value || "*").test(row.group ?? ""),
  method: (row, value) => row.method.toLowerCase() === value.toLowerCase(),
  id: (row, value) => (row.id ?? "").toLowerCase().includes(value.toLowerCase()),
};

/** "status:failed url:*&#47;orders word" -> a function of a row; null if everything matches. */
export function parseFilter(text) {
  const tests = [...text.matchAll(/(?:([a-z]+):)?(?:"([^"]*)"|(\S+))|([a-z]+):(?=\s|$)/gi)].map(([whole, name, quoted, plain, bare]) => {
    const test = NAMES[(name ?? bare ?? "").toLowerCase()];
    const value = quoted ?? plain ?? "";
    if (test) return bare ? (row) => Boolean(row[bare.toLowerCase()]) : (row) => test(row, value);
    const word = (name ? whole : value).toLowerCase();
    return (row) => `${row.url} ${row.id} ${row.labels.join(" ")} ${row.error ?? ""} ${row.excerpt ?? ""} ${row.why ?? ""}`.toLowerCase().includes(word);
  });
  return tests.length ? (row) => tests.every((test) => test(row)) : null;
}

function statusMatches(row, value) {
  const wanted = value.toLowerCase();
  if (/^[1-5]xx$/.test(wanted)) return String(row.status ?? "")[0] === wanted[0];
  if (/^\d+$/.test(wanted)) return row.status === Number(wanted);
  if (wanted === "upcoming") return Boolean(row.kind);
  // A retry follows a failure.
  return stateOf(row).startsWith(wanted) || (wanted === "failed" && stateOf(row) === "retry" && !row.kind);
}

const globs = new Map();

function glob(pattern) {
  if (!globs.has(pattern)) {
    if (globs.size > 100) globs.clear();
    const source = pattern.split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*");
    globs.set(pattern, new RegExp(`^${source}$`, "is"));
  }
  return globs.get(pattern);
}

/** Rows of one message, schedule or destination together, newest group last: [{key, rows}]. */
export function grouped(rows, by) {
  const keyOf = { message: (row) => row.id, schedule: (row) => row.schedule ?? "(no schedule)", destination: (row) => row.url }[by];
  const groups = new Map();
  for (const row of rows) {
    const key = keyOf(row);
    const found = groups.get(key);
    if (found) found.push(row);
    else groups.set(key, [row]);
  }
  return [...groups].map(([key, found]) => ({ key, rows: found })).sort((a, b) => a.rows.at(-1).seq - b.rows.at(-1).seq);
}
