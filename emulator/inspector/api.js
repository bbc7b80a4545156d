// Calls of this server. The page speaks to no other.
//
// A call is an object {method, path, query, body, headers}; `own` says which API answers it:
// "control" (the emulator's additions: world and control token are added) or "service" (the service's
// own API: the token of the world is added). What the page does, it shows as such a call.

const TOKEN_KEY = "emulator-control-token";

/** An answer that is no success, or no answer at all (status 0). */
export class ApiError extends Error {
  constructor(status, error, field = null) {
    super(error);
    this.name = "ApiError";
    this.status = status;
    this.error = error;
    this.field = field;
  }
}

/** What calls are made with. `service` is the token of the world for the service's own API. */
export const session = {
  world: "default",
  service: null,
  get controlToken() {
    // Of this tab alone, and gone with it.
    return sessionStorage.getItem(TOKEN_KEY);
  },
  set controlToken(token) {
    if (token === null) sessionStorage.removeItem(TOKEN_KEY);
    else sessionStorage.setItem(TOKEN_KEY, token);
  },
};

/** The call that `call` makes, as an object that can be shown. */
export function describe(method, path, { query = {}, body, headers = {} } = {}) {
  const isControl = path === "/_emulator" || path.startsWith("/_emulator/");
  const world = isControl && session.world !== "default" ? { world: session.world } : {};
  const token = isControl ? session.controlToken : session.service;
  const sent = { ...headers };
  if (token) sent.Authorization ??= `Bearer ${token}`;
  let content = body;
  if (body !== undefined && typeof body !== "string" && !(body instanceof Blob)) {
    content = JSON.stringify(body);
    sent["Content-Type"] ??= "application/json";
  }
  return { method, path, query: { ...world, ...query }, headers: sent, body: content };
}

/** The path of a call with its query. A value that is a list is repeated; null is left out. */
export function target({ path, query = {} }) {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value])
      .filter((each) => each !== null && each !== undefined && each !== "")
      .map((each) => `${encodeURIComponent(name)}=${encodeURIComponent(each)}`));
  return pairs.length ? `${path}?${pairs.join("&")}` : path;
}

/** Make a call: the JSON of the answer (a text if it is none, null without a body). Throws ApiError. */
export async function call(method, path, { query, body, headers, signal } = {}) {
  return perform(describe(method, path, { query, body, headers }), signal);
}

/** The answer to a control call as a file of that name. Throws ApiError. */
export async function download(path, name) {
  const response = await send(describe("GET", path));
  const url = URL.createObjectURL(await response.blob());
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  // The download has begun by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Make a described call. Throws ApiError; a call that was given up throws AbortError. */
export async function perform(described, signal) {
  const response = await send(described, signal);
  const text = await response.text();
  return isJson(response) && text ? JSON.parse(text) : text || null;
}

async function send(described, signal) {
  let response;
  try {
    response = await fetch(target(described), {
      method: described.method, headers: described.headers, body: described.body, signal, cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer. Does it still run?");
  }
  if (response.ok) return response;
  throw await refusal(response);
}

async function refusal(response) {
  const text = await response.text();
  try {
    const { error, field } = JSON.parse(text);
    return new ApiError(response.status, error ?? text, field ?? null);
  } catch {
    return new ApiError(response.status, text || `the server answered ${response.status}`);
  }
}

const isJson = (response) => (response.headers.get("content-type") ?? "").includes("json");

/**
 * Follow a stream of server-sent events until `signal` ends it; `take(kind, data, id)` gets each.
 * Resolves when the server ends the stream. Throws ApiError. (EventSource can carry no token.)
 */
export async function follow(path, { query, headers, signal, opened = () => {} }, take) {
  const response = await send(describe("GET", path, { query, headers }), signal);
  opened();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) takeBlock(block, take);
  }
}

function takeBlock(block, take) {
  let kind = "message", id = null, data = null;
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) kind = line.slice(7);
    else if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("data: ")) data = line.slice(6);
  }
  if (data !== null) take(kind, JSON.parse(data), id);
}

// -- a call to copy ---------------------------------------------------------------------------

/** A call as a command for a shell. */
export function asCurl(described, origin = location.origin) {
  const parts = ["curl"];
  if (described.method !== "GET") parts.push(`-X ${described.method}`);
  parts.push(quoted(origin + target(described)));
  for (const [name, value] of Object.entries(described.headers ?? {})) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  // A body that begins with @ would name a file.
  if (described.body instanceof Blob) parts.push("--data-binary @FILE");
  else if (described.body) parts.push(`--data-raw ${quoted(described.body)}`);
  return parts.join(" \\\n  ");
}

/** A call in Python, with httpx. */
export function asPython(described, origin = location.origin) {
  const lines = ["import httpx", "", "response = httpx.request(", `    ${literal(described.method)},`, `    ${literal(origin + target(described))},`];
  const headers = Object.entries(described.headers ?? {});
  if (headers.length) {
    lines.push("    headers={", ...headers.map(([name, value]) => `        ${literal(name)}: ${literal(value)},`), "    },");
  }
  if (described.body instanceof Blob) lines.push('    content=open("FILE", "rb"),');
  else if (described.body) lines.push(`    content=${literal(described.body)}.encode(),`);
  return [...lines, ")", "response.raise_for_status()"].join("\n");
}

/** A call in JavaScript, with fetch. */
export function asJavaScript(described, origin = location.origin) {
  const options = { method: described.method, headers: described.headers, body: described.body };
  const lines = Object.entries(options).filter(([, value]) => value !== undefined && Object.keys(value).length)
    .map(([name, value]) => `  ${name}: ${JSON.stringify(value, null, 2).replaceAll("\n", "\n  ")},`);
  return [`const response = await fetch(${JSON.stringify(origin + target(described))}, {`, ...lines, "});", "if (!response.ok) throw new Error(await response.text());"].join("\n");
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A text as a literal that Python reads; JSON's escapes are Python's too, but for halves of a pair. */
function literal(text) {
  return JSON.stringify(text);
}
