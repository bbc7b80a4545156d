// Settings: how this browser shows the page, and what an application needs to use this world.

import { h } from "../dom.js";
import { isZone } from "../format.js";
import { field, head } from "../list.js";
import { copy } from "../parts.js";
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
  const environment = h("div");
  context.watch((state) => state.credentials, (credentials) => credentials && environment.replaceChildren(...variables(credentials)));
  return h("section", {}, head(title),
    h("form", { class: "form", onsubmit: (event) => event.preventDefault() },
      h("div", { class: "fields" },
        field("Time zone shown beside UTC", zone, "empty: that of the browser"),
        field("Theme", choice(THEMES, prefs.theme, (theme) => prefs.set({ theme }))),
        field("Order of the timeline", choice(ORDERS, prefs.newestFirst ? "newest" : "", (order) => prefs.set({ newestFirst: order === "newest" })))),
      h("datalist", { id: "zones" }, (Intl.supportedValuesOf?.("timeZone") ?? []).map((name) => h("option", { value: name }))),
      h("p", { class: "dim" }, "Kept in this browser alone. ? lists the keys."),
      h("h2", {}, "For the application under test"), environment));
}

const choice = (options, value, run) => h("select", { onchange: (event) => run(event.target.value) }, options.map(([name, text]) => h("option", { value: name, selected: name === value }, text)));

/** The variables that clients read, for a shell; credentials are of this world. */
function variables({ environment, queue }) {
  const values = { url: location.origin, token: queue.token, current_signing_key: queue.current_signing_key, next_signing_key: queue.next_signing_key };
  const lines = Object.entries(values).filter(([name]) => environment[name]).map(([name, value]) => `export ${environment[name]}=${value}`).join("\n");
  return [h("pre", {}, lines), h("button", { type: "button", onclick: () => copy(lines, "the variables") }, "Copy")];
}
