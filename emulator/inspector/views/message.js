import { h } from "../dom.js";
export const detail = (context) => h("p", {}, context.route.select);
