// What the user chose about the page: kept in this browser, and nowhere else.

import { isZone, localZone } from "./format.js";

const KEY = "emulator-inspector";
const DEFAULTS = {
  zone: null,
  theme: "system",
  newestFirst: false,
  language: "curl",
  assertion: "pytest",
  wide: false,
};
const listeners = new Set();
const chosen = read();

function read() {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY) ?? "{}") };
  } catch {
    return { ...DEFAULTS };
  }
}

function save() {
  try {
    localStorage.setItem(KEY, JSON.stringify(chosen));
  } catch {
    // A browser that keeps nothing forgets it with the tab.
  }
}

export const prefs = {
  /** The zone shown beside UTC. */
  get zone() {
    return chosen.zone && isZone(chosen.zone) ? chosen.zone : localZone();
  },
  /** "system", "light" or "dark". */
  get theme() {
    return chosen.theme;
  },
  /** Whether the future is above and the past below. */
  get newestFirst() {
    return chosen.newestFirst;
  },
  /** In which language a call is copied: "curl", "Python" or "TypeScript". */
  get language() {
    return chosen.language;
  },
  /** As what an assertion is copied: "pytest" or "vitest". */
  get assertion() {
    return chosen.assertion;
  },
  /** Whether the details take most of the width. */
  get wide() {
    return chosen.wide;
  },
  /** Keep a choice that no view shows: nothing is drawn again. */
  keep(changes) {
    Object.assign(chosen, changes);
    save();
    prefs.apply();
  },
  set(changes) {
    prefs.keep(changes);
    for (const listener of listeners) listener();
  },
  changed(listener) {
    listeners.add(listener);
  },
  apply() {
    document.documentElement.dataset.theme = chosen.theme;
    document.documentElement.classList.toggle("wide-detail", chosen.wide);
  },
};
