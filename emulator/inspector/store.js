// The state of the page: what is known of one world. Pure. Actions make a new state, of which views are told.

import { createJournal, take } from "./timeline_rows.js";

const initial = {
  world: "default",
  // "connecting", "live", "lost" (the stream broke off; it is tried again) or "locked" (a control token is needed).
  connection: "connecting",
  clock: null,
  credentials: null,
  // A move of the clock under way: {label, from_ms, now_ms, deliveries}; null if there is none.
  moving: null,
  // The one thing that changes in place, because it may be large; `seen` is another number then.
  journal: createJournal(),
  seen: 0,
  // How many messages failed since the page knows this journal.
  failures: 0,
  // What `listed` actions brought, by name.
  lists: {},
  // How often the stream told of something; a list reloads when it has changed.
  changes: 0,
};

export function createStore(state = initial) {
  const listeners = new Set();
  return {
    get state() { return state; },
    dispatch(action) {
      const changes = CHANGES[action.type](state, action);
      if (!changes) return;
      state = { ...state, ...changes };
      for (const listener of [...listeners]) listener(state);
    },
    /** Call `listener` with every new state; the answer ends that. */
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** What each action changes of a state; null if nothing. */
const CHANGES = {
  world: (state, { world }) => ({ ...initial, world, journal: createJournal() }),
  connection: (state, { value }) => (value === state.connection ? null : { connection: value }),
  clock: (state, { clock }) => ({ clock: { ...state.clock, ...clock } }),
  credentials: (state, { credentials }) => ({ credentials }),
  attempts({ journal, moving, seen }, action) {
    // Older pages that were asked for before a reset are of another journal.
    if ((action.journal ?? journal) !== journal) return null;
    const count = take(journal, action.rows, action.older);
    journal.whole ||= action.whole ?? false;
    if (moving && !action.older) moving = { ...moving, now_ms: action.rows.at(-1).at_ms, deliveries: moving.deliveries + count };
    return { moving, seen: seen + 1 };
  },
  // The stream tells the new history from its beginning.
  reset: ({ seen }) => ({ journal: { ...createJournal(), whole: true }, seen: seen + 1, failures: 0 }),
  failed: ({ failures }) => ({ failures: failures + 1 }),
  changed: ({ changes }) => ({ changes: changes + 1 }),
  moving: (state, { moving }) => ({ moving }),
  listed: ({ lists }, { name, value }) => ({ lists: { ...lists, [name]: value } }),
};
