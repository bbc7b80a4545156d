// Settings: how this browser shows the page.

import { h } from "../dom.js";
import { isZone } from "../format.js";
import { choice, labelled } from "../list.js";
import { LANGUAGES } from "../languages.js";
import { prefs } from "../prefs.js";

const THEMES = [["system", "as the system"], "light", "dark"];
const ORDERS = [
  ["", "past above, future below"],
  ["newest", "future above, past below"],
];

export function render() {
  const zone = h("input", {
    value: prefs.zone,
    list: "zones",
    spellcheck: "false",
    onchange: ({ target }) => {
      const wanted = target.value.trim();
      target.setCustomValidity(
        wanted === "" || isZone(wanted) ? "" : "There is no such time zone.",
      );
      if (target.reportValidity()) prefs.set({ zone: wanted || null });
    },
  });
  const theme = choice(THEMES, prefs.theme, {
    onchange: ({ target }) => prefs.set({ theme: target.value }),
  });
  const order = choice(ORDERS, prefs.newestFirst ? "newest" : "", {
    onchange: ({ target }) => prefs.set({ newestFirst: target.value === "newest" }),
  });
  const kept = (name, options) =>
    choice(options, prefs[name], {
      onchange: ({ target }) => prefs.keep({ [name]: target.value }),
    });
  return h(
    "form.form",
    h(
      "div.fields",
      labelled("Time zone shown beside UTC", zone, { hint: "empty: that of the browser" }),
      labelled("Theme", theme),
      labelled("Order of the timeline", order),
      labelled("Calls are copied as", kept("language", Object.keys(LANGUAGES))),
      labelled("Assertions are copied for", kept("assertion", ["pytest", "vitest"])),
    ),
    h(
      "datalist",
      { id: "zones" },
      Intl.supportedValuesOf("timeZone").map((value) => h("option", { value })),
    ),
  );
}
