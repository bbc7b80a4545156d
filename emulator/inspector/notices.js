// Short notices of what an action did, with the call to copy.

import { asCurl, asPython } from "./api.js";
import { h } from "./dom.js";

const SHOWN_MS = 6_000, MOST = 4;

export const noticeArea = h("div.notices", { role: "status", "aria-live": "polite" });

/** Say `text`; `call` is what can be copied, `kind` "good" or "bad". A bad one stays until it is closed. */
export function notice(text, { kind = "good", call = null } = {}) {
  const close = () => box.remove();
  const button = (name, onclick, more) => h("button.quiet", { onclick, ...more }, name);
  const box = h("div", { class: `notice ${kind}` }, h("span", kind === "bad" ? "✗ " : "✓ ", text),
    call && [button("copy as curl", () => copy(asCurl(call), "curl command")), button("Python", () => copy(asPython(call), "Python"))],
    button("×", close, { "aria-label": "Close this notice" }));
  noticeArea.append(box);
  while (noticeArea.children.length > MOST) noticeArea.firstChild.remove();
  if (kind !== "bad") setTimeout(close, SHOWN_MS);
}

/** Put a text on the clipboard, and say so. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notice(`Copied: ${what}.`);
  } catch {
    notice("The browser keeps the clipboard closed here: open the page on localhost or with https.", { kind: "bad" });
  }
}
