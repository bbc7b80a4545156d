// The inspector: what this server's worlds did and will do, and the clock to move. CONTRIBUTING.md says how a view is made.

import * as api from "./api.js";
import { clockBar } from "./clock.js";
import { eachFrame, h, replace } from "./dom.js";
import { keyboard } from "./keyboard.js";
import { askToken, connect, reload } from "./live.js";
import { notice, noticeArea } from "./notices.js";
import { prefs } from "./prefs.js";
import { createStore } from "./store.js";
import { VIEWS } from "./views/index.js";

const READ_AGAIN_MS = 100;
const store = createStore(), keys = keyboard();
const canAct = document.documentElement.dataset.mode === "on";
let route = { view: VIEWS[0].path, query: {}, select: null };

const menu = h("nav.menu", { "aria-label": "Views" });
const main = h("main.view", { tabindex: "-1" });
const detail = h("aside.detail", { "aria-label": "Details", hidden: true });

// The address, such as "#/timeline?filter=status%3Afailed&select=msg_1&world=w2"

function writeAddress(changes, how = "replaceState") {
  route = { ...route, ...changes };
  const { view, query, select } = route, { world } = store.state;
  history[how](null, "", `#${api.target({ path: `/${view}`, query: { ...query, select, world: world === "default" ? null : world } })}`);
}

function go(view, query = {}, select = null) {
  writeAddress({ view, query, select }, "pushState");
  openView();
}

function openAddress() {
  const [view, search] = location.hash.replace(/^#\/?/, "").split("?");
  const { select = null, world = "default", ...query } = Object.fromEntries(new URLSearchParams(search));
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
    store, canAct, go, act, ends, call: api.call,
    get state() { return store.state; },
    get route() { return route; },
    get zone() { return prefs.zone; },
    watch(pick, draw) {
      let last = pick(store.state);
      draw(last, store.state);
      ends.push(store.subscribe(eachFrame(() => {
        const value = pick(store.state);
        if (value !== last && !ends.done) draw((last = value), store.state);
      })));
    },
    load(name, path, query = {}, draw = null) {
      let changes, busy = false, again = false;
      // One call at a time, and none for each of a thousand events.
      const read = async () => {
        again = true;
        if (busy) return;
        busy = true;
        while (!ends.done && (again || changes !== store.state.changes)) {
          again = false;
          changes = store.state.changes;
          await reload(store, name, path, typeof query === "function" ? query() : query);
          await new Promise((done) => setTimeout(done, READ_AGAIN_MS));
        }
        busy = false;
      };
      read();
      ends.push(store.subscribe((state) => state.changes !== changes && read()));
      if (draw) this.watch((state) => state.lists[name], draw);
      return read;
    },
    setQuery(changes) { writeAddress({ query: { ...route.query, ...changes } }); },
    select,
    bind(key, text, run) { ends.push(keys.bind(key, text, run, view.title)); },
  };
}

/** A function that leaves what it opened before, and draws the view anew as soon as it is read. */
function opener(draw) {
  let ends = [];
  return async () => {
    ends.done = true;
    for (const end of ends.splice(0)) end();
    const own = ends = [], view = VIEWS.find(({ path }) => path === route.view) ?? VIEWS[0];
    const module = await view.load().catch(({ message }) => notice(`${view.title}: ${message}`, { kind: "bad" }));
    if (module && !own.done) draw(module, contextOf(view, own), view);
  };
}

const openDetail = opener(({ detail: of }, context) => {
  const content = route.select && of ? of(context) : null;
  detail.hidden = content === null;
  document.body.classList.toggle("with-detail", content !== null);
  replace(detail, content);
});

const openView = opener(({ render }, context, view) => {
  document.title = `${view.title} · svc-emulator`;
  replace(menu, VIEWS.map(({ path, title, key }) =>
    h("a", { href: `#/${path}`, "aria-current": path === view.path ? "page" : null, title: `${title} (g ${key})` }, title)));
  const head = h("header.tools"), tools = (...beside) => replace(head, h("h1", view.title), beside);
  tools();
  replace(main, h(`section.${view.path}`, head, render(context, tools)));
  openDetail();
});

function select(id) {
  writeAddress({ select: id });
  openDetail();
}

/** Do what the user asked for, and say how it went: done, or what `options.said(answer)` is. */
async function act(label, method, path, options) {
  const called = api.describe(method, path, options);
  try {
    const answer = await api.perform(called, options?.signal), text = options?.said ? options.said(answer) : `${label}: done.`;
    if (text) notice(text, { call: called });
    return answer;
  } catch (error) {
    if (error.name !== "AbortError") notice(`${label}: ${error.message}`, { kind: "bad", call: called });
    return undefined;
  }
}

prefs.apply();
// First, so that the server answers while the page is made.
openAddress();
document.body.append(h("header.bar", clockBar({ store, canAct, act, keys })), h("div.columns", menu, main, detail), noticeArea);
for (const { key, title, path } of VIEWS) keys.bind(`g ${key}`, title, () => go(path), "Views");
keys.bind("Escape", "Close the details", () => route.select && select(null));
// The browser sends no form of this page itself; a dialog's only closes it.
document.addEventListener("submit", (event) => event.target.method !== "dialog" && event.preventDefault());
// A link that names no world stays in the one that is shown.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href^="#/"]'), { world } = store.state;
  if (!link || world === "default" || link.hash.includes("world=")) return;
  event.preventDefault();
  location.hash = `${link.hash}${link.hash.includes("?") ? "&" : "?"}world=${encodeURIComponent(world)}`;
});
addEventListener("hashchange", openAddress);
addEventListener("popstate", openAddress);
prefs.changed(openView);
store.subscribe(() => store.state.connection === "locked" && askToken(store));
