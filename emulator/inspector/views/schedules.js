// Schedules: when each fires, what came of the last time, and holding them up.

import { h } from "../dom.js";
import { instant, relative } from "../format.js";
import { action, facts, head, listView, remover, teaches, when } from "../list.js";
import { id, status } from "../parts.js";
import { own } from "../service.js";

export const title = "Schedules";
export const path = "schedules";
export const key = "s";

const FIRINGS = 10;
const RESULTS = { SUCCESS: ["delivered", "good"], FAIL: ["failed", "bad"], IN_PROGRESS: ["in progress", "wait"] };
const address = (schedule) => `/v2/schedules/${encodeURIComponent(schedule.schedule_id)}`;

export function render(context) {
  const view = listView(context, {
    name: "schedules", path: "/_emulator/schedules", query: () => ({ firings: FIRINGS }),
    items: (answer) => answer.schedules,
    key: (schedule) => schedule.schedule_id,
    open: (schedule) => schedule.schedule_id,
    empty: () => teaches("No schedule yet. This makes one that publishes every day at nine in Berlin:", "/v2/schedules/https://app.example/report",
      { headers: own(context.state, { Cron: "CRON_TZ=Europe/Berlin 0 9 * * *", "Schedule-Id": "daily-report" }) }),
    columns: [
      ["Schedule", "main", (schedule) => [
        h("button", { class: "quiet", onclick: () => context.select(schedule.schedule_id) }, schedule.schedule_id),
        h("span", { class: "note" }, schedule.method, " ", schedule.destination)]],
      ["Cron", "", (schedule) => h("code", {}, schedule.cron)],
      ["State", "", state],
      ["Next", "", (schedule) => when(schedule.next_ms, context)],
      ["Last", "", (schedule) => [when(schedule.last_ms, context), results(schedule)]],
      ["", "actions", (schedule) => buttons(context, schedule, () => view.reload())],
    ],
  });
  return h("section", {}, head(title, action(context, "New schedule…", () => context.go("publish", { cron: "0 9 * * *" }))), view.place);
}

/** One schedule: its next ten firings in its own zone and in that of the page. */
export function detail(context) {
  const place = h("div", { class: "panel" });
  context.watch((state) => state.lists.schedules, (answer, state) => {
    const schedule = answer?.schedules?.find((each) => each.schedule_id === context.route.select);
    place.replaceChildren(...(schedule ? panel(context, schedule, state) : [h("p", { class: "empty" }, answer ? "There is no such schedule any more." : "")]));
  });
  return place;
}

function panel(context, schedule, now) {
  const differs = schedule.time_zone !== context.zone;
  return [
    h("header", {}, h("h2", {}, schedule.schedule_id), h("button", { class: "quiet", onclick: () => context.select(null), "aria-label": "Close" }, "×")),
    h("div", { class: "buttons" }, buttons(context, schedule, () => context.go("schedules", {}, schedule.schedule_id))),
    facts([["Destination", schedule.destination], ["Queue", schedule.queue], ["Labels", schedule.labels.join(", ")], ["Made", when(schedule.created_ms, context)], ["Last error", schedule.error]]),
    h("div", {}, h("h3", {}, `Next ${FIRINGS} firings, ${schedule.time_zone}${differs ? ` (and ${context.zone})` : ""}`),
      schedule.firings.length
        ? h("ol", {}, schedule.firings.map((firing) => h("li", {}, local(firing.local), differs && h("span", { class: "dim" }, ` · ${instant(firing.at_ms, context.zone)}`),
          h("span", { class: "dim" }, ` · ${relative(firing.at_ms, now.clock?.now_ms ?? firing.at_ms)}`))))
        : h("p", { class: "dim" }, schedule.paused ? "It is paused, so it does not fire. What falls into a pause is not caught up." : "It does not fire any more.")),
    Object.keys(schedule.last_messages).length > 0 && h("div", {}, h("h3", {}, "Messages of the last firing"),
      h("ol", {}, Object.entries(schedule.last_messages).map(([message, result]) => h("li", {}, id(message), " ", status(...RESULTS[result]), " ",
        h("a", { href: `#/messages?id=${message}&select=${message}` }, "open"))))),
  ].filter(Boolean);
}

const state = (schedule) => (schedule.paused ? status("paused", "wait") : schedule.error ? status("failing", "bad") : status("active", "good"));

/** "2026-03-29T09:00:00+02:00" -> "2026-03-29 09:00 +02:00" */
const local = (text) => text.replace(/^(.*)T(\d\d:\d\d)(?::00)?(?:\.000)?(Z|[+-].*)$/, "$1 $2 $3");

function results(schedule) {
  if (schedule.error) return h("span", { class: "note bad" }, schedule.error);
  const made = Object.values(schedule.last_messages);
  const counts = Object.entries(RESULTS).map(([name, [word]]) => [made.filter((each) => each === name).length, word]).filter(([number]) => number);
  return counts.length > 0 && h("span", { class: "note" }, counts.map((each) => each.join(" ")).join(", "));
}

function buttons(context, schedule, then) {
  const verb = schedule.paused ? "Resume" : "Pause";
  return [
    action(context, verb, () => context.act(`${verb} ${schedule.schedule_id}`, "POST", `${address(schedule)}/${verb.toLowerCase()}`).then(then), { "aria-label": `${verb} ${schedule.schedule_id}` }),
    remover(context, schedule.schedule_id, address(schedule), then),
  ];
}
