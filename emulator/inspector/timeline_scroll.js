// A list of any length of which only what is visible is in the page: rows of one height, placed by their number.
//
// 100,000 rows as elements would take seconds to make and hundreds of megabytes. All rows have one height, so that
// the number of a row is its place: the space inside the box is as high as all of them, and of those only what is
// visible, and some beyond, are elements, positioned absolutely. While one scrolls, rows that stay visible keep their
// elements; when the items change, all are drawn again.
//
// The hard part is what stands still when rows are added or go. `set` holds one row where it is on the screen: the
// line of now (`pin`) if it is visible, since that is what one watches, else the first visible row, since one reads
// there. It notes how far that row is from the top, finds it among the new items, and scrolls by the difference. Past
// rows are found by identity; those of what is to come are made anew by each answer, and the place stays as it was.
//
// For a keyboard and a screen reader it is one listbox: the focus is on the box, and `aria-activedescendant` names the
// current row. That row has an element only while it is visible, so the attribute is empty when it is scrolled away.

import { h, replace } from "./dom.js";

const BEYOND = 12;
let made = 0;

/**
 * draw(item) returns the content of a row; open(item) is what Enter and a click do; selected(item) whether it is open;
 * settled(from, to) is told what is visible. The box has one stop for the Tab key, and arrows move in it.
 */
export function virtualList({ label, draw, open, selected, settled }) {
  const prefix = `list${(made += 1)}`;
  const space = h("div.space", { role: "presentation" });
  const openCurrent = () => items[at] && open(items[at]);
  const box = h(
    "div.scroller",
    {
      "data-scroller": true,
      role: "listbox",
      tabindex: 0,
      "aria-label": label,
      onscroll: show,
      onkeydown: (event) => {
        const step = {
          ArrowDown: 1,
          ArrowUp: -1,
          PageDown: page(),
          PageUp: -page(),
          Home: -Infinity,
          End: Infinity,
        }[event.key];
        if (step) go(step);
        else if (event.key === "Enter") openCurrent();
        else return;
        event.preventDefault();
      },
    },
    space,
  );
  let items = [];
  let at = -1;
  let pinned = -1;
  let drawn = new Map();
  let height = 26;
  // Whether the first place is still to be found: a box that is not in the page yet cannot be scrolled.
  let isUnplaced = false;
  const page = () => Math.max(1, Math.floor(box.clientHeight / height) - 1);
  const seen = () => [
    Math.floor(box.scrollTop / height),
    Math.ceil((box.scrollTop + box.clientHeight) / height),
  ];

  /** Show these items. Number `pin` (-1: none) keeps its place if it is seen, else the first visible one. */
  function set(next, pin, afresh) {
    const [top, bottom] = seen();
    const isSeen = pin >= 0 && pinned >= top && pinned < bottom;
    const held = isSeen ? pinned : top;
    const offset = held * height - box.scrollTop;
    const item = items[held];
    const current = items[at];
    items = next;
    pinned = pin;
    at = current ? items.indexOf(current) : -1;
    resize();
    isUnplaced = (isUnplaced || afresh || !item) && box.clientHeight === 0;
    if (afresh || !item) place();
    else {
      const now = isSeen ? pin : items.lastIndexOf(item);
      if (now >= 0) box.scrollTop = now * height - offset;
    }
    redraw();
  }

  /** Bring the pinned row into view, with more of what is before it. */
  function place() {
    if (pinned >= 0) box.scrollTop = (pinned + 1) * height - box.clientHeight * 0.7;
  }

  function resize() {
    // The style alone says how high a row is; a box that is not in the page yet has no style.
    height = parseFloat(getComputedStyle(box).getPropertyValue("--row")) || height;
    space.style.height = `${items.length * height}px`;
  }

  function show() {
    const [first, last] = seen();
    const kept = new Map();
    for (
      let index = Math.max(0, first - BEYOND);
      index < Math.min(items.length, last + BEYOND);
      index += 1
    )
      kept.set(index, drawn.get(index) ?? row(index));
    drawn = kept;
    replace(space, [...kept.values()]);
    box.setAttribute("aria-activedescendant", kept.has(at) ? `${prefix}-${at}` : "");
    settled(first, last);
  }

  function redraw() {
    drawn = new Map();
    show();
  }

  function row(index) {
    const item = items[index];
    const onclick = () => {
      if (String(getSelection())) return;
      at = index;
      open(item);
    };
    const node = h(
      "div",
      {
        id: `${prefix}-${index}`,
        role: "option",
        class: `row ${item.kind}${index === at ? " at" : ""}`,
        onclick,
        "aria-selected": String(selected(item)),
        "aria-setsize": items.length,
        "aria-posinset": index + 1,
      },
      draw(item),
    );
    node.style.top = `${index * height}px`;
    return node;
  }

  function go(step) {
    at = Math.min(Math.max(at < 0 ? seen()[0] + 1 : at + step, 0), items.length - 1);
    box.scrollTop = Math.min(
      Math.max(box.scrollTop, (at + 1) * height - box.clientHeight),
      at * height,
    );
    redraw();
    box.focus({ preventScroll: true });
  }

  new ResizeObserver(() => {
    resize();
    if (isUnplaced && box.clientHeight > 0) {
      isUnplaced = false;
      place();
    }
    redraw();
  }).observe(box);
  const centre = (index) => {
    box.scrollTop = (index + 1) * height - box.clientHeight / 2;
  };
  return { box, set, go, redraw, centre, openCurrent };
}
