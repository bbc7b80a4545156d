// Feeds the store: the first answers of a world, then its stream, for as long as the page is open.

import { ApiError, call, follow, session } from "./api.js";
import { h, replace } from "./dom.js";
import { rowOf } from "./rows.js";

const AGAIN_MS = 1_000;
const TOGETHER_MS = 40;
const AHEAD_MS = 500;
const FIRST_ROWS = 300;
let ending = null;

/** Read a world and follow it. Whatever was followed before is given up. */
export function connect(store) {
  ending?.abort();
  ending = new AbortController();
  const { signal } = ending;
  run(store, signal);
}

async function run(store, signal) {
  const told = teller(store, signal);
  while (!signal.aborted) {
    try {
      const [clock, credentials] = await Promise.all([call("GET", "/_emulator/clock", { signal }), call("GET", "/_emulator/credentials", { signal })]);
      session.service = credentials.queue.token;
      store.dispatch({ type: "clock", clock: { ...clock, readAt: performance.now() } });
      store.dispatch({ type: "credentials", credentials });
      readAhead(store).catch(() => {});
      const opened = () => {
        store.dispatch({ type: "connection", value: "live" });
        if (store.state.older === undefined) loadOlder(store, FIRST_ROWS);
      };
      // Where the last connection broke off, this one goes on.
      const headers = told.id ? { "Last-Event-ID": told.id } : {};
      await follow("/_emulator/stream", { query: { brief: true }, headers, signal, opened }, told.take);
    } catch (error) {
      if (signal.aborted) return;
      const locked = error instanceof ApiError && error.status === 401;
      store.dispatch({ type: "connection", value: locked ? "locked" : "lost" });
      if (locked) return;
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

/** Takes in what the stream tells, many events at a time: each new state costs the views a drawing. */
function teller(store, signal) {
  let rows = [], clock = null, waits = false, upcomingAt = 0, upcomingWaits = false;
  const told = { id: null, take };

  function take(kind, data, id) {
    told.id = id ?? told.id;
    if (kind === "attempt") rows.push(rowOf(data));
    else if (kind === "clock") clock = data;
    else if (kind === "reset") {
      rows = [];
      store.dispatch({ type: "forget" });
    }
    if (waits) return;
    waits = true;
    setTimeout(flush, TOGETHER_MS);
  }

  function flush() {
    waits = false;
    if (signal.aborted) return;
    if (rows.length) store.dispatch({ type: "attempts", rows });
    rows = [];
    if (clock) store.dispatch({ type: "clock", clock: { ...clock, readAt: performance.now() } });
    clock = null;
    store.dispatch({ type: "changed" });
    lookAhead();
  }

  /** What is to come is worked out by the server, so it is asked for at most twice a second. */
  function lookAhead() {
    if (upcomingWaits) return;
    upcomingWaits = true;
    setTimeout(async () => {
      upcomingAt = performance.now();
      await readAhead(store).catch(() => {});
      upcomingWaits = false;
    }, Math.max(0, upcomingAt + AHEAD_MS - performance.now()));
  }
  return told;
}

/** Read what is to come, and where the clock stands. */
export async function readAhead(store) {
  const { world } = store.state;
  const [upcoming, clock] = await Promise.all([call("GET", "/_emulator/upcoming"), call("GET", "/_emulator/clock")]);
  if (store.state.world !== world) return;
  store.dispatch({ type: "upcoming", upcoming });
  store.dispatch({ type: "clock", clock: { ...clock, readAt: performance.now() } });
}

let loading = null;

/** Read the next older attempts; one call at a time. */
export function loadOlder(store, limit = 1000) {
  const { world, older } = store.state;
  loading ??= call("GET", "/_emulator/deliveries", { query: { brief: true, order: "latestFirst", limit, cursor: older } })
    .then(({ deliveries, cursor }) => {
      if (store.state.world === world && store.state.older === older) store.dispatch({ type: "older", rows: deliveries.map(rowOf), cursor });
    })
    .finally(() => { loading = null; });
  return loading;
}

/** Read one list into the store. */
export async function reload(store, name, path, query) {
  try {
    store.dispatch({ type: "listed", name, value: await call("GET", path, { query }) });
  } catch (error) {
    store.dispatch({ type: "listed", name, value: { error: error.message } });
  }
}

const dialog = h("dialog", { class: "token", "aria-label": "Control token" });

/** Ask for the control token, and begin anew with it. */
export function askToken(store) {
  if (dialog.open) return;
  const input = h("input", { type: "password", autocomplete: "off", required: true, "aria-label": "Control token" });
  replace(dialog, h("form", {
    onsubmit: (event) => {
      event.preventDefault();
      session.controlToken = input.value.trim();
      dialog.close();
      connect(store);
    },
  }, h("h2", {}, "This server has a control token"), h("p", {}, "It is the value of --control-token. This tab keeps it until it is closed."), input, h("button", {}, "Open")));
  if (!dialog.isConnected) document.body.append(dialog);
  dialog.showModal();
}
