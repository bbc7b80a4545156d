// URL groups: one publish, a message to each endpoint.

import { h } from "../dom.js";
import { shortUrl } from "../format.js";
import { action, field, head, listView, remover, teaches, when } from "../list.js";

export const title = "Groups";
export const path = "groups";
export const key = "u";

const address = (name) => `/v2/topics/${encodeURIComponent(name)}`;

export function render(context) {
  const reload = () => view.reload();
  const view = listView(context, {
    name: "groups", path: "/_emulator/url-groups",
    items: (answer) => answer.url_groups,
    key: (group) => `${group.account_id} ${group.name}`,
    empty: () => teaches("No URL group yet. A publish to a group makes one message for each of its endpoints:",
      "/v2/topics/receivers/endpoints", { body: { endpoints: [{ name: "billing", url: "https://billing.example/hook" }] } }),
    columns: [
      ["Group", "main", (group) => [group.name, h("span", { class: "note" }, "changed ", when(group.updated_ms, context))]],
      ["Endpoints", "", (group) => h("ul", { class: "plain" }, group.endpoints.map((endpoint) => endpointRow(context, group, endpoint, reload)))],
      ["Default headers", "", (group) => Object.entries(group.headers ?? {}).map(([name, values]) => h("code", { class: "note" }, `${name}: ${[values].flat().join(", ")}`))],
      ["", "actions", (group) => [
        context.canAct && h("a", { href: `#/publish?destination=${encodeURIComponent(group.name)}` }, "publish to it"),
        remover(context, group.name, address(group.name), reload)]],
    ],
  });
  return h("section", {}, head(title), context.canAct && addForm(context, reload), view.place);
}

function endpointRow(context, group, endpoint, then) {
  return h("li", {}, endpoint.name && `${endpoint.name}: `, shortUrl(endpoint.url), " ", action(context, "×", () =>
    context.act(`Remove ${endpoint.url}`, "DELETE", `${address(group.name)}/endpoints`, { body: { endpoints: [{ url: endpoint.url }] } }).then(then),
  { class: "quiet", "aria-label": `Remove ${endpoint.url} from ${group.name}` }));
}

function addForm(context, then) {
  return h("form", {
    class: "filters",
    onsubmit: async (event) => {
      event.preventDefault();
      const form = event.target;
      const { group, url, name } = Object.fromEntries(new FormData(form));
      const added = await context.act(`Add ${url} to ${group}`, "POST", `${address(group)}/endpoints`, { body: { endpoints: [name ? { url, name } : { url }] } });
      if (added === undefined) return;
      form.reset();
      then();
    },
  }, field("Group", h("input", { name: "group", required: true, placeholder: "receivers" })), field("Endpoint", h("input", { name: "url", type: "url", required: true, placeholder: "https://app.example/hook" })),
  field("Its name", h("input", { name: "name", placeholder: "none" })), h("button", { class: "main end" }, "Add endpoint"));
}
