// The bar at the top: the world, its clock, and moving it. Every move can be taken back.
//
// Two things happen at different paces. The stream moves a frozen clock: `draw` follows the state, at most once a
// frame. A clock that runs has no events: a timer draws the instant again and counts on what the open view shows of
// distances and of now, in place, so that nothing is replaced under the pointer.
//
// Everything in the bar has a place of its own, which it keeps when it is empty: the buttons stay where they are
// whatever the texts beside them say.
//
// Nothing can be moved before the clock is known: a duration is added to an instant, and a page that assumes one says
// how far it moved untruly. While a move is under way its controls are disabled and only Stop can be used. A move ends
// with the answer to its call, or with the abort of it, at which the server stops the clock where it is; either way
// the clock is read once more.

import { shown as counted } from "./counts.js";
import { eachFrame, h, replace } from "./dom.js";
import { deliveries, duration, instant, timeOfDay, zoneName } from "./format.js";
import { readClock } from "./live.js";
import { notice } from "./notices.js";
import { countOn } from "./parts.js";
import { prefs } from "./prefs.js";
import { worldChooser } from "./world_chooser.js";
import { nowOf } from "./store.js";

const TICK_MS = 250;
// A clock that runs is asked again so often: timers of the browser stand still while the machine sleeps.
const READ_AGAIN_MS = 30_000;
const PACES = [
  [0, "frozen"],
  [1, "real time"],
  [60, "1 minute a second"],
  [3600, "1 hour a second"],
  [86400, "1 day a second"],
];
const STEPS = [
  ["n", "next", "next", "next"],
  ["m", "+1m", "1 minute", "advance", { by: "1m" }],
  ["h", "+1h", "1 hour", "advance", { by: "1h" }],
  ["d", "+1d", "1 day", "advance", { by: "1d" }],
  ["e", "drain", "until nothing but schedules is due", "drain"],
];

// By name in `state.counts`: a text, and where it leads.
const COUNTS = [
  ["due", "due in 24 h", "timeline?filter=status%3Adue"],
  ["failed", "failed", "messages?state=failed"],
  ["refused", "refused", "refused"],
];

