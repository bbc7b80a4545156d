// A call in the language of who copies it: a shell's, Python, TypeScript. Pure.
//
// In TypeScript it is written with the public client of the dialect, where there is one that makes this call; its names
// of options are those of the headers, and what has no name there stays a header. Every other call is a fetch.

import { target } from "./api.js";

/** A call as a command for a shell. */
export function asCurl(described, { origin = location.origin } = {}) {
  const { method, headers = {}, body } = described;
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  return [
    "curl",
    method !== "GET" && `-X ${method}`,
    quoted(origin + target(described)),
    ...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    // A body that begins with @ would name a file.
    body && (body instanceof Blob ? "--data-binary @FILE" : `--data-raw ${quoted(body)}`),
  ]
    .filter(Boolean)
    .join(" \\\n  ");
}

// JSON's escapes are Python's and JavaScript's too.
const literal = (value, indent = 4) => JSON.stringify(value, null, indent);

/** A call in Python, with httpx. */
export function asPython(described, { origin = location.origin } = {}) {
  const { method, headers = {}, body } = described;
  const given = [
    literal(method),
    literal(origin + target(described)),
    Object.keys(headers).length && `headers=${literal(headers)}`,
    body && `content=${body instanceof Blob ? 'open("FILE", "rb")' : `${literal(body)}.encode()`}`,
  ]
    .filter(Boolean)
    .join(",\n")
    .replaceAll("\n", "\n    ");
  return `import httpx\n\nresponse = httpx.request(\n    ${given},\n)\nresponse.raise_for_status()`;
}

/** A call in TypeScript; `dialect` is that of the server, as its credentials say it. */
export function asTypeScript(described, { origin = location.origin, dialect } = {}) {
  const made = dialect?.header_prefix === "Upstash-" ? withClient(described, origin) : null;
  return made ?? withFetch(described, origin);
}

export const LANGUAGES = { curl: asCurl, Python: asPython, TypeScript: asTypeScript };

/** An object as a programmer writes it: names without quotes where they need none. */
const object = (value) => literal(value, 2).replace(/^( *)"([A-Za-z_]\w*)":/gm, "$1$2:");

function withFetch(described, origin) {
  const { method, headers, body } = described;
  const given = object({ method, headers, body: body instanceof Blob ? "FILE" : body });
  return [
    `const response = await fetch(${literal(origin + target(described))}, ${given});`,
    "if (!response.ok) throw new Error(await response.text());",
  ].join("\n");
}

// Options of the clients by what stands behind the prefix of their headers, and how they read a value.
const OPTIONS = {
  method: ["method"],
  delay: ["delay"],
  "not-before": ["notBefore", Number],
  timeout: ["timeout"],
  retries: ["retries", Number],
  "retry-delay": ["retryDelay"],
  label: ["label"],
  callback: ["callback"],
  "failure-callback": ["failureCallback"],
  "deduplication-id": ["deduplicationId"],
  "content-based-deduplication": ["contentBasedDeduplication", (text) => text === "true"],
  cron: ["cron"],
  "schedule-id": ["scheduleId"],
  "queue-name": ["queueName"],
  "workflow-runid": ["workflowRunId"],
};
const PREFIX = /^upstash-/i;

function withClient(described, origin) {
  const { path, headers = {}, body } = described;
  if (body instanceof Blob || path.startsWith("/_emulator/")) return null;
  const token = /^Bearer (.*)$/.exec(headers.Authorization ?? "")?.[1];
  const [, kind, rest] = /^\/v2\/(\w+)\/(.*)$/s.exec(path) ?? [];
  const call = kind && token && CALLS[kind]?.(rest, described);
  if (!call) return null;
  const [module, what, argument] = call;
  const made = object(argument);
  return [
    `import { Client } from "@upstash/${module}";`,
    "",
    `const client = new Client({ baseUrl: ${literal(origin)}, token: ${literal(token)} });`,
    `const response = await client.${what}(${made});`,
  ].join("\n");
}

/** The options that a client's call has for headers; those without a name stay headers. */
function optionsOf({ headers = {}, body }) {
  const options = {};
  const others = {};
  for (const [name, value] of Object.entries(headers)) {
    const own = PREFIX.test(name) ? name.replace(PREFIX, "").toLowerCase() : null;
    const [option, read = (text) => text] = OPTIONS[own] ?? [];
    if (name === "Authorization") continue;
    if (option) options[option] = read(value);
    else if (own?.startsWith("forward-")) others[name.slice("Upstash-Forward-".length)] = value;
    else others[name] = value;
  }
  if (Object.keys(others).length) options.headers = others;
  if (body !== undefined) options.body = body;
  return options;
}

const destination = (text) => (/^https?:/.test(text) ? { url: text } : { urlGroup: text });
const CALLS = {
  publish: (to, described) =>
    to.startsWith("api/")
      ? null
      : ["qstash", "publish", { ...destination(to), ...optionsOf(described) }],
  enqueue(rest, described) {
    const [, queue, to] = /^([^/]+)\/(.*)$/s.exec(rest) ?? [];
    const name = queue && literal({ queueName: decodeURIComponent(queue) }).replace(/\s+/g, " ");
    return (
      queue && [
        "qstash",
        `queue(${name.replace('"queueName"', "queueName")}).enqueue`,
        { ...destination(to), ...optionsOf(described) },
      ]
    );
  },
  schedules: (to, described) =>
    described.method === "POST" && described.headers?.["Upstash-Cron"]
      ? ["qstash", "schedules.create", { destination: to, ...optionsOf(described) }]
      : null,
  trigger(to, described) {
    const { headers: others, workflowRunId: run, ...options } = optionsOf(described);
    // The client puts a prefix before the id that it is given: it cannot name a run without one.
    if (run && !run.startsWith("wfr_")) return null;
    const named = { ...(run && { workflowRunId: run.slice("wfr_".length) }), ...options };
    return ["workflow", "trigger", { url: to, ...named, ...(others && { headers: others }) }];
  },
  notify(rest, { body }) {
    const [event, run] = rest.split("/").map(decodeURIComponent).toReversed();
    let data = body;
    try {
      data = JSON.parse(body);
    } catch {
      // What is no JSON is sent as a text.
    }
    return [
      "workflow",
      "notify",
      { eventId: event, eventData: data, ...(run && { workflowRunId: run }) },
    ];
  },
};
