// Parts of a message: an exchange with its body pretty, raw and hex; the signature, decoded and verified.

import { isRedacted } from "../assertions.js";
import { h, replace } from "../dom.js";
import { bodyOf, bytes, fromBase64, hex, instant, prettyJson } from "../format.js";
import { status } from "../parts.js";
import { prefixOf } from "../service.js";

// A longer body is shown to here, until the rest is asked for.
const SHOWN = 20_000;

/** Headers with one text each. */
export const flat = (headers) =>
  Object.fromEntries(Object.entries(headers).map(([name, values]) => [name, values.join(", ")]));

const encode = (text) => new TextEncoder().encode(text);
const codeBox = (label, text = "") => h("pre", { tabindex: 0, "aria-label": label }, text);
/** The bytes of a body that was sent. */
export const bytesOf = ({ body, body_base64: base64 }) =>
  base64 == null ? encode(body ?? "") : fromBase64(base64);

/** A request or a response as it was, its body in the forms that it has. */
export function exchange(title, line, { headers, body: text, body_base64: base64 }) {
  const type = Object.entries(headers).find(([name]) => /^content-type$/i.test(name))?.[1][0];
  const { kind, pretty, raw, size } = bodyOf(text, base64, type);
  const isEmpty = kind === "empty";
  const exact = bytesOf({ body: text, body_base64: base64 });
  // What came packed has both: the text of it, and the bytes as they came.
  const packed = text !== null && base64 ? `, ${bytes(exact.length)} in gzip` : "";
  const shown = codeBox(`${title} body`);
  const show = (content, limit = SHOWN) =>
    replace(
      shown,
      h("bdi", content.slice(0, limit)),
      content.length > limit &&
        h("button.quiet", { onclick: () => show(content, Infinity) }, ` … show all ${bytes(size)}`),
    );
  const forms =
    kind === "binary"
      ? [["hex", raw]]
      : [...(pretty === raw ? [] : [["pretty", pretty]]), ["raw", raw], ["hex"]];
  const buttons = forms.map(([name, content]) =>
    h(
      "button.quiet",
      {
        "aria-pressed": "false",
        onclick: (event) => {
          for (const each of buttons)
            each.setAttribute("aria-pressed", String(each === event.currentTarget));
          show(content ?? hex(exact));
        },
      },
      name,
    ),
  );
  if (!isEmpty) buttons[0].click();
  return h(
    "div",
    h(
      "h3",
      `${title} · ${isEmpty ? "no body" : `${kind}, ${bytes(size)}${packed}`} `,
      !isEmpty && buttons,
    ),
    h(
      "pre",
      line,
      "\n",
      Object.entries(headers).map(([name, values]) =>
        values.map((value) => [h("bdi", `${name}: ${value}`), "\n"]),
      ),
    ),
    !isEmpty && shown,
  );
}

/** The signature of a delivery: its claims, and what each key of the world says of it. */
export function signature(delivery, state) {
  const token = delivery.headers[`${prefixOf(state)}Signature`]?.[0];
  if (!token) return null;
  if (isRedacted(token)) return h("p.dim", "The signature is redacted.");
  const place = h("div", h("h3", "Signature"));
  verify(token, delivery, state.credentials.queue)
    .catch(({ message }) => [h("p.problem", `It cannot be read: ${message}`)])
    .then((found) => place.append(...found));
  return place;
}

async function verify(token, delivery, keys) {
  const [header, payload, mac] = token.split(".");
  const [head, body] = [header, payload].map((part) => new TextDecoder().decode(fromBase64(part)));
  const claims = JSON.parse(body);
  const decoded = codeBox("Signature, decoded", `${head}\n${prettyJson(body)}`);
  // Browsers have it on localhost and with https alone.
  const { subtle } = globalThis.crypto ?? {};
  if (!subtle)
    return [h("p.dim", "Open the page on localhost or with https to have it verified."), decoded];
  const checks = await Promise.all(
    ["current", "next"].map(async (name) => {
      const key = await subtle.importKey(
        "raw",
        encode(keys[`${name}_signing_key`]),
        { name: "HMAC", hash: "SHA-256" },
        false,
        ["verify"],
      );
      const fits = await subtle.verify(
        "HMAC",
        key,
        fromBase64(mac),
        encode(`${header}.${payload}`),
      );
      return status(`${name} key: ${fits ? "valid" : "not signed with it"}`, fits ? "good" : "off");
    }),
  );
  const digest = String(new Uint8Array(await subtle.digest("SHA-256", bytesOf(delivery))));
  for (const [name, fits] of [
    ["URL", claims.sub === delivery.url],
    ["body", String(fromBase64(claims.body)) === digest],
  ]) {
    if (name === "body" && isRedacted(delivery.body)) checks.push(status("body redacted", "off"));
    else
      checks.push(status(`${name} ${fits ? "matches" : "is another one"}`, fits ? "good" : "bad"));
  }
  return [
    h("p.checks", checks, h("span.dim", `expires ${instant(claims.exp * 1000)} UTC`)),
    decoded,
  ];
}
