// Values as people read them. Pure: no DOM, no state but the formatters that were made.

const MINUTE = 60_000, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const formatters = new Map();

/** The browser's own zone, such as Europe/Berlin. */
export const localZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** Whether there is a zone of that name. */
export function isZone(name) {
  try {
    new Intl.DateTimeFormat("en-GB", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

function parts(ms, zone) {
  let formatter = formatters.get(zone);
  if (!formatter) {
    formatter = new Intl.DateTimeFormat("en-GB", {
      timeZone: zone, weekday: "short", year: "numeric", month: "short", day: "numeric",
      hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
    });
    formatters.set(zone, formatter);
  }
  return Object.fromEntries(formatter.formatToParts(ms).map(({ type, value }) => [type, value]));
}

/** "Mon 2 Mar 2026 09:00:00" in a zone. */
export function instant(ms, zone = "UTC") {
  if (!isInstant(ms)) return "–";
  const p = parts(ms, zone);
  return `${p.weekday} ${p.day} ${p.month} ${p.year} ${p.hour}:${p.minute}:${p.second}`;
}

/** "09:00:00" in a zone, with milliseconds if there are any. */
export function timeOfDay(ms, zone = "UTC") {
  if (!isInstant(ms)) return "–";
  const p = parts(ms, zone);
  const fraction = ((ms % 1000) + 1000) % 1000;
  return `${p.hour}:${p.minute}:${p.second}${fraction ? `.${String(fraction).padStart(3, "0")}` : ""}`;
}

/** "Mon 2 Mar 2026" in a zone: what rows of one day share. */
export function day(ms, zone = "UTC") {
  if (!isInstant(ms)) return "–";
  const p = parts(ms, zone);
  return `${p.weekday} ${p.day} ${p.month} ${p.year}`;
}

const isInstant = (ms) => Number.isFinite(ms) && Math.abs(ms) <= 8.64e15;

/** The last part of a zone's name: "Berlin" for Europe/Berlin. */
export const zoneName = (zone) => zone.split("/").pop().replaceAll("_", " ");

/** A duration in at most two units: "1d 2h", "22 s", "1.5 s", "12 ms". */
export function duration(ms) {
  const size = Math.abs(ms);
  if (size < 1000) return `${Math.round(size)} ms`;
  if (size < MINUTE) return `${Number((size / 1000).toFixed(size < 10_000 ? 1 : 0))} s`;
  const units = [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"], [1000, "s"]];
  const first = units.findIndex(([unit]) => size >= unit);
  const [big, bigName] = units[first];
  const count = Math.floor(size / big);
  const [small, smallName] = units[first + 1];
  const rest = Math.floor((size - count * big) / small);
  return rest ? `${count} ${bigName} ${rest} ${smallName}` : `${count} ${bigName}`;
}

/** "in 22 s", "3 min ago", "now". */
export function relative(ms, now) {
  const distance = ms - now;
  if (Math.abs(distance) < 1) return "now";
  return distance > 0 ? `in ${duration(distance)}` : `${duration(distance)} ago`;
}

/** An id shortened in the middle: "msg_26hZ…tM3f". */
export function shortId(id, head = 4, tail = 6) {
  const text = String(id ?? "");
  // The part before the underscore says what the id is of, and is kept.
  const prefix = /^[a-z]{2,8}_/.exec(text)?.[0] ?? "";
  const rest = text.slice(prefix.length);
  return rest.length <= head + tail + 1 ? text : `${prefix}${rest.slice(0, head)}…${rest.slice(-tail)}`;
}

/** "1 delivery", "1,204 deliveries". */
export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en-GB")} ${number === 1 ? one : many}`;
}

/** "812 B", "1.2 kB", "3.4 MB". */
export function bytes(size) {
  if (size < 1000) return `${size} B`;
  if (size < 1_000_000) return `${(size / 1000).toFixed(1)} kB`;
  return `${(size / 1_000_000).toFixed(1)} MB`;
}

/** A URL without its scheme: what differs between rows. */
export const shortUrl = (url) => url.replace(/^https?:\/\//, "");

/**
 * What is known of a body: {kind: "empty"|"json"|"form"|"text"|"binary", pretty, raw, size}.
 * `body` is the text, null if it is not UTF-8; `base64` holds it then. `type` is the Content-Type.
 */
export function bodyOf(body, base64, type = "") {
  if (body === null || body === undefined) {
    if (!base64) return { kind: "empty", pretty: "", raw: "", size: 0 };
    const binary = fromBase64(base64);
    return { kind: "binary", pretty: hex(binary), raw: hex(binary), size: binary.length };
  }
  const size = new TextEncoder().encode(body).length;
  if (!size) return { kind: "empty", pretty: "", raw: "", size };
  if (/\bx-www-form-urlencoded\b/i.test(type)) {
    return { kind: "form", pretty: [...new URLSearchParams(body)].map(([name, value]) => `${name} = ${value}`).join("\n"), raw: body, size };
  }
  const json = /^\s*[[{]/.test(body) || /json/i.test(type) ? prettyJson(body) : null;
  return json === null ? { kind: "text", pretty: body, raw: body, size } : { kind: "json", pretty: json, raw: body, size };
}

/** JSON with an indent of two, null if the text is none. Numbers and keys stay as they were written. */
export function prettyJson(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  // From the text, not from the value: JavaScript would round a long number and sort keys like "1".
  let out = "", depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g)) {
    if (token === "}" || token === "]") {
      depth -= 1;
      out = /[[{]$/.test(out.slice(-1)) && !out.endsWith('"') ? out + token : out + line() + token;
    } else {
      if (/[[{]$/.test(out.slice(-1)) || out.endsWith(",")) out += line();
      out += token === ":" ? ": " : token;
      if (token === "{" || token === "[") depth += 1;
    }
  }
  return out;
}

/** Bytes as 16 a line: offset, hexadecimal, and the characters that can be shown. */
export function hex(binary, limit = 65_536) {
  const lines = [];
  for (let at = 0; at < Math.min(binary.length, limit); at += 16) {
    const row = [...binary.subarray(at, Math.min(at + 16, limit))];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const text = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits}  ${text}`);
  }
  if (binary.length > limit) lines.push(`… ${bytes(binary.length - limit)} more`);
  return lines.join("\n");
}

/** Base64, the URL's alphabet too, as bytes. */
export function fromBase64(text) {
  const standard = text.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(atob(standard), (character) => character.charCodeAt(0));
}
