// Destination rules: what happens at a destination instead of, or before, the network.

import { h, replace, valuesOf } from "../dom.js";
import { action, choice, copy, empty, inputs, labelled, listView, note } from "../list.js";

const ADDRESS = "/_emulator/destinations";
const FAULTS = {
  refused: "refuse the connection",
  timeout: "never answer",
  reset: "reset the connection",
  dns: "have no such host",
  tls: "fail the TLS handshake",
};
// What people stage most: each a button that adds the rule.
const QUICK = {
  "Fail the next 2 with 503": { respond: { status: 503 }, times: 2 },
  "429, again in 30 s": { respond: { status: 429, headers: { "Retry-After": "30" } }, times: 1 },
  "Refuse the connection": { fault: "refused", times: 1 },
};
const LATE = "answer late";
// What chance may do to an attempt.
const DISTURBANCES = {
  "answer 503": { respond: { status: 503 } },
  "deliver twice": { duplicate: true },
  "leave out of order": { reorder: true },
  [LATE]: {},
  ...Object.fromEntries(Object.entries(FAULTS).map(([fault, words]) => [words, { fault }])),
};
const EXAMPLE = {
  match: { url: "https://api.example/*", method: "POST" },
  sequence: [{ status: 429, headers: { "Retry-After": "10" }, latency: "2s" }, { status: 200 }],
};

export function render(context, tools) {
  const view = listView(context, {
    rows: "destinations",
    key: "id",
    // With the order of all, so that every row is drawn again with it.
    items: (found) => found.map((rule, at) => ({ ...rule, at, ids: found.map(({ id }) => id) })),
    empty: () =>
      empty(
        "No rule: what is published goes to its destination. The first rule that matches decides.",
      ),
    columns: [
      ["Order", "number", (rule) => rule.at + 1],
      ["When", "main", (rule) => `${rule.match.method ?? "any method"} ${rule.match.url}`],
      ["Then", "words", inWords],
      ["Times", "number", (rule) => (rule.times ? `${rule.used} of ${rule.times}` : rule.used)],
      ["Id", "", "id"],
    ],
    actions: ({ id, at, ids }, deed) => [
      [
        ["up", "↑", at - 1],
        ["down", "↓", at + 1],
      ].map(([word, sign, to]) =>
        deed("Move", `${id} ${word}`, "PUT", ADDRESS, {
          sign,
          disabled: !(to in ids),
          body: { ids: ids.with(at, ids[to]).with(to in ids ? to : at, id) },
        }),
      ),
      deed("Remove", id, "DELETE", `${ADDRESS}/${id}`),
    ],
  });
  tools(view.deed("Remove all", "rules", "DELETE", ADDRESS));
  return [context.canAct && addForm(context, view.reload), view.place, repeating(context)];
}

/** The line that makes such a world again, from the same seed with the same chaos. */
function repeating(context) {
  const place = h("div.panel");
  const draw = ({ seed, epoch, plan, chaos }) => {
    // The shell has no words for attempts that are spared.
    const { dialect } = context.state.credentials ?? {};
    const names = dialect && dialect.name !== "svc" ? ` --dialect ${dialect.name}` : "";
    const isDefault = context.state.world === "default";
    const command = isDefault ? `serve${names} --clock frozen` : "worlds create";
    const line = chaos.except.length
      ? `emulator.new_world(seed=${seed}, epoch="${epoch}", plan="${plan}", chaos=${JSON.stringify(chaos)})`
      : `svc-emulator ${command} --seed ${seed} --epoch ${epoch} --plan ${plan} --chaos ${chaos.level}`;
    replace(
      place,
      h("h2", "To repeat this run"),
      h(
        "div.inline",
        h("code", line),
        h("button", { onclick: () => copy(line, "the line") }, "Copy"),
      ),
    );
  };
  // A reset begins another journal, and may have another epoch.
  context.watch(
    ({ journal, credentials }) => credentials && journal,
    () =>
      context.call("GET", `/_emulator/worlds/${context.state.world}/setup`).then(draw, () => {}),
  );
  return place;
}

