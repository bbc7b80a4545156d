// The views in the order of the menu, in groups: path, title, and the key behind `g`. Each is the module of its path,
// read when it is opened. `counts` names what of `state.counts` stands beside it; in red if it is bad.

const view = (path, title, key, more) => ({
  path,
  title,
  key,
  load: () => import(`./${path}.js`),
  ...more,
});

export const GROUPS = [
  [
    null,
    view("timeline", "Timeline", "t", { counts: "due", what: "due in 24 h" }),
    view("runs", "Runs", "f", { counts: "runs", what: "running" }),
    view("messages", "Messages", "m", { counts: "live", what: "not ended" }),
    view("dead", "Dead letters", "d", { counts: "dead", what: "dead letters", bad: true }),
  ],
  [
    "What will happen",
    view("publish", "Publish", "p"),
    view("schedules", "Schedules", "s", { counts: "schedules", what: "schedules" }),
    view("queues", "Queues", "q", { counts: "queues", what: "waiting in line" }),
    view("groups", "Groups", "u"),
    view("when", "When", "c"),
  ],
  [
    "What answers",
    view("rules", "Rules", "r", { counts: "rules", what: "rules" }),
    view("refused", "Refused", "x", { counts: "refused", what: "refused calls", bad: true }),
  ],
  [
    "Settings",
    view("worlds", "Worlds", "w"),
    view("snapshots", "Snapshots", "n"),
    view("accounts", "Accounts", "a"),
    view("settings", "Settings", ","),
  ],
];

export const VIEWS = GROUPS.flatMap(([, ...views]) => views);
