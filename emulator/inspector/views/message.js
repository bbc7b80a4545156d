// One message: where it stands and why, what it is tied to, and every attempt with what was sent and answered.

import { asCurl } from "../api.js";
import { h, replace } from "../dom.js";
import { duration, instant, shortId } from "../format.js";
import { action, closing, facts, problem, when } from "../list.js";
import { chaosMark, copy, id, status } from "../parts.js";
import { own, prefixOf } from "../service.js";
import { isGood } from "../timeline_rows.js";
import { bytesOf, exchange, flat, signature } from "./message_parts.js";

// What every delivery carries besides what its publisher gave.
const ADDED = /^(host|user-agent|accept-encoding|content-length)$|-region$/i;
const LONGEST_BODY = 4_000;

export function detail(context) {
  const message = context.route.select, place = h("div.panel", { "aria-busy": "true" });
  const lists = [["explain", `messages/${encodeURIComponent(message)}/explain`], ["attempts", "deliveries", { message_id: message, limit: 1000 }],
    ["listed", "messages", { id: message, limit: 1 }]].map(([what, path, query]) => [`${what} ${message}`, path, query]);
  let drawn = "";
  const draw = () => {
    const found = lists.map(([name]) => context.state.lists[name]), text = JSON.stringify(found);
    // What is unfolded stays so, as long as nothing has changed.
    if (!found.every(Boolean) || !context.state.credentials || text === drawn) return;
    drawn = text;
    place.removeAttribute("aria-busy");
    const [explained, { deliveries = [] }, { messages: [listed] = [] }] = found;
    replace(place, closing(context, id(message)),
      explained.error ? problem(explained.error) : panel(context, explained, deliveries, listed ?? {}));
  };
  for (const [name, path, query] of lists) {
    context.load(name, path, query, draw);
  }
  context.watch((state) => state.credentials, draw);
  return place;
}

function panel(context, explained, deliveries, listed) {
  const { message_id: message, url, state, summary, reasons } = explained, [first] = deliveries, letter = listed.dead_letter_id;
  const verify = first && asPytest(url, deliveries, context.state);
  const act = (text, method, path, options, attributes) => action(context, text, () => context.act(text, method, `/v2/${path}`, options), attributes);
  return [
    facts([["Destination", h("bdi", url)], ["State", state.toLowerCase()], ["Why", h("bdi", summary)],
      ["Labels", listed.labels?.map((label) => h("bdi.tag", label))]]),
    h("div.buttons",
      /PENDING|HELD|ACTIVE|RETRYING/.test(state) && act("Cancel", "DELETE", `messages/${message}`),
      letter && act("Retry from the dead letters", "POST", "dlq/retry", { query: { dlqIds: letter } }, { class: "main" }),
      first && act("Publish again", "POST", `publish/${url}`, again(context.state, first, listed)),
      verify && h("button", { onclick: () => copy(verify, "the assertion"), title: verify }, "Copy as pytest assertion")),
    h("div", h("h3", "How it came here"),
      h("ol", reasons.map((reason) => h("li", when(reason.at_ms, context), " ", h("bdi", reason.text), " ", ties(context, reason))))),
    deliveries.map((delivery, at) => attempt(context, delivery, at === deliveries.length - 1)),
  ];
}

/** Ways to what a reason speaks of: cause, effect, schedule. */
function ties({ select }, { kind, source_message_id: source, message_id: made, schedule_id: schedule }) {
  const link = (text, other) => other && h("button.quiet", { onclick: () => select(other) }, `→ ${text} ${shortId(other)}`);
  return [link("caused by", source), link(kind === "callback" ? "callback" : "published again", made),
    schedule && h("a", { href: `#/schedules?select=${encodeURIComponent(schedule)}` }, `→ schedule ${schedule}`)];
}

function attempt(context, delivery, open) {
  const { response, method, url, error, chaos } = delivery;
  const sent = { method, path: "", headers: flat(delivery.headers), body: delivery.body };
  return h("details", { open }, h("summary", `Attempt ${delivery.attempt} `,
    status(response?.status ?? "failed", response && isGood(response) ? "good" : "bad"),
    ` ${instant(delivery.at_ms, context.zone)}, ${duration(delivery.duration_ms)}, by ${delivery.via} `, chaosMark(chaos?.did)),
  h("div.panel", error && problem(error), chaos && h("p.dim", `A rule spares this attempt with "except": ["${chaos.id}"].`), exchange("Request", `${method} ${url}`, delivery),
    response && exchange("Response", response.status, response), signature(delivery, context.state),
    h("div.buttons", h("button", { onclick: () => copy(asCurl(sent, url), "the request") }, "Copy request as curl"))));
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
  return { headers, body: delivery.body ?? new Blob([bytesOf(delivery)]) };
}

/** What happened, as the assertion of a test. */
function asPytest(url, deliveries, state) {
  const [{ method, created_ms: created }] = deliveries, { body, headers } = deliveries.at(-1);
  const expected = { url, method, attempts: deliveries.length, at: deliveries.map(({ at_ms: at }) => at - created),
    status: deliveries.map(({ response }) => response?.status ?? null) };
  if (body !== null && body.length <= LONGEST_BODY) {
    try {
      expected.body_json = JSON.parse(body);
    } catch {
      expected.body = body;
    }
  }
  if (headers[`${prefixOf(state)}Signature`]) expected.signed_with = "current";
  return `emulator.verify(\n${Object.entries(expected).map(([name, value]) => `    ${name}=${python(value)},\n`).join("")})`;
}

function python(value) {
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (value && typeof value === "object") return `{${Object.entries(value).map((pair) => pair.map(python).join(": ")).join(", ")}}`;
  return { null: "None", true: "True", false: "False" }[JSON.stringify(value)] ?? JSON.stringify(value);
}
