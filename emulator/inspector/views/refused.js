// Refused calls: what a client got wrong, and what it probably meant.

import { h } from "../dom.js";
import { head, listView, remover, when } from "../list.js";
import { empty, status } from "../parts.js";

export const title = "Refused";
export const path = "refused";
export const key = "x";

export function render(context) {
  const view = listView(context, {
    name: "refused", path: "/_emulator/refused", query: () => ({ limit: 1000 }),
    items: (answer) => [...answer.refused].reverse(),
    key: (refusal) => refusal.seq,
    empty: () => empty("No call was refused. A call of the messaging or management API that is answered with 4xx is listed here, with the header or field at fault and what was probably meant."),
    columns: [
      ["Time", "", (refusal) => when(refusal.at_ms, context)],
      ["Call", "main", (refusal) => `${refusal.method} ${refusal.path}`],
      ["Answer", "", (refusal) => status(refusal.status, "bad")],
      ["Reason", "words", (refusal) => [refusal.error, refusal.hint && h("span", { class: "note" }, refusal.hint)]],
      ["Field", "", (refusal) => refusal.field && h("code", {}, refusal.field)],
      ["Caller", "", (refusal) => refusal.caller],
    ],
  });
  return h("section", {}, head(title, remover(context, "refused calls", "/_emulator/refused", view.reload, "Clear", "Really forget them?")), view.place);
}
