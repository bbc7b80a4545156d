// The keys of the page, with a text for each, so that `?` can list them.

import { h, openDialog } from "./dom.js";

const FIRST_OF_TWO_MS = 1200;

/** A registry that listens on the document. A key is "j", "Escape", or two in a row: "g t". */
export function keyboard() {
  const bindings = new Set();
  let first = null;
  let firstAt = 0;
  // Where the focus was before a key moved it into a field.
  let before = null;

  /** `works` says whether the key does anything now; one that does not is not listed. */
  function bind(key, text, run, { group = "Everywhere", works = () => true } = {}) {
    const binding = { key, text, run, group, works };
    bindings.add(binding);
    return () => bindings.delete(binding);
  }

  const isField = (node) => Boolean(node?.closest?.("input, textarea, select"));

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return;
    if (isField(event.target) && !/^(checkbox|radio)$/.test(event.target.type)) {
      if (event.key !== "Escape") return;
      event.target.blur();
      if (before?.isConnected) before.focus({ preventScroll: true });
      before = null;
      return;
    }
    const wanted =
      first && event.timeStamp - firstAt < FIRST_OF_TWO_MS ? `${first} ${event.key}` : event.key;
    // The newest binding wins: a view's own comes before the shell's.
    const working = [...bindings].filter(({ works }) => works());
    const found = working.findLast(({ key }) => key === wanted);
    first = null;
    if (found) {
      event.preventDefault();
      const focused = document.activeElement;
      found.run(event);
      if (isField(document.activeElement)) before = focused;
    } else if (working.some(({ key }) => key.startsWith(`${event.key} `))) {
      first = event.key;
      firstAt = event.timeStamp;
    }
  }

  function show() {
    const working = [...bindings].filter(({ works }) => works());
    // A view's own come first: they are what one asks for.
    const groups = Object.entries(Object.groupBy(working.reverse(), ({ group }) => group));
    const keys = (key) =>
      h(
        "dt",
        key.split(" ").map((each) => h("kbd", each)),
      );
    openDialog(
      "Keys",
      h("h2", "Keys"),
      h(
        "div.keys",
        groups.map(([group, found]) =>
          h(
            "div",
            h("h3", group),
            h(
              "dl.facts",
              found.toReversed().map(({ key, text }) => [keys(key), h("dd", text)]),
            ),
          ),
        ),
      ),
      h("form", { method: "dialog" }, h("button", "Close")),
    );
  }

  document.addEventListener("keydown", press);
  bind("?", "This list", show);
  return { bind, show };
}
