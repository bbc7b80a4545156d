// Workflow runs: where each stands, and its steps as a tree on the axis of time.

import { h, svg } from "../dom.js";
import { duration, instant, shortUrl } from "../format.js";
import { facts, filters, head, listView, picked, risky, when } from "../list.js";
import { empty, id, status } from "../parts.js";

export const title = "Runs";
export const path = "runs";
export const key = "w";

const STATES = { RUN_STARTED: ["running", "wait"], RUN_SUCCESS: ["succeeded", "good"], RUN_FAILED: ["failed", "bad"], RUN_CANCELED: ["cancelled", "off"] };
const STEPS = { STEP_SUCCESS: ["done", "good"], STEP_PROGRESS: ["under way", "wait"], STEP_RETRY: ["to be retried", "wait"], STEP_FAILED: ["failed", "bad"], STEP_CANCELED: ["cancelled", "off"] };
const address = (run) => `/v2/workflows/runs/${encodeURIComponent(run.id)}`;

export function render(context) {
  const view = listView(context, {
    name: "runs", path: "/_emulator/runs", query: () => ({ limit: 1000, ...picked(context, ["state"]) }),
    items: (answer) => answer.runs,
    key: (run) => run.number,
    open: (run) => run.id,
    filtered: () => Boolean(context.route.query.state),
    empty: () => empty("No workflow has run yet. A run begins when a workflow client triggers an endpoint of an application, and each of its sleeps, waits and retries is a timer of this clock."),
    columns: [
      ["Run", "main", (run) => [h("button", { class: "quiet", onclick: () => context.select(run.id) }, run.id), h("span", { class: "note" }, shortUrl(run.url))]],
      ["State", "", (run) => status(...STATES[run.state])],
      ["Began", "", (run) => when(run.created_ms, context)],
      ["Ended", "", (run) => when(run.ended_ms, context)],
      ["Result", "words", (run) => run.result],
    ],
  });
  const states = [["", "any"], ...Object.entries(STATES).map(([name, [word]]) => [name, word])];
  return h("section", {}, head(title), filters(context, [{ name: "state", label: "State", options: states }], () => view.reload()), view.place);
}

export function detail(context) {
  const run = context.route.select, name = `run ${run}`, place = h("div", { class: "panel", "aria-busy": "true" });
  context.load(name, `/_emulator/runs/${encodeURIComponent(run)}`);
  context.watch((state) => state.lists[name], (found) => {
    if (found === undefined) return;
    place.removeAttribute("aria-busy");
    place.replaceChildren(...(found.error ? [h("p", { class: "problem" }, found.error)] : panel(context, found)).filter(Boolean));
  });
  return place;
}

function panel(context, run) {
  return [
    h("header", {}, h("h2", {}, id(run.id)), h("button", { class: "quiet", onclick: () => context.select(null), "aria-label": "Close" }, "×")),
    facts([["State", status(...STATES[run.state])], ["Why", run.summary], ["Endpoint", run.url], ["Labels", run.labels.join(", ")], ["Payload", run.payload], ["Result", run.result],
      ["Invoked by", run.invoked_by && link(run.invoked_by)], ["Dead letter", run.dead_letter_id]]),
    run.state === "RUN_STARTED" && h("div", { class: "buttons" }, risky(context, "Cancel", "Really cancel it?", () => context.act(`Cancel ${run.id}`, "DELETE", address(run)))),
    tree(context, run),
  ];
}

/** The steps, those of a parallel group further in, each with a bar from its beginning to its end. */
function tree(context, run) {
  const now = context.state.clock?.now_ms ?? run.created_ms, until = run.ended_ms ?? now;
  const length = Math.max(until - run.created_ms, 1);
  const share = (ms) => Math.round(Math.min(Math.max((ms - run.created_ms) / length, 0), 1) * 1000) / 10;
  const line = (step, depth) => {
    const from = share(step.at_ms), to = share(step.ended_ms ?? until);
    const span = `${instant(step.at_ms, context.zone)}, ${step.ended_ms === null ? "not ended" : duration(step.ended_ms - step.at_ms)}`;
    return h("li", { class: depth ? "inner" : null },
      h("div", {}, status(...STEPS[step.state]), " ", h("strong", {}, step.name), h("span", { class: "dim" }, ` ${step.type}${step.event_id ? ` · event ${step.event_id}` : ""}${step.url ? ` · ${shortUrl(step.url)}` : ""}`),
        step.run_id && [" ", link(step.run_id)]),
      svg("svg", { class: "span", viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img", "aria-label": span },
        svg("rect", { x: from, y: 0, width: Math.max(to - from, 0.6), height: 4 })),
      h("small", { class: "dim" }, span, step.deadline_ms ? `, at most until ${instant(step.deadline_ms, context.zone)}` : ""),
      step.out && h("pre", {}, step.out.slice(0, 2000)));
  };
  return h("div", {}, h("h3", {}, "Steps"), h("ol", { class: "steps" }, run.steps.map((group) => group.steps.map((step) => line(step, group.parallel)))),
    run.waiting.length > 0 && [h("h3", {}, "Waits for"), h("ul", {}, run.waiting.map((each) => h("li", {}, each.text)))],
    run.trials.map((trial) => trial.errors.map((error) => h("p", { class: "problem" }, error))));
}

const link = (run) => h("a", { href: `#/runs?select=${encodeURIComponent(run)}` }, "its run ", run);
