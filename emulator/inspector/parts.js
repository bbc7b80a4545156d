// Small parts that several views are made of.

import { h } from "./dom.js";
import { shortId } from "./format.js";
import { copy } from "./notices.js";

const SHAPES = { good: "●", bad: "▲", wait: "◐", off: "○" };

/** A status as shape and word; `kind` is good, bad, wait or off. */
export const status = (word, kind = "off") => h("span", { class: `status ${kind}` }, h("span", { "aria-hidden": "true" }, SHAPES[kind]), " ", word);

/** What chance did to an attempt, as the control API says it, or nothing. */
export const chaosMark = (did) => did && h("span.tag", h("span", { "aria-hidden": "true" }, "⚡ "), `chaos: ${did}`);

/** An id, shortened in the middle; whole on hover, and copied by a click. */
export const id = (text) => h("button.quiet.code", { title: `${text} (click copies it)`, onclick: (event) => {
  event.stopPropagation();
  copy(text, text);
} }, shortId(text));

/** What an empty list teaches: a sentence, and lines to copy. */
export const empty = (sentence, lines = null) => h("div.empty", h("p", sentence),
  lines && [h("pre", lines), h("button", { onclick: () => copy(lines, "the lines") }, "Copy")]);

export { copy };
