// The table of views, in the order of the menu. A view is added here and nowhere else.

import * as timeline from "./timeline.js";

export const VIEWS = [timeline];
