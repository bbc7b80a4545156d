// Worlds: each with a clock, credentials and history of its own.

import { h, replace } from "../dom.js";
import { field, head, listView, risky } from "../list.js";
import { empty, status, time } from "../parts.js";

export const title = "Worlds";
export const path = "worlds";
export const key = "w";

export function render(context) {
  const broken = h("div");
  const view = listView(context, {
    name: "worlds", path: "/_emulator/worlds",
    items: (answer) => answer.worlds,
    key: (world) => world.id,
    empty: () => empty("No world."),
    drawn: (items, answer) => replace(broken, (answer.unusable ?? []).map((each) => h("p", { class: "problem" }, `${each.id}: ${each.error}`))),
    columns: [
      ["World", "main", (world) => [h("a", { href: `#/timeline?world=${encodeURIComponent(world.id)}` }, world.id), " ",
        world.id === context.state.world && h("span", { class: "tag" }, "shown here")]],
      ["Clock", "", (world) => [time(world.clock.now_ms), " ", status(...rate(world.clock.rate))]],
      ["Pending", "number", (world) => world.clock.pending],
      ["Next due", "", (world) => time(world.clock.next_due_ms, world.clock.now_ms)],
      ["Trouble", "", (world) => world.error && h("span", { class: "note bad" }, world.error)],
      ["", "actions", (world) => [
        world.id !== context.state.world && h("a", { href: `#/timeline?world=${encodeURIComponent(world.id)}` }, "switch to it"),
        risky(context, "Reset", "Really start over?", () => context.act(`Reset ${world.id}`, "POST", "/_emulator/reset", { query: { world: world.id } }).then(view.reload)),
        world.id !== "default" && risky(context, "Delete", "Really delete?", () => remove(context, world.id, view.reload))]],
    ],
  });
  return h("section", {}, head(title), context.canAct && createForm(context, view.reload), view.place, broken);
}

async function remove(context, id, then) {
  const gone = await context.act(`Delete ${id}`, "DELETE", `/_emulator/worlds/${encodeURIComponent(id)}`, { query: { world: null } });
  // What is shown here must be there.
  if (gone !== undefined && id === context.state.world) location.hash = "#/worlds?world=default";
  else then();
}

function createForm(context, then) {
  return h("form", {
    class: "filters",
    onsubmit: async (event) => {
      event.preventDefault();
      const form = event.target;
      const { id, epoch, rate, seed } = Object.fromEntries(new FormData(form));
      const body = { ...(id && { id }), ...(epoch && { epoch }), ...(rate && { rate: Number(rate) }), ...(seed && { seed: Number(seed) }) };
      const made = await context.act("Create a world", "POST", "/_emulator/worlds", { body, query: { world: null } });
      if (made === undefined) return;
      form.reset();
      then();
    },
  }, field("Id", h("input", { name: "id", placeholder: "chosen by the server" })), field("Its clock begins", h("input", { name: "epoch", placeholder: "2026-01-01T00:00:00Z" })),
  field("Rate", h("input", { name: "rate", type: "number", min: 0, step: "any", placeholder: "0: frozen" })), field("Seed", h("input", { name: "seed", type: "number", placeholder: "the server's" })),
  h("button", { class: "main end" }, "Create"));
}

const rate = (value) => (value === 0 ? ["frozen", "off"] : value === 1 ? ["real time", "good"] : [`× ${value}`, "good"]);
