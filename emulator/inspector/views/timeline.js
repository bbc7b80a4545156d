// The timeline: what happened and what is to come on one axis, with the line of now between.

import { h, replace } from "../dom.js";
import {
  bytes,
  count,
  deliveries,
  duration,
  instant,
  inZone,
  moment,
  shortId,
  shortUrl,
  withArrows,
} from "../format.js";
import { choice, tag, teaches } from "../list.js";
import { older } from "../live.js";
import { chaosMark, distance, present, status } from "../parts.js";
import { prefs } from "../prefs.js";
import { HINT, matcher, parse, problem } from "../timeline_filter.js";
import { arrange, cause, comingRows, isGood, ofRun, SORTS, why } from "../timeline_rows.js";
import { virtualList } from "../timeline_scroll.js";
export { detail } from "./message.js";

const GROUPS = ["", "message", "run", "schedule", "destination"];
// What is due, in words.
const KINDS = {
  rate_window: "rate period",
  wait: "wait",
  answer: "answer",
  timeout: "timeout",
  duplicate: "duplicate",
  account: "account",
  schedule: "schedule",
};
const LARGE = 5_000;
const DRAW_LARGE_MS = 500;
// As much of what is to come as is read.
const AHEAD = 500;
const PASS_MS = 250;

export function render(context, tools) {
  const { query } = context.route;
  const open = new Set();
  const note = h("span.dim", { role: "status" });
  const wrong = h("p.problem", { role: "alert", hidden: true });
  const teach = h("div.place");
  const jump = h("button.jump", { hidden: true, onclick: () => list.centre(nowAt) });
  const list = virtualList({
    label: "Deliveries",
    draw: content,
    open: choose,
    settled,
    selected: ({ id }) => Boolean(id) && id === context.route.select,
  });
  let nowAt = -1;
  let terms = null;
  let matches = null;
  let shownBy = null;
  let waits = null;
  // When the next row passes the line of now.
  let passesAt = Infinity;

  const heads = ["Time", "Request", "Try", "Result", "Took", "Size", "Why"].map((title) =>
    h(
      "span",
      { role: "presentation", class: title.toLowerCase() },
      title in SORTS || title === "Time"
        ? h("button.quiet.sort", { onclick: () => turn(title), title: `Sort by ${title}` }, title)
        : title,
    ),
  );
  const head = h("div.heads", heads);
  const sortOf = () => {
    const { sort = "" } = context.route.query;
    return sort.replace("-", "") in SORTS ? sort : "";
  };

  /** Sort by a column: the greatest first, then the least, then by time again. */
  function turn(title) {
    const now = sortOf();
    const next =
      title === "Time" || now === title ? null : now === `-${title}` ? title : `-${title}`;
    context.setQuery({ sort: next });
    draw();
  }

  // A control whose value stands in the address.
  const asked =
    (name) =>
    ({ target }) => {
      context.setQuery({ [name]: target.value.trim() });
      draw();
    };
  const filter = h("input", {
    type: "search",
    value: query.filter ?? "",
    placeholder: "status:failed url:*/orders label:nightly",
    title: HINT,
    "aria-label": "Filter",
    spellcheck: "false",
    oninput: asked("filter"),
  });
  const by = choice(
    GROUPS.map((value) => [value, value ? `by ${value}` : "no groups"]),
    query.group,
    { "aria-label": "Group", onchange: asked("group") },
  );

  function draw() {
    clearTimeout(waits);
    waits = null;
    const {
      journal,
      lists: { upcoming, "live messages": live },
    } = context.state;
    const { rows } = journal;
    if (!upcoming || !(rows.length || journal.whole)) return;
    if (terms !== filter.value) {
      terms = filter.value;
      const parsed = parse(terms);
      const found = problem(parsed);
      wrong.hidden = found === null;
      replace(wrong, found);
      matches = matcher(parsed);
    }
    const coming = upcoming.items ? comingRows(upcoming, live?.messages) : [];
    const isBare = !rows.length && !coming.length;
    const items = arrange(rows, coming, {
      matches,
      by: by.value,
      sort: sortOf(),
      now: context.now,
      open,
      newestFirst: prefs.newestFirst,
    });
    nowAt = items.findIndex(({ kind }) => kind === "now");
    passesAt = Math.min(
      ...coming.map(({ at }) => (at !== null && at >= context.now ? at : Infinity)),
    );
    for (const each of heads) {
      const [name, sort] = [each.textContent, sortOf()];
      const way = sort === name ? "up" : sort === `-${name}` ? "down" : null;
      each.dataset.sort = way ?? (name === "Time" && !sort && !by.value ? "down" : "");
      const [button] = each.children;
      if (button) button.ariaPressed = String(Boolean(way));
    }
    list.box.hidden = head.hidden = isBare;
    list.box.removeAttribute("aria-busy");
    replace(
      teach,
      isBare &&
        teaches(
          "Nothing has happened yet. Publish a message: it shows up here at once, and stays.",
          "/v2/publish/https://app.example/orders",
          { headers: { "Content-Type": "application/json" }, body: '{"order": 7}' },
        ),
    );
    const arranged = `${by.value} ${sortOf()}`;
    if (!isBare) list.set(items, nowAt, shownBy !== arranged);
    shownBy = isBare ? null : arranged;
    const shown = (wanted) => items.filter(({ kind }) => kind === wanted).length;
    replace(
      note,
      by.value && !sortOf()
        ? count(shown("group"), "group")
        : [deliveries(shown("past")), matches && ` of ${rows.length.toLocaleString("en-GB")}`],
      !journal.whole &&
        rows.length > 0 &&
        (canRead(journal) ? ", more are read…" : ", older ones are left out"),
      sortOf() && ", without what is to come",
      upcoming.truncated && ` · the next ${AHEAD} to come, and more follow`,
      upcoming.error && ` · what is to come is not known: ${upcoming.error}`,
    );
  }

  function settled(from, to) {
    jump.hidden = nowAt < 0 || (nowAt >= from && nowAt < to);
    replace(jump, nowAt < from ? "↑ now" : "↓ now");
  }

  function choose(item) {
    if (item.kind === "group") {
      if (!open.delete(item.key)) open.add(item.key);
      draw();
    } else if (item.id) context.select(item.id);
    else if (item.schedule) context.go("schedules", {}, item.schedule);
  }

  const local = (text) => withArrows(inZone(text, context.now, context.zone)) ?? "";

  function content(item) {
    const now = context.now ?? item.at;
    const { kind, at, labels, last, next } = item;
    if (kind === "now") return h("span", "now ", present(now, context.zone));
    if (kind === "group") {
      const name =
        /message|run/.test(by.value) && !item.key.startsWith("no ")
          ? `${shortId(item.key)} ${shortUrl(item.url)}`
          : shortUrl(item.key);
      return cells(
        last ?? next,
        [item.isOpen ? "▾ " : "▸ ", deliveries(item.count)],
        tame(name),
        [
          item.failed > 0 && h("b", `${item.failed} failed `),
          next && ["next ", distance(next.at, now), `: ${local(next.why)}`],
        ],
        null,
        null,
        true,
      );
    }
    const failed = kind === "past" ? cause(item) : null;
    const reason = local(why(item, context.state.journal));
    return cells(
      item,
      at === null
        ? "waiting"
        : [moment(at, now, context.zone), kind !== "past" && dim([" ", distance(at, now)])],
      [
        dim(`${item.method || (KINDS[item.what] ?? item.what)} `),
        h("span", { title: item.url }, tame(shortUrl(item.url))),
      ],
      [
        chaosMark(item.chaos),
        failed
          ? [
              item.run && `${tame(ofRun(item))}: `,
              h("b", tame(failed.text)),
              item.retry && ` · retried: ${local(item.retry)}`,
              ` · ${failed.advice}`,
            ]
          : tame(reason),
        labels.map((label) => [" ", tag(tame(label))]),
      ],
      at && `${instant(at)} UTC`,
      [failed && `${failed.text}\n${failed.advice}`, reason].filter(Boolean).join("\n"),
    );
  }

  list.box.setAttribute("aria-busy", "true");
  // Pages of a large journal come faster than it is worth drawing all of it.
  const soon = () =>
    shownBy === null || context.state.journal.rows.length < LARGE
      ? draw()
      : (waits ??= setTimeout(draw, DRAW_LARGE_MS));
  context.whenSelected(list.redraw);
  context.load("upcoming", "upcoming", { limit: AHEAD, expiries: false }, soon);
  context.load("live messages", "messages", { state: "live", limit: 1000 }, soon);
  context.watch(({ seen, clock }) => `${seen} ${clock?.now_ms}`, soon);
  context.watch(
    ({ world, journal }) => `${world} ${journal.whole} ${journal.rows.length > 0}`,
    () => readAll(context),
  );
  for (const [key, text, run] of [
    ["j", "Next row", () => list.go(1)],
    ["k", "Previous row", () => list.go(-1)],
    ["Enter", "Open the row", list.openCurrent],
    ["n", "To the line of now", () => list.centre(nowAt)],
    ["/", "Filter", () => filter.focus()],
    [
      "b",
      "Group by something else",
      () => {
        by.selectedIndex = (by.selectedIndex + 1) % GROUPS.length;
        by.dispatchEvent(new Event("change"));
      },
    ],
  ])
    context.bind(key, text, run);
  const passing = setInterval(() => context.now > passesAt && draw(), PASS_MS);
  context.ends.push(
    () => clearTimeout(waits),
    () => clearInterval(passing),
  );
  tools(filter, by, note);
  return [wrong, teach, head, h("div.axis", list.box, jump)];
}

