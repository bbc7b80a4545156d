// Schedules: when each fires, what came of the last time, and holding them up.

import { h, replace } from "../dom.js";
import { shortUrl } from "../format.js";
import {
  action,
  badNote,
  closing,
  deeds,
  facts,
  firings,
  id,
  link,
  listView,
  note,
  pauser,
  status,
  teaches,
  when,
} from "../list.js";
import { own } from "../service.js";

const FIRINGS = 10;
const RESULTS = {
  SUCCESS: ["delivered", "good"],
  FAIL: ["failed", "bad"],
  IN_PROGRESS: ["in progress", "wait"],
};

export function render(context, tools) {
  const view = listView(context, {
    rows: "schedules",
    query: () => ({ firings: FIRINGS }),
    key: "schedule_id",
    open: "schedule_id",
    empty: () =>
      teaches(
        "No schedule yet. This one publishes every day at nine in Berlin:",
        "/v2/schedules/https://app.example/report",
        {
          headers: own(context.state, {
            Cron: "CRON_TZ=Europe/Berlin 0 9 * * *",
            "Schedule-Id": "daily-report",
          }),
        },
      ),
    columns: [
      [
        "Schedule",
        "main",
        (schedule) => [
          schedule.schedule_id,
          note(
            schedule.method,
            " ",
            h("span", { title: schedule.destination }, shortUrl(schedule.destination)),
          ),
        ],
        "schedule_id",
      ],
      ["Cron", "cron", cron, "cron"],
      [
        "State",
        "",
        ({ paused, error }) =>
          paused
            ? status("paused", "wait")
            : error
              ? status("failing", "bad")
              : status("active", "good"),
        ({ paused, error }) => (paused ? 2 : error ? 0 : 1),
      ],
      ["Next", "when", "next_ms"],
      [
        "Last",
        "",
        (schedule) => [
          when(schedule.last_ms, context),
          badNote(schedule.error) ?? note(results(schedule)),
        ],
        "last_ms",
      ],
    ],
    actions: buttons,
  });
  tools(action(context, "New schedule…", () => context.go("publish", { cron: "0 9 * * *" })));
  return view.place;
}

/** The five fields, which stay in one line where they are short, with the zone that stands before them below. */
function cron({ cron: expression }) {
  const [, zone, fields] = /^(?:(?:CRON_)?TZ=(\S+)\s+)?(.*)$/.exec(expression);
  return [h("code", { title: expression }, fields), zone && note(zone)];
}

/** One schedule with its next firings. */
export function detail(context) {
  const place = h("div.panel");
  const name = context.route.select;
  context.watch(
    (state) => state.lists.schedules,
    (answer) => {
      const schedule = answer?.schedules?.find((each) => each.schedule_id === name);
      if (schedule) replace(place, panel(context, schedule));
      else replace(place, answer && h("p.empty", "There is no such schedule any more."));
    },
  );
  return place;
}

function panel(context, schedule) {
  const differs = schedule.time_zone !== context.zone;
  const messages = Object.entries(schedule.last_messages);
  return [
    closing(context, schedule.schedule_id),
    h(
      "div.buttons",
      buttons(
        schedule,
        deeds(context, () => context.go("schedules", {}, schedule.schedule_id)),
      ),
    ),
    facts([
      ["Destination", schedule.destination],
      ["Cron", h("code", schedule.cron)],
      ["Queue", schedule.queue],
      ["Labels", schedule.labels.join(", ")],
      ["Made", when(schedule.created_ms, context)],
      ["Last error", schedule.error],
    ]),
    h(
      "div",
      h(
        "h3",
        `Next ${FIRINGS} firings, ${schedule.time_zone}${differs ? ` (and ${context.zone})` : ""} `,
        link("when", "more", { expression: schedule.cron }),
      ),
      firings(context, schedule.time_zone, schedule.firings),
      !schedule.firings.length &&
        h(
          "p.dim",
          schedule.paused
            ? "None while it is paused; they are not caught up."
            : "It does not fire any more.",
        ),
    ),
    messages.length > 0 &&
      h(
        "div",
        h("h3", "Messages of the last firing"),
        h(
          "ol",
          messages.map(([message, result]) =>
            h(
              "li",
              id(message),
              " ",
              status(...RESULTS[result]),
              " ",
              link("messages", "open", { text: message, select: message }),
            ),
          ),
        ),
      ),
  ];
}

/** "2 delivered, 1 failed"; a number stays with its word. */
function results(schedule) {
  const made = Object.values(schedule.last_messages);
  const counts = Object.entries(RESULTS).map(([name, [word]]) => [
    made.filter((each) => each === name).length,
    word,
  ]);
  return counts
    .filter(([number]) => number)
    .map((each) => each.join("\u00a0"))
    .join(", ");
}

function buttons({ schedule_id: name, paused }, deed) {
  const address = `/v2/schedules/${encodeURIComponent(name)}`;
  return [pauser(deed, paused, name, address), deed("Delete", name, "DELETE", address)];
}
