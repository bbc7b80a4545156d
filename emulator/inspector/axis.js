// Two long lists with the now-line between, of which only what is visible is in the document.

import { eachFrame, h } from "./dom.js";

export const ROW_PX = 26;
const BEYOND = 8;

/**
 * `draw(item)` makes the element of an item; `nearEnd()` is called when the end of the past is in view.
 * `reversed` puts the future above. Answers {element, update(past, future, now), show(past index), items()}.
 */
export function axis({ draw, nearEnd, reversed, label }) {
  const nowLine = h("div", { class: "now-line", role: "separator" });
  const top = h("div", { class: "block" }), bottom = h("div", { class: "block" });
  const element = h("div", { class: "axis", role: "group", "aria-label": label, tabindex: 0 }, top, nowLine, bottom);
  let past = [], future = [], first = null, shown = "";

  const above = () => (reversed ? future : past), below = () => (reversed ? past : future);
  const at = (list, index) => (reversed ? list[list.length - 1 - index] : list[index]);

  const paint = eachFrame(() => {
    const from = element.scrollTop, height = element.clientHeight, line = above().length * ROW_PX;
    const ranges = [range(above(), from, from + height), range(below(), from - line - ROW_PX, from + height - line - ROW_PX)];
    const now = `${ranges}|${past.version}|${future.version}`;
    if (now !== shown) {
      shown = now;
      fill(top, above(), ranges[0]);
      fill(bottom, below(), ranges[1]);
    }
    const isNear = reversed ? from + height > element.scrollHeight - 20 * ROW_PX : from < 20 * ROW_PX;
    if (isNear) nearEnd();
  });

  function range(list, from, to) {
    return [Math.max(0, Math.floor(from / ROW_PX) - BEYOND), Math.min(list.length, Math.max(0, Math.ceil(to / ROW_PX) + BEYOND))];
  }

  function fill(block, list, [from, to]) {
    const nodes = [];
    for (let index = from; index < to; index += 1) {
      const node = draw(at(list, index));
      // By the object model: the page's policy takes no style from markup.
      node.style.top = `${index * ROW_PX}px`;
      nodes.push(node);
    }
    block.replaceChildren(...nodes);
  }

  element.addEventListener("scroll", paint, { passive: true });
  new ResizeObserver(() => { shown = ""; paint(); }).observe(element);

  return {
    element,
    nowLine,
    update(newPast, newFuture) {
      const lineBefore = above().length * ROW_PX;
      const wasEmpty = !past.length && !future.length;
      const inView = lineBefore >= element.scrollTop && lineBefore <= element.scrollTop + element.clientHeight;
      const isBelow = lineBefore < element.scrollTop;
      const prepended = first !== null && newPast.length ? Math.max(0, newPast.findIndex((item) => item.key === first)) : 0;
      past = newPast;
      future = newFuture;
      first = past[0]?.key ?? null;
      const line = above().length * ROW_PX;
      top.style.height = `${line}px`;
      bottom.style.height = `${below().length * ROW_PX}px`;
      if (wasEmpty) element.scrollTop = line - element.clientHeight * 0.6;
      else if (inView || isBelow) element.scrollTop += line - lineBefore;
      else if (!reversed) element.scrollTop += prepended * ROW_PX;
      shown = "";
      paint();
    },
    /** Scroll until an item of the past is in view. */
    show(index) {
      const y = (reversed ? future.length + 1 + past.length - 1 - index : index) * ROW_PX;
      if (y < element.scrollTop + ROW_PX) element.scrollTop = y - ROW_PX;
      else if (y > element.scrollTop + element.clientHeight - 2 * ROW_PX) element.scrollTop = y - element.clientHeight + 2 * ROW_PX;
      shown = "";
      paint();
    },
    toNow() {
      element.scrollTop = above().length * ROW_PX - element.clientHeight * 0.6;
    },
    repaint() {
      shown = "";
      paint();
    },
  };
}
