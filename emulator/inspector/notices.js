// Short notices of what an action did, with the call to copy.

import { h } from "./dom.js";
import { LANGUAGES } from "./languages.js";
import { prefs } from "./prefs.js";

const SHOWN_MS = 6_000;
const MOST = 4;

export const noticeArea = h("div.notices", { role: "status", "aria-live": "polite" });

/**
 * Say `text`; `call` is what can be copied, written for the server's `dialect`; `kind` "good" or "bad". A bad one stays
 * until it is closed.
 */
export function notice(text, { kind = "good", call = null, dialect = null } = {}) {
  const close = () => box.remove();
  const button = (name, onclick, more) => h("button.quiet", { onclick, ...more }, name);
  const box = h(
    "div",
    { class: `notice ${kind}` },
    h("span", kind === "bad" ? "✗ " : "✓ ", text),
    call && copyCall("copy as", call, { dialect }),
    button("×", close, { "aria-label": "Close this notice" }),
  );
  noticeArea.append(box);
  while (noticeArea.children.length > MOST) noticeArea.firstChild.remove();
  if (kind !== "bad") setTimeout(close, SHOWN_MS);
}

/**
 * A button that copies in the language that was chosen last, and the choice of another; `makers` are functions by
 * their names, `kept` the preference that holds the chosen one.
 */
export function copyChoice(
  what,
  makers,
  { kept = "assertion", verb = "Copy as", said = what } = {},
) {
  const names = Object.keys(makers);
  const chosen = () => (names.includes(prefs[kept]) ? prefs[kept] : names[0]);
  const button = h("button", {
    type: "button",
    onclick: () => copy(makers[chosen()](), said === null ? chosen() : said),
  });
  const select = h(
    "select",
    {
      "aria-label": `${what ? `${what}: ` : ""}language to copy in`,
      onchange: () => {
        prefs.keep({ [kept]: select.value });
        button.click();
        draw();
      },
      onfocus: draw,
    },
    names.map((name) => h("option", name)),
  );
  function draw() {
    select.value = chosen();
    button.textContent = [verb, chosen(), what].filter(Boolean).join(" ");
  }
  draw();
  return h("span.copies", button, select);
}

/** The same for a call, in each of the languages. */
export const copyCall = (verb, call, { said = null, ...more } = {}) =>
  copyChoice(
    "",
    Object.fromEntries(
      Object.entries(LANGUAGES).map(([name, write]) => [name, () => write(call, more)]),
    ),
    { kept: "language", verb, said },
  );

/** Put a text on the clipboard, and say so. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notice(`Copied: ${what}.`);
  } catch {
    notice(
      "The browser keeps the clipboard closed here: open the page on localhost or with https.",
      { kind: "bad" },
    );
  }
}
