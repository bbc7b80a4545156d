// The inspector: what this server's worlds did and will do, and the clock to move. CONTRIBUTING.md says how a
// view is made.

import * as api from "./api.js";
import { clockBar } from "./clock.js";
import { keepCounting } from "./counts.js";
import { eachFrame, h, replace } from "./dom.js";
import { keyboard } from "./keyboard.js";
import { askToken, connect, reload } from "./live.js";
import { menuOf } from "./menu.js";
import { notice, noticeArea } from "./notices.js";
import { prefs } from "./prefs.js";
import { createStore, nowOf } from "./store.js";
import { VIEWS } from "./views/index.js";

const READ_AGAIN_MS = 100;
const store = createStore();
const keys = keyboard();
const canAct = document.documentElement.dataset.mode === "on";
let route = { view: VIEWS[0].path, query: {}, select: null };

const selections = new Set();
const menu = menuOf(store, showOriginals, keys.show);
const main = h("main.view", { id: "view", tabindex: "-1" });
const detail = h("aside.detail", { "aria-label": "Details", tabindex: "-1", hidden: true });
const skip = h(
  "a.skip",
  {
    href: "#view",
    onclick: (event) => {
      event.preventDefault();
      main.focus();
    },
  },
  "Skip to the view",
);

// The address, such as "#/timeline?filter=status%3Afailed&select=msg_1&world=w2"

function writeAddress(changes, how = "replaceState") {
  route = { ...route, ...changes };
  const { view, query, select } = route;
  const { world } = store.state;
  history[how](
    null,
    "",
    `#${api.target({ path: `/${view}`, query: { ...query, select, world: world === "default" ? null : world } })}`,
  );
}

function go(view, query = {}, select = null) {
  writeAddress({ view, query, select }, "pushState");
  openView();
}

