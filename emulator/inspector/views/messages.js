// Messages: each with where it stands, the newest first.

import { h } from "../dom.js";
import { shortUrl } from "../format.js";
import {
  action,
  badNote,
  link,
  listView,
  note,
  placeOfRun,
  sentence,
  status,
  tag,
  teaches,
  when,
} from "../list.js";
import { own } from "../service.js";
export { detail } from "./message.js";

const ENDED = new Set(["DELIVERED", "FAILED", "CANCELED"]);
const STATES = [
  ["", "any state"],
  ["live", "not ended"],
  ["pending", "delayed", "wait"],
  ["held", "waiting", "wait"],
  ["active", "active", "wait"],
  ["retrying", "retrying", "bad"],
  ["delivered", "delivered", "good"],
  ["failed", "failed", "bad"],
  ["canceled", "canceled"],
];
const PAGE = 200;

export function render(context, tools) {
  const view = listView(context, {
    rows: "messages",
    query: () => ({ limit: PAGE }),
    key: "message_id",
    open: "message_id",
    filters: ["state", "url", "label", "schedule", "queue", "text"],
    options: { state: STATES },
    older: "messages",
    empty: () =>
      teaches(
        "No message yet. This one is delivered after ten seconds of the clock:",
        "/v2/publish/https://app.example/orders",
        {
          headers: { ...own(context.state, { Delay: "10s" }), "Content-Type": "application/json" },
          body: '{"order": 7}',
        },
      ),
    columns: [
      ["Created", "when", "created_ms"],
      [
        "Destination",
        "main",
        (message) => [
          h("span.cut-line", { title: message.url }, `${message.method} ${shortUrl(message.url)}`),
          origin(message),
          message.labels.map(tag),
        ],
        "url",
      ],
      [
        "State",
        "words",
        (message) => [
          standing(message),
          message.next_ms !== null && h("span.dim", " next ", when(message.next_ms, context)),
          message.waits && note(sentence(message.waits, context)),
          (message.last_error || message.last_status >= 300) && badNote(message.last_result),
        ],
        "state",
      ],
      [
        "Attempts",
        "number",
        (message) => `${message.attempts}/${message.max_attempts}`,
        "attempts",
      ],
      ["Id", "id extra", "message_id", null],
    ],
    actions: ({ state, message_id }, deed) =>
      !ENDED.has(state) &&
      deed("Cancel", message_id, "DELETE", `/v2/messages/${message_id}`, { ask: false }),
  });
  tools(action(context, "Publish…", () => context.go("publish")));
  return view.place;
}

function standing(message) {
  const [, word, kind] = STATES.find(([name]) => name === message.state.toLowerCase());
  return status(message.cancel_requested ? "canceling" : word, kind);
}

/** What made a message, with a way there. */
function origin(message) {
  const { schedule_id: schedule, queue, url_group: group, created_by: by } = message;
  const { workflow_run_id: run, workflow_run_number: number, step } = message;
  if (run)
    return note(
      link("runs", `run ${run}`, { select: placeOfRun(run, number), ...(step && { step }) }),
      ` · ${step ?? (by === "failure_callback" ? "failure function" : "first call")}`,
    );
  if (schedule) return link("schedules", `schedule ${schedule}`, { select: schedule });
  if (queue) return link("queues", `queue ${queue}`);
  if (group) return link("groups", `group ${group}`);
  return by !== "publish" && tag(by.replaceAll("_", " "));
}
