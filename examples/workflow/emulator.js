const base = process.env.EMULATOR_URL ?? "http://127.0.0.1:8080";

/** A call of the emulator's control API; its JSON answer. */
async function control(method, path, body) {
  const response = await fetch(`${base}/_emulator${path}`, { method, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** A world of the emulator for one test: a frozen clock, a token and a history of its own. */
export async function createWorld(epoch = new Date().toISOString()) {
  const { id, credentials } = await control("POST", "/worlds", { epoch });
  const { token, current_signing_key, next_signing_key } = credentials.queue;
  /** A call of the control API about this world; the path may have a query. */
  const call = (method, path, body) => control(method, `${path}${path.includes("?") ? "&" : "?"}world=${id}`, body);
  const origins = [];
  const world = {
    /** Set it to true in a test in which the application is to fail. */
    mayFail: false,
    /** The variables of the clients. */
    env: {
      QSTASH_URL: base,
      QSTASH_TOKEN: token,
      QSTASH_CURRENT_SIGNING_KEY: current_signing_key,
      QSTASH_NEXT_SIGNING_KEY: next_signing_key,
    },
    call,
    /** Moves the clock ahead, such as by "1d2h", and does all that is due on the way. */
    advance: (by) => call("POST", "/clock/advance", { by }),
    /** The instant of the clock, in milliseconds. */
    now: async () => (await call("GET", "/clock")).now_ms,
    /** Every attempt to deliver to a URL so far, the newest last; `*` stands for anything. */
    async deliveries(url) {
      const found = [];
      for (let cursor = ""; cursor !== null; ) {
        const query = new URLSearchParams({ url, limit: "1000", ...(cursor && { cursor }) });
        const page = await call("GET", `/deliveries?${query}`);
        found.push(...page.deliveries);
        cursor = page.cursor;
      }
      return found;
    },
    /** Has what goes to an origin delivered to another one, such as that of a local server. */
    forward(origin, to) {
      origins.push(`${origin}/`);
      return call("POST", "/destinations", { match: { url: `${origin}/*` }, forward_to: to });
    },
    /** Answers for a destination: with one response after the other, the last for all that follow. */
    respond: (url, ...sequence) => call("POST", "/destinations", { match: { url }, sequence }),
    /** Fails if a call was refused, a delivery went where nobody answers, or the application failed unexpectedly. */
    async close() {
      const { refused } = await call("GET", "/refused");
      const deliveries = await world.deliveries("*");
      await control("DELETE", `/worlds/${id}`);
      const wrong = refused.map(({ path, error }) => `${path} was refused: ${error}`);
      for (const { url, via, response, error } of deliveries) {
        if (via === "capture") wrong.push(`neither a server nor a rule answers for ${url}`);
        const failed = !response || response.status >= 300;
        if (failed && !world.mayFail && origins.some((origin) => url.startsWith(origin)))
          wrong.push(`${url} failed: ${error ?? `${response.status} ${response.body}`}`);
      }
      if (wrong.length) throw new Error(wrong.join("\n"));
    },
  };
  return world;
}

/**
 * The instant on the emulator's clock at which a delivery was signed, in milliseconds: set the app's clock to it.
 *
 * That is `iat`. Where the emulator's clock is ahead of the real one it is `exp` less its 300 s, because receivers
 * refuse a token that was issued in the future; `iat` is the real time then.
 */
export function signedAt(signature) {
  const { iat, exp } = JSON.parse(Buffer.from(signature.split(".")[1], "base64url"));
  const real = performance.timeOrigin + performance.now(); // Mocks of Date leave it alone.
  const ahead = (exp - 300) * 1000;
  return ahead > real ? ahead : iat * 1000;
}
