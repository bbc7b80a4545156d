// What the list views share: a table that keeps its rows, filters in the address, buttons that call, forms.

import { asCurl, describe } from "./api.js";
import { h, replace, valuesOf } from "./dom.js";
import { day, instant, relative, timeOfDay } from "./format.js";
import { empty, id } from "./parts.js";

export * from "./parts.js";

const ASKS_MS = 4_000;
// Names in the address and in the query: label, and what a value looks like.
const FILTERS = {
  state: ["State"], url: ["URL", "*/orders"], label: ["Label"], schedule: ["Schedule"], queue: ["Queue"], text: ["Text", "in id, URL, label"],
};

/**
 * A list, loaded by `path` and drawn again, row by row, when it changes. A field is a name, or item => value.
 *   rows     name of the list in the answer, and in the store, and its `path` without one; `items(found)` rearranges it
 *   query    () => what the call has besides the `filters` (names of FILTERS; `options` of those that are chosen)
 *   key      the field that tells rows apart; `open` the one that the right column shows
 *   columns  [title, kind, field]; kind "number" aligns right, "main" and "words" grow, "when" is an instant, "id" an id
 *   actions  (item, deed) => what ends the row; `deed` as made by `deeds`
 *   empty    () => what teaches when there is nothing; `drawn(items, answer)` runs after each drawing
 */
export function listView(context, spec) {
  const { rows, path = rows, query = () => ({}), filters: names = [], items = (found) => found, key, open, drawn = () => {} } = spec;
  const columns = spec.actions ? [...spec.columns, ["", "actions", spec.actions]] : spec.columns;
  const body = h("tbody");
  const table = h("table.list", h("thead", h("tr",
    columns.map(([title, kind]) => h("th", { scope: "col", class: kind }, title || h("span.unseen", "Actions"))))), body);
  const content = h("div", { "aria-busy": "true" });
  const picked = () => Object.fromEntries(names.map((name) => [name, context.route.query[name]]).filter(([, value]) => value));
  const reload = () => read(), deed = deeds(context, reload);

  const cell = (item, kind, from) => {
    const value = field(item, from, deed);
    if (kind === "when") return when(value, context);
    if (kind === "id") return id(value);
    if (kind !== "main" || !open) return value;
    const [first, ...rest] = [value].flat();
    return [h("button.quiet", { onclick: () => context.select(field(item, open)) }, first), rest];
  };
  const row = (item) => h("tr", {
    "aria-selected": open && String(field(item, open) === context.route.select),
    // Not by a click on a control inside, nor by selecting text.
    onclick: (event) => open && !event.target.closest("a, button, input, label") && !String(getSelection()) && context.select(field(item, open)),
  }, columns.map(([title, kind, from]) => h("td", { class: kind, "data-title": title || null }, cell(item, kind, from))));

  const redraw = () => {
    const answer = context.state.lists[rows];
    if (answer === undefined) return;
    content.removeAttribute("aria-busy");
    if (answer?.error) return void replace(content, problem(answer.error));
    const found = items(answer[rows]);
    // Distances to now stand in the rows, so they change with the clock as well.
    keepRows(body, found, key, row, `${context.route.select} ${context.state.clock?.now_ms} ${context.zone}`);
    if (!found.length) replace(content, Object.keys(picked()).length ? h("p.empty", "Nothing matches the filter.") : spec.empty());
    else if (!table.isConnected) replace(content, table);
    drawn(found, answer);
  };
  const place = h("div", names.length > 0 && filters(context, names, spec.options, reload), content);
  const read = context.load(rows, path, () => ({ ...picked(), ...query() }), redraw);
  context.watch((state) => state.clock?.now_ms, redraw);
  bindRows(context, body);
  return { place, reload, redraw, deed };
}

const field = (item, from, ...more) => (typeof from === "function" ? from(item, ...more) : item[from]);

/** Draw items as children of a node. A child whose item has not changed stays, and the focus with it. */
export function keepRows(parent, items, key, draw, salt = "") {
  const before = parent.kept ?? new Map(), after = new Map();
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = field(item, key), text = JSON.stringify(item) + salt;
    let row = before.get(name);
    if (row?.text !== text) {
      const node = draw(item);
      if (at === row?.node) at = node;
      if (row) swap(row.node, node);
      row = { text, node };
    }
    if (row.node === at) at = at.nextElementSibling;
    else parent.insertBefore(row.node, at);
    after.set(name, row);
  }
  for (const [name, { node }] of before) if (!after.has(name)) node.remove();
  parent.kept = after;
}

/** Put a node in the place of another; the control that had the focus has it again. */
function swap(old, node) {
  const controls = (root) => [...root.querySelectorAll("a, button, input")];
  const focused = controls(old).indexOf(document.activeElement);
  old.replaceWith(node);
  if (focused >= 0) controls(node)[focused]?.focus();
}

/** j and k go from row to row, x ticks one. */
function bindRows(context, body) {
  const go = (step) => () => {
    const rows = [...body.closest("section").querySelectorAll("tbody tr")];
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    rows[at < 0 ? 0 : Math.min(Math.max(at + step, 0), rows.length - 1)]?.querySelector("a, button")?.focus();
  };
  context.bind("j", "Next row", go(1));
  context.bind("k", "Previous row", go(-1));
  context.bind("x", "Tick the row", () => document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]")?.click());
}

