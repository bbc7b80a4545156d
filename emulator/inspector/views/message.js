// One message: where it stands and why, what it is tied to, and every attempt with what was sent and answered.

import { messageAssertions } from "../assertions.js";
import { h, replace } from "../dom.js";
import { bytes, duration, moment, shortId } from "../format.js";
import {
  action,
  chaosMark,
  closing,
  copyCall,
  copyChoice,
  facts,
  id,
  link,
  placeOfRun,
  problem,
  sentence,
  status,
  tag,
  when,
} from "../list.js";
import { isGood } from "../timeline_rows.js";
import { appSpans } from "./app_spans.js";
import { bytesOf, exchange, flat, signature } from "./message_parts.js";

const whole = (rows) => () => ({ many: Infinity, rows });

export function detail(context) {
  const message = context.route.select;
  const place = h("div.panel", { "aria-busy": "true" });
  const lists = [
    ["explain", `messages/${encodeURIComponent(message)}/explain`],
    // Long bodies make the pages of the journal short.
    ["attempts", "deliveries", { message_id: message, limit: 1000 }, whole("deliveries")],
    ["listed", "messages", { id: message, limit: 1 }],
  ].map(([what, ...list]) => [`${what} ${message}`, ...list]);
  let drawn = "";
  const draw = () => {
    const found = lists.map(([name]) => context.state.lists[name]);
    const text = JSON.stringify(found);
    // What is unfolded stays so, as long as nothing has changed.
    if (!found.every(Boolean) || !context.state.credentials || text === drawn) return;
    drawn = text;
    place.removeAttribute("aria-busy");
    const [explained, { deliveries = [] }, { messages: [listed] = [] }] = found;
    replace(
      place,
      closing(context, id(message)),
      explained.error
        ? problem(explained.error)
        : panel(context, explained, deliveries, listed ?? {}),
    );
  };
  for (const [name, path, query, pages] of lists) {
    context.load(name, path, query, draw, pages);
  }
  context.watch((state) => state.credentials, draw);
  return place;
}

function panel(context, explained, deliveries, listed) {
  const { message_id: message, url, state, summary, reasons } = explained;
  const [first] = deliveries;
  const spansOf = appSpans(context, message, deliveries);
  const letter = listed.dead_letter_id;
  const run = first?.workflow_run_id ?? listed.workflow_run_id;
  const number = listed.workflow_run_number;
  const step = first?.step ?? listed.step;
  const act = (text, method, path, options, attributes) =>
    action(context, text, () => context.act(text, method, `/v2/${path}`, options), attributes);
  const { queue, schedule_id: schedule, url_group: group, flow_control_key: key } = listed;
  return [
    h("div.state-line", sentence(summary, context)),
    h(
      "div.buttons",
      /PENDING|HELD|ACTIVE|RETRYING/.test(state) && act("Cancel", "DELETE", `messages/${message}`),
      letter &&
        act(
          "Retry from the dead letters",
          "POST",
          "dlq/retry",
          { query: { dlqIds: letter } },
          { class: "main" },
        ),
      action(context, "Publish again…", () => context.go("publish", { again: message }), {
        title: "Open the form filled in, to edit and send",
      }),
      first &&
        copyChoice("assertion", messageAssertions(url, deliveries, context.state), {
          said: "the assertion",
        }),
    ),
    facts([
      ["Destination", h("bdi", url)],
      ["State", state.toLowerCase()],
      ["Run", run && link("runs", run, { select: placeOfRun(run, number), ...(step && { step }) })],
      [
        "Step",
        run &&
          (step ?? (listed.created_by === "failure_callback" ? "failure function" : "first call")),
      ],
      ["Queue", queue && link("queues", queue)],
      ["Schedule", schedule && link("schedules", schedule, { select: schedule })],
      ["URL group", group && link("groups", group)],
      ["Flow control", key && link("queues", key)],
      ["Labels", listed.labels?.map(tag)],
    ]),
    !first && unsent(context, message),
    h(
      "div",
      h("h3", "How it came here"),
      h(
        "ol.reasons",
        reasons.map((reason) =>
          h(
            "li",
            when(reason.at_ms, context),
            h("span", sentence(reason.text, context), " ", ties(context, reason)),
          ),
        ),
      ),
    ),
    deliveries.map((delivery, at) =>
      attempt(context, delivery, at === deliveries.length - 1, spansOf(delivery)),
    ),
  ];
}

/** What will be sent: read from the service, which hides what the message redacts. */
function unsent(context, message) {
  const place = h("section", { "aria-busy": "true" });
  context
    .call("GET", `/v2/messages/${encodeURIComponent(message)}`)
    .then((found) => replace(place, toSend(context, found)))
    // A message of another account, or one that is not found any more.
    .catch(() => replace(place, h("p.dim", "What it holds is not known here.")))
    .finally(() => place.removeAttribute("aria-busy"));
  return place;
}

