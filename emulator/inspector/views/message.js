// One message: where it stands and why, and every attempt with its request and its response.

import { h, replace } from "../dom.js";
import { bodyOf, bytes, duration, instant } from "../format.js";
import { action, facts, when } from "../list.js";
import { copy, id, status } from "../parts.js";
import { asCurl } from "../api.js";

// A longer body is shown to here, until the rest is asked for.
const SHOWN = 20_000;
const LIVE = new Set(["PENDING", "HELD", "ACTIVE", "RETRYING"]);

export function detail(context) {
  const message = context.route.select, place = h("div", { class: "panel", "aria-busy": "true" });
  const name = `message ${message}`, attempts = `attempts ${message}`;
  context.load(name, `/_emulator/messages/${encodeURIComponent(message)}/explain`);
  context.load(attempts, "/_emulator/deliveries", { message_id: message, limit: 1000 });
  let drawn = "";
  const draw = () => {
    const { [name]: explained, [attempts]: delivered } = context.state.lists;
    if (!explained || !delivered) return;
    // What is unfolded stays so, as long as nothing has changed.
    const text = JSON.stringify([explained, delivered]);
    if (text === drawn) return;
    drawn = text;
    place.removeAttribute("aria-busy");
    if (explained.error) return void replace(place, heading(context, message), h("p", { class: "problem" }, explained.error));
    replace(place, heading(context, message), panel(context, explained, delivered.deliveries ?? []));
  };
  context.watch((state) => state.lists[name], draw);
  context.watch((state) => state.lists[attempts], draw);
  return place;
}

const heading = (context, message) => h("header", {}, h("h2", {}, id(message)), h("button", { class: "quiet", onclick: () => context.select(null), "aria-label": "Close" }, "×"));

function panel(context, explained, deliveries) {
  return [
    facts([["Destination", explained.url], ["State", explained.state.toLowerCase()], ["Why", explained.summary]]),
    LIVE.has(explained.state) && h("div", { class: "buttons" }, action(context, "Cancel", () => context.act("Cancel", "DELETE", `/v2/messages/${explained.message_id}`))),
    h("div", {}, h("h3", {}, "How it came here"), h("ol", {}, explained.reasons.map((reason) => h("li", {}, when(reason.at_ms, context), " ", reason.text)))),
    deliveries.map((delivery, at) => attempt(context, delivery, at === deliveries.length - 1)),
  ];
}

function attempt(context, delivery, isOpen) {
  const { response } = delivery;
  const good = response && response.status >= 200 && response.status < 300;
  const sent = { method: delivery.method, path: "", headers: joined(delivery.headers), body: delivery.body || undefined };
  return h("details", { open: isOpen }, h("summary", {}, `Attempt ${delivery.attempt} `, status(response ? response.status : "failed", good ? "good" : "bad"),
    ` ${instant(delivery.at_ms, context.zone)}, ${duration(delivery.duration_ms)}, by ${delivery.via}`),
  h("div", { class: "panel" },
    delivery.error && h("p", { class: "problem" }, delivery.error),
    message("Request", `${delivery.method} ${delivery.url}`, delivery.headers, delivery.body, delivery.body_base64),
    response && message("Response", `${response.status}`, response.headers, response.body, response.body_base64),
    h("div", { class: "buttons" }, h("button", { onclick: () => copy(asCurl(sent, delivery.url), "the request") }, "Copy request as curl"))));
}

function message(title, line, headers, text, base64) {
  const body = bodyOf(text, base64, joined(headers)["Content-Type"] ?? "");
  const shown = h("pre", { tabindex: 0, "aria-label": `${title} body` });
  const show = (content, limit) => replace(shown, content.slice(0, limit), content.length > limit && h("button", { class: "quiet", onclick: () => show(content, Infinity) }, ` … show all ${bytes(body.size)}`));
  show(body.pretty, SHOWN);
  return h("div", {}, h("h3", {}, `${title} · ${body.kind === "empty" ? "no body" : `${body.kind}, ${bytes(body.size)}`}`),
    h("pre", {}, line, "\n", Object.entries(headers).map(([name, values]) => values.map((value) => `${name}: ${value}\n`))),
    body.kind !== "empty" && shown,
    body.pretty !== body.raw && h("button", { class: "quiet", onclick: (event) => {
      const raw = event.target.textContent === "raw";
      event.target.textContent = raw ? "pretty" : "raw";
      show(raw ? body.raw : body.pretty, SHOWN);
    } }, "raw"));
}

const joined = (headers) => Object.fromEntries(Object.entries(headers).map(([name, values]) => [name, values.join(", ")]));
