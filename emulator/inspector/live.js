// Feeds the store: the first answers of a world, then its stream, for as long as the page is open.
//
// What can go wrong here is a gap or a row that comes twice. The stream is opened at the newest entry, and only when
// the server has answered for it are older pages of the journal asked for: nothing lies between the two. They may
// overlap, and the journal leaves out what it has by its number (`take`). When the stream breaks off, it is opened
// again with `Last-Event-ID`, and continues behind the last entry that was taken.
//
// A world can be left while an answer to it is under way. Each connection has a signal of its own, by which the calls
// of the one before are aborted, and an answer that comes all the same is dropped if the world, or whether originals
// are shown, is another than when it was asked for. The clock and the credentials are read together with each new
// stream, because both may have changed while it was away: a world that was deleted and made again has other tokens.
//
// Lists (`reload`) are not made from the stream. An event says that something changed, and the list is read again,
// once for any number of events (`load` in main.js).

import { follow, get, session } from "./api.js";
import { h, openDialog } from "./dom.js";

// The first page is small: what is newest is there at once.
const AGAIN_MS = 1_000;
const FIRST = 100;
const PAGE = 1_000;
// Lists in which the service hides what a message or a run redacts.
const HIDING = /^(deliveries|runs(\/.*)?|messages\/.*\/explain)$/;
let ending = null;

/** Read a world and follow it. Whatever was followed before is given up. */
export async function connect(store) {
  ending?.abort();
  ending = new AbortController();
  const { dispatch } = store;
  const whole = ending.signal;
  // What the stream told last: it goes on behind it.
  let last = null;
  while (!whole.aborted) {
    const attempt = new AbortController();
    const signal = AbortSignal.any([whole, attempt.signal]);
    try {
      const stream = follow("/_emulator/stream", {
        signal,
        query: { brief: true, redact: !store.state.originals },
        headers: last && { "Last-Event-ID": last },
      });
      const [clock, credentials, follows] = await Promise.all([
        ...["clock", "credentials"].map((name) => get(name, {}, signal)),
        stream,
      ]);
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
      // Ended by the server: the world was deleted, or the server is about to end.
      if (!whole.aborted) dispatch({ type: "connection", value: "connecting" });
    } catch (error) {
      if (whole.aborted) return;
      dispatch(stateAfter(error));
      if (error.status === 401) return;
    } finally {
      // Of what was asked for together, something may go on.
      attempt.abort();
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

/** What an attempt to read a world says of it: only an answer that does not come is a lost connection. */
function stateAfter({ status, message }) {
  if (!status) return { type: "connection", value: "lost" };
  const value = { 401: "locked", 404: "missing" }[status] ?? "broken";
  return { type: "connection", value, refusal: message };
}

/** Read the page of the journal before what is known; false when there is none, or it cannot be read. */
export async function older(store) {
  const { journal } = store.state;
  const { oldest } = journal;
  if (journal.whole) return false;
  try {
    const query = {
      order: "latestFirst",
      brief: true,
      redact: !store.state.originals,
      limit: oldest ? PAGE : FIRST,
      cursor: oldest && `${oldest.at_ms}-${oldest.seq}`,
    };
    const { deliveries: rows, cursor } = await get("deliveries", query);
    store.dispatch({ type: "attempts", journal, rows, older: true, whole: cursor === null });
    return cursor !== null;
  } catch {
    return false;
  }
}

/**
 * Read one list into the store, at a path below /_emulator. `pages` is how many pages of it, as {many, rows}: the rows
 * of the following ones are put behind those of the first.
 */
export async function reload(store, name, path, query, pages) {
  const { world, originals } = store.state;
  const redact = HIDING.test(path) ? !originals : null;
  const value = await readPages(path, { redact, ...query }, pages).catch(({ message }) => ({
    error: message,
  }));
  // An answer that comes after another world was opened is not of that one.
  if (store.state.world === world && store.state.originals === originals)
    store.dispatch({ type: "listed", name, value });
}

async function readPages(path, query, { many = 1, rows } = {}) {
  const first = await get(path, query);
  for (let read = 1; read < many && first.cursor; read += 1) {
    const next = await get(path, { ...query, cursor: first.cursor });
    first[rows].push(...next[rows]);
    first.cursor = next.cursor;
  }
  return first;
}

/** Ask where the clock stands. It stays as it is known if there is no answer. */
export async function readClock(store) {
  const { world } = store.state;
  const clock = await get("clock").catch(() => null);
  if (clock && store.state.world === world) store.dispatch({ type: "clock", clock });
}

let dialog = null;

/** Ask for the control token, and begin anew with it. */
export function askToken(store) {
  if (dialog?.open) return;
  const input = h("input", {
    type: "password",
    autocomplete: "off",
    required: true,
    "aria-label": "Control token",
  });
  const onsubmit = () => {
    session.controlToken = input.value.trim();
    dialog.close();
    // If it is wrong, that is another state again.
    store.dispatch({ type: "connection", value: "connecting" });
    connect(store);
  };
  dialog = openDialog(
    "Control token",
    h(
      "form",
      { onsubmit },
      h("h2", "This server has a control token"),
      h("p", "It is the value of --control-token. This tab keeps it until it is closed."),
      input,
      h("button", "Open"),
    ),
  );
}
