// The state of the page: what is known of one world. Pure, without DOM and without calls.
//
// A snapshot (the first answers of the control API) and the stream feed it by actions; `reduce` is
// the only function that makes a state of a state and an action. Views read `state`, and are told by
// `subscribe` that it is another one.

import { stateOf } from "./rows.js";

/** The state before anything is known. `lists` holds what `listed` actions brought, by name. */
export const initial = Object.freeze({
  world: "default",
  // "connecting", "live", "lost" (the stream broke off; it is tried again) or "locked" (a control token is needed).
  connection: "connecting",
  clock: null,
  credentials: null,
  upcoming: null,
  // A move of the clock under way: {label, from_ms, deliveries}; null if there is none.
  moving: null,
  lists: Object.freeze({}),
  // Attempts as slim rows (rows.js), the newest last; `older` is the cursor of what is not loaded yet: null when all
  // is, undefined before anything is.
  rows: Object.freeze([]),
  older: undefined,
  failed: 0,
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

/** Attempts that the stream told, oldest first; those that are there already are left out. */
function withAttempts(state, told) {
  const last = state.rows.at(-1)?.seq ?? 0;
  const rows = told.filter((row) => row.seq > last);
  if (!rows.length) return state;
  const moving = state.moving && { ...state.moving, deliveries: state.moving.deliveries + rows.length, now_ms: rows.at(-1).at };
  return { ...state, rows: state.rows.concat(rows), failed: state.failed + failures(rows), moving };
}

/** A page of what was before, the newest first. */
function withOlder(state, page, cursor) {
  const first = state.rows.length ? state.rows[0].seq : Infinity;
  const rows = page.filter((row) => row.seq < first).reverse();
  return { ...state, rows: rows.concat(state.rows), older: cursor, failed: state.failed + failures(rows) };
}

const failures = (rows) => rows.filter((row) => stateOf(row) === "failed").length;

export function reduce(state, action) {
  switch (action.type) {
    case "world":
      return { ...initial, world: action.world };
    case "connection":
      return action.value === state.connection ? state : { ...state, connection: action.value };
    case "clock":
      return { ...state, clock: { ...state.clock, ...action.clock } };
    case "credentials":
      return { ...state, credentials: action.credentials };
    case "upcoming":
      return { ...state, upcoming: action.upcoming };
    case "attempts":
      return withAttempts(state, action.rows);
    case "older":
      return withOlder(state, action.rows, action.cursor);
    case "forget":
      // The world was reset or restored: its whole history follows from the stream.
      return { ...state, rows: initial.rows, older: null, failed: 0 };
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
