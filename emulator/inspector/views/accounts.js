// Accounts: their limits, to be changed at once, and what they used, as charts.

import { h, replace, svg } from "../dom.js";
import { bytes, count, dayOfYear, words } from "../format.js";
import { choice, labelled, problem, tag } from "../list.js";
import { id, status } from "../parts.js";

const PERIODS = {
  "1h": "the last hour",
  "3h": "the last 3 hours",
  "12h": "the last 12 hours",
  "1d": "the last day",
  "3d": "the last 3 days",
  "7d": "the last 7 days",
  "30d": "the last 30 days",
};
// What stands in the head of an account, and its secrets.
const NO_LIMIT = /^(id|customer_id|state|type|region|enterprise|modifying_state|password|.*token)$/;
// What the names of settings mean; one that is not here is written with spaces.
const LIMITS = {
  active: "Active",
  last_plan_upgrade_time: "Last change of the plan, Unix seconds",
  max_message_size: "Largest message, bytes",
  max_requests_per_day: "Messages a day",
  max_requests_per_day_hard: "Messages a day, refused beyond",
  max_endpoints_per_topic: "Endpoints of a URL group",
  max_requests_per_second: "Calls a second",
  max_dlq_size: "Dead letters kept, bytes",
  max_completion_tokens_per_day: "Tokens of the model a day",
  max_completion_tokens_per_minute: "Tokens of the model a minute",
  max_completions_per_day: "Completions a day",
  max_completions_per_minute: "Completions a minute",
  max_retries: "Retries of a message",
  max_topics: "URL groups",
  max_schedules: "Schedules",
  max_events_size: "Events kept",
  max_dlq_retention_time_milis: "Dead letters kept for, ms",
  max_delay: "Longest delay, seconds",
  max_parallelism: "Parallelism of a queue",
  max_global_parallelism: "Parallelism of all destinations",
  max_queues: "Queues",
  retention: "Events kept for, days",
  timeout: "Longest timeout, seconds",
  rate_limit: "Burst limit of calls",
  creation_time: "Made, Unix seconds",
  created_by: "Made by",
  reserved_type: "Reserved plan",
  reserved_price: "Price of the reserved plan, $",
  prod_pack_enabled: "Production pack",
  metrics_enabled: "Metrics",
  budget: "Budget, $",
};
const KINDS = {
  string: ["text", "value"],
  number: ["number", "valueAsNumber"],
  boolean: ["checkbox", "checked"],
};

export function render(context) {
  const place = h("div");
  // Drawn again only for other accounts: a chosen period and a typed value stay.
  let drawn = "";
  const reload = context.load("accounts", "accounts", {}, (answer) => {
    const text = JSON.stringify(answer);
    if (!answer || text === drawn) return;
    drawn = text;
    replace(
      place,
      answer.error
        ? problem(answer.error)
        : answer.accounts.map((account) => panel(context, account, () => reload())),
    );
  });
  return place;
}

function panel(context, account, reload) {
  const charts = h("div.charts");
  const draw = async () => {
    context.setQuery({ period: period.value });
    replace(
      charts,
      await chartsOf(context, account, period.value).catch((error) => problem(error.message)),
    );
  };
  const period = choice(Object.entries(PERIODS), context.route.query.period ?? "1d", {
    "aria-label": "Period",
    onchange: draw,
  });
  // The credentials come with the first answers, maybe after this view.
  context.watch(
    (state) => state.credentials,
    (credentials) => credentials && draw(),
  );
  return h(
    "div.part",
    h(
      "div.tools",
      h("h2.plain", account.customer_id),
      id(account.id),
      status(account.state, account.state === "active" ? "good" : "wait"),
      tag(`${account.type} plan`),
      tag(account.region),
      period,
    ),
    charts,
    h(
      "form.form",
      h("h3", "Limits and settings"),
      h(
        "div.fields",
        Object.entries(account)
          .filter(([name, value]) => !NO_LIMIT.test(name) && (typeof value) in KINDS)
          .map(([name, value]) => limit(context, account, name, value, reload)),
      ),
    ),
  );
}

function limit(context, account, name, old, then) {
  const [type, value] = KINDS[typeof old];
  const input = h("input", {
    type,
    step: "any",
    disabled: !context.canAct,
    onchange: async () => {
      const done = await context.act(
        `${name} = ${input[value]}`,
        "PUT",
        `/_emulator/accounts/${account.id}`,
        { body: { [name]: input[value] } },
      );
      // A value that was refused goes back to what it is.
      if (done === undefined) input[value] = old;
      then();
    },
  });
  input[value] = old;
  return labelled(LIMITS[name] ?? words(name), input, {
    kind: type === "checkbox" ? "check" : "",
    hint: h("code", name),
  });
}

async function chartsOf(context, account, period) {
  const { dialect, management } = context.state.credentials;
  const headers = {
    Authorization: `Basic ${btoa(`${management.username}:${management.password}`)}`,
  };
  const found = await context.call("GET", `/v2/${dialect.queue_segment}/stats/${account.id}`, {
    query: { period },
    headers,
  });
  // A dialect has another name for it, of the same form.
  const messages = Object.keys(found).find((name) =>
    /^daily_(?!workflow_)\w+_messages$/.test(name),
  );
  const used = found[messages].filter((series) => series.data_points.some(({ y }) => y));
  return [
    h(
      "p.dim.wide",
      `${count(found.dlq_message_count, "dead letter")} · this month $${found.total_monthly_billing.toFixed(2)}`,
    ),
    chart("Requests", found.daily_used),
    chart("Bandwidth", found.daily_bandwidth_used, { text: bytes }),
    used.map((series) => chart(`Messages: ${series.id}`, series.data_points)),
    chart("Requests by day", found.daily_requests, { isDays: true }),
  ];
}

/** A bar chart of {x, y}: its sum beside its name, the two ends below, a text for screen readers. */
function chart(
  name,
  points,
  { text = (value) => value.toLocaleString("en-GB"), isDays = false } = {},
) {
  const values = points.map(({ y }) => y);
  const most = Math.max(1, ...values);
  const sum = text(values.reduce((all, y) => all + y, 0));
  // "2026-01-31 00:24:00 ..." -> "31 Jan 00:24"
  const short = (x) => {
    const at = Date.parse(`${x.slice(0, 10)}T${x.slice(11, 16)}Z`);
    return isDays ? dayOfYear(at) : `${dayOfYear(at)} ${x.slice(11, 16)}`;
  };
  const ends = [points[0], points.at(-1)].map(({ x }) => short(x));
  const bars = points.map(
    ({ x, y }, at) =>
      y > 0 &&
      svg(
        "rect",
        { x: at, y: most - y, width: 0.9, height: y },
        svg("title", {}, `${short(x)} UTC: ${text(y)}`),
      ),
  );
  const label = `${name}: ${sum} in all, at most ${text(Math.max(...values))} at a time, from ${ends.join(" to ")} UTC`;
  return h(
    "figure.chart",
    h("figcaption", name, h("strong.number", sum)),
    svg(
      "svg",
      {
        viewBox: `0 0 ${points.length} ${most}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": label,
      },
      bars,
    ),
    h(
      "div.ends",
      ends.map((end) => h("span", end)),
    ),
  );
}
