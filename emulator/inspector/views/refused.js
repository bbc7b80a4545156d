// Refused calls: what a client got wrong, and what it probably meant.

import { h } from "../dom.js";
import { empty, head, listView, note, status } from "../list.js";

export const title = "Refused";
export const path = "refused";
export const key = "x";

export function render(context) {
  const view = listView(context, {
    rows: "refused", path: "/_emulator/refused", query: () => ({ limit: 1000 }), key: "seq",
    items: (found) => found.toReversed(),
    empty: () => empty("No call was refused. Calls answered with 4xx are listed here."),
    columns: [
      ["Time", "when", "at_ms"],
      ["Call", "main", (refusal) => `${refusal.method} ${refusal.path}`],
      ["Answer", "", (refusal) => status(refusal.status, "bad")],
      ["Reason", "words", (refusal) => [refusal.error, refusal.hint && note(refusal.hint)]],
      ["Field", "", (refusal) => refusal.field && h("code", refusal.field)],
      ["Caller", "", "caller"],
    ],
  });
  return h("section", head(title, view.deed("Clear", "refused calls", "DELETE", "/_emulator/refused")), view.place);
}
