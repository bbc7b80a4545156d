// The workflows that the applications serve, one a path. PAUSE_S is how long each of them sleeps, in seconds.
import { Client, WorkflowNonRetryableError, WorkflowRetryAfterError } from "@upstash/workflow";

const PAUSE_S = Number(process.env.PAUSE_S);
export const client = new Client({ baseUrl: process.env.QSTASH_URL, token: process.env.QSTASH_TOKEN });

/** The runs that came to their end, by workflow; failure functions; and calls that failed once already. */
export const seen = { ended: {}, failures: {}, attempts: {} };

const ended = (name, result) => ((seen.ended[name] ??= []).push(result), result);

function expect(actual, expected, what) {
  const [left, right] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (left !== right) throw new WorkflowNonRetryableError(`${what}: expected ${right}, got ${left}`);
}

/** Waits, in real time, until a run waits for an event. */
async function waited(eventId) {
  for (let tries = 0; tries < 200; tries++) {
    if ((await client.getWaiters({ eventId })).length > 0) return;
    await new Promise((done) => setTimeout(done, 25));
  }
  throw new Error(`nobody waits for ${eventId}`);
}

function failureFunction({ context, failStatus, failResponse, failHeaders }) {
  const name = new URL(context.url).pathname.slice(1);
  (seen.failures[name] ??= []).push({
    runId: context.workflowRunId,
    payload: context.requestPayload ?? null,
    status: failStatus,
    message: failResponse,
    tenant: context.headers.get("x-tenant"),
    hasHeaders: Object.keys(failHeaders).length > 0,
  });
  return "seen";
}

export const workflows = (origin) => {
  const steps = async (context) => {
    const name = await context.run("greet", () => `Hello ${context.requestPayload.name} ☂`);
    const shouted = await context.run("shout", async () => name.toUpperCase());
    return context.run("end", () => ended("steps", shouted));
  };

  const sleeps = async (context) => {
    await context.run("one", () => 1);
    await context.sleepUntil("until", context.requestPayload.until);
    await context.run("two", () => 2);
    await context.sleep("sleep", PAUSE_S);
    await context.run("three", () => 3);
    return ended("sleeps", context.headers.get("x-tenant"));
  };

  const parallel = async (context) => {
    await context.run("charge 1", () => false);
    await context.sleep("sleep 1", PAUSE_S);
    await context.run("charge 2", () => false);
    await context.sleep("sleep 2", `${PAUSE_S}s`);
    await context.run("charge 3", () => true);
    const results = await Promise.all([
      context.run("book", () => 10),
      context.run("receipt", async () => "ada@example.com"),
      context.sleep("sleep 3", PAUSE_S),
    ]);
    return ended("parallel", results);
  };

  const call = (context, method, more = {}) =>
    context.call(`${method} call`, { url: `${origin}/third-party`, method, ...more });

  const calls = async (context) => {
    const posted = await call(context, "POST", { body: JSON.stringify({ order: 7 }), headers: { "X-Answer": "42" } });
    expect([posted.status, posted.body], [201, { order: 7, answer: "42" }], "POST");
    await context.sleep("sleep", PAUSE_S);
    const got = await call(context, "GET");
    expect([got.status, got.body, got.header["X-Shop"] ?? got.header["x-shop"]], [200, "plain", ["ada"]], "GET");
    const patched = await call(context, "PATCH", { retries: 1, retryDelay: "1000" });
    expect([patched.status, patched.body], [401, "no"], "PATCH");
    const put = await call(context, "PUT");
    expect([put.status, put.body], [300, ""], "PUT");
    const deleted = await call(context, "DELETE");
    expect([deleted.status, deleted.body], [400, { foo: "bar" }], "DELETE");
    return ended("calls", [posted.status, got.status, patched.status, put.status, deleted.status]);
  };

  const threeCalls = async (context) => {
    const statuses = [];
    for (const method of ["POST", "GET", "PUT"]) statuses.push((await call(context, method)).status);
    return ended("three-calls", statuses);
  };

  const webhooks = async (context) => {
    const unused = await context.createWebhook("unused webhook");
    const nothing = await context.waitForWebhook("wait in vain", unused, `${PAUSE_S}s`);
    expect(nothing, { timeout: true }, "a webhook that nobody calls");
    const webhook = await context.createWebhook("webhook");
    const { status } = await context.call("have it called", {
      url: `${origin}/webhook-caller`,
      method: "POST",
      body: JSON.stringify({ webhookUrl: webhook.webhookUrl }),
    });
    expect(status, 200, "the caller of the webhook");
    const { timeout, request } = await context.waitForWebhook("wait", webhook, `${5 * PAUSE_S}s`);
    expect(timeout, false, "a webhook that was called before the wait");
    expect(request.url, webhook.webhookUrl, "the address of the call");
    expect([request.method, request.headers.get("x-hook")], ["PUT", "1"], "the call");
    const body = await request.json();
    return context.run("end", () => ended("webhooks", body));
  };

  const waits = async (context) => {
    const nothing = await context.waitForEvent("wait in vain", `${context.workflowRunId}-never`, { timeout: PAUSE_S });
    expect(nothing, { timeout: true }, "an event that never comes");
    const runId = context.workflowRunId;
    const events = await context.run("names", () => ({ first: `${runId}-1`, text: `${runId}-2`, object: `${runId}-3` }));
    const start = (path) => context.call(path, { url: `${origin}/${path}`, method: "POST", body: JSON.stringify(events) });
    const timeout = `${10 * PAUSE_S}s`;
    const [called, first] = await Promise.all([
      start("notifier"),
      context.waitForEvent("wait for the first", events.first, { timeout }),
    ]);
    expect([called.status, first], [200, { eventData: "first", timeout: false }], "the first event");
    const [triggered, text] = await Promise.all([
      start("start-notifications"),
      context.waitForEvent("wait for a text", events.text, { timeout }),
    ]);
    expect([triggered.status, text], [200, { eventData: "text ☂", timeout: false }], "the text");
    const object = await context.waitForEvent("wait for an object", events.object, { timeout });
    expect(object, { eventData: { some: ["object"] }, timeout: false }, "the object");
    await context.sleep("sleep", PAUSE_S);
    return context.run("end", () => ended("waits", object.eventData));
  };

  const notifications = async (context) => {
    const { text, object } = context.requestPayload;
    await context.run("see who waits", () => waited(text));
    const told = await context.notify("tell a text", text, "text ☂");
    expect(told.notifyResponse.length, 1, "who was told");
    await context.sleep("sleep", PAUSE_S);
    await context.notify("tell an object", object, { some: ["object"] });
    return ended("notifications", told.notifyResponse[0].waiter.url);
  };

  const failing = async (context) => {
    await context.run("fail", () => {
      throw new Error(`no luck for ${context.requestPayload.name}`);
    });
  };

  const flaky = async (context) => {
    const attempt = await context.run("flaky", () => {
      const made = (seen.attempts[context.workflowRunId] ??= []);
      made.push(context.retried);
      if (made.length === 1) throw new WorkflowRetryAfterError("later", PAUSE_S);
      return made.length;
    });
    return ended("flaky", attempt);
  };

  const hopeless = async (context) => {
    await context.run("fail for good", () => {
      throw new WorkflowNonRetryableError("never");
    });
  };

  const mended = async (context) => {
    const [name, mended, , called, event] = await Promise.all([
      context.run("greet", () => "Ada"),
      context.run("break once", () => {
        const made = (seen.attempts["mended"] ??= []);
        made.push(context.workflowRunId);
        if (made.length === 1) throw new WorkflowNonRetryableError("not yet");
        return "mended";
      }),
      context.sleep("sleep", PAUSE_S),
      call(context, "GET"),
      context.waitForEvent("wait in vain", `${context.workflowRunId}-never`, { timeout: PAUSE_S }),
    ]);
    const all = [name, mended, called.status, event.timeout];
    return context.run("end", () => ended("mended", all));
  };

  const oversized = async (context) => {
    await context.call("too many retries", { url: `${origin}/third-party`, retries: 10_000 });
  };

  const canceling = async (context) => {
    await context.run("one", () => 1);
    await context.cancel();
  };

  const sleeper = async (context) => {
    await context.sleep("sleep", 10 * PAUSE_S);
    return ended("sleeper", context.workflowRunId);
  };

  return { steps, sleeps, parallel, calls, "three-calls": threeCalls, webhooks, waits, notifications, flaky, canceling,
    sleeper, "failing": [failing, { failureFunction }], "failing-elsewhere": [failing],
    mended, "hopeless": [hopeless, { failureFunction }], "oversized": [oversized, { failureFunction }] };
};

