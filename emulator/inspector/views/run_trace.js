// The steps of a run as bars on the world's clock: parallel ones side by side, sleeps hatched, retries marked.

import { h, replace } from "../dom.js";
import { duration, moment, prettyJson, shortUrl } from "../format.js";
import { facts, link, sentence, status } from "../list.js";

const STEPS = {
  STEP_SUCCESS: ["done", "good"],
  STEP_PROGRESS: ["under way", "wait"],
  STEP_RETRY: ["to be retried", "wait"],
  STEP_FAILED: ["failed", "bad"],
  STEP_CANCELED: ["cancelled", "off"],
};
const SHAPES = { good: "●", bad: "▲", wait: "◐", off: "○" };
const TYPES = {
  Initial: "payload",
  Run: "",
  SleepFor: "sleep",
  SleepUntil: "sleep",
  Call: "call",
  Wait: "wait for event",
  Notify: "notify",
  Invoke: "invoke",
  CreateWebhook: "create webhook",
  WaitForWebhook: "wait for webhook",
};
const QUIET = /^(Sleep|Wait)/;
const LONGEST = 4_000;

/** The trace of a run; `opened` holds the names of steps that are unfolded, and keeps them over drawings. */
export function trace(context, run, opened) {
  const now = context.now ?? run.created_ms;
  const ends = run.waiting.map(({ until_ms: until }) => until ?? 0);
  const until = run.ended_ms ?? Math.max(now, ...ends, run.created_ms);
  const length = Math.max(until - run.created_ms, 1);
  const axis = {
    until,
    share: (ms) => Math.min(Math.max((ms - run.created_ms) / length, 0), 1) * 100,
  };
  const rows = run.steps.flatMap(({ parallel, steps }) =>
    steps.map((step, at) => {
      const place = parallel
        ? at === 0
          ? "first"
          : at === steps.length - 1
            ? "last"
            : "inner"
        : "";
      return stepRow(context, axis, step, place, opened);
    }),
  );
  const trials = run.trials.map((trial) => trialRow(context, axis, run, trial));
  const steps = run.steps.flatMap(({ steps: all }) => all).length - 1;
  const present =
    run.ended_ms === null &&
    now < until &&
    placed(h("span.present", { title: "now" }), axis.share(now));
  return h(
    "section.trace",
    h(
      "div.trace-head",
      h(
        "h3",
        steps === 1 ? "1 step" : `${steps} steps`,
        h("span.dim", ` in ${duration(until - run.created_ms)}`),
      ),
      h(
        "span.ends",
        h("span", moment(run.created_ms, now, context.zone)),
        h("span", moment(until, now, context.zone)),
      ),
    ),
    h(
      "ol.plain.lanes",
      rows,
      trials,
      present && h("li.presents", { "aria-hidden": "true" }, h("span.lane", present)),
    ),
  );
}

/** An element at a share of its lane; the page's policy lets scripts set styles, but no attribute do it. */
function placed(node, left, width = null) {
  node.style.left = `${left}%`;
  if (width !== null) node.style.width = `${width}%`;
  return node;
}

function lane(axis, from, to, kind, marks, title) {
  const left = axis.share(from);
  const bar = placed(h("span", { class: `bar-of ${kind}` }), left, axis.share(to) - left);
  return h(
    "span.lane",
    { role: "img", "aria-label": title, title },
    bar,
    marks.map(({ at, text }) => placed(h("span.mark", { title: text }), axis.share(at))),
  );
}

/** The instants at which attempts failed: an error begins with its own. */
const marksOf = (errors = []) =>
  errors
    .map((text) => ({ at: Date.parse(text.split(" ")[0]), text }))
    .filter(({ at }) => Number.isFinite(at));

