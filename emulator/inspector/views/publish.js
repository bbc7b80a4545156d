// Publish: the options of a message, or of a workflow run, as fields, and the call that they make in three languages.

import { describe } from "../api.js";
import { h, replace, valuesOf } from "../dom.js";
import { bytes, shortId } from "../format.js";
import { LANGUAGES } from "../languages.js";
import { choice, copy, labelled, link } from "../list.js";
import { prefs } from "../prefs.js";
import { own, prefixOf } from "../service.js";
import { filled } from "./publish_again.js";

const MESSAGE = "message";
const TRIGGER = "trigger";
// Headers by what stands behind the prefix, what a value looks like, and whether a workflow run has it.
const OPTIONS = {
  Delivery: {
    Delay: ["1d2h30m", true],
    "Not-Before": ["Unix seconds", true],
    Timeout: ["30s"],
    Retries: ["3", true],
    "Retry-Delay": ["1000 * pow(2, retried)", true],
    Label: ["nightly, billing", true],
    "Redact-Fields": ["body, header[Authorization]", true],
  },
  Afterwards: {
    Callback: ["https://app.example/done"],
    "Failure-Callback": ["https://app.example/failed", true],
  },
  Limits: {
    "Flow-Control-Key": ["customer-7", true],
    "Flow-Control-Value": ["rate=3, period=1m", true],
    "Deduplication-Id": ["order-7"],
    "Content-Based-Deduplication": ["true"],
  },
  "Repeat: makes a schedule": {
    Cron: ["CRON_TZ=Europe/Berlin 0 9 * * *"],
    "Schedule-Id": ["daily-report"],
  },
};

