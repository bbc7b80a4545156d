import { expect, test } from "vitest";
import { CRM } from "./app.ts";
import { inWorld } from "./emulator.ts";
import { ADA, begin } from "./setup.ts";

const offer = {
  status: 200,
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ offer: "half the price" }),
};

for (const first of ["1h", "1d", "2d23h59m", "3d", "4d", "10d", "29d"]) {
  const late = ["3d", "4d", "10d", "29d"].includes(first);
  test(`who is active after ${first} is ${late ? "" : "not "}reminded`, inWorld(async (world) => {
    let active = false;
    const { mails, post } = await begin(world, { isActive: async () => active });
    await world.respond(`${CRM}/*`, offer);
    const id = await post("/start/onboarding", { email: ADA });

    await world.advance(first);
    active = true;
    await world.advance("30d");

    expect(mails).toEqual(["Welcome!", ...(late ? ["We miss you."] : []), "We offer half the price."]);
    expect(await world.runs()).toMatchObject([{ id, state: "RUN_SUCCESS" }]);
  }));
}

test("the offer survives an outage", inWorld(async (world) => {
  const { mails, post } = await begin(world);
  await world.respond(`${CRM}/*`, { status: 503 }, { status: 500 }, offer);
  await post("/start/onboarding", { email: ADA });
  await world.advance("31d");
  expect(mails.at(-1)).toBe("We offer half the price.");
  expect((await world.deliveries(`${CRM}/*`)).map((each) => each.response?.status)).toEqual([200, 500, 503]);
}));
