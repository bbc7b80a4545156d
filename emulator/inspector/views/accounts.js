// Accounts: their limits, to be changed at once, and what they used, as charts.

import { h, replace, svg } from "../dom.js";
import { bytes, count } from "../format.js";
import { field, head } from "../list.js";
import { id, status } from "../parts.js";
import { basicOf } from "../service.js";

export const title = "Accounts";
export const path = "accounts";
export const key = "a";

const PERIODS = ["1h", "3h", "12h", "1d", "3d", "7d", "30d"];
const SECRET = new Set(["password", "token", "read_only_token"]);
const HEAD = new Set(["id", "customer_id", "state", "type", "region", "enterprise", "modifying_state", ...SECRET]);
const WIDTH = 300, HEIGHT = 72;

export function render(context) {
  const place = h("div");
  const reload = context.load("accounts", "/_emulator/accounts");
  // Drawn again only for other accounts, so that a chosen period and a typed value stay.
  let drawn = "";
  context.watch((state) => state.lists.accounts, (answer) => {
    if (!answer) return;
    if (answer.error) return void replace(place, h("p", { class: "problem", role: "alert" }, answer.error));
    const text = JSON.stringify(answer);
    if (text === drawn) return;
    drawn = text;
    replace(place, answer.accounts.map((account) => panel(context, account, reload)));
  });
  return h("section", {}, head(title), place);
}

function panel(context, account, reload) {
  const charts = h("div", { class: "charts" });
  const period = h("select", { "aria-label": "Period", onchange: () => draw() }, PERIODS.map((each) => h("option", { value: each, selected: each === (context.route.query.period ?? "1d") }, `the last ${each}`)));
  const draw = async () => {
    context.setQuery({ period: period.value });
    replace(charts, await chartsOf(context, account, period.value));
  };
  // The credentials come with the first answers, maybe after this view.
  context.watch((state) => state.credentials, (credentials) => credentials && draw());
  return h("div", { class: "part" },
    h("div", { class: "tools" }, h("h2", { class: "plain" }, account.customer_id), id(account.id), status(account.state, account.state === "active" ? "good" : "wait"),
      h("span", { class: "tag" }, `${account.type} plan`), h("span", { class: "tag" }, account.region), h("span", { class: "fill" }), period),
    charts, limits(context, account, reload));
}

function limits(context, account, reload) {
  const control = (name, old) => {
    const of = { string: "value", number: "valueAsNumber", boolean: "checked" }[typeof old];
    const input = h("input", { type: { number: "number", boolean: "checkbox" }[typeof old] ?? "text", step: "any", disabled: !context.canAct, onchange: async () => {
      const done = await context.act(`${name} = ${input[of]}`, "PUT", `/_emulator/accounts/${account.id}`, { body: { [name]: input[of] } });
      // A value that was refused goes back to what it is.
      if (done === undefined) input[of] = old;
      reload();
    } });
    input[of] = old;
    return input;
  };
  return h("form", { class: "form", onsubmit: (event) => event.preventDefault() }, h("h3", {}, "Limits and settings: a change holds at once"),
    h("div", { class: "fields" }, Object.entries(account).filter(([name, value]) => !HEAD.has(name) && typeof value !== "object")
      .map(([name, value]) => field(name.replaceAll("_", " "), control(name, value), null, typeof value === "boolean" && "check"))));
}

// -- charts -----------------------------------------------------------------------------------

async function chartsOf(context, account, period) {
  const segment = context.state.credentials.dialect.queue_segment;
  let found;
  try {
    found = await context.call("GET", `/v2/${segment}/stats/${account.id}`, { query: { period }, headers: { Authorization: basicOf(context.state) } });
  } catch (error) {
    return h("p", { class: "problem" }, error.message);
  }
  // A dialect has another name for it, of the same form.
  const [, messages] = Object.entries(found).find(([name]) => /^daily_\w+_messages$/.test(name) && name !== "daily_workflow_messages");
  return [
    h("p", { class: "dim wide" }, `${count(found.dlq_message_count, "dead letter")} · this month $${found.total_monthly_billing.toFixed(2)}`),
    chart("Requests", found.daily_used), chart("Bandwidth", found.daily_bandwidth_used, bytes),
    ...messages.filter((series) => series.data_points.some(({ y }) => y)).map((series) => chart(`Messages: ${series.id}`, series.data_points)),
    chart("Requests by day of the month", found.daily_requests),
  ];
}

/** A bar chart of {x, y}: its sum beside its name, the two ends below, and a table's worth of text for readers of screens. */
export function chart(name, points, text = (value) => value.toLocaleString("en-GB")) {
  const most = Math.max(1, ...points.map(({ y }) => y)), step = WIDTH / points.length;
  const sum = points.reduce((all, { y }) => all + y, 0);
  const short = (x) => x.slice(0, 16);
  const bars = points.map(({ x, y }, at) => y > 0 && svg("rect", {
    x: (at * step).toFixed(2), width: Math.max(step - 1, 0.7).toFixed(2), y: (HEIGHT - Math.max((y / most) * (HEIGHT - 2), 1)).toFixed(2), height: Math.max((y / most) * (HEIGHT - 2), 1).toFixed(2),
  }, svg("title", {}, `${short(x)} UTC: ${text(y)}`)));
  const label = `${name}: ${text(sum)} in all, at most ${text(Math.max(0, ...points.map(({ y }) => y)))} at a time, from ${short(points[0].x)} to ${short(points.at(-1).x)} UTC`;
  return h("figure", { class: "chart" }, h("figcaption", {}, name, h("strong", { class: "number" }, text(sum))),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }), bars),
    h("div", { class: "ends" }, h("span", {}, short(points[0].x)), h("span", {}, short(points.at(-1).x))));
}
