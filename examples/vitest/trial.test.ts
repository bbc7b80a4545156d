import { expect, test } from "vitest";
import { inWorld } from "./emulator.ts";
import { ADA, begin } from "./setup.ts";

for (const day of ["0s", "1d", "7d", "14d", "29d23h59m"]) {
  test(`a subscription after ${day} ends the trial`, inWorld(async (world) => {
    const { mails, post } = await begin(world);
    await post("/start/trial", { email: ADA });
    await world.advance(day);
    expect(mails).toEqual([]);
    await post("/subscriptions", { email: ADA, plan: "the small plan" });
    await world.advance("30d");
    expect(mails).toEqual(["Thank you for the small plan."]);
    expect((await world.runs())[0]).toMatchObject({ state: "RUN_SUCCESS", result: '{"plan":"the small plan"}' });
  }));
}

test("the trial is over after thirty days", inWorld(async (world) => {
  const { mails, post } = await begin(world);
  await post("/start/trial", { email: ADA });
  await world.advance("29d23h59m59s");
  expect(mails).toEqual([]);
  await world.advance("1s");
  expect(mails).toEqual(["Your trial is over."]);
}));

test("a subscription a minute late comes too late", inWorld(async (world) => {
  const { mails, post } = await begin(world);
  await post("/start/trial", { email: ADA });
  await world.advance("30d1m");
  await post("/subscriptions", { email: ADA, plan: "the small plan" });
  await world.advance("1d");
  expect(mails).toEqual(["Your trial is over."]);
}));

test("somebody else's subscription ends nothing", inWorld(async (world) => {
  const { mails, post } = await begin(world);
  await post("/start/trial", { email: ADA });
  await world.advance("29d");
  await post("/subscriptions", { email: "bob@example.com", plan: "the small plan" });
  await world.advance("12h");
  expect(mails).toEqual([]);
  expect((await world.runs())[0]?.state).toBe("RUN_STARTED");
}));