/** Workflows that invoke each other, which have to be served together. */
export const invoking = (createWorkflow) => {
  const child = createWorkflow(async (context) => {
    await context.sleep("sleep", PAUSE_S);
    await context.run("end", () => ended("child", 1));
    return { child: context.requestPayload ?? null };
  });
  const failing = createWorkflow(async (context) => {
    await Promise.all([
      context.invoke("invoke child", { workflow: child, body: undefined }),
      context.run("fail", () => {
        throw new WorkflowNonRetryableError("no");
      }),
    ]);
  });
  const parent = createWorkflow(async (context) => {
    const childId = await context.run("name", () => `${context.workflowRunId.slice(4)}-child`);
    const { body, isFailed, isCanceled } = await context.invoke("invoke", { workflow: failing, workflowRunId: childId });
    expect([body, isFailed, isCanceled], [undefined, true, false], "the end of a run that failed");
    await context.run("end", () => ended("parent", childId));
  });
  const pleased = createWorkflow(async (context) => {
    const { body, isFailed, isCanceled } = await context.invoke("invoke", { workflow: child, body: "payload" });
    expect([isFailed, isCanceled], [false, false], "the end of a run that succeeded");
    return ended("pleased", body);
  });
  return { parent, failing, child, pleased };
};

/** What third parties answer: [status, body, headers]. */
export async function thirdParty(path, method, headers, body) {
  switch (path) {
    case "/notifier":
      await waited(body.first);
      await client.notify({ eventId: body.first, eventData: "first" });
      return [200, "notified"];
    case "/start-notifications":
      return [200, await client.trigger({ url: `${process.env.ORIGIN}/notifications`, body })];
    case "/webhook-caller": {
      const options = { method: "PUT", body: JSON.stringify({ hooked: true }), headers: { "x-hook": "1" } };
      return [(await fetch(body.webhookUrl, options)).status, "called"];
    }
    case "/third-party":
      return {
        POST: [201, { order: body?.order, answer: headers["x-answer"] }],
        GET: [200, "plain", { "X-Shop": "ada" }],
        PATCH: [401, "no"],
        PUT: [300, ""],
        DELETE: [400, { foo: "bar" }],
      }[method];
  }
}
