// The views in the order of the menu: path, title, and the key behind `g`. Each is the module of its path, read when it is opened.

const view = (path, title, key) => ({ path, title, key, load: () => import(`./${path}.js`) });

export const VIEWS = [
  view("timeline", "Timeline", "t"),
  view("messages", "Messages", "m"),
  view("schedules", "Schedules", "s"),
  view("queues", "Queues", "q"),
  view("groups", "Groups", "u"),
  view("dead", "Dead letters", "d"),
  view("rules", "Rules", "r"),
  view("runs", "Runs", "f"),
  view("refused", "Refused", "x"),
  view("publish", "Publish", "p"),
  view("when", "When", "c"),
  view("worlds", "Worlds", "w"),
  view("snapshots", "Snapshots", "n"),
  view("accounts", "Accounts", "a"),
  view("settings", "Settings", ","),
];
