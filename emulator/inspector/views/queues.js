// Queues, flow control keys and the limit of all: who waits for what, and letting them through.

import { h, openDialog, replace, valuesOf } from "../dom.js";
import { count, duration } from "../format.js";
import { action, id, inputs, link, listView, note, pauser, status, teaches } from "../list.js";
import { own } from "../service.js";

const MOST_SHOWN = 10;

export function render(context) {
  const everything = h("ul.plain");
  // What is known already is called back at once, before there is a list to draw again.
  let keys = null;
  const nameOf = accountNames(context, () => keys?.redraw());
  const queues = listView(context, {
    rows: "queues",
    key: (queue) => `${queue.account_id} ${queue.name}`,
    empty: () =>
      teaches(
        "No queue yet. The first message makes one:",
        "/v2/enqueue/orders/https://app.example/orders",
        { body: "first" },
      ),
    columns: [
      ["Queue", "main", ({ name }) => link("messages", name, { queue: name }), "name"],
      [
        "State",
        "",
        ({ paused }) => (paused ? status("paused", "wait") : status("running", "good")),
      ],
      ["At a time", "number", (queue) => parallelism(context, queue)],
      ["Lag", "number", "lag"],
      ["Has a slot", "extra", (queue) => ids(queue.holders)],
      ["Next in line", "", line],
    ],
    actions: ({ name, paused }, deed) => {
      const address = `/v2/queues/${encodeURIComponent(name)}`;
      return [
        pauser(deed, paused, `queue ${name}`, address),
        deed("Delete", name, "DELETE", address, { ask: "Delete with its messages?" }),
      ];
    },
  });
  keys = listView(context, {
    rows: "keys",
    path: "flow-control",
    key: (each) => `${each.account_id} ${each.key}`,
    empty: () =>
      teaches(
        "No flow control key yet. One bounds how many messages start per period, or run at once:",
        "/v2/publish/https://app.example/orders",
        {
          headers: own(context.state, {
            "Flow-Control-Key": "customer-7",
            "Flow-Control-Value": "rate=3, period=1m",
          }),
        },
      ),
    drawn: (found, answer) =>
      replace(
        everything,
        answer.global?.map(({ account_id, active, parallelism: most, waiting }, _, all) => {
          const whose = all.length > 1 && [h("bdi", nameOf(account_id)), ": "];
          return h("li", whose, `${active} of ${most} under way, ${waiting} waiting`);
        }),
      ),
    columns: [
      ["Key", "main", "key"],
      [
        "State",
        "",
        ({ paused, waits }) => [
          paused
            ? status("paused", "wait")
            : waits
              ? status("holding", "wait")
              : status("open", "good"),
          waits && note(waits),
        ],
      ],
      [
        "Rate",
        "number",
        (each) =>
          each.rate ? `${each.rate_count}/${each.rate} per ${duration(each.period_ms)}` : "–",
      ],
      [
        "At once",
        "number",
        (each) => (each.parallelism ? `${each.active}/${each.parallelism}` : each.active),
      ],
      ["Lag", "number", "lag"],
      ["Next in line", "", line],
    ],
    actions: (each, deed) => {
      const address = `/v2/flowControl/${encodeURIComponent(each.key)}`;
      const name = `key ${each.key}`;
      return [
        pauser(deed, each.paused, name, address),
        each.pinned_rate || each.pinned_parallelism
          ? deed("Unpin", name, "POST", `${address}/unpin`, {
              query: { rate: true, parallelism: true },
            })
          : action(
              context,
              "Pin…",
              () =>
                pin(context, each, (query) =>
                  context.act(`Pin ${name}`, "POST", `${address}/pin`, { query }).then(keys.reload),
                ),
              { "aria-label": `Pin ${name}` },
            ),
        deed("Reset", name, "POST", `${address}/reset`),
      ];
    },
  });
  const part = (name, content) => h("div.part", h("h2", name), content);
  return [
    queues.place,
    part("Flow control keys", keys.place),
    part("All destinations together", everything),
  ];
}

/** A function that names an account by its owner, and by its id as long as that is not known. */
function accountNames(context, drawn) {
  let names = new Map();
  context.load("accounts", "accounts", {}, (answer) => {
    names = new Map(answer?.accounts?.map((each) => [each.id, each.customer_id]));
    if (names.size) drawn();
  });
  return (account) => names.get(account) ?? account;
}

/** How many at a time, to be changed in place. */
const parallelism = (context, { name, parallelism: value, paused }) =>
  context.canAct
    ? h("input", {
        type: "number",
        min: 1,
        max: 1000,
        value,
        class: "short",
        "aria-label": `Parallelism of ${name}`,
        onchange: ({ target }) =>
          context.act(`Parallelism of ${name}`, "POST", "/v2/queues", {
            body: { queueName: name, parallelism: target.valueAsNumber, paused },
          }),
      })
    : value;

/** Ask for the limits that a key shall keep. */
function pin(context, { key: name, rate, period_ms: period, parallelism: most }, keep) {
  const number = (label, value) => [label, "", { type: "number", min: 0, value: value ?? "" }];
  const fields = {
    rate: number("Rate", rate),
    period: number("Period in seconds", Math.round(period / 1000)),
    parallelism: number("At once", most),
  };
  openDialog(
    `Pin ${name}`,
    h(
      "form",
      {
        method: "dialog",
        class: "form",
        onsubmit: ({ submitter, target }) => submitter?.value && keep(valuesOf(target)),
      },
      h("h2", `Whatever messages say, ${name} keeps`),
      inputs(fields),
      h("div.buttons", h("button.main", { value: "pin" }, "Pin"), h("button", "Leave")),
    ),
  );
}

const ids = (found) => found.map((each) => [id(each), " "]);
const line = (waiting) => [
  ids(waiting.next_in_line),
  waiting.waiting > MOST_SHOWN && note(`${count(waiting.waiting, "message")} in all`),
];