function line(context, { word, kind, name, type, lasted, drawing, place, key, opened, body }) {
  const inside = h("div.inside");
  const fill = () => !inside.hasChildNodes() && replace(inside, body());
  const item = h(
    "details",
    {
      open: opened?.has(key),
      ontoggle: ({ target }) => {
        opened?.[target.open ? "add" : "delete"](key);
        if (target.open) fill();
      },
    },
    h(
      "summary",
      h(
        "span.name",
        { title: `${name}, ${word}` },
        h("span", { class: `status ${kind}`, "aria-hidden": "true" }, SHAPES[kind]),
        h("span.unseen", word),
        " ",
        h("bdi", name),
        type && h("span.dim", ` ${type}`),
      ),
      drawing,
      h("span.lasted", lasted),
    ),
    inside,
  );
  if (opened?.has(key)) {
    fill();
    if (context.route.query.step === key)
      requestAnimationFrame(() => item.scrollIntoView({ block: "nearest" }));
  }
  return h("li", { class: place ? `beside ${place}` : null }, item);
}

function stepRow(context, axis, step, place, opened) {
  const [word, kind] = STEPS[step.state];
  const { now, zone } = context;
  const to = step.ended_ms ?? axis.until;
  const lasted = step.ended_ms === null ? "…" : duration(to - step.at_ms);
  const marks = marksOf(step.request?.errors);
  const title = [
    moment(step.at_ms, now ?? undefined, zone),
    step.ended_ms === null ? "not ended" : lasted,
    ...(marks.length ? [`${marks.length} retried`] : []),
  ].join(", ");
  return line(context, {
    word,
    kind,
    name: step.name,
    type: TYPES[step.type] ?? step.type,
    lasted: step.type === "Initial" ? "" : lasted,
    drawing: lane(
      axis,
      step.at_ms,
      to,
      QUIET.test(step.type) ? `quiet ${kind}` : kind,
      marks,
      title,
    ),
    place,
    key: step.name,
    opened,
    body: () => stepBody(context, step),
  });
}

function stepBody(context, step) {
  const { now, zone } = context;
  const at = (ms) => ms && moment(ms, now ?? undefined, zone);
  const out = step.out && step.out !== "null" ? (prettyJson(step.out) ?? step.out) : null;
  return [
    facts([
      ["State", status(...STEPS[step.state])],
      ["Began", at(step.at_ms)],
      ["Ended", at(step.ended_ms)],
      ["Event", step.event_id],
      ["At most until", at(step.deadline_ms)],
      ["Calls", step.url && h("bdi", shortUrl(step.url))],
      [
        "Tries",
        step.request && [
          `${step.request.attempts}`,
          step.request.errors.map((text) => h("span.note.bad", sentence(text, context))),
          step.request.next_ms && h("span.note", `again ${at(step.request.next_ms)}`),
        ],
      ],
      ["Run", step.run_id && link("runs", step.run_id, { select: step.run_id })],
      [
        "Message",
        step.message_id && [
          link("messages", "with its result", { select: step.message_id }),
          step.request &&
            step.request.message_id !== step.message_id && [
              ", ",
              link("messages", "its request", { select: step.request.message_id }),
            ],
        ],
      ],
    ]),
    out &&
      h(
        "pre",
        { tabindex: 0, "aria-label": `Result of ${step.name}` },
        h("bdi", out.slice(0, LONGEST)),
      ),
  ];
}

/** A call of the endpoint whose step is not known: it failed, or is under way. */
function trialRow(context, axis, run, trial) {
  const [word, kind] = STEPS[trial.state];
  const marks = marksOf(trial.errors);
  const all = run.steps.flatMap(({ steps }) => steps);
  const before = all.find(({ message_id: of }) => of === trial.message_id);
  const from = marks[0]?.at ?? before?.ended_ms ?? before?.at_ms ?? run.created_ms;
  const to = trial.next_ms ?? marks.at(-1)?.at ?? axis.until;
  const { failure } = run;
  const thrown = failure?.message_id === trial.message_id ? failure.step : null;
  const name =
    thrown ?? (before && before.type !== "Initial" ? `call after ${before.name}` : "first call");
  return line(context, {
    word,
    kind,
    name,
    type: word,
    lasted: duration(to - from),
    drawing: lane(axis, from, to, kind, marks, `${word}, ${marks.length} failed`),
    body: () => [
      facts([
        ["State", status(word, kind)],
        ["Tries", `${trial.attempts}`],
        ["Message", link("messages", "of the call", { select: trial.message_id })],
      ]),
      trial.errors.map((text) => h("p.note.bad", sentence(text, context))),
    ],
  });
}