export function render(context) {
  const { destination, cron = "", kind = MESSAGE, again } = context.route.query;
  const publish = context.canAct && h("button.main", { disabled: true }, "Publish");
  const preview = h("pre", { tabindex: 0, "aria-label": "The call" });
  const times = h("a", { target: "_blank" }, "When would that be?");
  const tabs = h("div.tabs", { role: "tablist", "aria-label": "Language" });
  const origin = h("p.dim", { role: "status", hidden: true });
  const refusals = new Map();
  // Texts that stand for what is not shown, and what is sent for them.
  let kept = new Map();

  /** A field with a place for what is wrong with it. */
  const field = (name, label, control, { isForRuns = false, ...more } = {}) => {
    const wrong = h("small.note.bad", { role: "alert", id: `wrong-${name}` });
    const made = labelled(label, control, more);
    made.append(wrong);
    refusals.set(name, { control, wrong });
    made.dataset.runs = String(isForRuns);
    return made;
  };
  const input = (name, label, placeholder, more = {}) => {
    const { isForRuns, ...attributes } = more;
    return field(
      name,
      label,
      h("input", { name, placeholder, spellcheck: "false", ...attributes }),
      {
        isForRuns,
      },
    );
  };
  const text = (name, label, more) =>
    field(name, label, h("textarea", { name, spellcheck: "false", ...more }), {
      kind: "wide",
      isForRuns: true,
    });
  const fields = (legend, ...content) =>
    h("fieldset", h("legend", legend), h("div.fields", content));
  const form = h(
    "form.form.publish",
    { oninput: draw, onsubmit: send },
    origin,
    fields(
      "What",
      field(
        "kind",
        "Publish",
        choice(
          [
            [MESSAGE, "a message"],
            [TRIGGER, "a workflow run (trigger)"],
          ],
          kind,
          { name: "kind" },
        ),
        { isForRuns: true },
      ),
      field(
        "destination",
        "Destination",
        h("input", {
          name: "destination",
          value: destination ?? "https://app.example/orders",
          required: true,
          spellcheck: "false",
        }),
        { hint: "a URL, the name of a URL group, or api/llm", kind: "wide", isForRuns: true },
      ),
      field(
        "Method",
        "Method",
        choice(["POST", "GET", "PUT", "PATCH", "DELETE"], "POST", { name: "Method" }),
      ),
      input("type", "Content type", "", { value: "application/json", isForRuns: true }),
      input("queue", "Queue", "none"),
      input("Workflow-RunId", "Run id", "chosen by the server", { "data-only": "runs" }),
      text("body", "Body", { value: '{"order": 7}' }),
    ),
    Object.entries(OPTIONS).map(([legend, rows]) =>
      fields(
        legend,
        Object.entries(rows).map(([name, [example, isForRuns]]) =>
          input(name, name.replaceAll("-", " "), example, { isForRuns }),
        ),
      ),
    ),
    fields(
      "Headers for the destination",
      text("forward", "One a line", { placeholder: "Authorization: Bearer abc" }),
    ),
    h(
      "div.shown",
      h(
        "div.buttons",
        publish,
        h(
          "button",
          { type: "button", onclick: () => copy(preview.textContent, prefs.language) },
          "Copy",
        ),
        tabs,
        times,
      ),
      preview,
    ),
  );
  form.elements.Cron.value = cron;
  form.elements["Workflow-RunId"].closest(".field").dataset.runs = "only";

  const call = (isSent) => callOf(valuesOf(form), context.state, isSent ? kept : new Map());

  function draw() {
    const tab = (name) =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          "aria-selected": String(name === prefs.language),
          onclick: () => {
            prefs.keep({ language: name });
            draw();
          },
        },
        name,
      );
    const isRun = form.elements.kind.value === TRIGGER;
    for (const each of form.querySelectorAll(".field"))
      each.hidden = isRun ? each.dataset.runs === "false" : each.dataset.runs === "only";
    for (const each of form.querySelectorAll("fieldset"))
      each.hidden = !each.querySelector(".field:not([hidden])");
    if (publish) publish.textContent = isRun ? "Trigger" : "Publish";
    replace(tabs, Object.keys(LANGUAGES).map(tab));
    const { dialect } = context.state.credentials ?? {};
    preview.textContent = (LANGUAGES[prefs.language] ?? LANGUAGES.curl)(call(), { dialect });
    const { Cron, "Retry-Delay": delay, Retries } = form.elements;
    // In a tab of its own, because the form would be lost.
    const query = new URLSearchParams({
      expression: Cron.value,
      retry_delay: delay.value,
      retries: Retries.value,
      world: context.state.world,
    });
    times.href = `#/when?${query}`;
  }

  async function send() {
    for (const [name] of refusals) refuse(name, "");
    const { method, path: address, headers, body } = call(true);
    const verb = form.elements.kind.value === TRIGGER ? "Trigger" : "Publish";
    const options = { headers, body, failed };
    const [made] = [await context.act(verb, method, address, options)].flat();
    if (made?.workflowRunId) context.go("runs", {}, made.workflowRunId);
    else if (made?.messageId) context.go("messages", {}, made.messageId);
    else if (made?.scheduleId) context.go("schedules", {}, made.scheduleId);
  }

  function refuse(name, message) {
    const { control, wrong } = refusals.get(name);
    replace(wrong, message);
    if (message) control.setAttribute("aria-describedby", wrong.id);
    else control.removeAttribute("aria-describedby");
    control.ariaInvalid = message ? "true" : null;
    if (message) control.focus();
  }

  /** Show a refusal at the field that it names; whether there is one. */
  function failed({ field: named, message }) {
    const subject = named ?? /^([\w-]+)(?=: )/.exec(message)?.[1] ?? "";
    const name = subject.startsWith(prefixOf(context.state))
      ? subject.slice(prefixOf(context.state).length)
      : subject;
    const found = [...refusals.keys()].find((each) => each.toLowerCase() === name.toLowerCase());
    if (!found || refusals.get(found).control.closest("[hidden]")) return false;
    refuse(found, message.replace(`${subject}: `, ""));
    return true;
  }

  async function fill() {
    const found = await filled(context, again);
    kept = found.kept;
    for (const [name, value] of Object.entries(found.values)) form.elements[name].value = value;
    if (found.binary) form.elements.body.readOnly = true;
    origin.hidden = false;
    replace(
      origin,
      "As ",
      link("messages", shortId(again), { select: again }),
      ": edit it and publish it again.",
      kept.size > 0 && " What is not shown is sent as it was.",
      found.binary && ` Its body is ${bytes(found.binary)} that are no text.`,
      found.lost && ` ${found.lost}`,
    );
    draw();
  }

  let isFilled = !again;
  context.watch(
    (state) => state.credentials,
    (credentials) => {
      // Before they are known, the token and the names of headers are not.
      if (publish) publish.disabled = credentials === null;
      if (credentials && !isFilled) {
        isFilled = true;
        fill();
      }
      draw();
    },
  );
  return form;
}

/** The call of a filled form; texts that stand for something else are replaced by what is kept for them. */
function callOf({ kind, destination, body, type, queue, forward, ...options }, state, kept) {
  const given = Object.fromEntries(
    Object.entries(options)
      .map(([name, value]) => [name, value.trim()])
      .filter(([name, value]) => value && isOf(kind, name)),
  );
  if (given.Method === "POST") delete given.Method;
  for (const [, name, value] of forward.matchAll(/^([^:\n]+):(.*)$/gm)) {
    const text = value.trim();
    given[`Forward-${name.trim()}`] = kept.get(text) ?? text;
  }
  if (given.Cron && queue) given["Queue-Name"] = queue;
  const path =
    kind === TRIGGER
      ? TRIGGER
      : given.Cron
        ? "schedules"
        : queue
          ? `enqueue/${encodeURIComponent(queue)}`
          : "publish";
  const headers = { ...(type && body && { "Content-Type": type }), ...own(state, given) };
  return describe("POST", `/v2/${path}/${destination.trim()}`, {
    headers,
    body: kept.get(body) ?? (body || undefined),
  });
}

const ALWAYS = Object.assign({}, ...Object.values(OPTIONS));
const isOf = (kind, name) =>
  kind === TRIGGER ? name === "Workflow-RunId" || ALWAYS[name]?.[1] : name !== "Workflow-RunId";
