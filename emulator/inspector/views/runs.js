// Workflow runs: where each stands, and its steps as a tree on the axis of time.

import { h, replace, svg } from "../dom.js";
import { duration, instant, shortUrl } from "../format.js";
import { closing, deeds, empty, facts, id, link, listView, note, problem, status } from "../list.js";

const STATES = { RUN_STARTED: ["running", "wait"], RUN_SUCCESS: ["succeeded", "good"], RUN_FAILED: ["failed", "bad"], RUN_CANCELED: ["cancelled", "off"] };
const STEPS = { STEP_SUCCESS: ["done", "good"], STEP_PROGRESS: ["under way", "wait"], STEP_RETRY: ["to be retried", "wait"], STEP_FAILED: ["failed", "bad"], STEP_CANCELED: ["cancelled", "off"] };

export function render(context) {
  const view = listView(context, {
    rows: "runs", query: () => ({ limit: 1000 }), key: "number", open: "id",
    filters: ["state"], options: { state: [["", "any"], ...Object.entries(STATES).map(([name, [word]]) => [name, word])] },
    empty: () => empty("No workflow has run yet."),
    columns: [
      ["Run", "main", (run) => [run.id, note(shortUrl(run.url))]],
      ["State", "", (run) => status(...STATES[run.state])],
      ["Began", "when", "created_ms"],
      ["Ended", "when", "ended_ms"],
      ["Result", "words", "result"],
    ],
  });
  return view.place;
}

export function detail(context) {
  const run = context.route.select, name = `run ${run}`, place = h("div.panel", { "aria-busy": "true" });
  context.load(name, `runs/${encodeURIComponent(run)}`, {}, (found) => {
    if (found === undefined) return;
    place.removeAttribute("aria-busy");
    replace(place, found.error ? problem(found.error) : panel(context, found));
  });
  return place;
}

function panel(context, run) {
  return [
    closing(context, id(run.id)),
    facts([["State", status(...STATES[run.state])], ["Why", run.summary], ["Endpoint", run.url], ["Labels", run.labels.join(", ")], ["Payload", run.payload], ["Result", run.result],
      ["Invoked by", run.invoked_by && itsRun(run.invoked_by)], ["Dead letter", run.dead_letter_id]]),
    run.state === "RUN_STARTED" && h("div.buttons",
      deeds(context, () => {})("Cancel", run.id, "DELETE", `/v2/workflows/runs/${encodeURIComponent(run.id)}`)),
    tree(context, run),
  ];
}

/** The steps, parallel ones further in, each with a bar from its beginning to its end. */
function tree(context, run) {
  const now = context.state.clock?.now_ms ?? run.created_ms, until = run.ended_ms ?? now;
  const length = Math.max(until - run.created_ms, 1);
  const share = (ms) => Math.round(Math.min(Math.max((ms - run.created_ms) / length, 0), 1) * 1000) / 10;
  const line = (step, depth) => {
    const from = share(step.at_ms), to = share(step.ended_ms ?? until);
    const span = `${instant(step.at_ms, context.zone)}, ${step.ended_ms === null ? "not ended" : duration(step.ended_ms - step.at_ms)}`;
    return h("li", { class: depth ? "inner" : null },
      h("div", status(...STEPS[step.state]), " ", h("strong", step.name), h("span.dim", ` ${step.type}${step.event_id ? ` · event ${step.event_id}` : ""}${step.url ? ` · ${shortUrl(step.url)}` : ""}`),
        step.run_id && [" ", itsRun(step.run_id)]),
      svg("svg", { class: "span", viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img", "aria-label": span },
        svg("rect", { x: from, y: 0, width: Math.max(to - from, 0.6), height: 4 })),
      h("small.dim", span, step.deadline_ms ? `, at most until ${instant(step.deadline_ms, context.zone)}` : ""),
      step.out && h("pre", step.out.slice(0, 2000)));
  };
  return h("div", h("h3", "Steps"), h("ol.steps", run.steps.map((group) => group.steps.map((step) => line(step, group.parallel)))),
    run.waiting.length > 0 && [h("h3", "Waits for"), h("ul", run.waiting.map((each) => h("li", each.text)))],
    run.trials.map((trial) => trial.errors.map(problem)));
}

const itsRun = (run) => link("runs", `its run ${run}`, { select: run });
