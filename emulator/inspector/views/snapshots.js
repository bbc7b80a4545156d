// Snapshots: the whole world kept under a name, to go back to or to carry elsewhere.

import { UNDO } from "../clock.js";
import { h } from "../dom.js";
import { bytes } from "../format.js";
import { action, field, head, listView, remover, risky } from "../list.js";
import { notice } from "../notices.js";
import { empty, time } from "../parts.js";
import { describe, download } from "../api.js";

export const title = "Snapshots";
export const path = "snapshots";
export const key = "n";

const ADDRESS = "/_emulator/snapshots";
const address = (name) => `${ADDRESS}/${encodeURIComponent(name)}`;

export function render(context) {
  const view = listView(context, {
    name: "snapshots", path: ADDRESS,
    items: (answer) => answer.snapshots.filter(({ name }) => !name.startsWith(UNDO)),
    key: (snapshot) => snapshot.name,
    empty: () => empty("No snapshot yet. One keeps the whole world under a name: its clock, what is pending, its history and its random source. Restored, it goes on exactly as the original did."),
    columns: [
      ["Snapshot", "main", (snapshot) => snapshot.name],
      ["Its clock", "", (snapshot) => time(snapshot.created_ms, context.state.clock?.now_ms ?? null)],
      ["Pending", "number", (snapshot) => snapshot.pending],
      ["Size", "number", (snapshot) => bytes(snapshot.size_bytes)],
      ["", "actions", (snapshot) => [
        risky(context, "Restore", "Really go back to it?", () => context.act(`Restore ${snapshot.name}`, "POST", `${address(snapshot.name)}/restore`).then(view.reload)),
        h("button", { type: "button", onclick: () => save(snapshot.name), "aria-label": `Export ${snapshot.name}` }, "Export"),
        remover(context, snapshot.name, address(snapshot.name), view.reload)]],
    ],
  });
  return h("section", {}, head(title), context.canAct && form(context, view.reload), view.place);
}

async function save(name) {
  const path = `${address(name)}/file`;
  try {
    await download(path, `${name}.db`);
  } catch (error) {
    notice(`Export ${name}: ${error.message}`, { kind: "bad", call: describe("GET", path) });
  }
}

function form(context, then) {
  const name = h("input", { required: true, placeholder: "before-the-migration" });
  const file = h("input", { type: "file", "aria-label": "Snapshot file", hidden: true, onchange: async () => {
    const [chosen] = file.files;
    file.value = "";
    const into = name.value.trim() || chosen.name.replace(/\.\w+$/, "");
    if (await context.act(`Import ${into}`, "PUT", `${address(into)}/file`, { body: chosen })) then();
  } });
  return h("form", {
    class: "filters",
    onsubmit: async (event) => {
      event.preventDefault();
      if (await context.act(`Save ${name.value.trim()}`, "POST", ADDRESS, { body: { name: name.value.trim() } })) {
        name.value = "";
        then();
      }
    },
  }, field("Name", name), h("button", { class: "main end" }, "Save the world"), action(context, "Import a file…", () => file.click(), { class: "end" }), file);
}
