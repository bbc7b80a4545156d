// Snapshots: the whole world kept under a name, to go back to or to carry elsewhere.

import { describe, download } from "../api.js";
import { h } from "../dom.js";
import { bytes } from "../format.js";
import { action, adder, empty, listView } from "../list.js";
import { notice } from "../notices.js";

const ADDRESS = "/_emulator/snapshots";
const address = (name) => `${ADDRESS}/${encodeURIComponent(name)}`;

export function render(context) {
  const view = listView(context, {
    rows: "snapshots",
    key: "name",
    empty: () => empty("No snapshot yet. One keeps the whole world, to go back to."),
    columns: [
      ["Snapshot", "main", "name"],
      ["Its clock", "when", "created_ms"],
      ["Pending", "number", "pending"],
      ["Size", "number", (snapshot) => bytes(snapshot.size_bytes), "size_bytes"],
    ],
    actions: ({ name }, deed) => [
      deed("Restore", name, "POST", `${address(name)}/restore`, { ask: true }),
      h("button", { onclick: () => save(name), "aria-label": `Export ${name}` }, "Export"),
      deed("Delete", name, "DELETE", address(name)),
    ],
  });
  const file = h("input", {
    type: "file",
    "aria-label": "Snapshot file",
    hidden: true,
    onchange: async () => {
      const [body] = file.files;
      const name = file.form.elements.name.value.trim() || body.name.replace(/\.\w+$/, "");
      await context.act(`Import ${name}`, "PUT", `${address(name)}/file`, { body });
      file.value = "";
      view.reload();
    },
  });
  const keep = ({ name }) =>
    context.act(`Save ${name}`, "POST", ADDRESS, { body: { name: name.trim() } });
  return [
    adder(
      context,
      "Save the world",
      { name: ["Name", "before-the-migration", { required: true }] },
      keep,
      view.reload,
      action(context, "Import a file…", () => file.click(), { class: "end" }),
      file,
    ),
    view.place,
  ];
}

async function save(name) {
  const path = `${address(name)}/file`;
  try {
    await download(path, `${name}.db`);
  } catch (error) {
    notice(`Export ${name}: ${error.message}`, { kind: "bad", call: describe("GET", path) });
  }
}