function openAddress() {
  const [view, search] = location.hash.replace(/^#\/?/, "").split("?");
  const {
    select = null,
    world = "default",
    ...query
  } = Object.fromEntries(new URLSearchParams(search));
  if (world !== store.state.world || !store.state.clock) {
    api.session.world = world;
    store.dispatch({ type: "world", world });
    connect(store);
  }
  route = { view: view || VIEWS[0].path, query, select };
  openView();
}

/** What a view or its right column is opened with; see CONTRIBUTING.md. */
function contextOf(view, ends) {
  return {
    store,
    canAct,
    go,
    act,
    ends,
    call: api.call,
    get state() {
      return store.state;
    },
    get route() {
      return route;
    },
    /** The world's instant now; null before its clock is known. */
    get now() {
      return nowOf(store.state);
    },
    get zone() {
      return prefs.zone;
    },
    watch(pick, draw) {
      let last = pick(store.state);
      draw(last, store.state);
      ends.push(
        store.subscribe(
          eachFrame(() => {
            const value = pick(store.state);
            if (value !== last && !ends.done) draw((last = value), store.state);
          }),
        ),
      );
    },
    load(name, path, query = {}, draw = null, pages = null) {
      let changes;
      let busy = false;
      let again = false;
      // One call at a time, and none for each of a thousand events.
      const read = async () => {
        again = true;
        if (busy) return;
        busy = true;
        while (!ends.done && (again || changes !== store.state.changes)) {
          again = false;
          changes = store.state.changes;
          const asked = typeof query === "function" ? query() : query;
          await reload(store, name, path, asked, pages?.());
          await new Promise((done) => setTimeout(done, READ_AGAIN_MS));
        }
        busy = false;
      };
      read();
      ends.push(store.subscribe((state) => state.changes !== changes && read()));
      if (draw) this.watch((state) => state.lists[name], draw);
      return read;
    },
    setQuery(changes) {
      writeAddress({ query: { ...route.query, ...changes } });
    },
    select,
    /** Run it whenever the right column shows something else. */
    whenSelected(run) {
      selections.add(run);
      ends.push(() => selections.delete(run));
    },
    bind(key, text, run, works) {
      ends.push(keys.bind(key, text, run, { group: view.title, works }));
    },
  };
}

const viewOf = (wanted) => VIEWS.find(({ path }) => path === wanted.view) ?? VIEWS[0];

/** A function that leaves what it opened before, and draws the view anew as soon as it is read. */
function opener(draw) {
  let ends = [];
  return async () => {
    ends.done = true;
    for (const end of ends.splice(0)) end();
    const own = (ends = []);
    const view = viewOf(route);
    const module = await view
      .load()
      .catch(({ message }) => notice(`${view.title}: ${message}`, { kind: "bad" }));
    // Meanwhile another view may have been asked for.
    if (module && !own.done && view === viewOf(route)) draw(module, contextOf(view, own), view);
  };
}

const openDetail = opener(({ detail: of }, context) => {
  const isShown = route.select && of && store.state.connection !== "missing";
  const content = isShown ? of(context) : null;
  detail.hidden = content === null;
  document.body.classList.toggle("with-detail", content !== null);
  replace(detail, content);
});

const openView = opener(({ render }, context, view) => {
  document.title = `${view.title} · svc-emulator`;
  menu.mark(view.path);
  openDetail();
  if (store.state.connection === "missing" && view.path !== "worlds") return void openMissing();
  const head = h("header.tools");
  const tools = (...beside) => replace(head, h("h1", view.title), beside);
  tools();
  replace(main, h(`section.${view.path}`, head, render(context, tools)));
});

/** Read the world anew: what was sent is shown, or hidden as the service's logs hide it. */
function showOriginals(originals) {
  store.dispatch({ type: "world", world: store.state.world, originals });
  connect(store);
  openView();
}

/** In the place of a view: the world that was asked for is not there, others are. */
async function openMissing() {
  const { world } = store.state;
  const others = await api.get("worlds", { world: null }).catch(() => null);
  if (store.state.connection !== "missing" || store.state.world !== world) return;
  const links = (others?.worlds ?? []).map(({ id }) => h("li", worldLink(id)));
  replace(
    main,
    h(
      "section.empty.missing",
      { role: "alert" },
      h("h1", "There is no world ", h("bdi", world)),
      h("p", "It was deleted, or it is another server's. If it is made, it is shown here."),
      links.length > 0 && [h("p", "Worlds of this server:"), h("ul", links)],
    ),
  );
}

/** Show another world in the view that is open. */
function goToWorld(id) {
  location.hash = api.target({ path: `/${route.view}`, query: { world: id } });
}

const worldLink = (id) =>
  h("a", { href: `#${api.target({ path: `/${route.view}`, query: { world: id } })}` }, id);

/** Open the right column for an id, or close it with null: then the focus goes back to where it was opened. */
function select(id) {
  const isInside = detail.contains(document.activeElement);
  if (id === null && (isInside || document.activeElement === document.body)) focusRow();
  writeAddress({ select: id });
  for (const run of selections) run();
  openDetail();
}

/** Focus the row whose details are open, or the list, or the view. */
function focusRow() {
  const row = main.querySelector('tr[aria-selected="true"] :is(button, a), [role="listbox"]');
  (row ?? main).focus();
}

/** From the row into its details, and back. */
function crossOver() {
  if (detail.contains(document.activeElement)) focusRow();
  else detail.focus();
}

/**
 * Do what the user asked for, and say how it went: done, or what `options.said(answer)` is. A refusal that
 * `options.failed(error)` shows in its own place is not said here.
 */
async function act(label, method, path, options) {
  const called = api.describe(method, path, options);
  const { dialect } = store.state.credentials ?? {};
  try {
    const answer = await api.perform(called, options?.signal);
    const text = options?.said ? options.said(answer) : `${label}: done.`;
    if (text) notice(text, { call: called, dialect });
    return answer;
  } catch (error) {
    if (error.name !== "AbortError" && !options?.failed?.(error))
      notice(`${label}: ${error.message}`, { kind: "bad", call: called, dialect });
    return undefined;
  }
}

prefs.apply();
// First, so that the server answers while the page is made.
openAddress();
document.body.append(
  skip,
  h("header.bar", clockBar({ store, canAct, act, keys, goToWorld })),
  h("div.columns", menu.nav, main, detail),
  noticeArea,
);
keepCounting(store);
for (const { key, title, path } of VIEWS)
  keys.bind(`g ${key}`, title, () => go(path), { group: "Views" });
const isOpen = () => !detail.hidden;
keys.bind("o", "From the row into its details, and back", crossOver, { works: isOpen });
keys.bind("w", "Wide or narrow details", () => prefs.keep({ wide: !prefs.wide }), {
  works: isOpen,
});
keys.bind("Escape", "Close the details", () => select(null), { works: isOpen });
// The browser sends no form of this page itself; a dialog's only closes it.
document.addEventListener(
  "submit",
  (event) => event.target.method !== "dialog" && event.preventDefault(),
);
// A link that names no world stays in the one that is shown.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href^="#/"]');
  const { world } = store.state;
  if (!link || world === "default" || link.hash.includes("world=")) return;
  event.preventDefault();
  location.hash = `${link.hash}${link.hash.includes("?") ? "&" : "?"}world=${encodeURIComponent(world)}`;
});
addEventListener("hashchange", openAddress);
addEventListener("popstate", openAddress);
prefs.changed(openView);
let reached = null;
store.subscribe(({ connection }) => {
  if (connection === reached) return;
  if (connection === "locked") askToken(store);
  // A view is drawn in the place of what said that the world is missing, and the other way round.
  if ([connection, reached].includes("missing")) openView();
  reached = connection;
});
