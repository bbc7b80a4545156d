// Buttons that call, fields, forms, and the small parts of lists and details.

import { describe } from "./api.js";
import { h, valuesOf } from "./dom.js";
import { instant, inZone, moment, relative, withArrows } from "./format.js";
import { LANGUAGES } from "./languages.js";
import { distance, empty } from "./parts.js";
import { prefs } from "./prefs.js";

const ASKS_MS = 4_000;

/** A button that acts; none in read-only mode. With `ask`, a question or true, only a second click does it. */
export function action(context, text, run, { ask, ...attributes } = {}) {
  if (!context.canAct) return null;
  let asked = null;
  const show = (wanted) => {
    clearTimeout(asked);
    asked = wanted ? setTimeout(show, ASKS_MS, false) : null;
    button.classList.toggle("asks", wanted);
    button.textContent = wanted ? (ask === true ? `Really ${text.toLowerCase()}?` : ask) : text;
    button.ariaLabel = wanted ? null : (attributes["aria-label"] ?? null);
  };
  const button = h(
    "button",
    {
      type: "button",
      ...attributes,
      onclick: async () => {
        if (ask && asked === null) return show(true);
        if (ask) show(false);
        button.disabled = true;
        await run();
        button.disabled = false;
      },
    },
    text,
  );
  return button;
}

/**
 * Buttons for calls: deed("Delete", "orders", "DELETE", path, {sign: what is shown, after: run instead of
 * `then`, ...as of `act`}).
 */
export const deeds =
  (context, then) =>
  (
    text,
    what,
    method,
    path,
    { ask = method === "DELETE", disabled, sign = text, after = then, ...options } = {},
  ) =>
    action(context, sign, () => context.act(`${text} ${what}`, method, path, options).then(after), {
      ask,
      disabled,
      "aria-label": `${text} ${what}`,
    });

/** Pause or resume, whichever it can; the path of the call ends with it. */
export const pauser = (deed, paused, what, path) => {
  const verb = paused ? "Resume" : "Pause";
  return deed(verb, what, "POST", `${path}/${verb.toLowerCase()}`);
};

/** A labelled control in a form. */
export const labelled = (label, control, { hint, kind = "" } = {}) =>
  h("label", { class: `field ${kind}` }, h("span", label), control, hint && h("small.dim", hint));

/** Inputs: {name: [label, placeholder, attributes]}. */
export const inputs = (rows) =>
  Object.entries(rows).map(([name, [label, placeholder, more]]) =>
    labelled(label, h("input", { name, placeholder, spellcheck: "false", ...more })),
  );

/** A form in a line: `send(values)` makes the call; an answer empties the form and runs `then`. */
export const adder = (context, text, rows, send, then, ...more) =>
  context.canAct &&
  h(
    "form.filters",
    {
      onsubmit: async ({ target: form }) => {
        if ((await send(valuesOf(form))) === undefined) return;
        form.reset();
        then();
      },
    },
    inputs(rows),
    h("button.main.end", text),
    more,
  );

/** A choice of values, or of [value, text]. */
export const choice = (options, chosen, attributes) =>
  h(
    "select",
    attributes,
    options.map((each) => {
      const [value, text = value] = [each].flat();
      return h("option", { value, selected: value === chosen }, text);
    }),
  );

// Parts.

/** What an empty list teaches: a sentence, and the call that puts something into it. */
export const teaches = (sentence, path, options = {}) =>
  empty(sentence, LANGUAGES.curl(describe("POST", path, options)));

export const problem = (text) => h("p.problem", { role: "alert" }, text);
export const note = (...content) => h("span.note", content);
export const badNote = (text) => text && h("span.note.bad", text);
export const tag = (text) => h("span.tag", text);

/** The head of a detail, which closes it, and makes it wide or narrow. */
export const closing = (context, name, ...more) =>
  h(
    "header",
    h("h2", name),
    more,
    h(
      "button.quiet.widen",
      {
        onclick: () => prefs.keep({ wide: !prefs.wide }),
        "aria-label": "Wide or narrow",
        title: "Wide or narrow details (w)",
      },
      "↔",
    ),
    h(
      "button.quiet",
      {
        onclick: () => context.select(null),
        "aria-label": "Close",
        title: "Close the details (Escape)",
      },
      "×",
    ),
  );

/**
 * What the address has of a run: an id may be used again (D-692), and holds no slash. Without a number the latest run
 * of that id is meant.
 */
export const placeOfRun = (id, number) => (number ? `${id}/${number}` : id);

/** A way to another view of the page. */
export const link = (view, text, query = {}) =>
  h("a", { href: `#/${view}?${new URLSearchParams(query)}` }, text);

/** Names and values, the empty ones left out. */
export const facts = (pairs) =>
  h(
    "dl.facts",
    pairs
      .filter(([, value]) => value !== null && value !== undefined && value?.length !== 0)
      .map(([name, value]) => [h("dt", name), h("dd", value)]),
  );

/**
 * An instant and how far it is from now, or from where another clock is `standing`; without its day if that
 * is today.
 */
export function when(ms, context, standing = null) {
  if ((ms ?? null) === null) return h("span.dim", "–");
  const now = standing ?? context.now ?? ms;
  return h(
    "time",
    { title: `${instant(ms)} UTC` },
    moment(ms, now, context.zone),
    h("span.dim", " · ", standing === null ? distance(ms, now) : relative(ms, now)),
  );
}

/** A sentence of the server; its instants are written as those of the page are. */
export const sentence = (text, context) =>
  h("bdi", withArrows(inZone(text, context.now, context.zone)));

/** Firings, each in its own zone, and in that of the page if it is another one. */
export const firings = (context, zone, found) =>
  h("ol.plain.firings", found.map(firing(context, zone)));

/** "2026-03-29T09:00:00+02:00" -> "Sun 29 Mar 2026 09:00 +02:00" */
const onItsClock = (local) =>
  `${instant(Date.parse(`${local.slice(0, 19)}Z`)).replace(/:00$/, "")} ${local.slice(19)}`;

const firing =
  (context, zone) =>
  ({ local, at_ms: at, explanation }) =>
    h(
      "li",
      h("span", onItsClock(local), " "),
      h(
        "span.dim",
        zone !== context.zone && [moment(at, context.now ?? at, context.zone), " · "],
        distance(at, context.now ?? at),
      ),
      explanation && note("◐ ", explanation),
    );
