import { expect, test } from "vitest";
import { PAYMENTS } from "./app.ts";
import { inWorld } from "./emulator.ts";
import { ADA, APP, begin } from "./setup.ts";

const declined = { status: 402 };
const paid = { status: 200 };

for (const times of [0, 1, 2, 3]) {
  test(`a card that is declined ${times} times is charged on day ${times * 10}`, inWorld(async (world) => {
    const { mails, post } = await begin(world);
    await world.respond(`${PAYMENTS}/*`, ...Array(times).fill(declined), paid);
    await post("/start/invoice", { email: ADA });
    await world.advance("30d");
    expect(mails).toEqual([0, 10, 20].slice(0, times).map((day) => `Your card was declined on day ${day}.`));
    expect((await world.runs())[0]).toMatchObject({ state: "RUN_SUCCESS", result: `{"paid":${times * 10}}` });
  }));
}

test("the account is suspended on the thirtieth day", inWorld(async (world) => {
  const { mails, post } = await begin(world);
  await world.respond(`${PAYMENTS}/*`, declined);
  await post("/start/invoice", { email: ADA });
  await world.advance("29d23h");
  expect(mails).toHaveLength(3);
  await world.advance("1h");
  expect(mails.slice(3)).toEqual(["Your card was declined on day 30.", "Your account is suspended."]);
}));

test("charges are ten days apart", inWorld(async (world) => {
  const { post } = await begin(world);
  await world.respond(`${PAYMENTS}/*`, declined);
  await post("/start/invoice", { email: ADA });
  await world.advance("30d");
  const charges = (await world.deliveries(`${PAYMENTS}/*`)).reverse().map((each) => each.at.slice(0, 10));
  expect(charges).toEqual(["2026-01-01", "2026-01-11", "2026-01-21", "2026-01-31"]);
}));

test("every call is signed", inWorld(async (world) => {
  const { post } = await begin(world);
  await world.respond(`${PAYMENTS}/*`, declined);
  await post("/start/invoice", { email: ADA });
  await world.advance("30d");
  const calls = await world.deliveries(`${APP}/*`);
  expect(calls).toHaveLength(17);
  expect(calls.filter((each) => !each.headers["Upstash-Signature"])).toEqual([]);
}));

// The app fails for a while, which would fail the test if it were not said.
test("nobody is told twice when mails cannot be sent", inWorld(async (world) => {
  const sent: string[] = [];
  let isDown = true;
  const { post } = await begin(world, {
    async sendMail(_email, text) {
      if (isDown) throw new Error("the mail server is down");
      sent.push(text);
    },
  });
  await world.respond(`${PAYMENTS}/*`, declined, paid);
  await post("/start/invoice", { email: ADA });
  await world.advance("1s");
  isDown = false;
  await world.advance("11d");
  expect(sent).toEqual(["Your card was declined on day 0."]);
  expect(await world.deliveries(`${PAYMENTS}/*`)).toHaveLength(2);
}, { allow: ["failed"] }));
