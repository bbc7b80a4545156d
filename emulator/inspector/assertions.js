// What happened, as the assertion of a test: with the pytest plugin, or in vitest with the control API. Pure.

import { prefixOf } from "./service.js";

const LONGEST_BODY = 4_000;

/** Whether a text is the marker that stands for a hidden one. */
export const isRedacted = (text) => /^REDACTED:[0-9a-f]{64}$/.test(text ?? "");

/** The attempts of a message, the first first, as assertions by the name of the test runner. */
export function messageAssertions(url, deliveries, state) {
  const [{ method, created_ms: created }] = deliveries;
  const { body, headers } = deliveries.at(-1);
  const waits = deliveries.map(({ at_ms: at }) => at - created);
  const status = deliveries.map(({ response }) => response?.status ?? null);
  const content = {};
  if (body !== null && !isRedacted(body) && body.length <= LONGEST_BODY) {
    try {
      content.body_json = JSON.parse(body);
    } catch {
      content.body = body;
    }
  }
  const signed = Boolean(headers[`${prefixOf(state)}Signature`]);
  return {
    pytest: () =>
      pythonCall("emulator.verify", [], {
        url,
        method,
        attempts: deliveries.length,
        at: waits.map(lengthOf),
        status,
        ...content,
        ...(signed && { signed_with: "current" }),
      }),
    vitest: () => {
      const query = new URLSearchParams({ ...worldOf(state), url, limit: "1000" });
      return [
        ...readLines("deliveries", "{ deliveries }", query),
        `expect(deliveries.map(({ response }) => response?.status ?? null)).toEqual(${json(status)});`,
        `expect(deliveries.map(({ at_ms, created_ms }) => at_ms - created_ms)).toEqual(${json(waits)});`,
        `expect(deliveries.at(-1).method).toBe(${json(method)});`,
        "body_json" in content &&
          `expect(JSON.parse(deliveries.at(-1).body)).toEqual(${json(content.body_json)});`,
        "body" in content && `expect(deliveries.at(-1).body).toBe(${json(content.body)});`,
        signed &&
          `expect(deliveries.at(-1).headers).toHaveProperty(${json(`${prefixOf(state)}Signature`)});`,
      ]
        .filter(Boolean)
        .join("\n");
    },
  };
}

/** A run with its steps, as assertions by the name of the test runner. */
export function runAssertions(run, state) {
  const steps = run.steps
    .flatMap(({ steps: all }) => all)
    .filter(({ type }) => type !== "Initial")
    .map((step) => ({ name: step.name, ...valueOf("out", step.out) }));
  const result = valueOf("result", run.result);
  return {
    pytest: () =>
      pythonCall("emulator.verify_run", [run.id], { state: run.state, ...result, steps }),
    vitest: () => {
      const path = `runs/${encodeURIComponent(run.id)}`;
      const query = new URLSearchParams({ ...worldOf(state), redact: "false" });
      return [
        ...readLines(path, "run", query),
        `expect(run.state).toBe(${json(run.state)});`,
        "result" in result && `expect(JSON.parse(run.result)).toEqual(${json(result.result)});`,
        "const steps = run.steps.flatMap(({ steps }) => steps).slice(1);",
        `expect(steps.map(({ name }) => name)).toEqual(${json(steps.map(({ name }) => name))});`,
        ...steps.flatMap(({ out }, at) =>
          out === undefined || out === null
            ? []
            : [`expect(JSON.parse(steps[${at}].out)).toEqual(${json(out)});`],
        ),
      ]
        .filter(Boolean)
        .join("\n");
    },
  };
}

const worldOf = ({ world }) => (world === "default" ? {} : { world });

const readLines = (path, name, query) => [
  'import { expect } from "vitest";',
  "",
  `const answer = await fetch(${json(`${globalThis.location?.origin ?? ""}/_emulator/${path}?${query}`)});`,
  `const ${name} = await answer.json();`,
];

/** JSON text as its value, left out where it is none or hidden. */
function valueOf(name, text) {
  if (text === null || text === "null" || isRedacted(text) || text.length > LONGEST_BODY) return {};
  try {
    return { [name]: JSON.parse(text) };
  } catch {
    return {};
  }
}

const json = (value) => JSON.stringify(value);

/** A length of time as the Python API reads it, which takes no bare numbers: "20s", "1500ms". */
const lengthOf = (ms) => (ms % 1000 ? `${ms}ms` : `${ms / 1000}s`);

const pythonCall = (name, values, named) =>
  `${name}(\n${[
    ...values.map(python),
    ...Object.entries(named).map(([key, value]) => `${key}=${python(value)}`),
  ]
    .map((line) => `    ${line},\n`)
    .join("")})`;

function python(value) {
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (value && typeof value === "object")
    return `{${Object.entries(value)
      .map((pair) => pair.map(python).join(": "))
      .join(", ")}}`;
  return (
    { null: "None", true: "True", false: "False" }[JSON.stringify(value)] ?? JSON.stringify(value)
  );
}
