// Feeds the store: the first answers of a world, then its stream, for as long as the page is open.

import { follow, get, session } from "./api.js";
import { h, openDialog } from "./dom.js";

// The first page is small: what is newest is there at once.
const AGAIN_MS = 1_000, FIRST = 100, PAGE = 1_000;
let ending = null;

/** Read a world and follow it. Whatever was followed before is given up. */
export async function connect(store) {
  ending?.abort();
  ending = new AbortController();
  const { dispatch } = store, whole = ending.signal;
  // What the stream told last: it goes on behind it.
  let last = null;
  while (!whole.aborted) {
    const attempt = new AbortController(), signal = AbortSignal.any([whole, attempt.signal]);
    try {
      const stream = follow("/_emulator/stream", { signal, query: { brief: true }, headers: last && { "Last-Event-ID": last } });
      const [clock, credentials, follows] = await Promise.all([...["clock", "credentials"].map((name) => get(name, {}, signal)), stream]);
      session.service = credentials.queue.token;
      dispatch({ type: "clock", clock });
      dispatch({ type: "credentials", credentials });
      dispatch({ type: "connection", value: "live" });
      // Behind the beginning of the stream, so that nothing lies between them.
      if (!last) older(store);
      await follows((kind, data, id) => {
        last = id ?? last;
        if (kind === "clock") dispatch({ type: "clock", clock: data });
        if (kind === "attempt") dispatch({ type: "attempts", rows: [data] });
        if (kind === "reset") dispatch({ type: "reset" });
        if (kind === "event" && data.state === "FAILED") dispatch({ type: "failed" });
        dispatch({ type: "changed" });
      });
    } catch (error) {
      if (whole.aborted) return;
      const locked = error.status === 401;
      dispatch({ type: "connection", value: locked ? "locked" : "lost" });
      if (locked) return;
    } finally {
      // Of what was asked for together, something may go on.
      attempt.abort();
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

/** Read the page of the journal before what is known; false when there is none, or it cannot be read. */
export async function older(store) {
  const { journal } = store.state, first = journal.rows[0];
  if (journal.whole) return false;
  try {
    const query = { order: "latestFirst", brief: true, limit: first ? PAGE : FIRST, cursor: first && `${first.at}-${first.seq}` };
    const { deliveries: rows, cursor } = await get("deliveries", query);
    store.dispatch({ type: "attempts", journal, rows, older: true, whole: cursor === null });
    return cursor !== null;
  } catch {
    return false;
  }
}

/** Read one list into the store, at a path below /_emulator. */
export async function reload(store, name, path, query) {
  const value = await get(path, query).catch(({ message }) => ({ error: message }));
  store.dispatch({ type: "listed", name, value });
}

let dialog = null;

/** Ask for the control token, and begin anew with it. */
export function askToken(store) {
  if (dialog?.open) return;
  const input = h("input", { type: "password", autocomplete: "off", required: true, "aria-label": "Control token" });
  const onsubmit = () => {
    session.controlToken = input.value.trim();
    dialog.close();
    // If it is wrong, that is another state again.
    store.dispatch({ type: "connection", value: "connecting" });
    connect(store);
  };
  dialog = openDialog("Control token", h("form", { onsubmit }, h("h2", "This server has a control token"),
    h("p", "It is the value of --control-token. This tab keeps it until it is closed."), input, h("button", "Open")));
}
