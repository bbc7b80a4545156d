// Publish: the options of a message as fields, and the call that they make in three languages.

import { h, replace } from "../dom.js";
import { field, head } from "../list.js";
import { copy } from "../parts.js";
import { asCurl, asJavaScript, asPython, describe } from "../api.js";
import { prefixOf } from "../service.js";

export const title = "Publish";
export const path = "publish";
export const key = "p";

const LANGUAGES = [["curl", asCurl], ["Python", asPython], ["JavaScript", asJavaScript]];
// [name of the field, header behind the prefix, label, what a value looks like]
const DELIVERY = [["delay", "Delay", "Delay", "1d2h30m"], ["notBefore", "Not-Before", "Not before", "Unix seconds"], ["timeout", "Timeout", "Timeout", "30s"],
  ["retries", "Retries", "Retries", "3"], ["retryDelay", "Retry-Delay", "Retry delay in ms", "1000 * pow(2, retried)"], ["label", "Label", "Labels", "nightly, billing"],
  ["redact", "Redact-Fields", "Redact", "body, header[Authorization]"]];
const AFTER = [["callback", "Callback", "Callback URL", "https://app.example/done"], ["failure", "Failure-Callback", "Failure callback URL", "https://app.example/failed"]];
const LIMITS = [["flowKey", "Flow-Control-Key", "Flow control key", "customer-7"], ["flowValue", "Flow-Control-Value", "Its limits", "rate=3, period=1m"],
  ["deduplication", "Deduplication-Id", "Deduplication id", "order-7"]];
const REPEAT = [["cron", "Cron", "Cron", "CRON_TZ=Europe/Berlin 0 9 * * *"], ["scheduleId", "Schedule-Id", "Schedule id", "daily-report"]];

export function render(context) {
  let language = context.route.query.language ?? "curl";
  const preview = h("pre", { tabindex: 0, "aria-label": "The call" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Language" });
  const form = h("form", { class: "form publish", oninput: draw, onsubmit: (event) => { event.preventDefault(); send(); } },
    h("div", { class: "fields" },
      field("Destination", input("destination", context.route.query.destination ?? "https://app.example/orders", { required: true }), "a URL, the name of a URL group, or api/llm", "wide"),
      field("Method", options("method", ["POST", "GET", "PUT", "PATCH", "DELETE"])), field("Content type", input("contentType", "application/json")), field("Queue", input("queue", "", { placeholder: "none" })),
      field("Body", h("textarea", { name: "body", spellcheck: "false", value: '{"order": 7}' }), null, "wide")),
    group("Delivery", DELIVERY), group("Afterwards", AFTER), group("Limits", LIMITS, field("Deduplicate by content", h("input", { type: "checkbox", name: "content" }), null, "check")),
    group("Repeat: makes a schedule", REPEAT),
    h("fieldset", {}, h("legend", {}, "Headers for the destination"), h("div", { class: "fields" }, field("One a line", h("textarea", { name: "forward", spellcheck: "false", placeholder: "Authorization: Bearer abc" }), null, "wide"))),
    h("div", { class: "shown" }, h("div", { class: "buttons" }, context.canAct && h("button", { class: "main" }, "Publish"),
      h("button", { type: "button", onclick: () => copy(preview.textContent, language) }, "Copy"), tabs), preview));
  for (const name of ["cron", "delay", "queue"]) if (context.route.query[name]) form.elements[name].value = context.route.query[name];

  function draw() {
    const described = callOf(new FormData(form), prefixOf(context.state));
    replace(tabs, LANGUAGES.map(([name]) => h("button", { type: "button", role: "tab", "aria-selected": String(name === language), onclick: () => { language = name; draw(); } }, name)));
    preview.textContent = LANGUAGES.find(([name]) => name === language)[1](described);
  }

  async function send() {
    const { method, path: address, headers, body } = callOf(new FormData(form), prefixOf(context.state));
    const answer = await context.act("Publish", method, address, { headers, body });
    const made = [answer].flat()[0];
    if (made?.messageId) context.go("messages", {}, made.messageId);
    else if (made?.scheduleId) context.go("schedules", {}, made.scheduleId);
  }

  context.watch((state) => state.credentials, draw);
  return h("section", {}, head(title), form);
}

/** The call of a filled form. `prefix` is how the service's headers begin. */
export function callOf(data, prefix) {
  const given = (name) => String(data.get(name) ?? "").trim();
  const headers = {};
  if (given("contentType") && given("body")) headers["Content-Type"] = given("contentType");
  if (given("method") !== "POST") headers[`${prefix}Method`] = given("method");
  for (const [name, header] of [...DELIVERY, ...AFTER, ...LIMITS, ...REPEAT]) if (given(name)) headers[prefix + header] = given(name);
  if (data.get("content")) headers[`${prefix}Content-Based-Deduplication`] = "true";
  for (const line of given("forward").split("\n")) {
    const [name, ...value] = line.split(":");
    if (value.length) headers[`${prefix}Forward-${name.trim()}`] = value.join(":").trim();
  }
  const queue = given("queue");
  const kind = given("cron") ? "schedules" : queue ? `enqueue/${encodeURIComponent(queue)}` : "publish";
  if (given("cron") && queue) headers[`${prefix}Queue-Name`] = queue;
  return describe("POST", `/v2/${kind}/${given("destination")}`, { headers, body: String(data.get("body") ?? "") || undefined });
}

const input = (name, value = "", more = {}) => h("input", { name, value, spellcheck: "false", ...more });
const options = (name, values) => h("select", { name }, values.map((value) => h("option", {}, value)));
const group = (legend, rows, ...more) => h("fieldset", {}, h("legend", {}, legend),
  h("div", { class: "fields" }, rows.map(([name, , label, placeholder]) => field(label, input(name, "", { placeholder }))), more));
