// What the list views share: a table that keeps its rows and sorts them, filters in the address, older pages.

import { choice, deeds, problem, when } from "./controls.js";
import { h, replace } from "./dom.js";
import { id } from "./parts.js";

export * from "./controls.js";
export * from "./parts.js";

// Names in the address and in the query: label, and what a value looks like.
const FILTERS = {
  state: ["State"],
  url: ["URL", "*/orders"],
  label: ["Label"],
  schedule: ["Schedule"],
  queue: ["Queue"],
  text: ["Text", "id, URL, label"],
};

/**
 * A list, loaded by `path` and drawn again, row by row, when it changes. A field is a name, or item => value.
 *   rows     name of the list in the store, and of the `path` and in the `answers` without one;
 *            `items(found)` rearranges
 *   query    () => what the call has besides the `filters` (names of FILTERS; `options` of those that are chosen)
 *   matches  (item, picked) => whether it is shown, for filters that the call does not have; their names in `local`
 *   older    what older ones are called, where the list comes in pages; a button reads another page
 *   key      the field that tells rows apart; `open` the one that the right column shows; `isOpen(item, selected)`
 *            where more than its value means the item
 *   columns  [title, kind, field, sort]; kind "number" aligns right, "main" and "words" grow, "when" is an instant,
 *            "id" an id, "extra" is left out where there is little room. `sort` is the field by which a click on the
 *            title sorts: `field` itself where that is a name, and null where rows are not to be sorted
 *   actions  (item, deed) => what ends the row; `deed` as made by `deeds`
 *   empty    () => what teaches when there is nothing; `drawn(items, answer)` runs after each drawing
 */
export function listView(context, spec) {
  const {
    rows,
    path = rows,
    query = () => ({}),
    filters: names = [],
    items = (found) => found,
    key,
    open,
    isOpen = (item, selected) => field(item, open) === selected,
    drawn = () => {},
  } = spec;
  const { local = [], matches = () => true, older, answers = rows } = spec;
  const columns = spec.actions
    ? [...spec.columns, ["", "actions", spec.actions, null]]
    : spec.columns;
  const body = h("tbody");
  const sorting = sorter(context, columns, () => redraw());
  const table = h("table.list", h("thead", h("tr", sorting.heads)), body);
  const content = h("div", { "aria-busy": "true" });
  let pages = 1;
  const cut = h("p.cut.dim", { role: "status", hidden: true });
  const more = h(
    "button.older",
    {
      hidden: true,
      onclick: () => {
        pages += 1;
        reload();
      },
    },
    `Show older ${older ?? rows}`,
  );
  const picked = () =>
    Object.fromEntries(
      names.map((name) => [name, context.route.query[name]]).filter(([, value]) => value),
    );
  const asked = () =>
    Object.fromEntries(Object.entries(picked()).filter(([name]) => !local.includes(name)));
  const reload = () => read();
  const deed = deeds(context, reload);

  const cell = (item, kind, from) => {
    const value = field(item, from, deed);
    if (kind.startsWith("when")) return when(value, context);
    if (kind.startsWith("id")) return id(value);
    if (kind !== "main" || !open) return value;
    const [first, ...rest] = [value].flat();
    return [h("button.quiet", { onclick: () => context.select(field(item, open)) }, first), rest];
  };
  const row = (item) =>
    h(
      "tr",
      {
        "aria-selected": open && String(isOpen(item, context.route.select)),
        // Not by a click on a control inside, nor by selecting text.
        onclick: (event) =>
          open &&
          !event.target.closest("a, button, input, label") &&
          !String(getSelection()) &&
          context.select(field(item, open)),
      },
      columns.map(([title, kind, from]) =>
        h("td", { class: kind, "data-title": title || null }, cell(item, kind, from)),
      ),
    );

  const redraw = () => {
    const answer = context.state.lists[rows];
    const { credentials, connection } = context.state;
    // Calls of the service need its token, and the lines to copy its names. A missing world has neither.
    if (answer === undefined || (credentials === null && connection !== "missing")) return;
    content.removeAttribute("aria-busy");
    if (answer?.error) return void replace(content, problem(answer.error));
    const all = items(answer[answers]);
    const found = sorting.sorted(all.filter((item) => matches(item, picked())));
    more.hidden = !older || !answer.cursor;
    cut.hidden = more.hidden && found.length === all.length;
    replace(cut, !cut.hidden && cutText(found.length, all.length, more.hidden));
    // Distances to now stand in the rows, so they change with the clock as well.
    keepRows(
      body,
      found,
      key,
      row,
      `${context.route.select} ${context.state.clock?.now_ms} ${context.zone}`,
    );
    if (!found.length)
      replace(
        content,
        Object.keys(picked()).length ? h("p.empty", "Nothing matches the filter.") : spec.empty(),
      );
    else if (!table.isConnected) replace(content, table);
    drawn(found, answer);
  };
  const changed = () => {
    pages = 1;
    reload();
    redraw();
  };
  const place = h(
    "div",
    names.length > 0 && filters(context, names, spec.options, changed),
    content,
    older && h("div.more", cut, more),
  );
  const read = context.load(
    rows,
    path,
    () => ({ ...asked(), ...query() }),
    redraw,
    older && (() => ({ many: pages, rows: answers })),
  );
  context.watch(({ clock, credentials }) => `${clock?.now_ms} ${credentials !== null}`, redraw);
  context.whenSelected(redraw);
  bindRows(context, body);
  return { place, reload, redraw, deed };
}

