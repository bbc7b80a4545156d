// Parts of a message: an exchange with its body pretty, raw and hex, and the signature, decoded and verified.

import { h, replace } from "../dom.js";
import { bodyOf, bytes, fromBase64, hex, instant, prettyJson } from "../format.js";
import { status } from "../parts.js";
import { prefixOf } from "../service.js";

// A longer body is shown to here, until the rest is asked for.
const SHOWN = 20_000;

/** Headers with one text each. */
export const flat = (headers) => Object.fromEntries(Object.entries(headers).map(([name, values]) => [name, values.join(", ")]));

/** A request or a response as it was, its body in the forms that it has. */
export function exchange(title, line, headers, text, base64) {
  const type = Object.entries(flat(headers)).find(([name]) => /^content-type$/i.test(name))?.[1] ?? "";
  const body = bodyOf(text, base64, type), shown = h("pre", { tabindex: 0, "aria-label": `${title} body` });
  const show = (content, limit = SHOWN) => replace(shown, h("bdi", {}, content.slice(0, limit)), content.length > limit && h("button", { class: "quiet", onclick: () => show(content, Infinity) }, ` … show all ${bytes(body.size)}`));
  const forms = body.kind === "binary" ? { hex: () => body.raw } : { ...(body.pretty !== body.raw && { pretty: () => body.pretty }), raw: () => body.raw, hex: () => hex(new TextEncoder().encode(body.raw)) };
  const buttons = Object.entries(forms).map(([name, content]) => h("button", { class: "quiet", "aria-pressed": "false", onclick: (event) => {
    for (const each of buttons) each.setAttribute("aria-pressed", String(each === event.currentTarget));
    show(content());
  } }, name));
  if (body.kind !== "empty") buttons[0].click();
  return h("div", {}, h("h3", {}, `${title} · ${body.kind === "empty" ? "no body" : `${body.kind}, ${bytes(body.size)}`} `, body.kind !== "empty" && buttons),
    h("pre", {}, line, "\n", Object.entries(headers).map(([name, values]) => values.map((value) => [h("bdi", {}, `${name}: ${value}`), "\n"]))), body.kind !== "empty" && shown);
}

/** The signature of a delivery: its claims, and what each key of the world says of it. */
export function signature(delivery, { credentials, ...state }) {
  const token = delivery.headers[`${prefixOf({ credentials, ...state })}Signature`]?.[0];
  if (!token) return null;
  const place = h("div", {}, h("h3", {}, "Signature"));
  verify(token, delivery, credentials.queue).then((found) => place.append(...found), (error) => place.append(h("p", { class: "problem" }, `It cannot be read: ${error.message}`)));
  return place;
}

async function verify(token, delivery, keys) {
  const [header, payload, mac] = token.split("."), read = (part) => new TextDecoder().decode(fromBase64(part));
  const claims = JSON.parse(read(payload)), pre = (text) => h("pre", { tabindex: 0, "aria-label": "Signature, decoded" }, text);
  const decoded = pre(`${read(header)}\n${prettyJson(read(payload))}`);
  // Browsers have it on localhost and with https alone.
  if (!globalThis.crypto?.subtle) return [h("p", { class: "dim" }, "Open the page on localhost or with https to have it verified."), decoded];
  const sent = delivery.body === null ? fromBase64(delivery.body_base64 ?? "") : new TextEncoder().encode(delivery.body);
  const digest = btoa(String.fromCharCode(...new Uint8Array(await crypto.subtle.digest("SHA-256", sent)))).replaceAll("+", "-").replaceAll("/", "_");
  const bare = (text) => String(text).replace(/=+$/, "");
  const checks = [];
  for (const name of ["current", "next"]) {
    const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(keys[`${name}_signing_key`]), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    const fits = await crypto.subtle.verify("HMAC", key, fromBase64(mac), new TextEncoder().encode(`${header}.${payload}`));
    checks.push(status(`${name} key: ${fits ? "valid" : "not signed with it"}`, fits ? "good" : "off"));
  }
  for (const [name, fits] of [["URL", claims.sub === delivery.url], ["body", bare(claims.body) === bare(digest)]]) checks.push(status(`${name} ${fits ? "matches" : "is another one"}`, fits ? "good" : "bad"));
  checks.push(h("span", { class: "dim" }, `expires ${instant(claims.exp * 1000)} UTC`));
  return [h("p", { class: "checks" }, checks), decoded];
}
