// One message: where it stands and why, what it is tied to, and every attempt with what was sent and answered.

import { asCurl } from "../api.js";
import { h, replace } from "../dom.js";
import { duration, fromBase64, instant, shortId } from "../format.js";
import { action, facts, when } from "../list.js";
import { copy, id, status } from "../parts.js";
import { own, prefixOf } from "../service.js";
import { exchange, flat, signature } from "./message_parts.js";

const LIVE = new Set(["PENDING", "HELD", "ACTIVE", "RETRYING"]);
// What every delivery carries besides what its publisher gave.
const ADDED = /^(host|user-agent|accept-encoding|content-length)$|-region$/i;
const LONGEST_BODY = 4_000;

export function detail(context) {
  const message = context.route.select, place = h("div", { class: "panel", "aria-busy": "true" });
  const names = [`message ${message}`, `attempts ${message}`, `listed ${message}`];
  context.load(names[0], `/_emulator/messages/${encodeURIComponent(message)}/explain`);
  context.load(names[1], "/_emulator/deliveries", { message_id: message, limit: 1000 });
  context.load(names[2], "/_emulator/messages", { id: message, limit: 1 });
  let drawn = "";
  const draw = () => {
    const [explained, delivered, listed] = names.map((name) => context.state.lists[name]);
    if (!explained || !delivered || !listed || !context.state.credentials) return;
    // What is unfolded stays so, as long as nothing has changed.
    const text = JSON.stringify([explained, delivered, listed]);
    if (text === drawn) return;
    drawn = text;
    place.removeAttribute("aria-busy");
    const heading = h("header", {}, h("h2", {}, id(message)), h("button", { class: "quiet", onclick: () => context.select(null), "aria-label": "Close" }, "×"));
    if (explained.error) replace(place, heading, h("p", { class: "problem" }, explained.error));
    else replace(place, heading, panel(context, explained, delivered.deliveries ?? [], listed.messages?.[0] ?? {}));
  };
  for (const name of names) context.watch((state) => state.lists[name], draw);
  context.watch((state) => state.credentials, draw);
  return place;
}

function panel(context, explained, deliveries, listed) {
  const [first] = deliveries, message = explained.message_id, letter = listed.dead_letter_id;
  const verify = first && asPytest(explained, deliveries, context.state);
  return [
    facts([["Destination", h("bdi", {}, explained.url)], ["State", explained.state.toLowerCase()], ["Why", h("bdi", {}, explained.summary)],
      ["Labels", listed.labels?.map((label) => h("bdi", { class: "tag" }, label))]]),
    h("div", { class: "buttons" },
      LIVE.has(explained.state) && action(context, "Cancel", () => context.act("Cancel", "DELETE", `/v2/messages/${message}`)),
      letter && action(context, "Retry from the dead letters", () => context.act("Retry", "POST", "/v2/dlq/retry", { query: { dlqIds: [letter] } }), { class: "main" }),
      first && action(context, "Publish again", () => context.act("Publish again", "POST", `/v2/publish/${explained.url}`, again(context.state, first, listed))),
      verify && h("button", { onclick: () => copy(verify, "the assertion"), title: verify }, "Copy as pytest assertion")),
    h("div", {}, h("h3", {}, "How it came here"), h("ol", {}, explained.reasons.map((reason) => h("li", {}, when(reason.at_ms, context), " ", h("bdi", {}, reason.text), " ", ties(context, reason))))),
    deliveries.map((delivery, at) => attempt(context, delivery, at === deliveries.length - 1)),
  ];
}

/** Ways to what a reason speaks of: the message that caused this one, those that it caused, its schedule. */
function ties(context, reason) {
  const others = [["caused by", reason.source_message_id], [reason.kind === "callback" ? "callback" : "published again", reason.message_id]];
  return [others.filter(([, other]) => other).map(([text, other]) => h("button", { class: "quiet", onclick: () => context.select(other) }, `→ ${text} ${shortId(other)}`)),
    reason.schedule_id && h("a", { href: `#/schedules?select=${encodeURIComponent(reason.schedule_id)}` }, `→ schedule ${reason.schedule_id}`)];
}

function attempt(context, delivery, isOpen) {
  const { response } = delivery;
  const good = response && response.status >= 200 && response.status < 300;
  const sent = { method: delivery.method, path: "", headers: flat(delivery.headers), body: delivery.body || undefined };
  return h("details", { open: isOpen }, h("summary", {}, `Attempt ${delivery.attempt} `, status(response ? response.status : "failed", good ? "good" : "bad"),
    ` ${instant(delivery.at_ms, context.zone)}, ${duration(delivery.duration_ms)}, by ${delivery.via}`),
  h("div", { class: "panel" },
    delivery.error && h("p", { class: "problem" }, delivery.error),
    exchange("Request", `${delivery.method} ${delivery.url}`, delivery.headers, delivery.body, delivery.body_base64),
    response && exchange("Response", `${response.status}`, response.headers, response.body, response.body_base64),
    signature(delivery, context.state),
    h("div", { class: "buttons" }, h("button", { onclick: () => copy(asCurl(sent, delivery.url), "the request") }, "Copy request as curl"))));
}

/** The options of a call that publishes the same once more. */
function again(state, delivery, listed) {
  const prefix = prefixOf(state), headers = own(state, { Method: delivery.method });
  for (const [name, value] of Object.entries(flat(delivery.headers))) {
    if (/^content-type$/i.test(name)) headers[name] = value;
    else if (!ADDED.test(name) && !name.toLowerCase().startsWith(prefix.toLowerCase())) headers[`${prefix}Forward-${name}`] = value;
  }
  if (listed.max_attempts) headers[`${prefix}Retries`] = String(listed.max_attempts - 1);
  if (listed.labels?.length) headers[`${prefix}Label`] = listed.labels.join(",");
  return { headers, body: delivery.body_base64 === null ? delivery.body : new Blob([fromBase64(delivery.body_base64)]) };
}

/** What happened as the assertion of a test: it holds for as long as the message fares the same. */
function asPytest(explained, deliveries, state) {
  const [first] = deliveries, last = deliveries.at(-1), statuses = deliveries.map(({ response }) => response?.status ?? null);
  const expected = { url: explained.url, method: first.method, attempts: deliveries.length, at: deliveries.map((each) => each.at_ms - first.created_ms), status: statuses };
  if (last.body !== null && last.body.length <= LONGEST_BODY) {
    try {
      expected.body_json = JSON.parse(last.body);
    } catch {
      expected.body = last.body;
    }
  }
  if (last.headers[`${prefixOf(state)}Signature`]) expected.signed_with = "current";
  return `emulator.verify(\n${Object.entries(expected).map(([name, value]) => `    ${name}=${python(value)},\n`).join("")})`;
}

function python(value) {
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (value && typeof value === "object") return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${python(each)}`).join(", ")}}`;
  return value === null ? "None" : typeof value === "boolean" ? (value ? "True" : "False") : JSON.stringify(value);
}
