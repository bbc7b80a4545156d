// Messages: each with where it stands, the newest first.

import { h } from "../dom.js";
import { shortUrl } from "../format.js";
import { action, filters, head, listView, picked, teaches, when } from "../list.js";
import { id, status } from "../parts.js";
import { own } from "../service.js";
export { detail } from "./message.js";

export const title = "Messages";
export const path = "messages";
export const key = "m";

const STATES = [["", "any state"], ["live", "not ended"], ["pending", "delayed"], ["held", "waiting"], ["active", "active"], ["retrying", "retrying"],
  ["delivered", "delivered"], ["failed", "failed"], ["canceled", "canceled"]];
const NAMES = ["state", "url", "label", "schedule", "queue", "id", "text"];
const KINDS = { DELIVERED: "good", FAILED: "bad", RETRYING: "bad", CANCELED: "off", PENDING: "wait", HELD: "wait", ACTIVE: "wait" };
const WORDS = { PENDING: "delayed", HELD: "waiting" };
const LIVE = new Set(["PENDING", "HELD", "ACTIVE", "RETRYING"]);
const STEP = 200, MOST = 1000;

export function render(context) {
  let limit = STEP;
  const more = h("button", { class: "quiet", hidden: true, onclick: () => { limit = Math.min(limit + STEP, MOST); view.reload(); } }, "Show older messages");
  const note = h("p", { class: "dim", hidden: true }, `The newest ${MOST} are shown: filter to see others.`);
  const view = listView(context, {
    name: "messages", path: "/_emulator/messages", query: () => ({ ...picked(context, NAMES), limit }),
    items: (answer) => answer.messages,
    key: (message) => message.message_id,
    open: (message) => message.message_id,
    filtered: () => NAMES.some((name) => context.route.query[name]),
    empty: () => teaches("No message yet. Publish one: it is delivered after ten seconds of the clock, and shows up here.", "/v2/publish/https://app.example/orders",
      { headers: { ...own(context.state, { Delay: "10s" }), "Content-Type": "application/json" }, body: '{"order": 7}' }),
    drawn: (items, answer) => {
      more.hidden = !answer.cursor || limit >= MOST;
      note.hidden = !answer.cursor || limit < MOST;
    },
    columns: [
      ["Created", "", (message) => when(message.created_ms, context)],
      ["Destination", "main", (message) => [
        h("button", { class: "quiet", onclick: () => context.select(message.message_id) }, `${message.method} ${shortUrl(message.url)}`),
        origin(message), message.labels.map((label) => h("span", { class: "tag" }, label))]],
      ["State", "words", (message) => [standing(message), message.next_ms !== null && h("span", { class: "dim" }, " next ", when(message.next_ms, context)),
        message.waits && h("span", { class: "note" }, message.waits),
        message.last_result && (message.last_error || message.last_status >= 300) && h("span", { class: "note bad" }, message.last_result)]],
      ["Attempts", "number", (message) => `${message.attempts}/${message.max_attempts}`],
      ["Id", "", (message) => id(message.message_id)],
      ["", "actions", (message) => LIVE.has(message.state) && action(context, "Cancel", () => context.act("Cancel", "DELETE", `/v2/messages/${message.message_id}`).then(view.reload), { "aria-label": `Cancel ${message.message_id}` })],
    ],
  });
  return h("section", {}, head(title, action(context, "Publish…", () => context.go("publish"))),
    filters(context, [{ name: "state", label: "State", options: STATES }, { name: "url", label: "URL", hint: "*/orders" }, { name: "label", label: "Label" },
      { name: "schedule", label: "Schedule" }, { name: "queue", label: "Queue" }, { name: "text", label: "Text", hint: "in id, URL, label" }], view.reload),
    view.place, more, note);
}

const standing = (message) => status(message.cancel_requested ? "canceling" : WORDS[message.state] ?? message.state.toLowerCase(), KINDS[message.state]);

/** What made a message, with a way there. */
function origin(message) {
  if (message.schedule_id) return h("a", { class: "tag", href: `#/schedules?select=${encodeURIComponent(message.schedule_id)}` }, `schedule ${message.schedule_id}`);
  if (message.queue) return h("a", { class: "tag", href: "#/queues" }, `queue ${message.queue}`);
  if (message.url_group) return h("a", { class: "tag", href: "#/groups" }, `group ${message.url_group}`);
  return message.created_by !== "publish" && h("span", { class: "tag" }, message.created_by.replaceAll("_", " "));
}
