// Queues, flow control keys and the limit of all: who waits for what, and letting them through.

import { h } from "../dom.js";
import { count, duration } from "../format.js";
import { action, field, head, listView, remover, teaches } from "../list.js";
import { id, status } from "../parts.js";
import { own } from "../service.js";

export const title = "Queues";
export const path = "queues";
export const key = "q";

const MOST_SHOWN = 10;

export function render(context) {
  const queues = listView(context, {
    name: "queues", path: "/_emulator/queues",
    items: (answer) => answer.queues,
    key: (queue) => `${queue.account_id} ${queue.name}`,
    empty: () => teaches("No queue yet. A queue delivers in order, so many at a time; the first message makes it:",
      "/v2/enqueue/orders/https://app.example/orders", { body: "first" }),
    columns: [
      ["Queue", "main", (queue) => h("a", { href: `#/messages?queue=${encodeURIComponent(queue.name)}` }, queue.name)],
      ["State", "", (queue) => (queue.paused ? status("paused", "wait") : status("running", "good"))],
      ["At a time", "number", (queue) => parallelism(context, queue)],
      ["Lag", "number", (queue) => queue.lag],
      ["Has a slot", "", (queue) => ids(queue.holders)],
      ["Next in line", "", (queue) => line(queue)],
      ["", "actions", (queue) => [
        pause(context, "queue", queue.name, queue.paused, `/v2/queues/${encodeURIComponent(queue.name)}`),
        remover(context, queue.name, `/v2/queues/${encodeURIComponent(queue.name)}`, queues.reload, "Delete", "Delete with its messages?")]],
    ],
  });
  const keys = listView(context, {
    name: "flow", path: "/_emulator/flow-control",
    items: (answer) => answer.keys,
    key: (each) => `${each.account_id} ${each.key}`,
    empty: () => teaches("No flow control key yet. A key bounds how many messages with it start per period, or run at once:",
      "/v2/publish/https://app.example/orders", { headers: own(context.state, { "Flow-Control-Key": "customer-7", "Flow-Control-Value": "rate=3, period=1m" }) }),
    drawn: (items, answer) => everything.replaceChildren(...(answer.global ?? []).map((each) =>
      h("p", { class: "dim" }, `All destinations together: ${each.active} of at most ${each.parallelism} under way, ${each.waiting} waiting.`))),
    columns: [
      ["Key", "main", (each) => each.key],
      ["State", "", (each) => [each.paused ? status("paused", "wait") : each.waits ? status("holding", "wait") : status("open", "good"), each.waits && h("span", { class: "note" }, each.waits)]],
      ["Rate", "number", (each) => (each.rate ? `${each.rate_count}/${each.rate} per ${duration(each.period_ms)}` : "–")],
      ["At once", "number", (each) => (each.parallelism ? `${each.active}/${each.parallelism}` : each.active)],
      ["Lag", "number", (each) => each.lag],
      ["Next in line", "", (each) => line(each)],
      ["", "actions", (each) => keyActions(context, each, () => keys.reload())],
    ],
  });
  const everything = h("div", { class: "empty" });
  return h("section", {}, head(title), h("div", { class: "part" }, h("h2", {}, "Queues"), queues.place), h("div", { class: "part" }, h("h2", {}, "Flow control keys"), keys.place), everything);

  function pause(of, kind, name, paused, address) {
    const verb = paused ? "Resume" : "Pause";
    return action(of, verb, () => of.act(`${verb} ${name}`, "POST", `${address}/${verb.toLowerCase()}`).then(() => { queues.reload(); keys.reload(); }), { "aria-label": `${verb} ${kind} ${name}` });
  }

  function keyActions(of, each, then) {
    const address = `/v2/flowControl/${encodeURIComponent(each.key)}`;
    const pinned = each.pinned_rate || each.pinned_parallelism;
    return [
      pause(of, "key", each.key, each.paused, address),
      pinned
        ? action(of, "Unpin", () => of.act(`Unpin ${each.key}`, "POST", `${address}/unpin`, { query: { rate: true, parallelism: true } }).then(then), { "aria-label": `Unpin key ${each.key}` })
        : action(of, "Pin…", () => pin(of, each, address, then), { "aria-label": `Pin key ${each.key}`, title: "Keep its limits, whatever messages say" }),
      action(of, "Reset", () => of.act(`Reset ${each.key}`, "POST", `${address}/reset`).then(then), { "aria-label": `Reset key ${each.key}`, title: "Its counters begin again" }),
    ];
  }
}

/** How many at a time, to be changed in place. */
function parallelism(context, queue) {
  if (!context.canAct) return queue.parallelism;
  return h("input", {
    type: "number", min: 1, max: 1000, value: queue.parallelism, class: "short", "aria-label": `Parallelism of ${queue.name}`,
    onchange: (event) => context.act(`Parallelism of ${queue.name}`, "POST", "/v2/queues", { body: { queueName: queue.name, parallelism: event.target.valueAsNumber, paused: queue.paused } }),
  });
}

/** Ask for the limits that a key shall keep. */
function pin(context, each, address, then) {
  const fields = [["rate", "Rate", each.rate], ["period", "Period in seconds", Math.round(each.period_ms / 1000)], ["parallelism", "At once", each.parallelism]];
  const dialog = h("dialog", { "aria-label": `Pin ${each.key}`, onclose: () => dialog.remove() }, h("form", { method: "dialog", class: "form", onsubmit: ({ submitter, target }) => {
    const query = Object.fromEntries(new FormData(target));
    if (submitter?.value) context.act(`Pin ${each.key}`, "POST", `${address}/pin`, { query }).then(then);
  } }, h("h2", {}, `Whatever messages say, ${each.key} keeps`), fields.map(([name, label, value]) => field(label, h("input", { name, type: "number", min: 0, value: value ?? "" }))),
  h("div", { class: "buttons" }, h("button", { class: "main", value: "pin" }, "Pin"), h("button", {}, "Leave"))));
  document.body.append(dialog);
  dialog.showModal();
}

const ids = (found) => (found.length ? found.map((each) => [id(each), " "]) : null);

const line = (waiting) => [ids(waiting.next_in_line), waiting.waiting > MOST_SHOWN && h("span", { class: "note" }, `${count(waiting.waiting, "message")} in all`)];

