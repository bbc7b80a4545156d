// What waits for attention, counted by the server: for the bar and the menu.
//
// The counts cost the server a search. They are made again after a change, at most once a second, and in a running
// world after some time, because what is due within a day changes there without any event. Counts are exact, or carry
// a plus. What failed is counted by the server once for a journal, then by the events.

import { get } from "./api.js";
import { nowOf } from "./store.js";

const COUNTED = 100;
// As many as are listed at most of what is due.
const DUE = 1_000;
const DAY = 86_400_000;
const AGAIN_MS = 1_000;
const FIRST_MS = 250;
// In a running world what is due within a day changes by itself; so long is that counted for.
const HOLDS_MS = 10_000;

/** Keep `state.counts` counted as long as the page is open. */
export function keepCounting(store) {
  let counted = {};
  let countedAt = 0;
  let failed = {};

  async function count() {
    const { state } = store;
    const limit = COUNTED;
    const { journal, failures, world } = state;
    if (!state.clock || state.moving || document.hidden) return;
    const isCounted = counted.changes === state.changes && counted.journal === journal;
    const holds_ms = state.clock.rate ? HOLDS_MS / Math.max(state.clock.rate, 1) : Infinity;
    if (isCounted && performance.now() - countedAt < holds_ms) return;
    counted = { changes: state.changes, journal };
    countedAt = performance.now();
    try {
      // Finding those that failed takes long among very many: they are counted once, and further ones added.
      const isKnown = failed.journal === journal;
      const [upcoming, refused, letters, runs, schedules, rules, found] = await Promise.all([
        get("upcoming", { until: nowOf(state) + DAY, limit: DUE, expiries: false }),
        get("refused", { limit }),
        get("dead-letters", { limit }),
        get("runs", { limit, state: "RUN_STARTED" }),
        get("schedules"),
        get("destinations"),
        isKnown ? null : get("messages", { state: "failed", limit }),
      ]);
      if (store.state.world !== world) return;
      const many = found ? found.messages.length : failed.before + failures;
      // Which of those that failed meanwhile were counted, nobody knows.
      if (found && store.state.failures === failures) failed = { journal, before: many - failures };
      const upTo = (number) => ({ many: Math.min(number, COUNTED), more: number >= COUNTED });
      // Only a list that is full is cut; the other one of the answer, of what waits, has a limit too.
      const isCut = upcoming.truncated && upcoming.items.length === DUE;
      const inLines = upcoming.waiting.filter(({ kind }) => kind !== "attempt").length;
      store.dispatch({
        type: "counted",
        counts: {
          due: { many: upcoming.items.length, more: isCut },
          failed: upTo(many),
          refused: upTo(refused.refused.length),
          dead: upTo(letters.dead_letters.length),
          runs: upTo(runs.runs.length),
          schedules: { many: schedules.schedules.length },
          rules: { many: rules.destinations.length },
          queues: { many: inLines, more: upcoming.truncated && !isCut },
        },
      });
    } catch {
      // The next change counts again; that the server is gone is said elsewhere.
    }
  }

  setInterval(count, AGAIN_MS);
  setTimeout(count, FIRST_MS);
}

/** A count as it is shown: "12", "100+". */
export const shown = ({ many, more }) => `${many}${more ? "+" : ""}`;
