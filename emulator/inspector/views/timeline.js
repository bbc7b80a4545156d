import { h } from "../dom.js";

export const title = "Timeline";
export const path = "timeline";
export const key = "t";

export function render() {
  return h("section", {}, h("p", { class: "empty" }, "Nothing has happened yet."));
}
