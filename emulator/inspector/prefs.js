// What the user chose about the page: kept in this browser, and nowhere else.

import { isZone, localZone } from "./format.js";

const KEY = "emulator-inspector";
const DEFAULTS = { zone: null, theme: "system", newestFirst: false };
const listeners = new Set();
let chosen = read();

function read() {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY) ?? "{}") };
  } catch {
    return { ...DEFAULTS };
  }
}

export const prefs = {
  /** The zone shown beside UTC. */
  get zone() { return chosen.zone && isZone(chosen.zone) ? chosen.zone : localZone(); },
  /** "system", "light" or "dark". */
  get theme() { return chosen.theme; },
  /** Whether the future is above and the past below. */
  get newestFirst() { return chosen.newestFirst; },
  set(changes) {
    chosen = { ...chosen, ...changes };
    try {
      localStorage.setItem(KEY, JSON.stringify(chosen));
    } catch {
      // A browser that keeps nothing forgets it with the tab.
    }
    prefs.apply();
    for (const listener of listeners) listener();
  },
  changed(listener) { listeners.add(listener); },
  apply() { document.documentElement.dataset.theme = chosen.theme; },
};