const cutText = (shown, read, all) =>
  shown === read
    ? `The newest ${read.toLocaleString("en-GB")} are shown. `
    : `${shown.toLocaleString("en-GB")} of ${all ? "" : "the newest "}${read.toLocaleString("en-GB")} match. `;

/** Heads of columns that sort by a click: up, down, and as they came. The choice stands in the address. */
function sorter(context, columns, redraw) {
  const by = (at) => {
    const [, , from, sort = typeof from === "string" ? from : null] = columns[at];
    return sort;
  };
  const chosen = () => {
    const [, down, title] = /^(-?)(.*)$/.exec(context.route.query.sort ?? "");
    const at = title ? columns.findIndex((column, at) => column[0] === title && by(at)) : -1;
    return { at, isDown: down === "-" };
  };
  const heads = columns.map(([title, kind], at) =>
    h(
      "th",
      { scope: "col", class: kind },
      by(at) === null
        ? title || h("span.unseen", "Actions")
        : h("button.quiet.sort", { onclick: () => turn(at), title: `Sort by ${title}` }, title),
    ),
  );
  function turn(at) {
    const now = chosen();
    const title = columns[at][0];
    const next = now.at !== at ? title : now.isDown ? null : `-${title}`;
    context.setQuery({ sort: next });
    mark();
    redraw();
  }
  function mark() {
    const { at, isDown } = chosen();
    heads.forEach((head, each) => {
      head.ariaSort = each === at ? (isDown ? "descending" : "ascending") : null;
    });
  }
  mark();
  return {
    heads,
    sorted(items) {
      const { at, isDown } = chosen();
      if (at < 0) return items;
      const value = (item) => field(item, by(at)) ?? null;
      const sign = isDown ? -1 : 1;
      // What has no value stands last, whichever way it is sorted.
      return items.toSorted((one, other) => {
        const [left, right] = [value(one), value(other)];
        if (left === null || right === null) return (left === null) - (right === null);
        return sign * (typeof left === "number" ? left - right : left.localeCompare(right));
      });
    },
  };
}

const field = (item, from, ...more) =>
  typeof from === "function" ? from(item, ...more) : item[from];

/** Draw items as children of a node. A child whose item has not changed stays, and the focus with it. */
export function keepRows(parent, items, key, draw, salt = "") {
  const before = parent.kept ?? new Map();
  const after = new Map();
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = field(item, key);
    const text = JSON.stringify(item) + salt;
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
    rows[at < 0 ? 0 : Math.min(Math.max(at + step, 0), rows.length - 1)]
      ?.querySelector("a, button")
      ?.focus();
  };
  const hasRows = () => body.isConnected && body.querySelector("a, button") !== null;
  context.bind("j", "Next row", go(1), hasRows);
  context.bind("k", "Previous row", go(-1), hasRows);
  context.bind(
    "x",
    "Tick the row",
    () => document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]")?.click(),
    () => body.isConnected && body.querySelector("input[type=checkbox]") !== null,
  );
}

function filters(context, names, options = {}, changed) {
  const inputs = names.map((name) => {
    const [label, placeholder] = FILTERS[name];
    const value = context.route.query[name] ?? "";
    const oninput = (event) => {
      context.setQuery({ [name]: event.target.value.trim() || null });
      changed();
    };
    return h(
      "label",
      label,
      options[name]
        ? choice(options[name], value, { oninput })
        : h("input", { type: "search", value, placeholder, size: 11, oninput }),
    );
  });
  context.bind("/", "Filter", () => inputs[0].lastChild.focus());
  return h("form.filters", { role: "search" }, inputs);
}
