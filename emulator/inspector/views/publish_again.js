// A message as the fields of the publish form: what was sent, or what would be.

import { isRedacted } from "../assertions.js";
import { bytesOf, flat } from "./message_parts.js";
import { prefixOf } from "../service.js";

// What every delivery carries besides what its publisher gave.
const ADDED = /^(host|user-agent|accept-encoding|content-length)$|-region$/i;

// Stands for a body that is no text.
const BYTES = "(bytes)";

/**
 * The fields that publish a message again, {values, kept, binary, lost}. What the message redacts is not in them: a
 * text stands for it, by which `kept` has the original. `binary` is the size of a body that is no text.
 */
export async function filled(context, message) {
  const { state } = context;
  const read = (path, query) => context.call("GET", path, { query }).catch(() => null);
  const attempts = (redact) =>
    read("/_emulator/deliveries", { message_id: message, limit: 1, redact });
  const [sent, shown, listed] = await Promise.all([
    attempts(false),
    attempts(true),
    read("/_emulator/messages", { id: message, limit: 1 }),
  ]);
  const made = listed?.messages[0];
  // The service tells its options of a message that has not ended, and of a dead letter.
  const path = made?.dead_letter_id
    ? `/v2/dlq/${encodeURIComponent(made.dead_letter_id)}`
    : made?.ended_ms === null && `/v2/messages/${encodeURIComponent(message)}`;
  const known = path ? await read(path) : null;
  const values = {
    destination: made?.url ?? known?.url ?? "",
    Method: made?.method ?? "POST",
    queue: made?.queue ?? "",
    Retries: made ? String(made.max_attempts - 1) : "",
    Label: made?.labels.join(", ") ?? "",
    ...optionsOf(known),
  };
  const delivery = sent?.deliveries[0];
  if (delivery)
    return {
      ...ofDelivery(state, delivery, shown.deliveries[0], values),
      lost: known ? null : "Its callbacks, retry delay and limits are not kept: give them again.",
    };
  return ofMessage(known, values);
}

/** What the service tells of a message that it still knows. */
function optionsOf(known) {
  if (!known) return {};
  const limits = [
    known.parallelism && `parallelism=${known.parallelism}`,
    known.rate && `rate=${known.rate}`,
    known.period && `period=${known.period}s`,
  ];
  return {
    "Retry-Delay": known.retryDelayExpression ?? "",
    Callback: known.callback ?? "",
    "Failure-Callback": known.failureCallback ?? "",
    "Flow-Control-Key": known.flowControlKey ?? "",
    "Flow-Control-Value": known.flowControlKey ? limits.filter(Boolean).join(", ") : "",
  };
}

function ofDelivery(state, delivery, shown, values) {
  const kept = new Map();
  const prefix = prefixOf(state).toLowerCase();
  const hidden = [];
  const lines = [];
  let type = "";
  const shownHeaders = flat(shown.headers);
  /** What stands in the form for a value; its original is sent. */
  const standIn = (text, original) => {
    if (state.originals) return original;
    kept.set(text, original);
    return text;
  };
  for (const [name, value] of Object.entries(flat(delivery.headers))) {
    if (ADDED.test(name) || name.toLowerCase().startsWith(prefix)) continue;
    const isHidden = shownHeaders[name] !== value;
    if (isHidden) hidden.push(`header[${name}]`);
    if (/^content-type$/i.test(name)) type = value;
    else lines.push(`${name}: ${isHidden ? standIn(shownHeaders[name], value) : value}`);
  }
  const isHidden = shown.body !== delivery.body;
  const isBinary = delivery.body === null && Boolean(delivery.body_base64);
  const original = isBinary ? new Blob([bytesOf(delivery)]) : delivery.body;
  if (isHidden) hidden.unshift("body");
  let body = delivery.body ?? "";
  if (isHidden && !isBinary) body = standIn(shown.body, original);
  if (isBinary) kept.set((body = isHidden ? shown.body : BYTES), original);
  return {
    kept,
    binary: isBinary ? original.size : null,
    values: {
      ...values,
      destination: delivery.url,
      Method: delivery.method,
      type,
      body,
      forward: lines.join("\n"),
      "Redact-Fields": hidden.join(","),
    },
  };
}

/** Of a message that was not sent there is what the service shows, and nothing behind what it hides. */
function ofMessage(known, values) {
  const headers = Object.entries(known?.header ?? {});
  const [, types] = headers.find(([name]) => /^content-type$/i.test(name)) ?? [];
  const isShown = known && !isRedacted(known.body) && !known.bodyBase64;
  const lines = headers
    .filter(([name, [value]]) => !/^content-type$/i.test(name) && !isRedacted(value))
    .map(([name, all]) => `${name}: ${all.join(", ")}`);
  const isCut = !isShown || headers.some(([, all]) => all.some((value) => isRedacted(value)));
  return {
    kept: new Map(),
    binary: null,
    lost: isCut ? "What it hides, and bytes that are no text, are to be given again." : null,
    values: {
      ...values,
      type: types?.[0] ?? "",
      body: isShown ? (known.body ?? "") : "",
      forward: lines.join("\n"),
    },
  };
}
