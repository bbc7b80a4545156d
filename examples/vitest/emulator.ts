/** A world of svc-emulator for each test, in vitest, jest and node:test. To be copied, with control.d.ts beside it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { createInterface } from "node:readline";
import type { components, paths } from "./control.d.ts";

type Schemas = components["schemas"];
type Method = "get" | "post" | "put" | "delete";
type PathOf<M extends Method> = { [P in keyof paths]: paths[P][M] extends object ? P : never }[keyof paths];
type Json<T> = T extends { content: { "application/json": infer J } } ? J : undefined;
type Answer<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201)]> : never;
type Given<O> = O extends { parameters: { query?: infer Q; path?: infer A }; requestBody?: infer B }
  ? { query?: Q; path?: A; body?: Json<NonNullable<B>> } : never;
/** What fails a test whose assertions hold: the app's failures and failed runs, refused calls, captured deliveries. */
type Trouble = "failed" | "refused" | "captured";
type Options = Schemas["WorldGiven"] & { allow?: Trouble[] };
export type World = Awaited<ReturnType<typeof createWorld>>;
let started: Promise<string> | undefined;
/** Finds the emulator at EMULATOR_URL, or starts one that ends with this process; as global setup, one for all files. */
export default async function start(): Promise<void> {
  process.env.EMULATOR_URL ||= await (started ??= launch());
}

async function launch(): Promise<string> {
  const options = ["serve", "--json", "--port=0", "--dialect=upstash", "--log-level=error"];
  const child = spawn("svc-emulator", options, { stdio: ["ignore", "pipe", "inherit"] });
  process.once("exit", () => child.kill());
  const ended = once(child, "exit").then(([code]) => Promise.reject(new Error(`svc-emulator: exit code ${code}`)));
  const [line] = await Promise.race([once(createInterface(child.stdout), "line"), ended]);
  for (const each of [child, child.stdout as Socket]) each.unref();
  return JSON.parse(line).url;
}

const caller = (world?: string) =>
  async function call<M extends Method, P extends PathOf<M>>(method: M, path: P, given?: Given<paths[P][M]>) {
    const { EMULATOR_URL: base, EMULATOR_CONTROL_TOKEN: token } = process.env;
    const { query, path: names, body } = { ...given } as { query?: object; path?: Record<string, string>; body?: object };
    const named = path.replace(/{(\w+)}/g, (_, name) => encodeURIComponent(names![name]!));
    const url = `${base}${named}?${new URLSearchParams({ ...query, ...(world && { world }) })}`;
    const headers = { ...(token && { Authorization: `Bearer ${token}` }) };
    const response = await fetch(url, { method: method.toUpperCase(), body: JSON.stringify(body), headers });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${named}: ${response.status} ${text}`);
    return (text ? JSON.parse(text) : undefined) as Answer<paths[P][M]>;
  };

/** A test in a world of its own: `test("...", inWorld(async (world) => { ... }))`. */
export const inWorld = (test: (world: World) => Promise<void>, { allow = [], ...options }: Options = {}) => async () => {
  const world = await createWorld(options);
  try {
    await test(world);
    const wrong = (await world.report()).map(([kind]) => kind).filter((kind) => kind && !allow.includes(kind));
    if (wrong.length) throw new Error(`all assertions hold, but there is what was ${[...new Set(wrong)].join(" or ")}`);
  } catch (error: any) {
    const lines = await world.report().catch((reason) => [["no report:", reason]]);
    const text = [error.message, ...lines.map((each) => each.join(" "))].join("\n\n");
    throw Object.assign(error, { message: text, stack: error.stack?.replace(error.message, () => text) });
  } finally {
    await world.dispose();
  }
};

/** A world with a frozen clock; `options` are those of `POST /_emulator/worlds`. */
export async function createWorld(options: Schemas["WorldGiven"] = {}) {
  await start();
  const { id, credentials } = await caller()("post", "/_emulator/worlds", { body: { epoch: "2026-01-01", ...options } });
  const { token: QSTASH_TOKEN, current_signing_key, next_signing_key } = credentials.queue;
  const keys = { QSTASH_CURRENT_SIGNING_KEY: current_signing_key, QSTASH_NEXT_SIGNING_KEY: next_signing_key };
  /** The clients' variables, for the app or `Object.assign(process.env, world.env)`. */
  const env: Record<string, string> = { QSTASH_URL: process.env.EMULATOR_URL!, QSTASH_TOKEN, ...keys };
  const call = caller(id);
  const apps: Server[] = [];
  /** Moves the clock, such as by "1d2h", and does all that is due on the way. */
  const advance = (by: string) => call("post", "/_emulator/clock/advance", { body: { by } });
  const list = async (name: "deliveries" | "runs", query: object): Promise<any[]> => {
    const page: any = await call("get", `/_emulator/${name}` as const, { query: { limit: 1000, ...query } });
    return [...page[name], ...(page.cursor ? await list(name, { ...query, cursor: page.cursor }) : [])];
  };
  /** The attempts, the newest first; `*` in the URL stands for anything. */
  const deliveries = (url = "*"): Promise<Schemas["Delivery"][]> => list("deliveries", { url, order: "latestFirst" });
  const runs = (): Promise<Schemas["RunSummary"][]> => list("runs", {});
  /** Answers for a destination: with one response after the other, the last for all that follow. */
  const respond = (url: string, ...sequence: Schemas["ResponseGiven"][]) =>
    call("post", "/_emulator/destinations", { body: { match: { url }, sequence } });
  /** Serves an app at the origin that it has in production; the answer is the address at which the test calls it. */
  async function mount(origin: string, app: RequestListener): Promise<string> {
    const server = createServer(app).listen(0, "127.0.0.1");
    apps.push(server);
    await once(server, "listening");
    const forward_to = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await call("post", "/_emulator/destinations", { body: { match: { url: `${origin}/*` }, forward_to } });
    return forward_to;
  }
  /** Where each run is, and each message that is not delivered, and why; and what went wrong. */
  async function report() {
    const open = (await call("get", "/_emulator/messages")).messages.filter((each) => each.state !== "DELIVERED");
    const explained = await Promise.all([
      ...(await runs()).map(({ id }) => call("get", "/_emulator/runs/{id}/explain", { path: { id } })),
      ...open.map(({ message_id: id }) => call("get", "/_emulator/messages/{id}/explain", { path: { id } })),
    ]);
    const lines: [Trouble | "", string][] = explained.map(({ state, url, summary, reasons }) => [
      state === "RUN_FAILED" ? "failed" : "",
      [`${url} ${summary}`, ...reasons.map(({ at, text }) => `  ${at} ${text}`)].join("\n"),
    ]);
    for (const { via, forwarded_to, at, url, response, error } of await deliveries()) {
      const answer = response ? `${response.status} ${response.body}` : error;
      if (via === "capture") lines.push(["captured", `${at} ${url}: neither an app nor respond() answers there`]);
      else if ((via === "network" || forwarded_to) && !/^2../.test(`${answer}`)) lines.push(["failed", `${at} ${url} ${answer}`]);
    }
    const { refused } = await call("get", "/_emulator/refused");
    return [...lines, ...refused.map((each) => ["refused", `${each.method} ${each.path} ${each.error}`] as typeof lines[0])];
  }
  const dispose = async () => {
    for (const server of apps) server.close().closeAllConnections();
    await call("delete", "/_emulator/worlds/{id}", { path: { id } });
  };
  return { id, env, call, advance, deliveries, runs, respond, mount, report, dispose };
}
