// The filter language of the timeline: `status:failed url:*/orders label:nightly` and free text. Pure.

import { isGood } from "./timeline_rows.js";

const FIELDS = ["status", "url", "label", "schedule", "queue", "id"];
const STATUSES = {
  failed: (row) => row.kind === "past" && !isGood(row),
  ok: (row) => row.kind === "past" && isGood(row),
  retrying: (row) => row.kind === "past" && row.retry !== null,
  due: (row) => row.kind !== "past",
};
export const HINT = `${FIELDS.map((name) => `${name}:`).join(" ")} and words; status is ${Object.keys(STATUSES).join(", ")}, 503 or 5xx; * stands for anything`;

/** A filter as terms [{field, value}]; field null is free text. A value with spaces stands in quotes. */
export function parse(text) {
  return [...text.matchAll(/(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))/gi)].flatMap(([whole, name, quoted, plain]) => {
    if (whole.endsWith(":") && FIELDS.includes(whole.slice(0, -1).toLowerCase())) return [];
    const field = FIELDS.includes(name?.toLowerCase()) ? name.toLowerCase() : null;
    const value = (quoted ?? plain).toLowerCase();
    // What only looks like a field, such as https://, is text; a field without its value is still being typed.
    return field ? { field, value } : { field, value: quoted === undefined ? whole.toLowerCase() : value };
  });
}

/** What is wrong with a filter, null if nothing. */
export function problem(terms) {
  const wrong = terms.find(({ field, value }) => field === "status" && !STATUSES[value] && !/^[1-5](\d\d|xx)$/.test(value));
  return wrong ? `status:${wrong.value} is none of ${Object.keys(STATUSES).join(", ")}, 503, 5xx` : null;
}

/** A function that says whether a row meets all terms; null if there is none. */
export function matcher(terms) {
  const tests = terms.map(({ field, value }) => TESTS[field ?? "text"](value));
  return tests.length ? (row) => tests.every((test) => test(row)) : null;
}

const TESTS = {
  status: (value) => STATUSES[value] ?? ((row) => (value.endsWith("xx") ? String(row.status)[0] === value[0] && row.status : String(row.status) === value)),
  url: (value) => ofText(value, (row) => [row.url, row.url.replace(/^https?:\/\//, "")]),
  label: (value) => ofText(value, (row) => row.labels),
  schedule: (value) => ofText(value, (row) => [row.schedule]),
  queue: (value) => ofText(value, (row) => [row.queue]),
  id: (value) => (row) => row.id?.toLowerCase().includes(value),
  text: (value) => (row) => [row.url, row.id, row.schedule, row.queue, row.group, row.error, row.said, row.why, ...row.labels].some((each) => each?.toLowerCase().includes(value)),
};

/** A value with * must match as a whole, another one be a part. */
function ofText(value, textsOf) {
  if (!value.includes("*")) return (row) => textsOf(row).some((text) => text?.toLowerCase().includes(value));
  const glob = new RegExp(`^${value.split("*").map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&")).join("[^]*")}$`);
  return (row) => textsOf(row).some((text) => text && glob.test(text.toLowerCase()));
}
