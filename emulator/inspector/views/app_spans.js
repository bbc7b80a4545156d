// The spans that an application has sent, as bars inside the delivery that caused them. All of it is the app's text.

import { h, replace } from "../dom.js";
import { facts, status } from "../list.js";

const SHAPES = { ok: ["good", "●"], unset: ["off", "○"], error: ["bad", "▲"] };
const KIND = { ok: "good", unset: "", error: "bad" };
// A deeper span is indented no further.
const DEEPEST = 12;

const carriesTrace = ({ headers }) =>
  Object.keys(headers).some((name) => /^traceparent$/i.test(name));

/** Reads the spans of a message's deliveries, and gives each delivery a place that they are drawn in. */
export function appSpans(context, message, deliveries) {
  const places = new Map(
    deliveries.filter(carriesTrace).map(({ seq }) => [seq, h("section.trace")]),
  );
  if (places.size > 0)
    context
      .call("GET", `/_emulator/messages/${encodeURIComponent(message)}/spans`)
      .then((found) => {
        for (const delivery of found.deliveries)
          if (delivery.spans.length > 0 && places.has(delivery.seq))
            replace(places.get(delivery.seq), drawn(delivery));
      })
      // A reset took the message, or the message is not kept any more.
      .catch(() => {});
  return (delivery) => places.get(delivery.seq) ?? null;
}

const lasted = (ms) => (ms < 10 ? `${Number(ms.toPrecision(2))} ms` : `${Math.round(ms)} ms`);

function drawn({ spans, is_shared: isShared }) {
  const whole = Math.max(...spans.map((span) => span.offset_ms + span.duration_ms), 0.001);
  const share = (ms) => (Math.min(ms, whole) / whole) * 100;
  return [
    h(
      "div.trace-head",
      h("h3", "Spans of the app"),
      h("span.ends", h("span", "0 ms"), h("span", lasted(whole))),
    ),
    isShared &&
      h("p.dim", "Other attempts carried the same traceparent: these spans may be theirs."),
    h(
      "ol.plain.lanes",
      spans.map((span) => h("li", row(span, share))),
    ),
  ];
}

function row(span, share) {
  const { name, service, kind, depth, offset_ms: offset, duration_ms: duration } = span;
  const [tone, shape] = SHAPES[span.status] ?? SHAPES.unset;
  const bar = h("span", { class: `bar-of ${KIND[span.status] ?? ""}` });
  // The page's policy lets scripts set styles, but no attribute do it.
  bar.style.left = `${share(offset)}%`;
  bar.style.width = `${share(duration)}%`;
  const called = h(
    "span.name",
    { title: `${name}, ${span.status}` },
    h("span", { class: `status ${tone}`, "aria-hidden": "true" }, shape),
    h("span.unseen", span.status),
    " ",
    h("bdi", name || "(no name)"),
    h("span.dim", " ", h("bdi", service), ` ${kind}`),
  );
  called.style.paddingLeft = `${Math.min(depth, DEEPEST) * 10}px`;
  const title = `${lasted(duration)}, after ${lasted(offset)}`;
  return h(
    "details",
    h(
      "summary",
      called,
      h("span.lane", { role: "img", "aria-label": title, title }, bar),
      h("span.lasted", lasted(duration)),
    ),
    h(
      "div.inside",
      facts([
        ["Status", status(span.status, tone)],
        ["Reason", span.status_message && h("bdi", span.status_message)],
        ["Span", h("code", span.span_id)],
        ...Object.entries(span.attributes).map(([key, value]) => [h("bdi", key), h("bdi", value)]),
        ...span.events.map((event) => [`At ${lasted(event.offset_ms)}`, h("bdi", event.name)]),
      ]),
    ),
  );
}
