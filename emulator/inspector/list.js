// What the list views share: a table that keeps its rows, filters in the address, actions with a second thought.

import { asCurl, describe } from "./api.js";
import { h, replace } from "./dom.js";
import { day, instant, relative, timeOfDay } from "./format.js";
import { empty } from "./parts.js";

/**
 * A view that is one list. It is loaded by `path` and drawn again, row by row, when it changes.
 *   name     under which the store keeps it; `items(answer)` picks the rows from the answer
 *   query    () => the query of the call, such as the filters of the address
 *   columns  [title, kind, item => cell]; kind "number" aligns right, "main" and "words" grow, "actions" ends the row
 *   key      item => what tells rows apart; `open(item)` the id that the right column shows, if there is one
 *   empty    () => what teaches when there is nothing; `filtered()` whether filters are the reason
 *   drawn    called with the items after each drawing
 */
export function listView(context, { name, path, query = () => ({}), items, columns, key, open = null, empty, filtered = () => false, drawn = () => {} }) {
  const body = h("tbody");
  const table = h("table", { class: "list" },
    h("thead", {}, h("tr", {}, columns.map(([title, kind]) => h("th", { scope: "col", class: kind || null }, title || h("span", { class: "unseen" }, "Actions"))))), body);
  const place = h("div", { class: "place", "aria-busy": "true" });
  const shown = (item) => h("tr", { "aria-selected": open ? String(open(item) === context.route.select) : null, onclick: open && rowClick(context, open(item)) },
    columns.map(([title, kind, cell]) => h("td", { class: kind || null, "data-title": title || null }, cell(item))));

  const reload = context.load(name, path, query);
  const draw = () => {
    const answer = context.state.lists[name];
    if (answer === undefined) return;
    place.removeAttribute("aria-busy");
    if (answer?.error) return void replace(place, h("p", { class: "problem", role: "alert" }, answer.error));
    const found = items(answer);
    if (found.length) {
      // Distances to now stand in the rows, so they change with the clock as well.
      keepRows(body, found, key, shown, `${context.route.select} ${context.state.clock?.now_ms} ${context.zone}`);
      if (!table.isConnected) replace(place, table);
    } else {
      replace(place, filtered() ? h("p", { class: "empty" }, "Nothing matches the filter.") : empty());
    }
    drawn(found, answer);
  };
  context.watch((state) => state.lists[name], draw);
  context.watch((state) => state.clock?.now_ms, draw);
  bindRows(context, body);
  return { place, reload, redraw: draw };
}

/** Open a row by a click on it, but not by one on a control inside, nor by selecting text. */
function rowClick(context, id) {
  return (event) => {
    if (event.target.closest("a, button, input, label, select") || String(getSelection())) return;
    context.select(id);
  };
}

/** Draw items as children of a node. A child whose item has not changed stays as it is, and the focus with it. */
export function keepRows(parent, items, keyOf, draw, salt = "") {
  const before = parent.kept ?? new Map(), after = new Map();
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item), text = JSON.stringify(item) + salt;
    let row = before.get(key);
    if (!row || row.text !== text) {
      const node = draw(item);
      if (row) {
        if (at === row.node) at = node;
        swap(row.node, node);
      }
      row = { text, node };
    }
    if (row.node === at) at = at.nextElementSibling;
    else parent.insertBefore(row.node, at);
    after.set(key, row);
  }
  for (const [key, { node }] of before) if (!after.has(key)) node.remove();
  parent.kept = after;
}

/** Put a node in the place of another; the control that had the focus has it again. */
function swap(old, node) {
  const controls = (root) => [...root.querySelectorAll("a, button, input, select, summary")];
  const focused = controls(old).indexOf(document.activeElement);
  old.replaceWith(node);
  if (focused >= 0) controls(node)[focused]?.focus();
}

