// Destination rules: what happens at a destination instead of, or before, the network.

import { h } from "../dom.js";
import { action, head, listView, remover } from "../list.js";
import { empty } from "../parts.js";

export const title = "Rules";
export const path = "rules";
export const key = "r";

const ADDRESS = "/_emulator/destinations";
const FAULTS = { refused: "refuse the connection", timeout: "never answer", reset: "reset the connection", dns: "have no such host", tls: "fail the TLS handshake" };
// The answers that people stage most: each a button that adds the rule.
const QUICK = [
  ["Fail the next 2 with 503", { respond: { status: 503 }, times: 2 }],
  ["Fail always with 500", { respond: { status: 500 } }],
  ["429, again in 30 s", { respond: { status: 429, headers: { "Retry-After": "30" } }, times: 1 }],
  ["Refuse the connection", { fault: "refused", times: 1 }],
  ["Answer after 10 s", { respond: { status: 200, latency: "10s" } }],
];

const EXAMPLE = { match: { url: "https://api.example/*", method: "POST" }, sequence: [{ status: 429, headers: { "Retry-After": "10" }, latency: "2s" }, { status: 200 }] };

export function render(context) {
  let rules = [];
  const view = listView(context, {
    name: "rules", path: ADDRESS,
    items: (answer) => (rules = answer.destinations),
    key: (rule) => rule.id,
    empty: () => empty("No rule: what is published goes to its destination, as the server's policy allows. Name a URL above and choose what shall happen there; the first rule that matches and has times left decides."),
    columns: [
      ["Order", "number", (rule) => rules.indexOf(rule) + 1],
      ["When", "main", (rule) => `${rule.match.method ?? "any method"} ${rule.match.url}`],
      ["Then", "words", (rule) => inWords(rule)],
      ["Times", "number", (rule) => (rule.times ? `${rule.used} of ${rule.times}` : `${rule.used}, without end`)],
      ["Id", "", (rule) => h("code", {}, rule.id)],
      ["", "actions", (rule) => [
        move(rule, -1, "↑", "up"), move(rule, 1, "↓", "down"),
        remover(context, rule.id, `${ADDRESS}/${rule.id}`, view.reload, "Remove")]],
    ],
  });

  function move(rule, step, sign, word) {
    const at = rules.indexOf(rule), to = at + step;
    return action(context, sign, async () => {
      const ids = rules.map((each) => each.id);
      [ids[at], ids[to]] = [ids[to], ids[at]];
      await context.act(`Move ${rule.id} ${word}`, "PUT", ADDRESS, { body: { ids } });
      view.reload();
    }, { "aria-label": `Move ${rule.id} ${word}`, disabled: to < 0 || to >= rules.length });
  }

  return h("section", {}, head(title, h("span", { class: "fill" }), remover(context, "rules", ADDRESS, view.reload, "Remove all", "Remove all rules?")),
    context.canAct && addForm(context, view.reload), view.place);
}

/** A URL and a button for each answer; below, any rule as the control API takes it. */
function addForm(context, then) {
  const url = h("input", { required: true, value: context.route.query.url ?? "https://*", "aria-label": "URL or glob" });
  const add = async (rule) => {
    if (await context.act(`Rule for ${rule.match?.url}`, "POST", ADDRESS, { body: rule })) then();
  };
  const text = h("textarea", { "aria-label": "Rule", spellcheck: "false", rows: 8, value: JSON.stringify(EXAMPLE, null, 2), oninput: () => text.setCustomValidity("") });
  const any = h("form", { class: "field", onsubmit: (event) => {
    event.preventDefault();
    try {
      add(JSON.parse(text.value));
    } catch (error) {
      text.setCustomValidity(`This is no JSON: ${error.message}`);
      text.reportValidity();
    }
  } }, text, h("div", { class: "buttons" }, h("button", { class: "main" }, "Add rule"), h("a", { href: "/_emulator/reference#control-op-addRule", target: "_blank" }, "all that a rule may say")));
  return h("div", { class: "form" },
    h("div", { class: "inline" }, h("label", {}, "At "), url, QUICK.map(([name, rule]) => action(context, name, () => url.reportValidity() && add({ match: { url: url.value.trim() }, ...rule })))),
    h("details", {}, h("summary", {}, "Any other rule"), any));
}

function inWords(rule) {
  const answers = rule.sequence ?? (rule.respond ? [rule.respond] : null);
  if (answers) return answers.map((answer, at) => h("span", { class: "note" }, rule.sequence && `${at + 1}. `, `answer ${answer.status ?? 200}`, extras(answer)));
  const latency = rule.latency ? ` after ${rule.latency}` : "";
  return rule.forward_to ? `forward to ${rule.forward_to}${latency}` : `${FAULTS[rule.fault] ?? rule.fault}${latency}`;
}

function extras(answer) {
  const headers = Object.entries(answer.headers ?? {}).map(([name, value]) => `${name}: ${value}`);
  // Apart from the rest, because a body may turn the direction of what stands behind it.
  const body = answer.body && h("bdi", {}, `“${answer.body.slice(0, 60)}”`);
  const parts = [...headers.map((each) => h("bdi", {}, each)), body, answer.body_base64 && "a binary body", answer.latency && `after ${answer.latency}`];
  return parts.filter(Boolean).map((part) => [", ", part]);
}