/** A URL and a button for each answer; below, rules by chance, and any rule as the control API takes it. */
function addForm(context, then) {
  const url = h("input", {
    required: true,
    value: context.route.query.url ?? "https://*",
    "aria-label": "URL or glob",
  });
  const add = (rule) =>
    context.act(`Rule for ${rule.match?.url}`, "POST", ADDRESS, { body: rule }).then(then);
  const text = h("textarea", {
    "aria-label": "Rule",
    spellcheck: "false",
    rows: 8,
    value: JSON.stringify(EXAMPLE, null, 2),
    oninput: () => text.setCustomValidity(""),
  });
  const addAny = () => {
    try {
      return add(JSON.parse(text.value));
    } catch (error) {
      text.setCustomValidity(`This is no JSON: ${error.message}`);
      text.reportValidity();
    }
  };
  const byChance = ({ target }) => {
    const { chance, what, min, max } = valuesOf(target);
    const { respond, ...rule } = DISTURBANCES[what];
    const latency = (min || max || what === LATE) && {
      latency: { min: min || "0s", max: max || "5s" },
    };
    return (
      url.reportValidity() &&
      add({
        match: { url: url.value.trim() },
        chance: Number(chance),
        ...rule,
        ...(respond ? { respond: { ...respond, ...latency } } : latency),
      })
    );
  };
  return h(
    "div.form",
    h(
      "div.inline",
      h("label", "At "),
      url,
      Object.entries(QUICK).map(([name, rule]) =>
        action(
          context,
          name,
          () => url.reportValidity() && add({ match: { url: url.value.trim() }, ...rule }),
        ),
      ),
    ),
    h(
      "details",
      h("summary", "By chance"),
      h(
        "form.fields",
        { onsubmit: byChance },
        inputs({
          chance: [
            "Chance, from 0 to 1",
            "",
            { value: 0.2, type: "number", min: 0, max: 1, step: "any" },
          ],
        }),
        labelled("What", choice(Object.keys(DISTURBANCES), "", { name: "what" })),
        inputs({ min: ["At least so late", "0s"], max: ["At most so late", "5s"] }),
        h("button", "Add rule by chance"),
      ),
    ),
    h(
      "details",
      h("summary", "Any other rule"),
      h(
        "div.field",
        text,
        h(
          "div.buttons",
          action(context, "Add rule", addAny),
          h(
            "a",
            { href: "/_emulator/reference#control-op-addRule", target: "_blank" },
            "all that a rule may say",
          ),
        ),
      ),
    ),
  );
}

/** What a rule does, in words. */
function inWords(rule) {
  const { chance, except, duplicate, reorder, forward_to: origin, fault } = rule;
  const answers = rule.sequence ?? (rule.respond ? [rule.respond] : []);
  const other = [
    origin && `forward to ${origin}`,
    FAULTS[fault],
    duplicate && `deliver twice${duplicate === true ? "" : `, again after ${duplicate}`}`,
    reorder && (reorder === true ? "leave out of order" : `put back for up to ${reorder}`),
  ]
    .filter(Boolean)
    .join(", ");
  return [
    chance !== undefined &&
      note(`with chance ${chance}`, except && `, not ${except.join(", ")}`, ":"),
    answers.map((answer, at) =>
      h("div", rule.sequence && `${at + 1}. `, `answer ${answer.status ?? 200}`, extras(answer)),
    ),
    other || (rule.latency ? LATE : ""),
    rule.latency && ` ${late(rule.latency)}`,
  ];
}

/** "after 2s", "after 0s to 5s" */
const late = (latency) => `after ${latency.max ? `${latency.min} to ${latency.max}` : latency}`;

/** Received texts stand apart: they may turn the direction of what stands behind them. */
function extras(answer) {
  const apart = (text) => h("bdi", text);
  const parts = [
    ...Object.entries(answer.headers ?? {}).map(([name, value]) => apart(`${name}: ${value}`)),
    answer.body && apart(`“${answer.body.slice(0, 60)}”`),
    answer.body_base64 && "a binary body",
    answer.latency && late(answer.latency),
  ];
  return parts.filter(Boolean).map((part) => [", ", part]);
}
