// The bar at the top: the world, its clock, and moving it. Before each move the world is kept, so that Undo can go back.

import { call, describe, perform } from "./api.js";
import { eachFrame, h, replace } from "./dom.js";
import { count, duration, instant, timeOfDay, zoneName } from "./format.js";
import { notice } from "./notices.js";
import { prefs } from "./prefs.js";

const KEPT = 5, COUNTED = 100, DAY = 86_400_000, COUNT_AGAIN_MS = 1_000, TICK_MS = 250;
/** How the names of snapshots begin that belong to Undo. */
export const UNDO = "inspector-undo-";
const PACES = [[0, "frozen"], [1, "real time"], [60, "1 minute a second"], [3600, "1 hour a second"], [86400, "1 day a second"]];
const STEPS = [["next", "next", "next", null, "n"], ["+1m", "1 minute", "advance", { by: "1m" }, "m"], ["+1h", "1 hour", "advance", { by: "1h" }, "h"],
  ["+1d", "1 day", "advance", { by: "1d" }, "d"], ["drain", "until nothing but schedules is due", "drain", null, "e"]];

export function clockBar({ store, canAct, act, keys }) {
  const shown = h("span", { class: "clock" }), counts = h("span", { class: "counts" }), progress = h("span", { class: "progress", role: "status" });
  const pace = h("select", { "aria-label": "Pace of the clock", disabled: !canAct, onchange: async () => {
    const clock = await act("Pace", "PUT", "/_emulator/clock", { body: { rate: Number(pace.value) } });
    if (clock) store.dispatch({ type: "clock", clock });
  } });
  const stop = h("button", { class: "main", onclick: () => stopping?.abort(), title: "Stop the clock where it is (Escape)" }, "Stop");
  const back = h("button", { onclick: undo, title: "Back to before the last move: what happened since is forgotten (u)" }, "↶ undo");
  const buttons = STEPS.map(([text, label, path, body, key]) => {
    keys.bind(`c ${key}`, `Move the clock: ${label}`, () => canAct && move(label, path, body), "Clock");
    return h("button", { onclick: () => move(label, path, body), title: `Move the clock: ${label} (c ${key})` }, text);
  });
  const to = h("input", { placeholder: "to +90m or 2026-03-02T09:00", "aria-label": "Move the clock to", size: 21, title: "A duration such as +90m, or an instant in UTC (c t)" });
  const target = h("form", { onsubmit: (event) => {
    event.preventDefault();
    const text = to.value.trim();
    if (text) move(text, "advance", text.startsWith("+") ? { by: text.slice(1) } : { to: /(Z|[+-]\d\d:?\d\d)$/i.test(text) || /^\d+$/.test(text) ? text : `${text}Z` }).then((done) => { if (done) to.value = ""; });
  } }, to);
  keys.bind("c t", "Move the clock to an instant", () => canAct && to.focus(), "Clock");
  keys.bind("u", "Undo the last move of the clock", () => canAct && !back.disabled && undo(), "Clock");
  let stopping = null, read = null, stamp = null;

  /** Move the clock; says whether it came to its end. */
  async function move(label, path, body) {
    if (stopping) return false;
    stopping = new AbortController();
    const release = keys.bind("Escape", "Stop the clock", () => stopping?.abort(), "Clock");
    const { now_ms } = store.state.clock, called = describe("POST", `/_emulator/clock/${path}`, body ? { body } : {});
    store.dispatch({ type: "moving", moving: { label, from_ms: now_ms, now_ms, deliveries: 0 } });
    try {
      await keep();
      const report = await perform(called, stopping.signal);
      store.dispatch({ type: "clock", clock: { now_ms: report.to_ms } });
      notice(`${report.to_ms === report.from_ms ? "The clock stands: nothing is due" : `Moved ${duration(report.to_ms - report.from_ms)}`}, ${count(report.deliveries, "delivery", "deliveries")}${report.failed ? `, ${report.failed} failed` : ""}.`, { call: called });
      return true;
    } catch (error) {
      if (error.name === "AbortError") notice(`Stopped at ${instant((await call("GET", "/_emulator/clock")).now_ms)} UTC.`);
      else notice(`Move ${label}: ${error.message}`, { kind: "bad", call: called });
      return false;
    } finally {
      release();
      stopping = null;
      store.dispatch({ type: "moving", moving: null });
      store.dispatch({ type: "clock", clock: await call("GET", "/_emulator/clock").catch(() => ({})) });
    }
  }

  const kept = async () => (await call("GET", "/_emulator/snapshots")).snapshots.map(({ name }) => name).filter((name) => name.startsWith(UNDO)).sort();
  const forget = (name) => call("DELETE", `/_emulator/snapshots/${name}`);

  async function keep() {
    await call("POST", "/_emulator/snapshots", { body: { name: `${UNDO}${Date.now()}` } });
    await Promise.all((await kept()).slice(0, -KEPT).map(forget));
    back.disabled = false;
  }

  async function undo() {
    const names = await kept(), name = names.pop();
    if (name && (await act("Undo", "POST", `/_emulator/snapshots/${name}/restore`)) !== undefined) await forget(name);
    back.disabled = names.length === 0;
    store.dispatch({ type: "clock", clock: await call("GET", "/_emulator/clock") });
  }

  /** The instant now: a clock that runs is told only when it is moved. */
  function now({ clock }) {
    if (clock !== stamp?.clock) stamp = { clock, at: performance.now() };
    return clock.now_ms + (performance.now() - stamp.at) * clock.rate;
  }

  function draw() {
    const { clock, moving } = store.state, state = store.state;
    if (!clock) return;
    const ms = moving ? moving.now_ms : now(state), { zone } = prefs;
    replace(shown, h("time", {}, instant(ms), " UTC"), zone !== "UTC" && h("a", { href: "#/settings", title: `${instant(ms, zone)} ${zone}: choose another zone` }, timeOfDay(Math.floor(ms / 1000) * 1000, zone), " ", zoneName(zone)));
    if (document.activeElement !== pace) {
      const known = PACES.some(([rate]) => rate === clock.rate) ? PACES : [...PACES, [clock.rate, `${clock.rate} × real time`]];
      if (pace.length !== known.length) replace(pace, known.map(([rate, text]) => h("option", { value: rate }, text)));
      pace.value = clock.rate;
    }
    pace.classList.toggle("frozen", clock.rate === 0);
    for (const button of [...buttons, to]) button.disabled = moving !== null;
    stop.hidden = moving === null;
    replace(progress, moving && `${moving.label}: ${duration(moving.now_ms - moving.from_ms)} on, ${count(moving.deliveries, "delivery", "deliveries")}`);
  }

  /** Count what waits for attention, at most once a second. */
  async function recount() {
    const { state } = store;
    if (read === state.changes || !state.clock || state.moving || document.hidden) return;
    read = state.changes;
    const at = now(state);
    try {
      const [upcoming, failed, refused] = await Promise.all([call("GET", "/_emulator/upcoming", { query: { until: Math.floor(at + DAY), limit: 1000 } }),
        call("GET", "/_emulator/messages", { query: { state: "failed", limit: COUNTED } }), call("GET", "/_emulator/refused", { query: { limit: COUNTED } })]);
      const due = upcoming.items.filter(({ kind }) => !kind.endsWith("_expiry")).length;
      const many = (number) => (number >= COUNTED ? `${COUNTED}+` : number);
      const part = (number, text, href) => h("a", { href, class: number ? null : "dim" }, `${number} ${text}`);
      replace(counts, part(due, "due in 24 h", "#/timeline?filter=status%3Adue"), " · ", part(many(failed.messages.length), "failed", "#/messages?state=failed"), " · ", part(many(refused.refused.length), "refused", "#/refused"));
      if (canAct) back.disabled = (await kept()).length === 0;
    } catch {
      // The next change counts again; that the server is gone is said elsewhere.
    }
  }

  const link = h("a", { class: "world", href: "#/worlds", title: "The world that is shown: choose another" }), connection = h("span", { class: "status bad" });
  store.subscribe(eachFrame(() => {
    replace(link, "world ", h("strong", {}, store.state.world));
    replace(connection, store.state.connection === "lost" && "▲ connection lost");
    draw();
  }));
  prefs.changed(draw);
  setInterval(() => store.state.clock?.rate && !store.state.moving && draw(), TICK_MS);
  setInterval(recount, COUNT_AGAIN_MS);
  setTimeout(recount, TICK_MS);
  return [h("strong", {}, "svc-emulator"), link, shown, pace, connection, h("span", { class: "moves" }, canAct && [back, buttons, target], stop, progress), counts];
}
