// URL groups: one publish, a message to each endpoint.

import { h } from "../dom.js";
import { shortUrl } from "../format.js";
import { adder, link, listView, note, teaches, when } from "../list.js";

const FIELDS = {
  group: ["Group", "receivers", { required: true }],
  url: ["Endpoint", "https://app.example/hook", { required: true, type: "url" }],
  name: ["Its name", "none"],
};
const address = (group) => `/v2/topics/${encodeURIComponent(group)}`;

export function render(context) {
  const view = listView(context, {
    rows: "url_groups",
    path: "url-groups",
    key: (group) => `${group.account_id} ${group.name}`,
    empty: () =>
      teaches(
        "No URL group yet. A publish to one makes a message for each endpoint:",
        `${address("receivers")}/endpoints`,
        { body: { endpoints: [{ name: "billing", url: "https://billing.example/hook" }] } },
      ),
    columns: [
      [
        "Group",
        "main",
        (group) => [group.name, note("changed ", when(group.updated_ms, context))],
        "name",
      ],
      [
        "Endpoints",
        "",
        (group, deed) =>
          h(
            "ul.plain",
            group.endpoints.map(({ name, url }) =>
              h(
                "li",
                name && `${name}: `,
                shortUrl(url),
                " ",
                deed(
                  "Remove",
                  `${url} from ${group.name}`,
                  "DELETE",
                  `${address(group.name)}/endpoints`,
                  { body: { endpoints: [{ url }] }, sign: "×", ask: false },
                ),
              ),
            ),
          ),
      ],
      [
        "Default headers",
        "",
        (group) =>
          Object.entries(group.headers ?? {}).map(([name, values]) =>
            note(`${name}: ${[values].flat().join(", ")}`),
          ),
      ],
    ],
    actions: ({ name }, deed) => [
      context.canAct && link("publish", "publish to it", { destination: name }),
      " ",
      deed("Delete", name, "DELETE", address(name)),
    ],
  });
  const add = ({ group, url, name }) =>
    context.act(`Add ${url} to ${group}`, "POST", `${address(group)}/endpoints`, {
      body: { endpoints: [name ? { url, name } : { url }] },
    });
  return [adder(context, "Add endpoint", FIELDS, add, view.reload), view.place];
}
