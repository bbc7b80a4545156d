// Refused calls: what a client got wrong, and what it probably meant.

import { h } from "../dom.js";
import { empty, listView, note, status } from "../list.js";

export function render(context, tools) {
  const view = listView(context, {
    rows: "refused",
    query: () => ({ limit: 1000 }),
    key: "seq",
    items: (found) => found.toReversed(),
    empty: () => empty("No call was refused. Calls answered with 4xx are listed here."),
    columns: [
      ["Time", "when", "at_ms"],
      [
        "Call",
        "main",
        (refusal) =>
          h("span.cut-line", { title: refusal.path }, `${refusal.method} ${refusal.path}`),
        "path",
      ],
      ["Answer", "", (refusal) => status(refusal.status, "bad"), "status"],
      [
        "Reason",
        "words",
        (refusal) => [refusal.error, refusal.hint && note(refusal.hint)],
        "error",
      ],
      ["Field", "", (refusal) => refusal.field && h("code", refusal.field), "field"],
      ["Caller", "extra", "caller"],
    ],
  });
  tools(view.deed("Clear", "refused calls", "DELETE", "/_emulator/refused"));
  return view.place;
}
