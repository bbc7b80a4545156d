// The timeline: what happened and what is to come on one axis, with the line of now between.

import { h, replace } from "../dom.js";
import { count, day, instant, relative, shortId, shortUrl, timeOfDay } from "../format.js";
import { teaches } from "../list.js";
import { older } from "../live.js";
import { status } from "../parts.js";
import { prefs } from "../prefs.js";
import { HINT, matcher, parse, problem } from "../timeline_filter.js";
import { arrange, cause, comingRows, isGood, why } from "../timeline_rows.js";
import { virtualList } from "../timeline_scroll.js";
export { detail } from "./message.js";

export const title = "Timeline";
export const path = "timeline";
export const key = "t";

const GROUPS = [["", "no groups"], ["message", "by message"], ["schedule", "by schedule"], ["destination", "by destination"]];
const COMING = 500, LARGE = 5_000, DRAW_LARGE_MS = 500;

export function render(context) {
  const open = new Set();
  const note = h("span", { class: "dim", role: "status" }), wrong = h("p", { class: "problem", role: "alert", hidden: true });
  const jump = h("button", { class: "jump", hidden: true, onclick: () => list.centre(nowAt) });
  const teach = h("div", { class: "place" });
  const list = virtualList({ label: "Deliveries", draw: content, open: choose, selected: (item) => item.id !== undefined && item.id !== null && item.id === context.route.select, settled });
  let items = [], nowAt = -1, terms = null, matches = null, shownBy = null;

  const filter = h("input", { type: "search", value: context.route.query.filter ?? "", placeholder: "status:failed url:*/orders label:nightly", title: HINT, "aria-label": "Filter", spellcheck: "false", oninput: () => {
    context.setQuery({ filter: filter.value.trim() || null });
    draw();
  } });
  const by = h("select", { "aria-label": "Group", onchange: () => {
    context.setQuery({ group: by.value || null });
    draw();
  } }, GROUPS.map(([value, text]) => h("option", { value, selected: value === (context.route.query.group ?? "") }, text)));

  const coming = () => {
    const { upcoming, "live messages": live } = context.state.lists;
    return upcoming?.items ? comingRows(upcoming, live?.messages) : [];
  };

  function draw() {
    const { journal, lists } = context.state;
    if (!lists.upcoming) return;
    if (terms !== filter.value) {
      terms = filter.value;
      const parsed = parse(terms), found = problem(parsed);
      wrong.hidden = found === null;
      replace(wrong, found && `${found}.`);
      matches = matcher(parsed);
    }
    const next = coming(), afresh = shownBy !== by.value || !items.length;
    const isBare = !journal.rows.length && !next.length;
    items = arrange(journal.rows, next, { matches, by: by.value, open, newestFirst: prefs.newestFirst });
    nowAt = items.findIndex((item) => item.kind === "now");
    list.box.hidden = isBare;
    list.box.removeAttribute("aria-busy");
    replace(teach, isBare && teaches("Nothing has happened yet. Publish a message: it shows up here at once, and stays.", "/v2/publish/https://app.example/orders", { headers: { "Content-Type": "application/json" }, body: '{"order": 7}' }));
    if (!isBare) list.set(items, (all) => (by.value ? -1 : all === items ? nowAt : all.findIndex((item) => item.kind === "now")), afresh);
    shownBy = by.value;
    const shown = items.filter((item) => item.kind === "past").length, { rows, whole } = journal;
    replace(note, by.value ? count(items.filter((item) => item.kind === "group").length, "group") : matches ? `${count(shown, "delivery", "deliveries")} of ${rows.length.toLocaleString("en-GB")}` : count(rows.length, "delivery", "deliveries"), !whole && rows.length > 0 && ", more are read…");
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
    const { clock } = context.state, now = clock?.now_ms ?? item.at;
    if (item.kind === "now") return h("span", {}, "now ", instant(now, context.zone));
    if (item.kind === "group") return groupHead(item, now);
    const isPast = item.kind === "past", failed = isPast ? cause(item) : null, reason = why(item, context.state.journal);
    const words = failed ? [h("b", {}, tame(failed.text)), `${item.retry ? ` · retried: ${item.retry}` : ""} · ${failed.advice}`] : reason;
    return [
      h("span", { class: "when", title: item.at === null ? null : `${instant(item.at)} UTC` }, item.at === null ? "waiting" : onDay(item.at, now, context.zone), !isPast && item.at !== null && h("span", { class: "dim" }, ` ${relative(item.at, now)}`)),
      h("span", { class: "what" }, h("span", { class: "dim" }, `${item.method || item.what || ""} `), h("span", { title: item.url }, tame(shortUrl(item.url)))),
      h("span", { class: "try", title: "Attempt and attempts at most" }, item.n ? `${item.n}/${item.of ?? "?"}` : ""),
      isPast ? status(item.status ?? "error", failed ? "bad" : "good") : status(item.what === "retry" ? "retry" : item.kind === "waits" ? "waits" : "due", "wait"),
      h("span", { class: "why", title: failed ? `${failed.text}\n${failed.advice}\n${reason}` : reason }, words, item.labels.map((label) => [" ", h("span", { class: "tag" }, tame(label))])),
    ];
  }

  function groupHead(group, now) {
    return [h("span", { class: "when" }, group.isOpen ? "▾ " : "▸ ", count(group.count, "delivery", "deliveries")),
      h("span", { class: "what" }, tame(by.value === "message" ? `${shortId(group.key)} ${shortUrl(group.url)}` : shortUrl(group.key))), h("span", { class: "try" }, group.last?.n ? `${group.last.n}/${group.last.of}` : ""),
      group.last ? status(group.last.status ?? "error", isGood(group.last) ? "good" : "bad") : status("due", "wait"),
      h("span", { class: "why" }, group.failed > 0 && h("b", {}, `${group.failed} failed `), group.next && `next ${relative(group.next.at, now)}: ${group.next.why}`)];
  }

  context.load("upcoming", "/_emulator/upcoming", { limit: COMING });
  context.load("live messages", "/_emulator/messages", { state: "live", limit: 1000 });
  list.box.setAttribute("aria-busy", "true");
  // Pages of a large journal come faster than it is worth drawing all of it.
  let waits = null;
  context.watch((state) => state.seen, () => {
    if (context.state.journal.rows.length < LARGE) return draw();
    waits ??= setTimeout(() => { waits = null; draw(); }, DRAW_LARGE_MS);
  });
  context.ends.push(() => clearTimeout(waits));
  for (const pick of [(state) => state.lists.upcoming, (state) => state.lists["live messages"], (state) => state.clock?.now_ms]) context.watch(pick, draw);
  context.watch((state) => `${state.world} ${state.journal.whole} ${state.journal.rows.length > 0}`, () => readAll(context));
  context.bind("j", "Next row", () => list.go(1));
  context.bind("k", "Previous row", () => list.go(-1));
  context.bind("Enter", "Open the row", () => list.openCurrent());
  context.bind("n", "To the line of now", () => list.centre(nowAt));
  context.bind("/", "Filter", () => filter.focus());
  context.bind("b", "Group by something else", () => {
    by.selectedIndex = (by.selectedIndex + 1) % GROUPS.length;
    by.dispatchEvent(new Event("change"));
  });
  context.ends.push(list.end);
  return h("section", { class: "timeline" }, h("div", { class: "tools" }, h("h1", { class: "unseen" }, title), filter, by, note), wrong, teach, h("div", { class: "axis" }, list.box, jump));
}

// Marks of direction would turn what stands beside them.
const tame = (text) => text.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "�");

/** Read the older pages one after another, while the view is open. */
async function readAll({ store, ends }) {
  while (!ends.done && store.state.journal.rows.length && (await older(store))) await new Promise((done) => setTimeout(done));
}

/** A time, with its day if that is not today's. */
const onDay = (ms, now, zone) => (day(ms, zone) === day(now, zone) ? "" : `${day(ms, zone).replace(/^\w+ (\d+ \w+) .*/, "$1")} `) + timeOfDay(ms, zone);
