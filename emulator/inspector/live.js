// Feeds the store: the first answers of a world, then its stream, for as long as the page is open.

import { ApiError, call, follow, session } from "./api.js";
import { h, replace } from "./dom.js";

const AGAIN_MS = 1_000;
const PAGE = 1_000;
let ending = null;

/** Read a world and follow it. Whatever was followed before is given up. */
export function connect(store) {
  ending?.abort();
  ending = new AbortController();
  const { signal } = ending;
  run(store, signal);
}

async function run(store, signal) {
  // What the stream told last: it goes on behind it.
  let last = null;
  while (!signal.aborted) {
    try {
      const [clock, credentials] = await Promise.all([call("GET", "/_emulator/clock", { signal }), call("GET", "/_emulator/credentials", { signal })]);
      session.service = credentials.queue.token;
      store.dispatch({ type: "clock", clock });
      store.dispatch({ type: "credentials", credentials });
      const opened = () => {
        store.dispatch({ type: "connection", value: "live" });
        if (!last) older(store);
      };
      await follow("/_emulator/stream", { signal, opened, query: { brief: true }, headers: last ? { "Last-Event-ID": last } : {} }, (kind, data, id) => {
        last = id ?? last;
        if (kind === "clock") store.dispatch({ type: "clock", clock: data });
        if (kind === "attempt") store.dispatch({ type: "attempts", rows: [data] });
        if (kind === "reset") store.dispatch({ type: "reset" });
        store.dispatch({ type: "changed" });
      });
    } catch (error) {
      if (signal.aborted) return;
      const locked = error instanceof ApiError && error.status === 401;
      store.dispatch({ type: "connection", value: locked ? "locked" : "lost" });
      if (locked) return;
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

/** Read the page of the journal before what is known of it; false when there is none, or it could not be read. */
export async function older(store) {
  const { journal } = store.state, first = journal.rows[0];
  if (journal.whole) return false;
  try {
    const { deliveries: rows, cursor } = await call("GET", "/_emulator/deliveries", { query: { order: "latestFirst", brief: true, limit: PAGE, cursor: first && `${first.at}-${first.seq}` } });
    store.dispatch({ type: "attempts", journal, rows, older: true, whole: cursor === null });
    return cursor !== null;
  } catch {
    return false;
  }
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
