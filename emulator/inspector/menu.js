// The menu: the views in their groups, each with a count that lives; at its foot the switch that shows originals, the
// documentation and the list of keys.

import { shown } from "./counts.js";
import { eachFrame, h, replace } from "./dom.js";
import { GROUPS } from "./views/index.js";

/** The menu, and a function that marks the view that is open. */
export function menuOf(store, showOriginals, showKeys) {
  const counts = new Map();
  const links = new Map();
  const entry = ({ path, title, key, counts: name, what, bad }) => {
    const count = h("span.count", { "aria-hidden": "true" });
    const link = h(
      "a",
      { href: `#/${path}`, title: `${title} (g ${key})` },
      h("span", title),
      name && count,
    );
    if (name) counts.set(name, { count, link, bad, title: `${title} (g ${key})`, what });
    links.set(path, link);
    return link;
  };
  const originals = h("input", {
    type: "checkbox",
    onchange: () => showOriginals(originals.checked),
  });
  const nav = h(
    "nav.menu",
    { "aria-label": "Views" },
    GROUPS.map(([title, ...views]) => h("div.group", title && h("h2", title), views.map(entry))),
    h(
      "div.foot",
      h(
        "label.originals",
        {
          title:
            "Show what was sent where Redact-Fields hides it. The service never does: this is the emulator's own help.",
        },
        originals,
        h("span", "show originals"),
      ),
      h(
        "a",
        { href: "/_emulator/docs", target: "_blank", title: "The book, in a tab of its own" },
        h("span", "Documentation"),
        h("span.dim", { "aria-hidden": "true" }, "↗"),
      ),
      h(
        "button.quiet",
        { onclick: showKeys, title: "What the keys of this view do (?)" },
        h("span", "Keys"),
        h("kbd", { "aria-hidden": "true" }, "?"),
      ),
    ),
  );

  function draw() {
    const { counts: known, clock } = store.state;
    originals.checked = store.state.originals;
    const live = clock && { many: clock.pending };
    for (const [name, { count, link, bad, title, what }] of counts) {
      const found = name === "live" ? live : known?.[name];
      const text = found?.many ? shown(found) : "";
      if (count.textContent === text) continue;
      replace(count, text);
      count.classList.toggle("bad", Boolean(bad && text));
      link.title = text ? `${title}: ${text} ${what}` : title;
    }
  }

  function mark(path) {
    for (const [each, link] of links) {
      if (each === path) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    // Where the menu is a row that scrolls, the open view is in sight.
    if (nav.scrollWidth > nav.clientWidth) {
      const { offsetLeft, offsetWidth } = links.get(path);
      nav.scrollLeft = offsetLeft + offsetWidth / 2 - nav.clientWidth / 2;
    }
  }

  store.subscribe(eachFrame(draw));
  return { nav, mark };
}
