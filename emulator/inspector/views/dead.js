// Dead letters: messages whose retries are exhausted; retry or delete one, some or all of them.

import { h, replace } from "../dom.js";
import { count, shortUrl } from "../format.js";
import { action, away, filters, head, listView, picked, risky, when } from "../list.js";
import { empty, id } from "../parts.js";
export { detail } from "./message.js";

export const title = "Dead letters";
export const path = "dead";
export const key = "d";

const NAMES = ["url", "label", "schedule", "queue", "text"];
const LIMIT = 500;
// So many the service takes in one call.
const AT_ONCE = 100;

export function render(context) {
  const ticked = new Set();
  let shown = [];
  const bulk = h("div", { class: "tools", hidden: true, role: "group", "aria-label": "Ticked dead letters" });
  const all = h("input", { type: "checkbox", "aria-label": "Tick all", onchange: (event) => {
    for (const letter of shown) if (event.target.checked) ticked.add(letter.dead_letter_id); else ticked.delete(letter.dead_letter_id);
    for (const box of view.place.querySelectorAll("tbody input")) box.checked = event.target.checked;
    drawBulk();
  } });
  const view = listView(context, {
    name: "dead", path: "/_emulator/dead-letters", query: () => ({ ...picked(context, NAMES), limit: LIMIT }),
    items: (answer) => answer.dead_letters,
    key: (letter) => letter.dead_letter_id,
    open: (letter) => letter.message_id,
    filtered: () => NAMES.some((name) => context.route.query[name]),
    empty: () => empty("No dead letter. A message whose last retry fails is kept here until it is retried, deleted, or too old. To see one, let a destination fail and publish to it without retries."),
    drawn: (items) => {
      shown = items;
      const there = new Set(items.map((letter) => letter.dead_letter_id));
      for (const each of ticked) if (!there.has(each)) ticked.delete(each);
      drawBulk();
    },
    columns: [
      ["", "tick", (letter) => context.canAct && tick(letter)],
      ["Failed", "", (letter) => when(letter.failed_ms, context)],
      ["Destination", "main", (letter) => [
        h("button", { class: "quiet", onclick: () => context.select(letter.message_id) }, `${letter.method} ${shortUrl(letter.url)}`),
        letter.labels.map((label) => h("span", { class: "tag" }, label))]],
      ["Why", "words", (letter) => [h("span", { class: "note bad" }, letter.last_result),
        h("span", { class: "note" }, `after ${count(letter.max_attempts, "attempt")}`)]],
      ["Expires", "", (letter) => away(letter.expires_ms, context)],
      ["Message", "", (letter) => id(letter.message_id)],
      ["", "actions", (letter) => [
        action(context, "Retry", () => retry([letter.dead_letter_id]), { "aria-label": `Retry ${letter.dead_letter_id}` }),
        risky(context, "Delete", "Really delete?", () => remove([letter.dead_letter_id]))]],
    ],
  });

  function tick(letter) {
    return h("input", { type: "checkbox", "aria-label": `Tick ${letter.dead_letter_id}`, checked: ticked.has(letter.dead_letter_id), onchange: (event) => {
      if (event.target.checked) ticked.add(letter.dead_letter_id); else ticked.delete(letter.dead_letter_id);
      drawBulk();
    } });
  }

  function drawBulk() {
    bulk.hidden = !shown.length || !context.canAct;
    all.checked = shown.length > 0 && ticked.size === shown.length;
    const text = `${ticked.size} of ${count(shown.length, "dead letter")} ticked`;
    if (bulk.dataset.text === text) return;
    bulk.dataset.text = text;
    const ids = [...ticked];
    replace(bulk, h("label", {}, all, " ", text), ids.length > 0 && [
      action(context, "Retry ticked", () => retry(ids), { class: "main" }),
      risky(context, "Delete ticked", `Really delete ${ids.length}?`, () => remove(ids))]);
  }

  const each = async (ids, run) => {
    for (let at = 0; at < ids.length; at += AT_ONCE) if ((await run(ids.slice(at, at + AT_ONCE))) === undefined) break;
    view.reload();
  };
  const retry = (ids) => each(ids, (some) => context.act(`Retry ${count(some.length, "dead letter")}`, "POST", "/v2/dlq/retry", { query: { dlqIds: some } }));
  const remove = (ids) => each(ids, (some) => context.act(`Delete ${count(some.length, "dead letter")}`, "DELETE", "/v2/dlq", { body: { dlqIds: some } }));

  return h("section", {}, head(title),
    filters(context, [{ name: "url", label: "URL", hint: "*/orders" }, { name: "label", label: "Label" }, { name: "schedule", label: "Schedule" },
      { name: "queue", label: "Queue" }, { name: "text", label: "Text", hint: "in id, URL, label" }], view.reload),
    bulk, view.place);
}
