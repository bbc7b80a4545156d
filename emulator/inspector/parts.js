// Small parts that several views are made of.

import { h } from "./dom.js";
import { instant, relative, shortId } from "./format.js";
import { copy, copyButtons } from "./notices.js";
import { prefs } from "./prefs.js";

const SHAPES = { good: "●", bad: "▲", wait: "◐", off: "○" };

/** A status as shape and word; `kind` is good, bad, wait or off. */
export function status(word, kind = "off") {
  return h("span", { class: `status ${kind}` }, h("span", { "aria-hidden": "true" }, SHAPES[kind]), " ", word);
}

/** An instant in the chosen zone, with UTC and the distance to `now` on hover. */
export function time(ms, now = null) {
  if (ms === null || ms === undefined) return h("span", { class: "dim" }, "–");
  const text = instant(ms, prefs.zone);
  return h("time", { datetime: new Date(ms).toISOString(), title: `${instant(ms)} UTC` }, text, now === null ? null : h("span", { class: "dim" }, ` ${relative(ms, now)}`));
}

/** An id, shortened in the middle; whole on hover, and copied by a click. */
export function id(text) {
  return h("button", { class: "quiet code", title: `${text} (click copies it)`, onclick: (event) => { event.stopPropagation(); copy(text, text); } }, shortId(text));
}

/** What an empty list teaches: a sentence, and lines to copy. */
export function empty(sentence, lines = null) {
  return h("div", { class: "empty" }, h("p", {}, sentence), lines && h("pre", {}, lines), lines && h("button", { onclick: () => copy(lines, "the lines") }, "Copy"));
}

export { copy, copyButtons };
