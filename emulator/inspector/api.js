// Calls of this server; the page speaks to no other. A call is {method, path, query, headers, body}.

const TOKEN_KEY = "emulator-control-token";

/** An answer that is no success, or no answer at all (status 0); `field` is what it names as wrong, if anything. */
class ApiError extends Error {
  constructor(status, text, field) {
    super(text);
    Object.assign(this, { status, field });
  }
}

/** What calls are made with; `service` is the token for what lies outside /_emulator. */
export const session = {
  world: "default",
  service: null,
  // Of this tab alone, and gone with it.
  get controlToken() {
    return sessionStorage.getItem(TOKEN_KEY);
  },
  set controlToken(token) {
    sessionStorage.setItem(TOKEN_KEY, token);
  },
};

/** The call that `call` makes, as an object that can be shown. */
export function describe(method, path, { query, body, headers } = {}) {
  const isControl = path.startsWith("/_emulator/");
  const token = isControl ? session.controlToken : session.service;
  const isJson = body !== undefined && typeof body !== "string" && !(body instanceof Blob);
  return {
    method,
    path,
    query: { world: isControl && session.world !== "default" ? session.world : null, ...query },
    headers: {
      ...(token && { Authorization: `Bearer ${token}` }),
      ...(isJson && { "Content-Type": "application/json" }),
      ...headers,
    },
    body: isJson ? JSON.stringify(body) : body,
  };
}

/** A path with its query. A value that is a list is repeated; null and "" are left out. */
export function target({ path, query = {} }) {
  const pairs = Object.entries(query)
    .flatMap(([name, value]) => [value].flat().map((each) => [name, each ?? ""]))
    .filter(([, each]) => each !== "");
  return pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path;
}

/** Make a call: the JSON of the answer (a text if it is none, null without a body). Throws ApiError. */
export const call = (method, path, options = {}) =>
  perform(describe(method, path, options), options.signal);

/** What the control API says at a path below /_emulator. */
export const get = (path, query, signal) => call("GET", `/_emulator/${path}`, { query, signal });

/** The answer to a control call as a file of that name. Throws ApiError. */
export async function download(path, name) {
  const response = await send(describe("GET", path));
  const url = URL.createObjectURL(await response.blob());
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  // The download has begun by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Make a described call. Throws ApiError; a call that was given up throws AbortError. */
export async function perform(described, signal) {
  const response = await send(described, signal);
  const text = await response.text();
  return text && response.headers.get("content-type")?.includes("json")
    ? JSON.parse(text)
    : text || null;
}

async function send(described, signal) {
  const { method, headers, body } = described;
  const response = await fetch(target(described), {
    method,
    headers,
    body,
    signal,
    cache: "no-store",
  }).catch((error) => {
    throw error.name === "AbortError"
      ? error
      : new ApiError(0, "The server does not answer. Does it still run?");
  });
  if (response.ok) return response;
  const text = await response.text();
  let told = {};
  try {
    told = JSON.parse(text);
  } catch {
    // What is no JSON is shown as it is.
  }
  throw new ApiError(
    response.status,
    told.error || text || `the server answered ${response.status}`,
    told.field,
  );
}

/**
 * Open a stream of server-sent events: a function that tells `take(kind, data, id)` each, until the server
 * ends it. (EventSource carries no token.)
 */
export async function follow(path, { query, headers, signal }) {
  const response = await send(describe("GET", path, { query, headers }), signal);
  return (take) => read(response, take);
}

async function read(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const { event, id, data } = Object.fromEntries(
        block.split("\n").map((line) => line.split(/: (.*)/s)),
      );
      if (data) take(event, JSON.parse(data), id);
    }
  }
}
