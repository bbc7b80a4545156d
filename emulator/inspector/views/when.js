// When: what a cron expression and a retry delay come to, in the words of `svc-emulator when`. Nothing is made.

import { eachFrame, h, replace, valuesOf } from "../dom.js";
import { duration, instant, withArrows } from "../format.js";
import { facts, firings, labelled, problem } from "../list.js";

// What is asked by which fields: name, label, what a value looks like. `from` belongs to both.
const FROM = ["from", "From", "now on the world's clock"];
const PARTS = [
  {
    name: "firings",
    legend: "When does it fire?",
    needs: "expression",
    show: fires,
    fields: [
      ["expression", "Cron expression", "CRON_TZ=Europe/Berlin 30 2 * * *"],
      ["count", "How many", "10"],
    ],
  },
  {
    name: "attempts",
    legend: "When is it tried again, if every attempt fails?",
    show: attempts,
    fields: [
      ["retry_delay", "Retry delay in ms", "pow(2, retried) * 1000"],
      ["retries", "Retries", "3"],
    ],
  },
];

export function render(context) {
  const wrong = {};
  let turn = 0;
  const field = ([name, label, placeholder]) => {
    wrong[name] = h("span.note.bad", { role: "alert" });
    return labelled(
      label,
      h("input", {
        name,
        placeholder,
        value: context.route.query[name] ?? "",
        spellcheck: "false",
      }),
      { hint: wrong[name] },
    );
  };
  const places = PARTS.map(() => h("div"));
  const form = h(
    "form.form",
    { oninput: eachFrame(ask) },
    h("div.fields", field(FROM)),
    PARTS.map(({ legend, fields }, at) =>
      h("fieldset", h("legend", legend), h("div.fields", fields.map(field)), places[at]),
    ),
  );

  async function ask() {
    const asked = (turn += 1);
    const given = valuesOf(form);
    context.setQuery(given);
    const answers = await Promise.allSettled(
      PARTS.map(({ name, needs, fields }) =>
        needs && !given[needs].trim()
          ? null
          : context.call("GET", `/_emulator/when/${name}`, {
              query: Object.fromEntries(
                [FROM, ...fields].map(([each]) => [each, given[each].trim()]),
              ),
            }),
      ),
    );
    // Somebody who types is faster than the answers.
    if (asked !== turn) return;
    const refused = Object.fromEntries(
      answers.filter(({ reason }) => reason).map(({ reason }) => [reason.field, reason.message]),
    );
    for (const [name, place] of Object.entries(wrong)) {
      replace(place, refused[name]?.replace(`${name}: `, ""));
      form.elements[name].ariaInvalid = String(name in refused);
    }
    answers.forEach(({ value, reason }, at) =>
      replace(
        places[at],
        value && PARTS[at].show(context, value),
        reason && !wrong[reason.field] && problem(reason.message),
      ),
    );
  }

  context.watch(({ world, clock }) => `${world} ${clock?.now_ms}`, ask);
  return form;
}

function fires(context, { from_ms: from, time_zone: zone, firings: found }) {
  return [
    h("p.dim", `After ${instant(from)} UTC, in ${zone}:`),
    found.length
      ? firings(context, zone, found)
      : h("p", "It does not fire before the end of the calendar."),
  ];
}

function attempts({ zone }, { attempts: made }) {
  return [
    h("p.dim", `In ${zone}:`),
    facts(
      made.map(({ attempt, at_ms: at, after_ms: after, arithmetic }) => [
        `Attempt ${attempt}`,
        [instant(at, zone), h("span.dim", ` · +${duration(after)} · `), withArrows(arithmetic)],
      ]),
    ),
  ];
}