function filters(context, names, options = {}, changed) {
  const inputs = names.map((name) => {
    const [label, placeholder] = FILTERS[name], value = context.route.query[name] ?? "";
    const oninput = (event) => {
      context.setQuery({ [name]: event.target.value.trim() || null });
      changed();
    };
    return h("label", label, options[name] ? choice(options[name], value, { oninput }) : h("input", { type: "search", value, placeholder, size: 11, oninput }));
  });
  context.bind("/", "Filter", () => inputs[0].lastChild.focus());
  return h("form.filters", { role: "search" }, inputs);
}

// Buttons and forms.

/** A button that acts; none in read-only mode. With `ask`, a question or true, only a second click does it. */
export function action(context, text, run, { ask, ...attributes } = {}) {
  if (!context.canAct) return null;
  let asked = null;
  const show = (wanted) => {
    clearTimeout(asked);
    asked = wanted ? setTimeout(show, ASKS_MS, false) : null;
    button.classList.toggle("asks", wanted);
    button.textContent = wanted ? (ask === true ? `Really ${text.toLowerCase()}?` : ask) : text;
    button.ariaLabel = wanted ? null : attributes["aria-label"] ?? null;
  };
  const button = h("button", { type: "button", ...attributes, onclick: async () => {
    if (ask && asked === null) return show(true);
    if (ask) show(false);
    button.disabled = true;
    await run();
    button.disabled = false;
  } }, text);
  return button;
}

/** Buttons for calls: deed("Delete", "orders", "DELETE", path, {sign: what is shown, after: run instead of `then`, ...as of `act`}). */
export const deeds = (context, then) => (text, what, method, path, { ask = method === "DELETE", disabled, sign = text, after = then, ...options } = {}) =>
  action(context, sign, () => context.act(`${text} ${what}`, method, path, options).then(after), { ask, disabled, "aria-label": `${text} ${what}` });

/** Pause or resume, whichever it can; the path of the call ends with it. */
export const pauser = (deed, paused, what, path) => {
  const verb = paused ? "Resume" : "Pause";
  return deed(verb, what, "POST", `${path}/${verb.toLowerCase()}`);
};

/** A labelled control in a form. */
export const labelled = (label, control, { hint, kind = "" } = {}) =>
  h("label", { class: `field ${kind}` }, h("span", label), control, hint && h("small.dim", hint));

/** Inputs: {name: [label, placeholder, attributes]}. */
export const inputs = (rows) => Object.entries(rows).map(([name, [label, placeholder, more]]) =>
  labelled(label, h("input", { name, placeholder, spellcheck: "false", ...more })));

/** A form in a line: `send(values)` makes the call; an answer empties the form and runs `then`. */
export const adder = (context, text, rows, send, then, ...more) => context.canAct && h("form.filters", { onsubmit: async ({ target: form }) => {
  if ((await send(valuesOf(form))) === undefined) return;
  form.reset();
  then();
} }, inputs(rows), h("button.main.end", text), more);

/** A choice of values, or of [value, text]. */
export const choice = (options, chosen, attributes) => h("select", attributes, options.map((each) => {
  const [value, text = value] = [each].flat();
  return h("option", { value, selected: value === chosen }, text);
}));

// Parts.

/** What an empty list teaches: a sentence, and the call that puts something into it. */
export const teaches = (sentence, path, options = {}) => empty(sentence, asCurl(describe("POST", path, options)));

export const problem = (text) => h("p.problem", { role: "alert" }, text);
export const note = (...content) => h("span.note", content);
export const badNote = (text) => text && h("span.note.bad", text);
export const tag = (text) => h("span.tag", text);

/** The head of a detail, which closes it. */
export const closing = (context, name) =>
  h("header", h("h2", name), h("button.quiet", { onclick: () => context.select(null), "aria-label": "Close" }, "×"));

/** A way to another view of the page. */
export const link = (view, text, query = {}) => h("a", { href: `#/${view}?${new URLSearchParams(query)}` }, text);

/** Names and values, the empty ones left out. */
export const facts = (pairs) => h("dl.facts", pairs.filter(([, value]) => value !== null && value !== undefined && value?.length !== 0)
  .map(([name, value]) => [h("dt", name), h("dd", value)]));

/** An instant and how far it is from now; without its day if that is today. */
export function when(ms, context, now = context.state.clock?.now_ms ?? ms) {
  if ((ms ?? null) === null) return h("span.dim", "–");
  const text = (day(ms, context.zone) === day(now, context.zone) ? timeOfDay : instant)(ms, context.zone);
  return h("time", { title: `${instant(ms)} UTC` }, text, h("span.dim", ` · ${relative(ms, now)}`));
}

/** A function that shows a firing in its own zone, and in that of the page if it is another one. */
export const firing = (context, zone) => ({ local, at_ms: at, explanation }) => h("li",
  // "2026-03-29T09:00:00+02:00" -> "2026-03-29 09:00 +02:00"
  local.replace(/T(\d\d:\d\d):00/, " $1 "),
  h("span.dim", zone !== context.zone && ` · ${instant(at, context.zone)}`, ` · ${relative(at, context.state.clock?.now_ms ?? at)}`),
  explanation && note("◐ ", explanation));
