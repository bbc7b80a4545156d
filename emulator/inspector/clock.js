// The bar at the top: the world, its clock, and moving it.

import { call } from "./api.js";
import { h, replace } from "./dom.js";
import { count, instant, relative, zoneName } from "./format.js";
import { readAhead } from "./live.js";
import { notice } from "./notices.js";
import { prefs } from "./prefs.js";

const UNDO = "inspector-undo-";
const KEPT_UNDOS = 5;
const TICK_MS = 250;
const RATES = [[0, "FROZEN"], [1, "REAL TIME"], [60, "× 60"], [3600, "× 3,600"]];
const MOVES = [["m", "+1m", "Advance a minute", "1m"], ["h", "+1h", "Advance an hour", "1h"], ["d", "+1d", "Advance a day", "1d"]];

/** The virtual now: where the clock stood when it was read, and what has passed since. */
export function nowOf(clock) {
  if (!clock) return null;
  const passed = clock.rate && clock.readAt ? (performance.now() - clock.readAt) * clock.rate : 0;
  return Math.round(clock.now_ms + passed);
}

export function clockBar({ store, canAct, act, keys, go }) {
  const time = h("span", { class: "now" }), progress = h("span", { class: "progress", role: "status" }), facts = h("span", { class: "dim" });
  const world = h("a", { href: "#/worlds", class: "world" }), rate = rateSelect(), buttons = h("span", { class: "moves" });
  let stop = null;

  function rateSelect() {
    return h("select", { "aria-label": "How the clock goes", disabled: !canAct, onchange: async (event) => {
      const value = event.target.value === "other" ? Number(prompt("Virtual seconds per second", "10")) : Number(event.target.value);
      if (Number.isFinite(value) && value >= 0) await act("Set the clock's pace", "PUT", "/_emulator/clock", { body: { rate: value } });
      await readAhead(store).catch(() => {});
      drawRate(store.state.clock?.rate ?? 0);
    } });
  }

  function drawRate(value) {
    const known = RATES.some(([each]) => each === value) ? RATES : [...RATES, [value, `× ${value}`]];
    replace(rate, [...known, ["other", "other rate…"]].map(([each, text]) => h("option", { value: each, selected: each === value }, text)));
  }

  async function move(label, path, body) {
    if (stop) return;
    stop = new AbortController();
    store.dispatch({ type: "moving", moving: { label, from_ms: store.state.clock?.now_ms, deliveries: 0 } });
    const unbind = keys.bind("Escape", "Stop the clock's move", () => stop?.abort(), "Clock");
    try {
      await saveUndo();
      await act(label, "POST", path, { body, signal: stop.signal });
    } catch (error) {
      notice(`${label}: ${error.message}`, { kind: "bad" });
    } finally {
      stop = null;
      unbind();
      store.dispatch({ type: "moving", moving: null });
      await readAhead(store).catch(() => {});
    }
  }

  /** A snapshot to come back to; the oldest of more than a few is removed. */
  async function saveUndo() {
    await call("POST", "/_emulator/snapshots", { body: { name: `${UNDO}${Date.now()}` } });
    for (const name of (await undos()).slice(0, -KEPT_UNDOS)) await call("DELETE", `/_emulator/snapshots/${name}`);
  }

  const undos = async () => (await call("GET", "/_emulator/snapshots")).snapshots.map(({ name }) => name).filter((name) => name.startsWith(UNDO)).sort();

  async function undo() {
    if (stop) return;
    const name = (await undos()).at(-1);
    if (!name) return void notice("There is no move of the clock to undo.", { kind: "bad" });
    if (await act("Undo", "POST", `/_emulator/snapshots/${name}/restore`) === undefined) return;
    await call("DELETE", `/_emulator/snapshots/${name}`);
    await readAhead(store);
  }

  function ask() {
    const input = h("input", { value: new Date(nowOf(store.state.clock) ?? Date.now()).toISOString().slice(0, 19), "aria-label": "Instant, ISO 8601 in UTC", size: 24 });
    const dialog = h("dialog", { "aria-label": "Advance to an instant", onclose: () => dialog.remove() }, h("form", { method: "dialog", onsubmit: () => {
      const text = input.value.trim();
      const at = /[zZ]$|[+-]\d\d:?\d\d$/.test(text) ? text : `${text}Z`;
      move(`Advance to ${at}`, "/_emulator/clock/advance", { to: at });
    } }, h("h2", {}, "Advance to an instant"), h("p", { class: "dim" }, "ISO 8601; UTC unless it has an offset."), input, " ", h("button", { class: "main" }, "Advance")));
    document.body.append(dialog);
    dialog.showModal();
    input.select();
  }

  const button = (key, text, title, run) => {
    keys.bind(key, title, run, "Clock");
    return h("button", { title: `${title} (${key})`, onclick: run }, text);
  };
  if (canAct) {
    replace(buttons, button("u", "« undo", "Undo the last move of the clock", undo),
      button("n", "next", "Advance to what is due next", () => move("Advance to the next", "/_emulator/clock/next")),
      MOVES.map(([key, text, title, by]) => button(key, text, title, () => move(title, "/_emulator/clock/advance", { by }))),
      button("i", "to…", "Advance to an instant", ask),
      button("r", "drain", "Run until nothing is due", () => move("Drain", "/_emulator/clock/drain", {})));
  }

  function drawTime() {
    const { clock, moving, connection } = store.state;
    const now = moving?.now_ms ?? nowOf(clock);
    if (now === null) return void replace(time, connection === "lost" ? "The server does not answer. Trying again…" : "…");
    const { zone } = prefs;
    replace(time, h("strong", {}, instant(now)), " UTC", zone !== "UTC" && h("span", { class: "dim" }, ` · ${instant(now, zone).split(" ").slice(-1)[0]} ${zoneName(zone)}`),
      connection === "lost" && h("span", { class: "status bad" }, " ▲ connection lost"));
  }

  function draw() {
    const { clock, moving, upcoming, failed, world: name } = store.state;
    replace(world, `world: ${name}`);
    if (clock && document.activeElement !== rate) drawRate(clock.rate);
    drawTime();
    for (const each of buttons.children) each.disabled = Boolean(moving);
    replace(progress, moving && [`${moving.label}: ${count(moving.deliveries, "delivery", "deliveries")} `, h("button", { onclick: () => stop?.abort(), title: "Stop (Escape)" }, "Stop")]);
    const soon = (upcoming?.items ?? []).filter((item) => item.kind !== "message_expiry" && item.kind !== "deduplication_expiry" && item.at_ms <= upcoming.now_ms + 86_400_000).length;
    const next = clock?.next_due_ms;
    replace(facts, [`${soon} due in 24 h`, failed ? ` · ${count(failed, "failed message")}` : "", next ? ` · next ${relative(next, nowOf(clock))}` : "", clock?.in_flight ? ` · ${clock.in_flight} in flight` : ""].join(""));
  }

  setInterval(() => store.state.clock?.rate && drawTime(), TICK_MS);
  let waits = false;
  store.subscribe(() => {
    if (waits) return;
    waits = true;
    setTimeout(() => { waits = false; draw(); }, 50);
  });
  prefs.changed(draw);
  draw();
  const theme = h("button", { class: "quiet", title: "Light or dark", "aria-label": "Light or dark", onclick: () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches ? prefs.theme !== "light" : prefs.theme === "dark";
    prefs.set({ theme: dark ? "light" : "dark" });
  } }, "◐");
  const help = h("button", { class: "quiet", title: "Keys (?)", "aria-label": "Keys", onclick: () => keys.show() }, "?");
  return [h("strong", { class: "brand" }, "svc-emulator"), world, time, rate, buttons, progress, facts, h("span", { class: "end" }, theme, help)];
}
