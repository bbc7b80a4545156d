// The state of the page: what is known of one world. Pure, without DOM and without calls.
//
// A snapshot (the first answers of the control API) and the stream feed it by actions; `reduce` is
// the only function that makes a state of a state and an action. Views read `state`, and are told by
// `subscribe` that it is another one.

import { createJournal, take } from "./timeline_rows.js";

/** The state before anything is known. `lists` holds what `listed` actions brought, by name. */
// The journal is the one thing that changes in place, because it may be large; `seen` is another number then.
export const initial = Object.freeze({
  world: "default",
  // "connecting", "live", "lost" (the stream broke off; it is tried again) or "locked" (a control token is needed).
  connection: "connecting",
  clock: null,
  credentials: null,
  upcoming: null,
  // A move of the clock under way: {label, from_ms, now_ms, deliveries}; null if there is none.
  moving: null,
  journal: createJournal(),
  seen: 0,
  lists: Object.freeze({}),
  // How often the stream told of something that lists may show; a list reloads when it has changed.
  changes: 0,
});

export function createStore(state = initial) {
  const listeners = new Set();
  return {
    get state() {
      return state;
    },
    dispatch(action) {
      const next = reduce(state, action);
      if (next === state) return;
      state = next;
      for (const listener of [...listeners]) listener(state);
    },
    /** Call `listener` with every new state; the answer ends that. */
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function reduce(state, action) {
  switch (action.type) {
    case "world":
      return { ...initial, world: action.world, journal: createJournal() };
    case "connection":
      return action.value === state.connection ? state : { ...state, connection: action.value };
    case "clock":
      return { ...state, clock: { ...state.clock, ...action.clock } };
    case "credentials":
      return { ...state, credentials: action.credentials };
    case "upcoming":
      return { ...state, upcoming: action.upcoming };
    case "attempts": {
      // Older pages that were asked for before a reset are of another journal.
      if ((action.journal ?? state.journal) !== state.journal) return state;
      const count = take(state.journal, action.rows, action.older);
      state.journal.whole ||= action.whole ?? false;
      const moving = state.moving && !action.older ? { ...state.moving, now_ms: action.rows.at(-1).at_ms, deliveries: state.moving.deliveries + count } : state.moving;
      return { ...state, moving, seen: state.seen + 1 };
    }
    case "reset":
      // The stream tells the new history from its beginning.
      return { ...state, journal: { ...createJournal(), whole: true }, seen: state.seen + 1 };
    case "changed":
      return { ...state, changes: state.changes + 1 };
    case "moving":
      return { ...state, moving: action.moving };
    case "listed":
      return { ...state, lists: { ...state.lists, [action.name]: action.value } };
    default:
      throw new Error(`no such action: ${action.type}`);
  }
}
