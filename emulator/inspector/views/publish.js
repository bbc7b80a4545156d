// Publish: the options of a message as fields, and the call that they make in three languages.

import { asCurl, asJavaScript, asPython, describe } from "../api.js";
import { h, replace, valuesOf } from "../dom.js";
import { choice, inputs, labelled } from "../list.js";
import { copy } from "../parts.js";
import { own } from "../service.js";

const LANGUAGES = { curl: asCurl, Python: asPython, JavaScript: asJavaScript };
// Headers by what stands behind the prefix, and what a value looks like.
const OPTIONS = {
  Delivery: {
    Delay: "1d2h30m", "Not-Before": "Unix seconds", Timeout: "30s", Retries: "3", "Retry-Delay": "1000 * pow(2, retried)", Label: "nightly, billing",
    "Redact-Fields": "body, header[Authorization]",
  },
  Afterwards: { Callback: "https://app.example/done", "Failure-Callback": "https://app.example/failed" },
  Limits: {
    "Flow-Control-Key": "customer-7", "Flow-Control-Value": "rate=3, period=1m", "Deduplication-Id": "order-7", "Content-Based-Deduplication": "true",
  },
  "Repeat: makes a schedule": { Cron: "CRON_TZ=Europe/Berlin 0 9 * * *", "Schedule-Id": "daily-report" },
};

export function render(context) {
  const { destination = "https://app.example/orders", cron = "" } = context.route.query;
  let language = "curl";
  const preview = h("pre", { tabindex: 0, "aria-label": "The call" });
  const times = h("a", { target: "_blank" }, "When would that be?");
  const tabs = h("div.tabs", { role: "tablist", "aria-label": "Language" });
  const text = (name, label, more) => labelled(label, h("textarea", { name, spellcheck: "false", ...more }), { kind: "wide" });
  const fields = (legend, ...content) => h("fieldset", h("legend", legend), h("div.fields", content));
  const form = h("form.form.publish", { oninput: draw, onsubmit: send },
    fields("Message",
      labelled("Destination", h("input", { name: "destination", value: destination, required: true }), { hint: "a URL, the name of a URL group, or api/llm", kind: "wide" }),
      labelled("Method", choice(["POST", "GET", "PUT", "PATCH", "DELETE"], "POST", { name: "Method" })),
      inputs({ type: ["Content type", "", { value: "application/json" }], queue: ["Queue", "none"] }), text("body", "Body", { value: '{"order": 7}' })),
    Object.entries(OPTIONS).map(([legend, rows]) =>
      fields(legend, inputs(Object.fromEntries(Object.entries(rows).map(([name, example]) => [name, [name.replaceAll("-", " "), example]]))))),
    fields("Headers for the destination", text("forward", "One a line", { placeholder: "Authorization: Bearer abc" })),
    h("div.shown", h("div.buttons", context.canAct && h("button.main", "Publish"),
      h("button", { type: "button", onclick: () => copy(preview.textContent, language) }, "Copy"), tabs, times), preview));
  form.elements.Cron.value = cron;

  const call = () => callOf(valuesOf(form), context.state);

  function draw() {
    const tab = (name) => h("button", { type: "button", role: "tab", "aria-selected": String(name === language), onclick: () => {
      language = name;
      draw();
    } }, name);
    replace(tabs, Object.keys(LANGUAGES).map(tab));
    preview.textContent = LANGUAGES[language](call());
    const { Cron, "Retry-Delay": delay, Retries } = form.elements;
    // In a tab of its own, because the form would be lost.
    times.href = `#/when?${new URLSearchParams({ expression: Cron.value, retry_delay: delay.value, retries: Retries.value, world: context.state.world })}`;
  }

  async function send() {
    const { method, path: address, headers, body } = call();
    const [made] = [await context.act("Publish", method, address, { headers, body })].flat();
    if (made?.messageId) context.go("messages", {}, made.messageId);
    else if (made?.scheduleId) context.go("schedules", {}, made.scheduleId);
  }

  context.watch((state) => state.credentials, draw);
  return form;
}

/** The call of a filled form. */
function callOf({ destination, body, type, queue, forward, ...options }, state) {
  const given = Object.fromEntries(Object.entries(options).map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));
  if (given.Method === "POST") delete given.Method;
  for (const [, name, value] of forward.matchAll(/^([^:\n]+):(.*)$/gm)) given[`Forward-${name.trim()}`] = value.trim();
  if (given.Cron && queue) given["Queue-Name"] = queue;
  const kind = given.Cron ? "schedules" : queue ? `enqueue/${encodeURIComponent(queue)}` : "publish";
  const headers = { ...(type && body && { "Content-Type": type }), ...own(state, given) };
  return describe("POST", `/v2/${kind}/${destination.trim()}`, { headers, body: body || undefined });
}
