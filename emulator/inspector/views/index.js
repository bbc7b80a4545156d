// The table of views, in the order of the menu. A view is added here and nowhere else.

import * as accounts from "./accounts.js";
import * as dead from "./dead.js";
import * as groups from "./groups.js";
import * as messages from "./messages.js";
import * as publish from "./publish.js";
import * as queues from "./queues.js";
import * as refused from "./refused.js";
import * as rules from "./rules.js";
import * as runs from "./runs.js";
import * as schedules from "./schedules.js";
import * as settings from "./settings.js";
import * as snapshots from "./snapshots.js";
import * as timeline from "./timeline.js";
import * as when from "./when.js";
import * as worlds from "./worlds.js";

export const VIEWS = [timeline, messages, schedules, queues, groups, dead, rules, runs, refused, publish, when, worlds, snapshots, accounts, settings];
