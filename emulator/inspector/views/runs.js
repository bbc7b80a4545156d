// Workflow runs: where each stands; one run with its steps on the axis of time, what failed, and what can be done.

import { h, replace } from "../dom.js";
import { duration, moment, prettyJson, shortUrl } from "../format.js";
import {
  action,
  choice,
  closing,
  copyChoice,
  empty,
  facts,
  id,
  labelled,
  link,
  listView,
  note,
  placeOfRun,
  problem,
  sentence,
  status,
  tag,
} from "../list.js";
import { runAssertions } from "../assertions.js";
import { trace } from "./run_trace.js";

const PAGE = 200;
export const STATES = {
  RUN_STARTED: ["running", "wait"],
  RUN_SUCCESS: ["succeeded", "good"],
  RUN_FAILED: ["failed", "bad"],
  RUN_CANCELED: ["cancelled", "off"],
};

export function render(context, tools) {
  const counted = h("span.dim", { role: "status" });
  const view = listView(context, {
    rows: "runs",
    query: () => ({ limit: PAGE, count: true }),
    key: "number",
    open: placeOf,
    items: firstOfIds,
    isOpen: (run, selected) => selected === placeOf(run) || (run.isLatest && selected === run.id),
    filters: ["state", "url", "label", "text"],
    older: "runs",
    drawn: (found, { count }) => replace(counted, count && countText(count)),
    options: {
      state: [["", "any"], ...Object.entries(STATES).map(([name, [word]]) => [name, word])],
    },
    empty: () =>
      empty("No workflow has run yet. An application starts one, or Publish as a workflow run."),
    columns: [
      [
        "Run",
        "main",
        (run) => [
          h("span.cut-line", { title: run.id }, run.id),
          note(shortUrl(run.url), " ", run.labels.map(tag)),
        ],
        "id",
      ],
      ["State", "", (run) => status(...STATES[run.state]), "state"],
      ["Began", "when", "created_ms"],
      ["Lasted", "number", (run) => lasted(run, context), (run) => lastedMs(run, context)],
      [
        "Result",
        "words",
        (run) => run.result && h("span.cut-line", { title: run.result }, run.result),
        "result",
      ],
    ],
  });
  tools(
    action(context, "Trigger…", () => context.go("publish", { kind: "trigger" })),
    counted,
  );
  return view.place;
}

/** How many runs fit in each state, whichever is listed. */
const countText = ({ active, success, failed, canceled }) =>
  [
    [active, "running"],
    [success, "succeeded"],
    [failed, "failed"],
    [canceled, "cancelled"],
  ]
    .filter(([many]) => many)
    .map(([many, word]) => `${many.toLocaleString("en-GB")} ${word}`)
    .join(", ");

const lastedMs = ({ created_ms: from, ended_ms: to }, { now }) => (to ?? now ?? from) - from;
const lasted = (run, context) =>
  run.ended_ms === null ? h("span.dim", "–") : duration(lastedMs(run, context));

/** Runs, newest first, of which the first with an id is what the id alone means. */
function firstOfIds(found) {
  const ids = new Set();
  return found.map((run) => ({ ...run, isLatest: ids.size < ids.add(run.id).size }));
}

const placeOf = ({ id, number }) => placeOfRun(id, number);

export function detail(context) {
  const { select } = context.route;
  const [, run, number] = /^(.*?)(?:\/(\d+))?$/s.exec(select);
  const name = `run ${select}`;
  const place = h("div.panel", { "aria-busy": "true" });
  const opened = new Set([context.route.query.step].filter(Boolean));
  let drawn = "";
  const draw = () => {
    const found = context.state.lists[name];
    if (found === undefined) return;
    const live = found.ended_ms === null ? context.state.clock?.now_ms : "";
    const text = `${JSON.stringify(found)} ${live}`;
    // What is unfolded or typed stays, as long as nothing has changed.
    if (text === drawn) return;
    drawn = text;
    place.removeAttribute("aria-busy");
    replace(
      place,
      found.error
        ? [closing(context, run), problem(found.error)]
        : panel(context, found, opened, () => reload()),
    );
  };
  const reload = context.load(name, `runs/${encodeURIComponent(run)}`, { number }, draw);
  context.watch((state) => state.clock?.now_ms, draw);
  return place;
}

function panel(context, run, opened, reload) {
  return [
    closing(context, id(run.id)),
    h("div.state-line", status(...STATES[run.state]), " ", sentence(run.summary, context)),
    sameId(context, run),
    deeds(context, run, reload),
    run.state === "RUN_FAILED" && failure(context, run),
    waits(context, run, reload),
    trace(context, run, opened),
    facts([
      ["Endpoint", h("bdi", run.url)],
      ["Labels", run.labels.map((label) => h("bdi.tag", label))],
      ["Payload", run.payload && h("code", run.payload)],
      ["Result", run.result && h("code", run.result)],
      ["Invoked by", run.invoked_by && link("runs", run.invoked_by, { select: run.invoked_by })],
      ["Messages", link("timeline", "on the timeline", { filter: `run:"${run.id}"` })],
    ]),
  ];
}