export function clockBar({ store, canAct, act, keys, goToWorld }) {
  const shown = h("span.instant");
  const local = h("span.local");
  const counts = h("span.counts");
  const progress = h("span.progress", { role: "status" });
  const state = h("span.state.status.bad", { role: "status" });
  const canMove = () => canAct && store.state.clock !== null && store.state.moving === null;
  const bind = (key, text, run, works = canMove) =>
    keys.bind(key, text, run, { group: "Clock", works });
  const moving = (value) => store.dispatch({ type: "moving", moving: value });
  let stopping = null;
  let drawnCounts = null;

  const pace = h("select.pace", {
    "aria-label": "Pace of the clock",
    disabled: true,
    onchange: async () => {
      await act("Pace", "PUT", "/_emulator/clock", { body: { rate: Number(pace.value) } });
      await readClock(store);
    },
  });
  const stop = h(
    "button.main.stop",
    { onclick: () => stopping.abort(), title: "Stop the clock where it is (Escape)" },
    "Stop",
  );
  const back = h(
    "button.back",
    {
      onclick: undo,
      disabled: true,
      title: "Back to before the last move: what happened since is forgotten (u)",
    },
    "↶",
    h("span", " undo"),
  );
  const buttons = STEPS.map(([key, text, label, path, body]) => {
    const title = `Move the clock: ${label}`;
    const onclick = () => move(label, path, body);
    bind(`c ${key}`, title, onclick);
    return h("button", { onclick, disabled: true, title: `${title} (c ${key})` }, text);
  });
  const to = h("input", {
    placeholder: "+90m, 2026-03-02",
    "aria-label": "Move the clock to",
    disabled: true,
    title: "A duration such as +90m, or an instant in UTC (c t)",
  });
  const target = h(
    "form.target",
    {
      onsubmit: async () => {
        const text = to.value.trim();
        const isWhole = /(Z|[+-]\d\d:?\d\d|^\d+)$/i.test(text);
        if (
          text &&
          (await move(
            text,
            "advance",
            text.startsWith("+") ? { by: text.slice(1) } : { to: isWhole ? text : `${text}Z` },
          ))
        )
          to.value = "";
      },
    },
    to,
  );
  bind("c t", "Move the clock to an instant", () => to.focus());
  bind("u", "Undo the last move of the clock", () => back.click());

  /** Move the clock; says whether it came to its end. */
  async function move(label, path, body) {
    const now_ms = nowOf(store.state);
    // Before the first answer the buttons are disabled, and a key does nothing.
    if (stopping || now_ms === null) return false;
    stopping = new AbortController();
    const { signal } = stopping;
    const release = bind(
      "Escape",
      "Stop the clock",
      () => stopping.abort(),
      () => true,
    );
    moving({ label, from_ms: now_ms, now_ms, deliveries: 0 });
    const said = ({ from_ms: from, to_ms: end, deliveries: many, failed }) => {
      const moved =
        end > from ? `Moved ${duration(end - from)}` : "The clock stands: nothing is due";
      return `${moved}, ${deliveries(many)}${failed ? `, ${failed} failed` : ""}.`;
    };
    const report = await act(`Move ${label}`, "POST", `/_emulator/clock/${path}`, {
      body: { ...body, undoable: true },
      signal,
      said,
    });
    release();
    stopping = null;
    await readClock(store);
    moving(null);
    if (signal.aborted) notice(`Stopped at ${instant(nowOf(store.state))} UTC.`);
    return Boolean(report);
  }

  async function undo() {
    await act("Undo", "POST", "/_emulator/clock/undo");
    await readClock(store);
  }

  /** What the bar says of the connection, of held destinations and of originals; nothing if all is as usual. */
  const trouble = ({ connection: reached, refusal, world, clock, originals }) =>
    ({
      lost: "▲ connection lost",
      missing: `▲ there is no world ${world}`,
      broken: `▲ ${refusal}`,
    })[reached] ??
    (clock?.held && `▲ ${clock.held.map(({ why }) => why).join("; ")}`) ??
    (originals && "▲ originals are shown: the emulator's own help");

  const link =
    (known) =>
    ([name, text, to], at) => [
      at > 0 && " · ",
      h("a", { href: `#/${to}` }, `${counted(known[name])} ${text}`),
    ];

  function draw() {
    const { clock, moving: move, counts: known } = store.state;
    const { zone } = prefs;
    const wrong = trouble(store.state) || "";
    if (state.textContent !== wrong) state.textContent = state.title = wrong;
    for (const control of [...buttons, to, back, pace])
      control.disabled = !canAct || clock === null || move !== null;
    stop.hidden = move === null;
    target.classList.toggle("away", move !== null);
    if (known !== drawnCounts) replace(counts, known && COUNTS.map(link(known)));
    drawnCounts = known;
    if (!clock) return void replace(shown);
    const ms = nowOf(store.state);
    const title = `${instant(ms, zone)} ${zone}: choose another zone`;
    replace(shown, h("time", instant(ms), " UTC"));
    replace(
      local,
      zone !== "UTC" &&
        h(
          "a",
          { href: "#/settings", title },
          timeOfDay(Math.floor(ms / 1000) * 1000, zone),
          " ",
          zoneName(zone),
        ),
    );
    if (document.activeElement !== pace) {
      const known = PACES.some(([rate]) => rate === clock.rate)
        ? PACES
        : [...PACES, [clock.rate, `${clock.rate} × real time`]];
      if (pace.length !== known.length)
        replace(
          pace,
          known.map(([rate, text]) => h("option", { value: rate }, text)),
        );
      pace.value = clock.rate;
    }
    replace(
      progress,
      move &&
        `${move.label}: ${duration(move.now_ms - move.from_ms)} on, ${deliveries(move.deliveries)}`,
    );
  }

  store.subscribe(eachFrame(draw));
  prefs.changed(draw);
  const runs = () => store.state.clock?.rate && !store.state.moving;
  setInterval(() => {
    if (!runs()) return;
    draw();
    countOn(nowOf(store.state), prefs.zone);
  }, TICK_MS);
  setInterval(() => runs() && !document.hidden && readClock(store), READ_AGAIN_MS);
  const chooser = worldChooser({ store, canAct, act, goToWorld });
  const moves = h("span.moves", canAct && [back, buttons]);
  return [
    h("strong.brand", "svc-emulator"),
    chooser,
    state,
    h("span.clock", shown, h("span.under", local, pace)),
    moves,
    canAct && target,
    stop,
    progress,
    counts,
  ];
}
