// The keys of the page, with a text for each, so that `?` can list them.

import { h, openDialog } from "./dom.js";

const FIRST_OF_TWO_MS = 1200;

/** A registry that listens on the document. A key is "j", "Escape", or two in a row: "g t". */
export function keyboard() {
  const bindings = new Set();
  let first = null, firstAt = 0;

  function bind(key, text, run, group = "Everywhere") {
    const binding = { key, text, run, group };
    bindings.add(binding);
    return () => bindings.delete(binding);
  }

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest?.("input, textarea, select")) return event.key === "Escape" ? event.target.blur() : undefined;
    if (document.querySelector("dialog[open]")) return;
    const wanted = first && event.timeStamp - firstAt < FIRST_OF_TWO_MS ? `${first} ${event.key}` : event.key;
    // The newest binding wins: a view's own comes before the shell's.
    const found = [...bindings].findLast(({ key }) => key === wanted);
    first = null;
    if (found) {
      event.preventDefault();
      found.run(event);
    } else if ([...bindings].some(({ key }) => key.startsWith(`${event.key} `))) {
      first = event.key;
      firstAt = event.timeStamp;
    }
  }

  function show() {
    const groups = Object.entries(Object.groupBy([...bindings], ({ group }) => group));
    const keys = (key) => h("dt", key.split(" ").map((each) => h("kbd", each)));
    openDialog("Keys", h("h2", "Keys"), groups.map(([group, found]) => [h("h3", group), h("dl.facts", found.map(({ key, text }) => [keys(key), h("dd", text)]))]),
      h("form", { method: "dialog" }, h("button", "Close")));
  }

  document.addEventListener("keydown", press);
  bind("?", "This list", show);
  return { bind };
}
