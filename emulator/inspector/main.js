// The inspector: what this server's worlds did and will do, and the clock to move.
//
// Conventions
// - ES modules as they are: no build, no package, no network but this server, no markup from strings
//   (dom.js makes elements and texts; `innerHTML` is never used).
// - store.js holds what is known; live.js feeds it by the first answers and the stream; views read it.
// - A view is a module in views/ that exports {title, path, key, render(context)} and stands in
//   views/index.js. `render` is called once when the view is opened, and returns its element; what
//   changes later it draws in `context.watch`. Optional: `count(state)`, the number beside its name
//   in the menu; `detail(context)`, the content of the right column for `context.route.select`.
// - `context` is made anew for each opening of a view, and holds:
//     state          the state of the store, now; store.dispatch changes it
//     route          {view, query, select}: query is an object of texts from the address
//     watch(pick, draw)  draw(pick(state)) now, and whenever the picked value is another one (at most
//                    once a frame), until the view is left. `pick` returns something of the state
//                    itself, or a text or number, and makes no new object.
//     go(view, query, select)  open a view; setQuery(changes) changes the query of this one without
//                    drawing it anew (null removes); select(id) opens the right column, null closes it
//     call(method, path, options)  as in api.js, for what is only read
//     act(label, method, path, options)  the same for what changes something: says in a notice how it
//                    went, with the call to copy; resolves to the answer, undefined after a failure
//     canAct         whether actions are shown: false in read-only mode
//     load(name, path, query)  keep `state.lists[name]` the answer of that control call (while
//                    this view is open it is read again after the stream told of changes);
//                    `query` may be a function. Returns what reads it at once
//     bind(key, text, run)  a key of this view (as in KeyboardEvent.key); `?` lists them
//     zone           the zone in which times are shown beside UTC
//     copy(text, what), notice(text, {kind, call})
// - Statuses have a text and a shape (`status(word)` in parts.js), and a colour last.
// - Classes are few and shared: see the headings of style.css before adding one.

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
const store = createStore();
const keys = keyboard();
const canAct = document.documentElement.dataset.mode === "on";
let leave = () => {};
let route = { view: VIEWS[0].path, query: {}, select: null };

const menu = h("nav", { class: "menu", "aria-label": "Views" });
const main = h("main", { class: "view", tabindex: "-1" });
const detail = h("aside", { class: "detail", "aria-label": "Details", hidden: true });

// -- the address ------------------------------------------------------------------------------

/** "#/timeline?filter=status%3Afailed&select=msg_1&world=w2" -> {view, query, select}. */
function readAddress() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const { select = null, world = "default", ...query } = Object.fromEntries(new URLSearchParams(search));
  return { view: path || VIEWS[0].path, query, select, world };
}

function writeAddress({ view, query, select }, how = "pushState") {
  const pairs = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  if (select) pairs.set("select", select);
  if (store.state.world !== "default") pairs.set("world", store.state.world);
  const search = pairs.toString();
  history[how](null, "", `#/${view}${search ? `?${search}` : ""}`);
}

function go(view, query = {}, select = null) {
  writeAddress({ view, query, select });
  openAddress();
}

function openAddress() {
  const { world, ...found } = readAddress();
  if (world !== store.state.world || !store.state.clock) {
    api.session.world = world;
    store.dispatch({ type: "world", world });
    connect(store);
  }
  route = found;
  openView();
}

// -- views ------------------------------------------------------------------------------------

function contextOf(view, ends) {
  const context = {
    store, canAct, go, api, notice, ends,
    get state() { return store.state; },
    get route() { return route; },
    get zone() { return prefs.zone; },
    call: api.call,
    act,
    watch(pick, draw) {
      let last;
      const run = eachFrame(() => {
        const value = pick(store.state);
        if (value !== last && !ends.done) draw((last = value), store.state);
      });
      last = pick(store.state);
      draw(last, store.state);
      ends.push(store.subscribe(run));
    },
    load(name, path, query = {}) {
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
      return read;
    },
    setQuery(changes) {
      const query = { ...route.query, ...changes };
      for (const [name, value] of Object.entries(query)) if (value === null || value === "") delete query[name];
      route = { ...route, query };
      writeAddress(route, "replaceState");
    },
    select(id) {
      route = { ...route, select: id };
      writeAddress(route, "replaceState");
      openDetail(view);
    },
    bind(key, text, run) { ends.push(keys.bind(key, text, run, view.title)); },
    async copy(text, what = "Copied") {
      await navigator.clipboard.writeText(text);
      notice(`${what}.`);
    },
  };
  return context;
}

function openView() {
  leave();
  const view = VIEWS.find((each) => each.path === route.view) ?? VIEWS[0];
  const ends = [];
  leave = () => {
    ends.done = true;
    for (const end of ends.splice(0)) end();
  };
  document.title = `${view.title} · svc-emulator`;
  replace(main, view.render(contextOf(view, ends)));
  drawMenu(view);
  openDetail(view);
}

let leaveDetail = () => {};

function openDetail(view) {
  leaveDetail();
  const ends = [];
  leaveDetail = () => {
    ends.done = true;
    for (const end of ends.splice(0)) end();
  };
  const content = route.select && view.detail ? view.detail(contextOf(view, ends)) : null;
  detail.hidden = content === null;
  document.body.classList.toggle("with-detail", content !== null);
  replace(detail, content);
}

/** Do what the user asked for, and say how it went. */
async function act(label, method, path, options = {}) {
  const described = api.describe(method, path, options);
  try {
    const answer = await api.perform(described, options.signal);
    notice(`${label}: done.`, { call: described });
    return answer ?? null;
  } catch (error) {
    if (error.name === "AbortError") notice(`${label}: stopped.`);
    else notice(`${label}: ${error.message}`, { kind: "bad", call: described });
    return undefined;
  }
}

// -- the shell --------------------------------------------------------------------------------

function drawMenu(current) {
  replace(menu, VIEWS.map((view) => h("a", {
    href: `#/${view.path}`,
    "aria-current": view === current ? "page" : null,
    title: view.key ? `${view.title} (g ${view.key})` : view.title,
  }, view.title, view.count ? h("span", { class: "count" }, String(view.count(store.state) || "")) : null)));
}

function start() {
  prefs.apply();
  const bar = clockBar({ store, canAct, act, keys, go });
  document.body.append(
    h("header", { class: "bar" }, bar),
    h("div", { class: "columns" }, menu, main, detail),
    noticeArea,
  );
  for (const view of VIEWS) if (view.key) keys.bind(`g ${view.key}`, view.title, () => go(view.path), "Views");
  keys.bind("Escape", "Close the details", () => {
    if (route.select) {
      route = { ...route, select: null };
      writeAddress(route, "replaceState");
      openDetail({});
    }
  }, "Everywhere");
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
  store.subscribe(eachFrame(() => {
    drawMenu(VIEWS.find((each) => each.path === route.view) ?? VIEWS[0]);
    if (store.state.connection === "locked") askToken(store);
  }));
  openAddress();
}

start();
