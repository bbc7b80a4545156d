// Which world is shown: a choice of the server's worlds, and forking the one that is shown.

import { get } from "./api.js";
import { eachFrame, h, replace } from "./dom.js";

const MORE = "…";

/** `goToWorld(id)` shows another world in the view that is open. */
export function worldChooser({ store, canAct, act, goToWorld }) {
  let known = [];
  const select = h("select", {
    "aria-label": "World",
    title: "The world that is shown",
    onchange: () => (select.value === MORE ? toWorlds() : goToWorld(select.value)),
    // The list may have changed since it was read: others make worlds too.
    onfocus: read,
    onpointerdown: read,
  });
  const fork = h(
    "button",
    {
      disabled: true,
      title: "Make a second world with the same state, and go there",
      onclick: async () => {
        fork.disabled = true;
        const { world } = store.state;
        const path = `/_emulator/worlds/${encodeURIComponent(world)}/fork`;
        const made = await act(`Fork ${world}`, "POST", path, {
          query: { world: null },
          said: ({ id }) => `This is ${id}, a fork of ${world}.`,
        });
        draw();
        if (made) goToWorld(made.id);
      },
    },
    "Fork",
  );

  function toWorlds() {
    draw();
    location.hash = "#/worlds";
  }

  function draw() {
    const { world, clock } = store.state;
    const ids = known.includes(world) ? known : [world, ...known];
    const shown = [...select.options].map(({ value }) => value);
    const wanted = [...ids, MORE];
    if (shown.join("\n") !== wanted.join("\n"))
      replace(
        select,
        wanted.map((value) => h("option", { value }, value === MORE ? "All worlds…" : value)),
      );
    select.value = world;
    fork.disabled = clock === null;
  }

  async function read() {
    const found = await get("worlds", { world: null }).catch(() => null);
    if (!found) return;
    known = found.worlds.map(({ id }) => id);
    draw();
  }

  let last = null;
  store.subscribe(
    eachFrame(() => {
      const { world, clock } = store.state;
      const now = `${world} ${clock === null}`;
      if (now === last) return;
      last = now;
      draw();
      if (clock !== null) read();
    }),
  );
  draw();
  return h("span.chooser", select, canAct && fork);
}
