// The timeline: what happened above the now-line, what is to come below it.

import { axis } from "../axis.js";
import { nowOf } from "../clock.js";
import { h, replace } from "../dom.js";
import { count, day, duration, instant, relative, shortId, shortUrl, timeOfDay } from "../format.js";
import { teaches } from "../list.js";
import { loadOlder } from "../live.js";
import { status } from "../parts.js";
import { prefs } from "../prefs.js";
import { causeOf, futureRows, grouped, isDelivered, parseFilter, reasonOf, stateOf } from "../rows.js";
import { own } from "../service.js";
export { detail } from "./message.js";

export const title = "Timeline";
export const path = "timeline";
export const key = "t";

const GROUPS = [["", "not grouped"], ["message", "by message"], ["schedule", "by schedule"], ["destination", "by destination"]];
const KINDS = { delivered: "good", failed: "bad", retry: "wait" };

export function render(context) {
  const { store } = context;
  const unfolded = new Set();
  let past = [], future = [], chosen = null, cache = { rows: [], filter: null, found: [] };
  const filter = h("input", { type: "search", value: context.route.query.filter ?? "", "aria-label": "Filter", class: "grow",
    placeholder: "filter: status:failed url:*/orders label:nightly schedule: queue: id:", oninput: () => { context.setQuery({ filter: filter.value.trim() || null }); draw(); } });
  const by = h("select", { "aria-label": "Group", onchange: () => { context.setQuery({ group: by.value || null }); draw(); } },
    GROUPS.map(([value, text]) => h("option", { value, selected: value === (context.route.query.group ?? "") }, text)));
  const found = h("span", { class: "dim number", role: "status" });
  const place = h("div", { class: "place" });
  const lines = axis({ label: "Deliveries in order of time", reversed: prefs.newestFirst, draw: drawItem, nearEnd: () => store.state.older && loadOlder(store) });

  function drawItem(item) {
    return item.rows ? drawGroup(item) : drawRow(item.row);
  }

  function drawGroup({ key: name, rows, open }) {
    const failed = rows.filter((row) => stateOf(row) === "failed").length;
    return h("div", { class: "row group", onclick: () => { unfolded[open ? "delete" : "add"](name); draw(); } },
      h("button", { class: "quiet", "aria-expanded": String(open) }, open ? "▾ " : "▸ ", context.route.query.group === "message" ? shortId(name) : shortUrl(name)),
      h("span", { class: "dim" }, count(rows.length, "delivery", "deliveries"), failed ? ` · ${failed} failed` : "", ` · last ${timeOfDay(rows.at(-1).at, context.zone)}`));
  }

  function drawRow(row) {
    const { zone } = context, state = stateOf(row), now = nowOf(store.state.clock) ?? row.at;
    const today = day(row.at, zone) === day(now, zone);
    const open = () => choose(row);
    const cause = causeOf(row);
    return h("div", { class: `row ${row.kind ? "future" : ""}`, "aria-current": row === chosen || (row.id && row.id === context.route.select && !chosen) ? "true" : null, onclick: open },
      h("time", { title: `${instant(row.at)} UTC · ${relative(row.at, now)}` }, timeOfDay(row.at, zone), !today && h("span", { class: "dim" }, ` ${day(row.at, zone).split(" ").slice(1, 3).join(" ")}`)),
      h("button", { class: "quiet url", title: row.url, tabindex: -1 }, row.method && `${row.method} `, shortUrl(row.url) || row.schedule || row.kind),
      h("span", { class: "number", title: "attempt" }, row.of ? `${row.n}/${row.of}` : ""),
      status(row.kind ? state : `${row.status ?? "none"} ${state}`, KINDS[state] ?? "off"),
      h("span", { class: `why ${cause ? "bad" : "dim"}`, title: [cause, reasonOf(row)].filter(Boolean).join("\n") },
        row.labels.map((label) => h("span", { class: "tag" }, label)), row.kind ? `${relative(row.at, now)} · ` : "", cause, cause && reasonOf(row) ? " · " : "", reasonOf(row),
        row.took > 0 ? ` · took ${duration(row.took)}` : ""));
  }

  function choose(row) {
    chosen = row;
    if (row.id) context.select(row.id);
    else if (row.schedule) context.go("schedules", {}, row.schedule);
    lines.repaint();
  }

  /** The rows that the filter lets through; of rows that were appended, only the new ones are tried. */
  function filtered(rows, text) {
    const { rows: before, text: last } = cache;
    const match = parseFilter(text);
    const grown = last === text && before.length && before[0] === rows[0] && rows.length >= before.length && rows[before.length - 1] === before.at(-1);
    const passed = !match ? rows : grown ? cache.found.concat(rows.slice(before.length).filter(match)) : rows.filter(match);
    cache = { rows, text, found: passed };
    return passed;
  }

  function draw() {
    const { rows, upcoming, older } = store.state;
    const text = filter.value.trim(), match = parseFilter(text);
    const passed = filtered(rows, text);
    future = futureRows(upcoming).filter((row) => !match || match(row));
    past = passed;
    const group = context.route.query.group;
    const items = group ? grouped(passed, group).flatMap(({ key: name, rows: members }) => {
      const open = unfolded.has(name);
      return [{ key: name, rows: members, open }, ...(open ? members.map((row) => ({ key: row.seq, row })) : [])];
    }) : passed.map(itemOf);
    if (!rows.length && !future.length && older !== undefined) {
      replace(place, teaches("Nothing has happened yet. Publish a message; it appears here as it is delivered.", "/v2/publish/https://app.example/orders",
        { headers: { ...own(context.state, { Delay: "10s" }), "Content-Type": "application/json" }, body: '{"order": 7}' }));
      found.textContent = "";
      return;
    }
    if (!lines.element.isConnected) replace(place, lines.element);
    lines.update(items, future.map((row) => ({ key: row.seq, row })));
    found.textContent = `${text ? `${count(passed.length, "match", "matches")} of ` : ""}${rows.length.toLocaleString("en-GB")}${older ? "+" : ""} deliveries`;
    // What is not loaded may match as well, and belongs to a group.
    if ((text || group) && older) loadOlder(store).catch(() => {});
    drawNow();
  }

  function drawNow() {
    const now = nowOf(store.state.clock);
    lines.nowLine.textContent = now === null ? "" : `now ${timeOfDay(now, context.zone)}`;
  }

  const step = (by) => () => {
    const at = past.indexOf(chosen);
    const next = past[at < 0 ? past.length - 1 : Math.min(Math.max(at + by, 0), past.length - 1)];
    if (!next) return;
    chosen = next;
    if (!context.route.query.group) lines.show(past.indexOf(next));
    lines.repaint();
    if (context.route.select) context.select(next.id);
  };
  const down = prefs.newestFirst ? -1 : 1;
  for (const name of ["j", "ArrowDown"]) context.bind(name, "Next delivery", step(down));
  for (const name of ["k", "ArrowUp"]) context.bind(name, "Previous delivery", step(-down));
  context.bind("Enter", "Open the delivery's message", () => chosen && choose(chosen));
  context.bind("f", "Previous failure", () => {
    const before = past.slice(0, past.indexOf(chosen) < 0 ? past.length : past.indexOf(chosen));
    const failure = before.findLast((row) => !isDelivered(row));
    if (failure) {
      chosen = failure;
      lines.show(past.indexOf(failure));
      choose(failure);
    }
  });
  context.bind(".", "To the now-line", () => lines.toNow());
  context.bind("/", "Filter", () => filter.focus());
  context.watch((state) => state.rows, draw);
  context.watch((state) => state.upcoming, draw);
  context.watch((state) => state.older, draw);
  context.watch((state) => state.clock, () => { drawNow(); lines.repaint(); });
  return h("section", { class: "timeline" }, h("header", { class: "tools" }, h("h1", { class: "unseen" }, title), filter, by, found), place);
}

const items = new WeakMap();

/** The item of a row, always the same one. */
function itemOf(row) {
  if (!items.has(row)) items.set(row, { key: row.seq, row });
  return items.get(row);
}
