// The timeline: what happened and what is to come on one axis, with the line of now between.

import { h, replace } from "../dom.js";
import { count, day, deliveries, instant, relative, shortId, shortUrl, timeOfDay } from "../format.js";
import { choice, tag, teaches } from "../list.js";
import { older } from "../live.js";
import { chaosMark, status } from "../parts.js";
import { prefs } from "../prefs.js";
import { HINT, matcher, parse, problem } from "../timeline_filter.js";
import { arrange, cause, comingRows, isGood, why } from "../timeline_rows.js";
import { virtualList } from "../timeline_scroll.js";
export { detail } from "./message.js";

const GROUPS = ["", "message", "schedule", "destination"];
const LARGE = 5_000, DRAW_LARGE_MS = 500;

export function render(context, tools) {
  const { query } = context.route, open = new Set();
  const note = h("span.dim", { role: "status" }), wrong = h("p.problem", { role: "alert", hidden: true });
  const teach = h("div.place"), jump = h("button.jump", { hidden: true, onclick: () => list.centre(nowAt) });
  const list = virtualList({ label: "Deliveries", draw: content, open: choose, settled, selected: ({ id }) => Boolean(id) && id === context.route.select });
  let nowAt = -1, terms = null, matches = null, shownBy = null, waits = null;

  // A control whose value stands in the address.
  const asked = (name) => ({ target }) => {
    context.setQuery({ [name]: target.value.trim() });
    draw();
  };
  const filter = h("input", { type: "search", value: query.filter ?? "", placeholder: "status:failed url:*/orders label:nightly", title: HINT,
    "aria-label": "Filter", spellcheck: "false", oninput: asked("filter") });
  const by = choice(GROUPS.map((value) => [value, value ? `by ${value}` : "no groups"]), query.group, { "aria-label": "Group", onchange: asked("group") });

  function draw() {
    clearTimeout(waits);
    waits = null;
    const { journal, lists: { upcoming, "live messages": live } } = context.state;
    const { rows } = journal;
    if (!upcoming || !(rows.length || journal.whole)) return;
    if (terms !== filter.value) {
      terms = filter.value;
      const parsed = parse(terms), found = problem(parsed);
      wrong.hidden = found === null;
      replace(wrong, found);
      matches = matcher(parsed);
    }
    const coming = upcoming.items ? comingRows(upcoming, live?.messages) : [], isBare = !rows.length && !coming.length;
    const items = arrange(rows, coming, { matches, by: by.value, open, newestFirst: prefs.newestFirst });
    nowAt = items.findIndex(({ kind }) => kind === "now");
    list.box.hidden = isBare;
    list.box.removeAttribute("aria-busy");
    replace(teach, isBare && teaches("Nothing has happened yet. Publish a message: it shows up here at once, and stays.",
      "/v2/publish/https://app.example/orders", { headers: { "Content-Type": "application/json" }, body: '{"order": 7}' }));
    if (!isBare) list.set(items, nowAt, shownBy !== by.value);
    shownBy = isBare ? null : by.value;
    const shown = (wanted) => items.filter(({ kind }) => kind === wanted).length;
    replace(note, by.value ? count(shown("group"), "group") : [deliveries(shown("past")), matches && ` of ${rows.length.toLocaleString("en-GB")}`],
      !journal.whole && rows.length > 0 && (canRead(journal) ? ", more are read…" : ", older ones are left out"));
  }

  function settled(from, to) {
    jump.hidden = nowAt < 0 || (nowAt >= from && nowAt < to);
    replace(jump, nowAt < from ? "↑ now" : "↓ now");
  }

  function choose(item) {
    if (item.kind === "group") {
      if (!open.delete(item.key)) open.add(item.key);
      draw();
    } else if (item.id) {
      context.select(item.id);
      list.redraw();
    } else if (item.schedule) context.go("schedules", {}, item.schedule);
  }

  function content(item) {
    const now = context.state.clock?.now_ms ?? item.at, { kind, at, labels, last, next } = item;
    if (kind === "now") return h("span", "now ", instant(now, context.zone));
    if (kind === "group") {
      const name = by.value === "message" ? `${shortId(item.key)} ${shortUrl(item.url)}` : shortUrl(item.key);
      return cells(last ?? next, [item.isOpen ? "▾ " : "▸ ", deliveries(item.count)], tame(name),
        [item.failed > 0 && h("b", `${item.failed} failed `), next && `next ${relative(next.at, now)}: ${next.why}`]);
    }
    const failed = kind === "past" ? cause(item) : null, reason = why(item, context.state.journal);
    return cells(item, at === null ? "waiting" : [onDay(at, now, context.zone), kind !== "past" && dim(` ${relative(at, now)}`)],
      [dim(`${item.method || item.what} `), h("span", { title: item.url }, tame(shortUrl(item.url)))],
      [chaosMark(item.chaos), failed ? [h("b", tame(failed.text)), item.retry && ` · retried: ${item.retry}`, ` · ${failed.advice}`] : reason,
        labels.map((label) => [" ", tag(tame(label))])],
      at && `${instant(at)} UTC`, failed ? `${failed.text}\n${failed.advice}\n${reason}` : reason);
  }

  list.box.setAttribute("aria-busy", "true");
  // Pages of a large journal come faster than it is worth drawing all of it.
  const soon = () => (shownBy === null || context.state.journal.rows.length < LARGE ? draw() : waits ??= setTimeout(draw, DRAW_LARGE_MS));
  context.load("upcoming", "upcoming", { limit: 500 }, soon);
  context.load("live messages", "messages", { state: "live", limit: 1000 }, soon);
  context.watch(({ seen, clock }) => `${seen} ${clock?.now_ms}`, soon);
  context.watch(({ world, journal }) => `${world} ${journal.whole} ${journal.rows.length > 0}`, () => readAll(context));
  for (const [key, text, run] of [["j", "Next row", () => list.go(1)], ["k", "Previous row", () => list.go(-1)], ["Enter", "Open the row", list.openCurrent],
    ["n", "To the line of now", () => list.centre(nowAt)], ["/", "Filter", () => filter.focus()], ["b", "Group by something else", () => {
      by.selectedIndex = (by.selectedIndex + 1) % GROUPS.length;
      by.dispatchEvent(new Event("change"));
    }]]) context.bind(key, text, run);
  context.ends.push(() => clearTimeout(waits));
  tools(filter, by, note);
  return [wrong, teach, h("div.axis", list.box, jump)];
}

const dim = (text) => h("span.dim", text);

/** The cells of a row; `row` is the one whose attempts and state are shown. */
const cells = (row, when, what, why, whenTitle, whyTitle) => [h("span.when", { title: whenTitle }, when), h("span.what", what),
  h("span.try", row?.n && `${row.n}/${row.of ?? "?"}`),
  row?.kind === "past" ? status(row.status ?? "error", isGood(row) ? "good" : "bad")
    : status(row?.what === "retry" ? "retry" : row?.kind === "waits" ? "waits" : "due", "wait"),
  h("span.why", { title: whyTitle }, why)];

// Marks of direction would turn what stands beside them.
const tame = (text) => text.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "�");

const canRead = ({ rows, most }) => rows.length > 0 && rows.length < most;

/** Read the older pages one after another, while the view is open. */
async function readAll({ store, ends }) {
  while (!ends.done && canRead(store.state.journal) && (await older(store))) await new Promise((done) => setTimeout(done));
}

/** A time, with its day if that is not today's. */
const onDay = (ms, now, zone) => (day(ms, zone) === day(now, zone) ? "" : `${day(ms, zone).replace(/^\w+ (\d+ \w+) .*/, "$1")} `) + timeOfDay(ms, zone);
