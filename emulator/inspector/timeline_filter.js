// The filter language of the timeline: `status:failed url:*/orders label:nightly` and free text. Pure.

import { shortUrl } from "./format.js";
import { isGood } from "./timeline_rows.js";

const STATUSES = {
  failed: (row) => row.kind === "past" && !isGood(row),
  ok: isGood,
  retrying: (row) => row.kind === "past" && row.retry !== null,
  due: (row) => row.kind !== "past",
  chaos: (row) => Boolean(row.chaos),
};
const TEXTS = {
  url: (row) => [row.url, shortUrl(row.url)],
  label: (row) => row.labels,
  schedule: (row) => [row.schedule],
  queue: (row) => [row.queue],
  id: (row) => [row.id],
  run: (row) => [row.run],
  step: (row) => [row.step],
};
const FIELDS = ["status", ...Object.keys(TEXTS)];
const WORDS = Object.keys(STATUSES).join(", ");
const NAMES = FIELDS.map((name) => `${name}:`).join(" ");
export const HINT = `${NAMES} and words; status is ${WORDS}, 503 or 5xx; * stands for anything`;

/** A filter as terms [{field, value}]; field null is free text. A value with spaces stands in quotes. */
export function parse(text) {
  return [...text.toLowerCase().matchAll(/(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))/g)].flatMap(
    ([whole, name, quoted, plain]) => {
      // A field without its value is still being typed; what looks like a field, such as https://, is text.
      if (whole.endsWith(":") && FIELDS.includes(whole.slice(0, -1))) return [];
      return FIELDS.includes(name)
        ? { field: name, value: quoted ?? plain }
        : { field: null, value: quoted ?? whole };
    },
  );
}

/** What is wrong with a filter, null if nothing. */
export function problem(terms) {
  const wrong = terms.find(
    ({ field, value }) => field === "status" && !STATUSES[value] && !/^[1-5](\d\d|xx)$/.test(value),
  );
  return wrong ? `status:${wrong.value} is none of ${WORDS}, 503, 5xx` : null;
}

/** A function that says whether a row meets all terms; null if there is none. */
export function matcher(terms) {
  const tests = terms.map(({ field, value }) => {
    if (field === "status")
      return (
        STATUSES[value] ??
        ((row) => value === `${row.status}` || value === `${row.status}`.replace(/..$/, "xx"))
      );
    return field ? ofText(value, TEXTS[field]) : anywhere(value);
  });
  return tests.length ? (row) => tests.every((test) => test(row)) : null;
}

const anywhere = (value) => (row) =>
  [
    row.url,
    row.id,
    row.schedule,
    row.queue,
    row.group,
    row.error,
    row.said,
    row.why,
    row.chaos,
    row.run,
    row.step,
    ...row.labels,
  ].some((text) => text?.toLowerCase().includes(value));

/** A value with * must match as a whole, another one be a part. */
function ofText(value, textsOf) {
  const parts = value.split("*").map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"));
  const pattern = new RegExp(parts.length > 1 ? `^${parts.join("[^]*")}$` : parts[0], "i");
  return (row) => textsOf(row).some((text) => text && pattern.test(text));
}
