// Settings: how this browser shows the page.

import { h } from "../dom.js";
import { isZone } from "../format.js";
import { field, head } from "../list.js";
import { prefs } from "../prefs.js";

export const title = "Settings";
export const path = "settings";
export const key = ",";

const THEMES = [["system", "as the system"], ["light", "light"], ["dark", "dark"]];
const ORDERS = [["", "past above, future below"], ["newest", "future above, past below"]];

export function render(context) {
  const zone = h("input", { value: prefs.zone, list: "zones", spellcheck: "false", onchange: (event) => {
    const wanted = event.target.value.trim();
    event.target.setCustomValidity(wanted === "" || isZone(wanted) ? "" : "There is no such time zone: a name such as Europe/Berlin.");
    if (event.target.reportValidity()) prefs.set({ zone: wanted || null });
  } });
  return h("section", {}, head(title),
    h("form", { class: "form", onsubmit: (event) => event.preventDefault() },
      h("div", { class: "fields" },
        field("Time zone shown beside UTC", zone, "empty: that of the browser"),
        field("Theme", choice(THEMES, prefs.theme, (theme) => prefs.set({ theme }))),
        field("Order of the timeline", choice(ORDERS, prefs.newestFirst ? "newest" : "", (order) => prefs.set({ newestFirst: order === "newest" })))),
      h("datalist", { id: "zones" }, (Intl.supportedValuesOf?.("timeZone") ?? []).map((name) => h("option", { value: name }))),
      h("p", { class: "dim" }, "Kept in this browser alone. ? lists the keys.")));
}

const choice = (options, value, run) => h("select", { onchange: (event) => run(event.target.value) }, options.map(([name, text]) => h("option", { value: name, selected: name === value }, text)));
