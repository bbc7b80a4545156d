// Worlds: each with a clock, credentials and history of its own.

import { h, replace } from "../dom.js";
import { instant } from "../format.js";
import { adder, badNote, empty, link, listView, problem, status, tag, when } from "../list.js";

const ADDRESS = "/_emulator/worlds";
const FIELDS = {
  id: ["Id", "chosen by the server"],
  epoch: ["Its clock begins", "2026-01-01T00:00:00Z"],
  rate: ["Rate", "0: frozen", { type: "number", min: 0, step: "any" }],
  seed: ["Seed", "the server's", { type: "number" }],
};

export function render(context) {
  const broken = h("div");
  const query = { world: null };
  const view = listView(context, {
    rows: "worlds",
    key: "id",
    empty: () => empty("No world."),
    drawn: (found, answer) =>
      replace(
        broken,
        answer.unusable?.map(({ id, error }) => problem(`${id}: ${error}`)),
      ),
    columns: [
      [
        "World",
        "main",
        ({ id }) => [
          link("timeline", id, { world: id }),
          " ",
          id === context.state.world && tag("shown here"),
        ],
        "id",
      ],
      [
        "Clock",
        "",
        ({ clock }) => [
          h("time", instant(clock.now_ms, context.zone)),
          " ",
          status(...rate(clock.rate)),
        ],
      ],
      ["Pending", "number", ({ clock }) => clock.pending, ({ clock }) => clock.pending],
      ["Next due", "", ({ clock }) => when(clock.next_due_ms, context, clock.now_ms)],
      ["Trouble", "", ({ error }) => badNote(error)],
    ],
    actions: ({ id }, deed) => [
      id !== context.state.world && link("timeline", "switch to it", { world: id }),
      " ",
      deed("Reset", id, "POST", "/_emulator/reset", { ask: true, query: { world: id } }),
      id !== "default" &&
        deed("Delete", id, "DELETE", `${ADDRESS}/${encodeURIComponent(id)}`, {
          query,
          after: (gone) => {
            // What is shown here must be there.
            if (gone !== undefined && id === context.state.world)
              location.hash = "#/worlds?world=default";
            else view.reload();
          },
        }),
    ],
  });
  const create = (values) => {
    const given = Object.entries(values).filter(([, value]) => value);
    return context.act("Create a world", "POST", ADDRESS, {
      query,
      body: Object.fromEntries(
        given.map(([name, value]) => [name, FIELDS[name][2] ? Number(value) : value]),
      ),
    });
  };
  return [adder(context, "Create", FIELDS, create, view.reload), view.place, broken];
}

const rate = (value) =>
  value === 0 ? ["frozen", "off"] : [value === 1 ? "real time" : `× ${value}`, "good"];
