// The state of the page: what is known of one world. Pure: it reads no server and touches no element.
//
// There is one object of state, which is never changed but replaced: an action names what happened, CHANGES has a
// function for each that returns the fields that differ, and listeners get the new state. A view compares the fields
// it shows with those it has drawn, by identity, and draws again if they differ. So no view needs to know who changed
// what, and a test needs no browser.
//
// The journal is the exception. It holds up to 200,000 rows, and a copy for each of a thousand events a second would
// be the whole work of the page. It is changed in place, and `seen` is raised: who shows rows watches `seen`. A reset
// makes another journal, by which an answer that was asked for before the reset is recognised and dropped.
//
// The instant now is not in the state. A clock that runs would change it without end, and every view with it. The
// state has what the server said last and when the page heard it (`clock`, `readAt`); `nowOf` continues from there on
// the browser's monotonic clock, which a change of the system's time does not move. While a move is under way, now is
// the start of the newest delivery that the stream brought.

import { createJournal, take } from "./timeline_rows.js";

const initial = {
  world: "default",
  // "connecting", "live", "lost" (the server is not reached; it is tried again), "locked" (a control token is needed),
  // "missing" (the server has no such world) or "broken" (the server refuses; `refusal` is what it says).
  connection: "connecting",
  refusal: null,
  // As it was answered last, and when that was on the clock of this page; see `nowOf`.
  clock: null,
  readAt: 0,
  credentials: null,
  // Whether what was sent is shown where the service's logs hide it. Off at each load, and in each world.
  originals: false,
  // A move of the clock under way: {label, from_ms, now_ms, deliveries}; null if there is none.
  moving: null,
  // The one thing that changes in place, because it may be large; `seen` is another number then.
  journal: createJournal(),
  seen: 0,
  // How many messages failed since the page knows this journal.
  failures: 0,
  // What waits for attention, by the paths of views: {due, failed, ...}, each {many, more}; see counts.js.
  counts: null,
  // What `listed` actions brought, by name.
  lists: {},
  // How often the stream told of something; a list reloads when it has changed.
  changes: 0,
};

export function createStore(state = initial) {
  const listeners = new Set();
  return {
    get state() {
      return state;
    },
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

/**
 * The world's instant now, null before its clock is known: the server says where the clock stands when it is moved,
 * and one that runs is continued from there by its rate (D-511).
 */
export function nowOf({ clock, readAt, moving }, at = performance.now()) {
  if (moving || !clock) return moving?.now_ms ?? null;
  return Math.floor(clock.now_ms + (at - readAt) * clock.rate);
}

/** What each action changes of a state; null if nothing. */
const CHANGES = {
  world: (state, { world, originals = false }) => ({
    ...initial,
    world,
    originals,
    journal: createJournal(),
  }),
  connection: (state, { value, refusal = null }) =>
    value === state.connection && refusal === state.refusal ? null : { connection: value, refusal },
  clock: (state, { clock, at = performance.now() }) => ({
    // What is absent from an answer is so no more.
    clock: { ...state.clock, held: undefined, ...clock },
    readAt: at,
  }),
  credentials: (state, { credentials }) => ({ credentials }),
  attempts({ journal, moving, seen }, action) {
    // Older pages that were asked for before a reset are of another journal.
    if ((action.journal ?? journal) !== journal) return null;
    const count = take(journal, action.rows, action.older);
    journal.whole ||= action.whole ?? false;
    if (moving && !action.older)
      moving = {
        ...moving,
        now_ms: Math.max(moving.now_ms, action.rows.at(-1).at_ms),
        deliveries: moving.deliveries + count,
      };
    return { moving, seen: seen + 1 };
  },
  // The stream tells the new history from its beginning.
  reset: ({ seen }) => ({
    journal: { ...createJournal(), whole: true },
    seen: seen + 1,
    failures: 0,
  }),
  failed: ({ failures }) => ({ failures: failures + 1 }),
  counted: (state, { counts }) => ({ counts }),
  changed: ({ changes }) => ({ changes: changes + 1 }),
  moving: (state, { moving }) => ({ moving }),
  listed: ({ lists }, { name, value }) => ({ lists: { ...lists, [name]: value } }),
};
