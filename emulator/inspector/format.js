// Values as people read them. Pure: no DOM, no state but the formatters that were made.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const TWO = "2-digit";
const formatters = new Map();

let ownZone;

/** The browser's own zone, such as Europe/Berlin. Asked for once, because that takes long. */
export const localZone = () =>
  (ownZone ??= Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC");

/** Whether there is a zone of that name. */
export function isZone(name) {
  try {
    return Boolean(formatterOf(name));
  } catch {
    return false;
  }
}

function formatterOf(timeZone) {
  if (!formatters.has(timeZone)) {
    formatters.set(
      timeZone,
      new Intl.DateTimeFormat("en-GB", {
        timeZone,
        weekday: "short",
        year: "numeric",
        month: "short",
        day: "numeric",
        hour: TWO,
        minute: TWO,
        second: TWO,
        hourCycle: "h23",
      }),
    );
  }
  return formatters.get(timeZone);
}

/** A function that writes the parts of an instant in a zone; a dash if it is none. */
const writer =
  (write) =>
  (ms, zone = "UTC") =>
    Number.isFinite(ms) && Math.abs(ms) <= 8.64e15
      ? write(
          Object.fromEntries(
            formatterOf(zone)
              .formatToParts(ms)
              .map(({ type, value }) => [type, value]),
          ),
          ms,
        )
      : "–";
const dateOf = (p) => `${p.weekday} ${p.day} ${p.month} ${p.year}`;
const timeOf = (p) => `${p.hour}:${p.minute}:${p.second}`;

/** "Mon 2 Mar 2026 09:00:00" in a zone. */
export const instant = writer((p) => `${dateOf(p)} ${timeOf(p)}`);

/** "09:00:00" in a zone, with milliseconds if there are any. */
export const timeOfDay = writer(
  (p, ms) =>
    timeOf(p) + (ms % 1000 ? `.${String(((ms % 1000) + 1000) % 1000).padStart(3, "0")}` : ""),
);

const day = writer(dateOf);
/** "8 Jan" in a zone. */
export const dayOfYear = writer((p) => `${p.day} ${p.month}`);
const year = writer((p) => p.year);

/** A text that is not broken into lines. */
export const whole = (text) => text.replaceAll(" ", "\u00a0");

/** Arithmetic whose arrow stays with what it leads to: "Retry-After: 10 → 10s". */
export const withArrows = (text) => text?.replace(/ -> (?=\d)/g, whole(" → "));

/** A time of day, with its date where that is not the date of `now`, and its year likewise: "8 Jan 09:00:00". */
export function moment(ms, now = ms, zone = "UTC") {
  const time = timeOfDay(ms, zone);
  if (day(ms, zone) === day(now, zone)) return time;
  const sameYear = year(ms, zone) === year(now, zone);
  return `${dayOfYear(ms, zone)}${sameYear ? "" : ` ${year(ms, zone)}`} ${time}`;
}

// An instant as the server writes it into a sentence; one inside a URL or a word is left as it is.
const WRITTEN =
  /(?<![^\s("])(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)(?:Z|([+-]\d\d):(\d\d))(?![\w/])/g;

/**
 * A sentence of the server with its instants as `moment` writes them. One with an offset is what a clock of another
 * zone shows, which the sentence names: it stays what that clock shows.
 */
export const inZone = (text, now, zone) =>
  text?.replace(WRITTEN, (written, local, hours, minutes) => {
    if (!hours) return whole(moment(Date.parse(written), now ?? undefined, zone));
    const size = Math.abs(Number(hours)) * HOUR + Number(minutes) * MINUTE;
    const offset = hours.startsWith("-") ? -size : size;
    return whole(moment(Date.parse(`${local}Z`), (now ?? Date.parse(written)) + offset));
  });

/** The last part of a zone's name: "Berlin" for Europe/Berlin. */
export const zoneName = (zone) => zone.split("/").pop().replaceAll("_", " ");

/** A duration in at most two units: "1 d 2 h", "22 s", "1.5 s", "12 ms". */
export function duration(ms) {
  const size = Math.abs(ms);
  const units = [
    [DAY, "d"],
    [HOUR, "h"],
    [MINUTE, "min"],
    [1000, "s"],
  ];
  if (size < 1000) return `${Math.round(size)} ms`;
  if (size < MINUTE) return `${Number((size / 1000).toFixed(size < 10_000 ? 1 : 0))} s`;
  const first = units.findIndex(([unit]) => size >= unit);
  const [[big, bigName], [small, smallName]] = units.slice(first);
  const rest = Math.floor((size % big) / small);
  return `${Math.floor(size / big)} ${bigName}${rest ? ` ${rest} ${smallName}` : ""}`;
}

/** "in 22 s", "3 min ago", "now". */
export function relative(ms, now) {
  if (Math.abs(ms - now) < 1) return "now";
  return ms > now ? `in ${duration(ms - now)}` : `${duration(now - ms)} ago`;
}

/** An id shortened in the middle, but for the prefix that says what it is of: "msg_26hZ…tM3fxx". */
export const shortId = (id) =>
  String(id ?? "").replace(/^((?:[a-z]{2,8}_)?.{4}).{2,}(.{6})$/, "$1…$2");

/** "1 delivery", "1,204 deliveries". */
export const count = (number, one, many = `${one}s`) =>
  `${number.toLocaleString("en-GB")} ${number === 1 ? one : many}`;
export const deliveries = (number) => count(number, "delivery", "deliveries");

/** "812 B", "1.2 kB", "3.4 MB". */
export function bytes(size) {
  if (size < 1000) return `${size} B`;
  return size < 1_000_000
    ? `${(size / 1000).toFixed(1)} kB`
    : `${(size / 1_000_000).toFixed(1)} MB`;
}

/** Names of the API as people write them: "max_retries" -> "Max retries". */
export const words = (name) => {
  const text = name.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
};

/** A URL without its scheme: what differs between rows. */
export const shortUrl = (url) => url.replace(/^https?:\/\//, "");

/**
 * What is known of a body: {kind: "empty"|"json"|"form"|"text"|"binary", pretty, raw, size}.
 * `body` is the text, null if it is not UTF-8; `base64` holds it then. `type` is the Content-Type.
 */
export function bodyOf(body, base64, type = "") {
  const binary = body === null && base64 ? fromBase64(base64) : null;
  const raw = binary ? hex(binary) : (body ?? "");
  const is = (kind, pretty = raw) => ({
    kind,
    pretty,
    raw,
    size: (binary ?? new TextEncoder().encode(raw)).length,
  });
  if (binary) return is("binary");
  if (!raw) return is("empty");
  if (/\bx-www-form-urlencoded\b/i.test(type))
    return is("form", [...new URLSearchParams(raw)].map((pair) => pair.join(" = ")).join("\n"));
  const json = /^\s*[[{]/.test(raw) || /json/i.test(type) ? prettyJson(raw) : null;
  return json === null ? is("text") : is("json", json);
}

/** JSON with an indent of two, null if the text is none. Numbers and keys stay as they were written. */
export function prettyJson(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  // From the text, not from the value: JavaScript would round a long number and sort keys like "1".
  let out = "";
  let depth = 0;
  let last = "";
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g)) {
    const opens = "[{".includes(last);
    const closes = "]}".includes(token);
    if (closes) depth -= 1;
    if (last && (closes ? !opens : opens || last === ",")) out += `\n${"  ".repeat(depth)}`;
    out += token === ":" ? ": " : token;
    if ("[{".includes(token)) depth += 1;
    last = token;
  }
  return out;
}

/** Bytes as 16 a line: offset, hexadecimal, and the characters that can be shown. */
export function hex(binary, limit = 65_536) {
  const lines = [];
  const digits = (number, width) => number.toString(16).padStart(width, "0");
  for (let at = 0; at < Math.min(binary.length, limit); at += 16) {
    const row = [...binary.subarray(at, at + 16)];
    const text = row
      .map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·"))
      .join("");
    lines.push(
      `${digits(at, 6)}  ${row
        .map((byte) => digits(byte, 2))
        .join(" ")
        .padEnd(47)}  ${text}`,
    );
  }
  if (binary.length > limit) lines.push(`… ${bytes(binary.length - limit)} more`);
  return lines.join("\n");
}

/** Base64, the URL's alphabet too, as bytes. */
export const fromBase64 = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) =>
    character.charCodeAt(0),
  );