const dim = (text) => h("span.dim", text);

/** The cells of a row; `row` is the one whose attempts and state are shown. */
const cells = (row, when, what, why, whenTitle, whyTitle, isHead = false) => [
  h("span.when", { title: whenTitle }, when),
  h("span.what", what),
  h("span.try", row?.n && `${row.n}/${row.of ?? "?"}`),
  row?.kind === "past"
    ? status(row.status ?? "error", isGood(row) ? "good" : "bad")
    : status(row?.what === "retry" ? "retry" : row?.kind === "waits" ? "waits" : "due", "wait"),
  isHead ? h("span.took") : took(row),
  h("span.size", !isHead && row?.kind === "past" && row.sent !== null && sizes(row)),
  h("span.why", { title: whyTitle }, why),
];

/** How long an attempt took: in real time, and on the clock if that is known alone, or another. */
function took({ kind, took: real, lasted } = {}) {
  if (kind !== "past") return h("span.took");
  const title = [
    real !== null && `${duration(real)} of real time`,
    `${duration(lasted)} of the clock`,
  ];
  return h(
    "span.took",
    { title: title.filter(Boolean).join(", ") },
    real === null ? (lasted ? `${duration(lasted)} ◷` : "–") : duration(real),
  );
}

const sizes = ({ sent, received }) =>
  h(
    "span",
    {
      title: `${bytes(sent)} sent, ${received === null ? "no answer" : `${bytes(received)} answered`}`,
    },
    `${bytes(sent)} / ${received === null ? "–" : bytes(received)}`,
  );

// Marks of direction would turn what stands beside them.
const tame = (text) => text.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "�");

const canRead = ({ rows, most }) => rows.length > 0 && rows.length < most;

/** Read the older pages one after another, while the view is open. */
async function readAll({ store, ends }) {
  while (!ends.done && canRead(store.state.journal) && (await older(store)))
    await new Promise((done) => setTimeout(done));
}
