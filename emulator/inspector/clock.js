// The bar at the top: the world, its clock, and moving it. Every move can be taken back.

import { get } from "./api.js";
import { eachFrame, h, replace } from "./dom.js";
import { deliveries, duration, instant, timeOfDay, zoneName } from "./format.js";
import { notice } from "./notices.js";
import { prefs } from "./prefs.js";

const COUNTED = 100, DAY = 86_400_000, COUNT_AGAIN_MS = 1_000, TICK_MS = 250;
const PACES = [[0, "frozen"], [1, "real time"], [60, "1 minute a second"], [3600, "1 hour a second"], [86400, "1 day a second"]];
const STEPS = [["n", "next", "next", "next"], ["m", "+1m", "1 minute", "advance", { by: "1m" }], ["h", "+1h", "1 hour", "advance", { by: "1h" }],
  ["d", "+1d", "1 day", "advance", { by: "1d" }], ["e", "drain", "until nothing but schedules is due", "drain"]];

export function clockBar({ store, canAct, act, keys }) {
  const shown = h("span.clock"), counts = h("span.counts"), progress = h("span.progress", { role: "status" }), connection = h("span.status.bad");
  const bind = (key, text, run) => keys.bind(key, text, () => canAct && run(), "Clock");
  const moving = (value) => store.dispatch({ type: "moving", moving: value });
  let stopping = null, counted = null, stamp = null, failed = {};

  const pace = h("select", { "aria-label": "Pace of the clock", disabled: !canAct, onchange: async () => {
    await act("Pace", "PUT", "/_emulator/clock", { body: { rate: Number(pace.value) } });
    await read();
  } });
  const stop = h("button.main", { onclick: () => stopping.abort(), title: "Stop the clock where it is (Escape)" }, "Stop");
  const back = h("button", { onclick: undo, disabled: !canAct, title: "Back to before the last move: what happened since is forgotten (u)" }, "↶ undo");
  const buttons = STEPS.map(([key, text, label, path, body]) => {
    const title = `Move the clock: ${label}`, onclick = () => move(label, path, body);
    bind(`c ${key}`, title, onclick);
    return h("button", { onclick, title: `${title} (c ${key})` }, text);
  });
  const to = h("input", { placeholder: "to +90m or 2026-03-02T09:00", "aria-label": "Move the clock to", size: 21,
    title: "A duration such as +90m, or an instant in UTC (c t)" });
  const target = h("form", { onsubmit: async () => {
    const text = to.value.trim(), isWhole = /(Z|[+-]\d\d:?\d\d|^\d+)$/i.test(text);
    if (text && (await move(text, "advance", text.startsWith("+") ? { by: text.slice(1) } : { to: isWhole ? text : `${text}Z` }))) to.value = "";
  } }, to);
  bind("c t", "Move the clock to an instant", () => to.focus());
  bind("u", "Undo the last move of the clock", () => back.click());

  /** Move the clock; says whether it came to its end. */
  async function move(label, path, body) {
    if (stopping) return false;
    stopping = new AbortController();
    const { signal } = stopping, release = bind("Escape", "Stop the clock", () => stopping.abort()), { now_ms } = store.state.clock;
    moving({ label, from_ms: now_ms, now_ms, deliveries: 0 });
    const said = ({ from_ms: from, to_ms: end, deliveries: many, failed }) =>
      `${end > from ? `Moved ${duration(end - from)}` : "The clock stands: nothing is due"}, ${deliveries(many)}${failed ? `, ${failed} failed` : ""}.`;
    const report = await act(`Move ${label}`, "POST", `/_emulator/clock/${path}`, { body: { ...body, undoable: true }, signal, said });
    release();
    stopping = null;
    await read();
    moving(null);
    if (signal.aborted) notice(`Stopped at ${instant(store.state.clock.now_ms)} UTC.`);
    return Boolean(report);
  }

  const read = async () => store.dispatch({ type: "clock", clock: await get("clock").catch(() => ({})) });

  async function undo() {
    await act("Undo", "POST", "/_emulator/clock/undo");
    await read();
  }

  /** The instant now: a clock that runs is told only when it is moved. */
  function now({ clock }) {
    if (clock !== stamp?.clock) stamp = { clock, at: performance.now() };
    return clock.now_ms + (performance.now() - stamp.at) * clock.rate;
  }

  function draw() {
    const { clock, moving: move, world, connection: reached } = store.state, { zone } = prefs;
    replace(link, "world ", h("strong", world));
    replace(connection, reached === "lost" && "▲ connection lost");
    if (!clock) return;
    const ms = move ? move.now_ms : now(store.state), title = `${instant(ms, zone)} ${zone}: choose another zone`;
    replace(shown, h("time", instant(ms), " UTC"),
      zone !== "UTC" && h("a", { href: "#/settings", title }, timeOfDay(Math.floor(ms / 1000) * 1000, zone), " ", zoneName(zone)));
    if (document.activeElement !== pace) {
      const known = PACES.some(([rate]) => rate === clock.rate) ? PACES : [...PACES, [clock.rate, `${clock.rate} × real time`]];
      if (pace.length !== known.length) replace(pace, known.map(([rate, text]) => h("option", { value: rate }, text)));
      pace.value = clock.rate;
    }
    for (const control of [...buttons, to]) control.disabled = move !== null;
    stop.hidden = move === null;
    replace(progress, move && `${move.label}: ${duration(move.now_ms - move.from_ms)} on, ${deliveries(move.deliveries)}`);
  }

  /** Count what waits for attention, at most once a second. */
  async function recount() {
    const { state } = store, limit = COUNTED, { journal, failures } = state;
    if (counted === state.changes || !state.clock || state.moving || document.hidden) return;
    counted = state.changes;
    try {
      // Finding those that failed takes long among very many: they are counted once, and further ones added.
      const isKnown = failed.journal === journal;
      const [upcoming, refused, found] = await Promise.all([get("upcoming", { until: Math.floor(now(state) + DAY), limit: 1000 }), get("refused", { limit }),
        isKnown ? null : get("messages", { state: "failed", limit })]);
      const many = found ? found.messages.length : failed.before + failures;
      // Which of those that failed meanwhile were counted, nobody knows.
      if (found && store.state.failures === failures) failed = { journal, before: many - failures };
      const upTo = (number) => (number < COUNTED ? number : `${COUNTED}+`), due = upcoming.items.filter(({ kind }) => !kind.endsWith("_expiry"));
      replace(counts, [[due.length, "due in 24 h", "timeline?filter=status%3Adue"], [upTo(many), "failed", "messages?state=failed"],
        [upTo(refused.refused.length), "refused", "refused"]].map(([many, text, to], at) => [at > 0 && " · ", h("a", { href: `#/${to}` }, `${many} ${text}`)]));
    } catch {
      // The next change counts again; that the server is gone is said elsewhere.
    }
  }

  const link = h("a.world", { href: "#/worlds", title: "The world that is shown: choose another" });
  store.subscribe(eachFrame(draw));
  prefs.changed(draw);
  setInterval(() => store.state.clock?.rate && !store.state.moving && draw(), TICK_MS);
  setInterval(recount, COUNT_AGAIN_MS);
  setTimeout(recount, TICK_MS);
  const moves = h("span.moves", canAct && [back, buttons, target], stop, progress);
  return [h("strong", "svc-emulator"), link, shown, pace, connection, moves, counts];
}
