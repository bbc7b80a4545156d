// Small parts that several views are made of.

import { h } from "./dom.js";
import { instant, relative, shortId } from "./format.js";
import { copy, copyCall, copyChoice } from "./notices.js";

const SHAPES = { good: "●", bad: "▲", wait: "◐", off: "○" };

/** A status as shape and word; `kind` is good, bad, wait or off. */
export const status = (word, kind = "off") =>
  h(
    "span",
    { class: `status ${kind}` },
    h("span", { "aria-hidden": "true" }, SHAPES[kind]),
    " ",
    word,
  );

/** What chance did to an attempt, as the control API says it, or nothing. */
export const chaosMark = (did) =>
  did && h("span.tag", h("span", { "aria-hidden": "true" }, "⚡ "), `chaos: ${did}`);

/** An id, shortened in the middle; whole on hover, and copied by a click. */
export const id = (text) =>
  h(
    "button.quiet.code",
    {
      title: `${text} (click copies it)`,
      onclick: (event) => {
        event.stopPropagation();
        copy(text, text);
      },
    },
    shortId(text),
  );

/** How far an instant is from now. In a world whose clock runs it counts on; see `countOn`. */
export const distance = (ms, now) => h("span", { "data-at": ms }, relative(ms, now));

/** The instant now, which moves with the clock. */
export const present = (now, zone) => h("span", { "data-now": true }, instant(now, zone));

/** Bring every distance and every present instant in the page to now. */
export function countOn(now, zone) {
  const say = (node, text) => {
    if (node.textContent !== text) node.textContent = text;
  };
  for (const node of document.querySelectorAll("[data-at]"))
    say(node, relative(Number(node.dataset.at), now));
  for (const node of document.querySelectorAll("[data-now]")) say(node, instant(now, zone));
}

/** What an empty list teaches: a sentence, and lines to copy. */
export const empty = (sentence, lines = null) =>
  h(
    "div.empty",
    h("p", sentence),
    lines && [h("pre", lines), h("button", { onclick: () => copy(lines, "the lines") }, "Copy")],
  );

export { copy, copyCall, copyChoice };
