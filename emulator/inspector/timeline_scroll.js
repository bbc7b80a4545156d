// A list of any length of which only what is visible is in the page: rows of one height, placed by their number.

import { h, replace } from "./dom.js";

const BEYOND = 12;
let made = 0;

/**
 * draw(item) returns the content of a row; open(item) is what Enter and a click do; same(item) tells whether it stays
 * in its place when others come before it. The list box has one stop for the Tab key, and arrows move in it.
 */
export function virtualList({ label, draw, open, selected, settled = () => {} }) {
  const prefix = `list${(made += 1)}`;
  const space = h("div", { class: "space", role: "presentation" });
  const box = h("div", { class: "scroller", "data-scroller": true, role: "listbox", tabindex: 0, "aria-label": label, onscroll: () => show(), onkeydown: (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page(), PageUp: -page(), Home: -Infinity, End: Infinity }[event.key];
    if (step !== undefined) go(step);
    else if (event.key === "Enter" && items[at]) open(items[at]);
    else return;
    event.preventDefault();
  } }, space);
  let items = [], at = -1, drawn = new Map(), height = 26;
  const page = () => Math.max(1, Math.floor(box.clientHeight / height) - 1);

  /** Show these items. `anchor(items)` is the number of the item that keeps its place on the screen, -1 for the first visible one. */
  function set(next, anchor, afresh = false) {
    const top = Math.floor(box.scrollTop / height), pinned = anchor(items), isSeen = pinned >= 0 && pinned >= top && pinned <= top + page() + 1;
    const held = isSeen ? pinned : top, offset = held * height - box.scrollTop, item = items[held], current = items[at];
    items = next;
    at = current ? items.indexOf(current) : -1;
    drawn = new Map();
    resize();
    const now = isSeen || afresh || item === undefined ? anchor(items) : items.lastIndexOf(item);
    if (now >= 0) box.scrollTop = afresh || item === undefined ? (now + 1) * height - box.clientHeight * 0.7 : now * height - offset;
    show();
  }

  function resize() {
    height = box.clientWidth < 720 ? 46 : 26;
    box.classList.toggle("narrow", height > 26);
    space.style.height = `${items.length * height}px`;
  }

  function show() {
    const from = Math.max(0, Math.floor(box.scrollTop / height) - BEYOND), to = Math.min(items.length, Math.ceil((box.scrollTop + box.clientHeight) / height) + BEYOND);
    const kept = new Map();
    for (let index = from; index < to; index += 1) kept.set(index, drawn.get(index) ?? row(index));
    drawn = kept;
    replace(space, [...kept.values()]);
    box.setAttribute("aria-activedescendant", kept.has(at) ? `${prefix}-${at}` : "");
    settled(Math.floor(box.scrollTop / height), Math.ceil((box.scrollTop + box.clientHeight) / height));
  }

  function row(index) {
    const item = items[index];
    const node = h("div", { id: `${prefix}-${index}`, role: "option", class: `row ${item.kind}${index === at ? " at" : ""}`, "aria-selected": String(selected(item)), "aria-setsize": items.length, "aria-posinset": index + 1,
      onclick: () => { if (!String(getSelection())) { at = index; open(item); } } }, draw(item));
    node.style.top = `${index * height}px`;
    return node;
  }

  function go(step) {
    if (!items.length) return;
    at = Math.min(Math.max(at < 0 ? Math.floor(box.scrollTop / height) + 1 : at + step, 0), items.length - 1);
    drawn = new Map();
    reveal(at);
    box.focus({ preventScroll: true });
  }

  function reveal(index) {
    const top = index * height;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
    show();
  }

  const redraw = () => {
    drawn = new Map();
    show();
  };
  const watcher = new ResizeObserver(() => { resize(); redraw(); });
  watcher.observe(box);
  return { box, set, go, redraw, centre: (index) => { box.scrollTop = (index + 1) * height - box.clientHeight / 2; show(); }, openCurrent: () => items[at] && open(items[at]), end: () => watcher.disconnect() };
}
