// Elements as functions. Everything received is text: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element: h("button.quiet", {onclick: run, disabled: true}, "Run", icon); what stands behind dots is its classes.
 * `on...` attributes are listeners; true is an attribute without a value; null and false are left out; so may
 * all of them be.
 * Children are nodes, texts, numbers or arrays of them; null, undefined and false are left out.
 */
export function h(tag, ...rest) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  return fill(element, rest[0]?.constructor === Object ? rest.shift() : {}, rest);
}

/** The same for SVG: svg("path", {d: "M0 0L9 9"}). */
export const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** Replace everything inside a node. */
export const replace = (node, ...children) => node.replaceChildren(...flat(children));

/** What a form holds, by the names of its controls. */
export const valuesOf = (form) => Object.fromEntries(new FormData(form));

/** Show a dialog, which is gone when it is closed. */
export function openDialog(name, ...content) {
  const dialog = h("dialog", { "aria-label": name, onclose: () => dialog.remove() }, content);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** A function that runs `run` at most once a frame, however often it is called. */
export function eachFrame(run) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    // A hidden tab has no frames, and must still take in what the stream brings.
    const later = document.hidden ? (f) => setTimeout(f, 250) : requestAnimationFrame;
    later(() => {
      waits = false;
      run();
    });
  };
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if ((value ?? false) === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...flat(children));
  return element;
}

const flat = (children) =>
  children.flat(Infinity).filter((child) => (child ?? false) !== false && child !== true);
