// Destination rules: what happens at a destination instead of, or before, the network.

import { h } from "../dom.js";
import { action, empty, head, listView, note } from "../list.js";

export const title = "Rules";
export const path = "rules";
export const key = "r";

const ADDRESS = "/_emulator/destinations";
const FAULTS = { refused: "refuse the connection", timeout: "never answer", reset: "reset the connection", dns: "have no such host", tls: "fail the TLS handshake" };
// What people stage most: each a button that adds the rule.
const QUICK = {
  "Fail the next 2 with 503": { respond: { status: 503 }, times: 2 },
  "429, again in 30 s": { respond: { status: 429, headers: { "Retry-After": "30" } }, times: 1 },
  "Refuse the connection": { fault: "refused", times: 1 },
};
const EXAMPLE = { match: { url: "https://api.example/*", method: "POST" }, sequence: [{ status: 429, headers: { "Retry-After": "10" }, latency: "2s" }, { status: 200 }] };

export function render(context) {
  let ids = [];
  const view = listView(context, {
    rows: "destinations", path: ADDRESS, key: "id",
    items: (found) => {
      ids = found.map((rule) => rule.id);
      // With its place, so that a row that moves is drawn again.
      return found.map((rule, at) => ({ ...rule, at }));
    },
    empty: () => empty("No rule: what is published goes to its destination. The first rule that matches decides."),
    columns: [
      ["Order", "number", (rule) => rule.at + 1],
      ["When", "main", (rule) => `${rule.match.method ?? "any method"} ${rule.match.url}`],
      ["Then", "words", inWords],
      ["Times", "number", (rule) => (rule.times ? `${rule.used} of ${rule.times}` : rule.used)],
      ["Id", "", "id"],
    ],
    actions: (rule, deed) => [
      ...[["up", "↑", rule.at - 1], ["down", "↓", rule.at + 1]].map(([word, sign, to]) =>
        deed("Move", `${rule.id} ${word}`, "PUT", ADDRESS, { sign, disabled: !(to in ids), body: { ids: ids.map((id, at) => (at === to ? rule.id : at === rule.at ? ids[to] : id)) } })),
      deed("Remove", rule.id, "DELETE", `${ADDRESS}/${rule.id}`)],
  });
  return h("section", head(title, view.deed("Remove all", "rules", "DELETE", ADDRESS)), context.canAct && addForm(context, view.reload), view.place);
}

/** A URL and a button for each answer; below, any rule as the control API takes it. */
function addForm(context, then) {
  const url = h("input", { required: true, value: context.route.query.url ?? "https://*", "aria-label": "URL or glob" });
  const add = (rule) => context.act(`Rule for ${rule.match?.url}`, "POST", ADDRESS, { body: rule }).then(then);
  const text = h("textarea", { "aria-label": "Rule", spellcheck: "false", rows: 8, value: JSON.stringify(EXAMPLE, null, 2), oninput: () => text.setCustomValidity("") });
  const addAny = () => {
    try {
      return add(JSON.parse(text.value));
    } catch (error) {
      text.setCustomValidity(`This is no JSON: ${error.message}`);
      text.reportValidity();
    }
  };
  return h("div.form",
    h("div.inline", h("label", "At "), url,
      Object.entries(QUICK).map(([name, rule]) => action(context, name, () => url.reportValidity() && add({ match: { url: url.value.trim() }, ...rule })))),
    h("details", h("summary", "Any other rule"), h("div.field", text, h("div.buttons", action(context, "Add rule", addAny),
      h("a", { href: "/_emulator/reference#control-op-addRule", target: "_blank" }, "all that a rule may say")))));
}

function inWords(rule) {
  const answers = rule.sequence ?? (rule.respond ? [rule.respond] : null);
  if (answers) return answers.map((answer, at) => note(rule.sequence && `${at + 1}. `, `answer ${answer.status ?? 200}`, extras(answer)));
  return `${rule.forward_to ? `forward to ${rule.forward_to}` : FAULTS[rule.fault]}${rule.latency ? ` after ${rule.latency}` : ""}`;
}

/** Received texts stand apart from the rest, because they may turn the direction of what stands behind them. */
function extras(answer) {
  const apart = (text) => h("bdi", text);
  const parts = [...Object.entries(answer.headers ?? {}).map(([name, value]) => apart(`${name}: ${value}`)),
    answer.body && apart(`“${answer.body.slice(0, 60)}”`), answer.body_base64 && "a binary body", answer.latency && `after ${answer.latency}`];
  return parts.filter(Boolean).map((part) => [", ", part]);
}
