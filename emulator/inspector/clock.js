// The bar at the top: the world, its clock, and moving it.

import { h } from "./dom.js";

export function clockBar() {
  return h("strong", {}, "svc-emulator");
}
