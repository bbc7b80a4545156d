// Dead letters: messages whose retries are exhausted, to retry or delete, one, some or all of them; and runs that
// failed, to resume or restart.

import { h } from "../dom.js";
import { count, shortUrl } from "../format.js";
import {
  action,
  badNote,
  distance,
  empty,
  keepRows,
  link,
  listView,
  note,
  placeOfRun,
  tag,
} from "../list.js";
export { detail } from "./message.js";

const LIMIT = 500;
// So many the service takes in one call.
const AT_ONCE = 100;

export function render(context) {
  const ticked = new Set();
  const bulk = h("div.tools", { role: "group", "aria-label": "Ticked dead letters" });
  const view = listView(context, {
    rows: "dead_letters",
    path: "dead-letters",
    query: () => ({ kind: "message", limit: LIMIT }),
    key: "dead_letter_id",
    open: "message_id",
    filters: ["url", "label", "schedule", "queue", "text"],
    items: (found) =>
      found.map((letter) => ({ ...letter, ticked: ticked.has(letter.dead_letter_id) })),
    empty: () => empty("No dead letter. A message whose last retry fails is kept here."),
    older: "dead letters",
    drawn: (letters) => {
      const ids = letters.map((letter) => letter.dead_letter_id);
      for (const id of ticked) if (!ids.includes(id)) ticked.delete(id);
      keepRows(
        bulk,
        context.canAct && ids.length ? [{ ids, some: [...ticked] }] : [],
        () => "",
        drawBulk,
      );
    },
    columns: [
      [
        "",
        "tick",
        (letter) => context.canAct && tick(letter.dead_letter_id, [letter.dead_letter_id]),
        null,
      ],
      ["Failed", "when", "failed_ms"],
      [
        "Destination",
        "main",
        (letter) => [
          h("span.cut-line", { title: letter.url }, `${letter.method} ${shortUrl(letter.url)}`),
          letter.labels.map(tag),
        ],
        "url",
      ],
      [
        "Why",
        "words",
        (letter) => [
          badNote(letter.last_result),
          note(`after ${count(letter.max_attempts, "attempt")}`),
        ],
        "last_result",
      ],
      [
        "Expires",
        "extra",
        (letter) => distance(letter.expires_ms, context.now ?? letter.failed_ms),
        "expires_ms",
      ],
      ["Message", "id extra", "message_id", null],
    ],
    actions: (letter) => buttons([letter.dead_letter_id], letter.dead_letter_id),
  });

  // Hoisted, because a list that is known already is drawn at once.
  function tick(name, ids) {
    return h("input", {
      type: "checkbox",
      "aria-label": `Tick ${name}`,
      checked: ids.every((id) => ticked.has(id)),
      onchange: ({ target }) => {
        for (const id of ids) ticked[target.checked ? "add" : "delete"](id);
        view.redraw();
      },
    });
  }

  function drawBulk({ ids, some }) {
    return h(
      "div.inline",
      h("label", tick("all", ids), ` ${some.length} of ${count(ids.length, "message")} ticked`),
      some.length > 0 && buttons(some, "ticked"),
    );
  }

  function buttons(ids, what) {
    return [
      action(
        context,
        "Retry",
        () => each("Retry", ids, (dlqIds) => ["POST", "/v2/dlq/retry", { query: { dlqIds } }]),
        { "aria-label": `Retry ${what}` },
      ),
      action(
        context,
        "Delete",
        () => each("Delete", ids, (dlqIds) => ["DELETE", "/v2/dlq", { body: { dlqIds } }]),
        { "aria-label": `Delete ${what}`, ask: `Really delete ${ids.length}?` },
      ),
    ];
  }

  async function each(verb, ids, call) {
    for (let at = 0; at < ids.length; at += AT_ONCE) {
      const some = ids.slice(at, at + AT_ONCE);
      if (
        (await context.act(`${verb} ${count(some.length, "dead letter")}`, ...call(some))) ===
        undefined
      )
        break;
    }
    view.reload();
  }

  return [bulk, view.place, failedRuns(context)];
}

/** Runs that failed and have a dead letter of their own; nothing where there is none. */
function failedRuns(context) {
  const place = h("div.part", { hidden: true });
  const view = listView(context, {
    rows: "failed runs",
    answers: "dead_letters",
    path: "dead-letters",
    query: () => ({ ...filtersOf(context), kind: "run", limit: LIMIT }),
    key: "dead_letter_id",
    older: "runs",
    empty: () => empty("No run failed."),
    drawn: (found) => {
      place.hidden = found.length === 0;
    },
    columns: [
      ["Failed", "when", "failed_ms"],
      [
        "Run",
        "main",
        (letter) => [
          link("runs", letter.workflow_run_id, {
            select: placeOfRun(letter.workflow_run_id, letter.workflow_run_number),
          }),
          note(shortUrl(letter.url), " ", letter.labels.map(tag)),
        ],
        "workflow_run_id",
      ],
      [
        "Why",
        "words",
        ({ where, last_result: result, excerpt }) => [
          [h("bdi", `Failed in ${where}`), " "],
          badNote(result),
          excerpt && note(h("bdi", excerpt)),
        ],
        "where",
      ],
      [
        "Expires",
        "extra",
        (letter) => distance(letter.expires_ms, context.now ?? letter.failed_ms),
        "expires_ms",
      ],
    ],
    actions: ({ workflow_run_id: run, dead_letter_id: id, actions }, deed) =>
      actions.map((name) => {
        const [text, method, path] = DEEDS[name];
        return deed(text, run, method, `/v2/workflows/dlq/${path}${id}`);
      }),
  });
  place.append(h("h2", "Workflow runs"), view.place);
  return place;
}

// What can be done with the dead letter of a run, as the server names it.
const DEEDS = {
  resume: ["Resume", "POST", "resume/"],
  restart: ["Restart", "POST", "restart/"],
  "retry-failure": ["Retry failure function", "POST", "callback/"],
  delete: ["Delete", "DELETE", ""],
};

const filtersOf = ({ route: { query } }) =>
  Object.fromEntries(["url", "label", "text"].map((name) => [name, query[name]]));