/** Which other runs have the id, and whether one of them is later. */
function sameId(context, { id: run, number, same_id: others }) {
  if (!others.length) return null;
  const again = others.some((each) => each.number > number);
  return h(
    "div",
    again ? status("This id was used again", "wait") : h("span.dim", "This id was used before"),
    others.map((each) => {
      const [word] = STATES[each.state];
      const began = moment(each.created_ms, context.now ?? undefined, context.zone);
      const which = each.number > number ? "later" : "earlier";
      const place = placeOfRun(run, each.number);
      return [" · ", link("runs", `${which} run, began ${began}, ${word}`, { select: place })];
    }),
  );
}

/** What can be done with a run where it stands. */
function deeds(context, run, then) {
  const letter = run.dead_letter_id && encodeURIComponent(run.dead_letter_id);
  const can = (action) => run.actions.includes(action);
  const begin = (text, path, attributes) =>
    action(
      context,
      text,
      async () => {
        const made = await context.act(
          `${text} ${run.id}`,
          "POST",
          `/v2/workflows/dlq/${path}/${letter}`,
        );
        const [begun] = [made?.workflowRunId].flat();
        if (begun && begun !== run.id) context.go("runs", {}, begun);
        else then();
      },
      attributes,
    );
  return h(
    "div.buttons",
    can("resume") && [
      begin("Resume", "resume", {
        class: "main",
        title: "A new run with the steps that are done, which repeats the call that failed",
      }),
      begin("Restart", "restart", { title: "A new run with the same payload, from its beginning" }),
      can("retry-failure") &&
        begin("Retry failure function", "callback", {
          title: "Call the failure function once more",
        }),
    ],
    can("cancel") &&
      action(
        context,
        "Cancel",
        async () => {
          const path = `/v2/workflows/runs/${encodeURIComponent(run.id)}`;
          await context.act(`Cancel ${run.id}`, "DELETE", path);
          then();
        },
        { ask: true, "aria-label": `Cancel ${run.id}` },
      ),
    copyChoice("assertion", runAssertions(run, context.state), { said: "the assertion" }),
  );
}

/** Where a run failed: the step, the answer, and what the failure function answered. */
function failure(context, run) {
  const where = run.failure?.where ?? "a call that is not kept any more";
  const failed = run.failure?.message_id;
  const place = (message) => {
    const found = h("div.answer.dim", "…");
    lastAnswer(context, message).then((content) => replace(found, content));
    return found;
  };
  const { failure_function: called } = run;
  return h(
    "section.failure",
    h("h3", "Failed in ", h("bdi", where), " ", failed && messageLink(failed)),
    failed && place(failed),
    called && [
      h(
        "h3",
        "Failure function ",
        status(...(PHASES[called.phase] ?? [called.phase.toLowerCase(), "wait"])),
        " ",
        messageLink(called.message_id),
      ),
      called.attempts > 0 && place(called.message_id),
    ],
    !called && h("p.dim", "No failure function was called."),
  );
}

const PHASES = { DELIVERED: ["answered", "good"], FAILED: ["failed", "bad"] };

/** What the last attempt of a message was answered. */
async function lastAnswer(context, message) {
  const query = {
    message_id: message,
    order: "latestFirst",
    limit: 1,
    redact: !context.state.originals,
  };
  const found = await context.call("GET", "/_emulator/deliveries", { query }).catch(() => null);
  const delivery = found?.deliveries[0];
  if (!delivery) return "The attempt is not kept any more.";
  const { response, error } = delivery;
  if (!response) return h("p.note.bad", error);
  const text = response.body ?? "(bytes that are no text)";
  return [
    h("span", `Answered ${response.status}${text ? ":" : ", without a body."}`),
    error && h("span.note.bad", error),
    text && h("pre", { tabindex: 0, "aria-label": "Answer" }, h("bdi", prettyJson(text) ?? text)),
  ];
}

export const messageLink = (message) => link("messages", "message", { select: message });

/** What a run waits for; an event can be given at once. */
function waits(context, run, then) {
  if (!run.waiting.length) return null;
  return h(
    "section",
    h("h3", "Waits for"),
    h(
      "ul.plain",
      run.waiting.map((each) =>
        h(
          "li",
          sentence(each.text, context),
          each.kind === "event" && context.canAct && notify(context, run, each.subject, then),
        ),
      ),
    ),
  );
}

function notify(context, run, event, then) {
  const body = h("textarea", { name: "body", rows: 2, spellcheck: "false", value: '{"ok": true}' });
  const only = choice(
    [
      ["run", "this run alone"],
      ["all", "all that wait for it"],
    ],
    "run",
    { name: "who" },
  );
  return h(
    "details.notify",
    h("summary", `Notify of ${event}…`),
    h(
      "form.fields",
      {
        onsubmit: async () => {
          const of = only.value === "run" ? `${encodeURIComponent(run.id)}/` : "";
          const done = await context.act(
            `Notify ${event}`,
            "POST",
            `/v2/notify/${of}${encodeURIComponent(event)}`,
            { body: body.value, headers: { "Content-Type": "application/json" } },
          );
          if (done !== undefined) then();
        },
      },
      labelled("What the event carries", body, { kind: "wide" }),
      labelled("Who", only),
      h("button.main", "Notify"),
    ),
  );
}
