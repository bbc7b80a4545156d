// The keys of the page, with a text for each, so that `?` can list them.

import { h, replace } from "./dom.js";

const FIRST_OF_TWO_MS = 1200;

/** A registry that listens on the document. A key is "j", "Escape", or two in a row: "g t". */
export function keyboard() {
  const bindings = [];
  let first = null, firstAt = 0;
  const dialog = h("dialog", { class: "keys", "aria-label": "Keys" });

  function bind(key, text, run, group = "Everywhere") {
    const binding = { key, text, run, group };
    bindings.push(binding);
    return () => {
      const at = bindings.indexOf(binding);
      if (at >= 0) bindings.splice(at, 1);
    };
  }

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    const two = first && event.timeStamp - firstAt < FIRST_OF_TWO_MS ? `${first} ${event.key}` : null;
    // The newest binding wins: a view's own comes before the shell's.
    const found = bindings.findLast((each) => each.key === two) ?? (two ? null : bindings.findLast((each) => each.key === event.key));
    first = null;
    if (found) {
      event.preventDefault();
      found.run(event);
    } else if (bindings.some((each) => each.key.startsWith(`${event.key} `))) {
      first = event.key;
      firstAt = event.timeStamp;
    }
  }

  function show() {
    const groups = Map.groupBy ? Map.groupBy(bindings, (each) => each.group) : new Map([["Keys", bindings]]);
    replace(dialog, h("h2", {}, "Keys"), [...groups].map(([name, found]) => [
      h("h3", {}, name),
      h("dl", {}, found.map(({ key, text }) => [h("dt", {}, key.split(" ").map((each) => h("kbd", {}, each))), h("dd", {}, text)])),
    ]), h("form", { method: "dialog" }, h("button", {}, "Close")));
    if (!dialog.isConnected) document.body.append(dialog);
    dialog.showModal();
  }

  document.addEventListener("keydown", press);
  bind("?", "This list", show);
  return { bind, show };
}