/** j and k go from row to row, x ticks one; Enter and the other keys are those of the control that has the focus. */
function bindRows(context, body) {
  const go = (step) => () => {
    const rows = [...body.children];
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const row = rows[at < 0 ? 0 : Math.min(Math.max(at + step, 0), rows.length - 1)];
    row?.querySelector("td:not(.tick) :is(a, button), :is(a, button)")?.focus();
  };
  context.bind("j", "Next row", go(1));
  context.bind("k", "Previous row", go(-1));
  context.bind("x", "Tick the row", () => document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]")?.click());
}

// -- filters ----------------------------------------------------------------------------------

/** A form of filters that live in the address. `fields`: [{name, label, options?, hint?}]; `changed` runs after each change. */
export function filters(context, fields, changed) {
  const set = (name, value) => {
    context.setQuery({ [name]: value.trim() || null });
    changed();
  };
  const inputs = fields.map(({ name, label, options, hint }) => {
    const value = context.route.query[name] ?? "";
    const input = options
      ? h("select", { onchange: (event) => set(name, event.target.value) }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)))
      : h("input", { type: "search", value, placeholder: hint, size: 11, oninput: (event) => set(name, event.target.value) });
    return h("label", {}, h("span", {}, label), input);
  });
  context.bind("/", "Filter", () => inputs[0].lastChild.focus());
  return h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, inputs);
}

/** Those of the named parts of the address that are set. */
export const picked = (context, names) => Object.fromEntries(names.filter((name) => context.route.query[name]).map((name) => [name, context.route.query[name]]));

// -- actions ----------------------------------------------------------------------------------

/** A button that acts: disabled while it does, and nothing at all in read-only mode. */
export function action(context, text, run, attributes = {}) {
  if (!context.canAct) return null;
  const button = h("button", { type: "button", ...attributes, onclick: async () => {
    button.disabled = true;
    try {
      await run();
    } finally {
      button.disabled = false;
    }
  } }, text);
  return button;
}

/** The same for what cannot be undone: the first click asks, the second within four seconds does it. */
export function risky(context, text, question, run, attributes = {}) {
  let asked = null;
  const ask = (button, wanted) => {
    clearTimeout(asked);
    asked = wanted ? setTimeout(() => ask(button, false), 4000) : null;
    button.classList.toggle("asks", wanted);
    button.textContent = wanted ? question : text;
  };
  const button = action(context, text, async () => {
    if (asked === null) return ask(button, true);
    ask(button, false);
    return run();
  }, attributes);
  return button;
}

/** A button that deletes: `then` runs when the thing is gone. */
export const remover = (context, what, path, then, text = "Delete", question = `Really ${text.toLowerCase()}?`) =>
  risky(context, text, question, () => context.act(`${text} ${what}`, "DELETE", path).then(then));

/** What an empty list teaches: a sentence, and the call that puts something into it. */
export const teaches = (sentence, path, options = {}) => empty(sentence, asCurl(describe("POST", path, options)));

/** The head of a view: its name, and tools beside it. */
export const head = (title, ...tools) => h("header", { class: "tools" }, h("h1", {}, title), tools);

/** A labelled control in a form. */
export const field = (label, control, hint = null, kind = "") => h("label", { class: `field ${kind || ""}` }, h("span", {}, label), control, hint && h("small", { class: "dim" }, hint));

/** Names and values, the empty ones left out. */
export const facts = (pairs) => h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value?.length !== 0)
  .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

/** An instant and how far it is from now; without its day if that is today. */
export function when(ms, context) {
  if (ms === null || ms === undefined) return h("span", { class: "dim" }, "–");
  const now = context.state.clock?.now_ms ?? ms, { zone } = context;
  const text = day(ms, zone) === day(now, zone) ? timeOfDay(ms, zone) : instant(ms, zone);
  return h("time", { datetime: new Date(ms).toISOString(), title: `${instant(ms)} UTC` }, text, h("span", { class: "dim" }, ` · ${relative(ms, now)}`));
}

/** How far an instant is from now, for those that matter less. */
export const away = (ms, context) => h("time", { title: `${instant(ms, context.zone)} ${context.zone}` }, relative(ms, context.state.clock?.now_ms ?? ms));