function toSend(context, found) {
  const { body, bodyBase64: base64 } = found;
  const flow = ["parallelism", "rate", "period"]
    .filter((name) => found[name])
    .map((name) => `${name} ${found[name]}${name === "period" ? " s" : ""}`);
  return [
    h("h3", "Not sent yet"),
    facts([
      ["Not before", when(found.notBefore, context)],
      ["Retries", found.maxRetries],
      ["Retry delay", found.retryDelayExpression && h("code", found.retryDelayExpression)],
      ["Timeout", found.timeout && `${found.timeout} s`],
      ["Callback", found.callback && h("bdi", found.callback)],
      ["Failure callback", found.failureCallback && h("bdi", found.failureCallback)],
      [
        "Flow control",
        found.flowControlKey && [found.flowControlKey, flow.length > 0 && ` (${flow.join(", ")})`],
      ],
    ]),
    exchange("Request", `${found.method} ${found.url}`, {
      headers: found.header ?? {},
      body: body ?? (base64 ? null : ""),
      body_base64: base64,
    }),
  ];
}

/** Ways to what a reason speaks of: cause, effect, schedule. */
function ties(
  { select },
  { kind, source_message_id: source, message_id: made, schedule_id: schedule },
) {
  const link = (text, other) =>
    other && h("button.quiet", { onclick: () => select(other) }, `→ ${text} ${shortId(other)}`);
  return [
    link("caused by", source),
    link(kind === "callback" ? "callback" : "published again", made),
    schedule &&
      h(
        "a",
        { href: `#/schedules?select=${encodeURIComponent(schedule)}` },
        `→ schedule ${schedule}`,
      ),
  ];
}

/** How long an attempt took: on the world's clock, which may stand still, and in real time, if it left at all. */
const took = ({ duration_ms: virtual, took_ms: real }) =>
  (virtual || real === null ? `${duration(virtual)} of the clock, ` : "") +
  (real === null ? "" : `${duration(real)} of real time, `);

/** When an attempt was made and how long it took, as the third part beside request and answer. */
function timing(context, delivery) {
  const { created_ms: created, at_ms: at, duration_ms: virtual, took_ms: real, via } = delivery;
  const { forwarded_to: forwarded } = delivery;
  const size = (exchanged) => bytes(exchanged ? bytesOf(exchanged).length : 0);
  return h(
    "div.timing",
    h("h3", "Timing"),
    facts([
      ["Made", when(created, context)],
      [
        "Left",
        [when(at, context), at > created && h("span.note", `${duration(at - created)} later`)],
      ],
      ["On the clock", duration(virtual)],
      ["Real time", real === null ? "it did not leave" : duration(real)],
      [
        "Answered by",
        forwarded ? [h("bdi", forwarded), ", by a rule that forwards"] : (VIAS[via] ?? via),
      ],
      ["Sent", size(delivery)],
      ["Received", delivery.response && size(delivery.response)],
    ]),
  );
}

const VIAS = {
  network: "the network",
  rule: "a destination rule",
  capture: "nobody: captured",
  mount: "the mounted application",
};

function attempt(context, delivery, open, spans) {
  const { response, method, url, error, chaos, redelivery } = delivery;
  // The whole URL stands in the place of a path, for the origin is not the emulator's.
  const sent = { method, path: url, headers: flat(delivery.headers), body: delivery.body };
  const { now, zone } = context;
  return h(
    "details.attempt",
    { open },
    h(
      "summary",
      h("strong", `Attempt ${delivery.attempt} `),
      status(response?.status ?? "failed", response && isGood(response) ? "good" : "bad"),
      ` ${moment(delivery.at_ms, now ?? undefined, zone)}, `,
      `${took(delivery)}by ${delivery.forwarded_to ?? delivery.via} `,
      chaosMark(chaos?.did),
      redelivery && tag("redelivery"),
    ),
    error && problem(error),
    chaos && h("p.dim", `A rule spares this attempt with "except": ["${chaos.id}"].`),
    h(
      "div.sides",
      exchange("Request", `${method} ${url}`, delivery),
      response
        ? exchange("Response", response.status, response)
        : h("div", h("h3", "Response"), h("p.dim", "There was none.")),
      timing(context, delivery),
    ),
    spans,
    signature(delivery, context.state),
    h(
      "div.buttons",
      action(
        context,
        "Redeliver",
        () => context.act("Redeliver", "POST", `/_emulator/deliveries/${delivery.seq}/redeliver`),
        { title: "Send this attempt again now; nothing of the message changes" },
      ),
      copyCall("Copy request as", sent, { origin: "", said: "the request" }),
    ),
  );
}
