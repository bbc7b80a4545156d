// Dead letters: messages whose retries are exhausted; retry or delete one, some or all of them.

import { h } from "../dom.js";
import { count, relative, shortUrl } from "../format.js";
import { action, badNote, empty, keepRows, listView, note, tag } from "../list.js";
export { detail } from "./message.js";

const LIMIT = 500;
// So many the service takes in one call.
const AT_ONCE = 100;

export function render(context) {
  const ticked = new Set();
  const bulk = h("div.tools", { role: "group", "aria-label": "Ticked dead letters" });
  const view = listView(context, {
    rows: "dead_letters", path: "dead-letters", query: () => ({ limit: LIMIT }), key: "dead_letter_id", open: "message_id",
    filters: ["url", "label", "schedule", "queue", "text"],
    items: (found) => found.map((letter) => ({ ...letter, ticked: ticked.has(letter.dead_letter_id) })),
    empty: () => empty("No dead letter. A message whose last retry fails is kept here."),
    drawn: (letters) => {
      const ids = letters.map((letter) => letter.dead_letter_id);
      for (const id of ticked) if (!ids.includes(id)) ticked.delete(id);
      keepRows(bulk, context.canAct && ids.length ? [{ ids, some: [...ticked] }] : [], () => "", drawBulk);
    },
    columns: [
      ["", "tick", (letter) => context.canAct && tick(letter.dead_letter_id, [letter.dead_letter_id])],
      ["Failed", "when", "failed_ms"],
      ["Destination", "main", (letter) => [`${letter.method} ${shortUrl(letter.url)}`, letter.labels.map(tag)]],
      ["Why", "words", (letter) => [badNote(letter.last_result), note(`after ${count(letter.max_attempts, "attempt")}`)]],
      ["Expires", "", (letter) => relative(letter.expires_ms, context.state.clock?.now_ms ?? letter.failed_ms)],
      ["Message", "id", "message_id"],
    ],
    actions: (letter) => buttons([letter.dead_letter_id], letter.dead_letter_id),
  });

  // Hoisted, because a list that is known already is drawn at once.
  function tick(name, ids) {
    return h("input", { type: "checkbox", "aria-label": `Tick ${name}`, checked: ids.every((id) => ticked.has(id)), onchange: ({ target }) => {
      for (const id of ids) ticked[target.checked ? "add" : "delete"](id);
      view.redraw();
    } });
  }

  function drawBulk({ ids, some }) {
    return h("div.inline", h("label", tick("all", ids), ` ${some.length} of ${count(ids.length, "dead letter")} ticked`), some.length > 0 && buttons(some, "ticked"));
  }

  function buttons(ids, what) {
    return [
      action(context, "Retry", () => each("Retry", ids, (dlqIds) => ["POST", "/v2/dlq/retry", { query: { dlqIds } }]), { "aria-label": `Retry ${what}` }),
      action(context, "Delete", () => each("Delete", ids, (dlqIds) => ["DELETE", "/v2/dlq", { body: { dlqIds } }]),
        { "aria-label": `Delete ${what}`, ask: `Really delete ${ids.length}?` })];
  }

  async function each(verb, ids, call) {
    for (let at = 0; at < ids.length; at += AT_ONCE) {
      const some = ids.slice(at, at + AT_ONCE);
      if ((await context.act(`${verb} ${count(some.length, "dead letter")}`, ...call(some))) === undefined) break;
    }
    view.reload();
  }

  return [bulk, view.place];
}
