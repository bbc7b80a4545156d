import { serve } from "@upstash/workflow/nextjs";

type Order = { email: string; item: string };

/** An order of thirty days: it is packed and sent, and may be given back for four weeks. */
export const { POST } = serve<Order>(async (context) => {
  const { email, item } = context.requestPayload;
  const parcel = await context.run("pack", () => `${item} for ${email}`);
  await context.sleep("until it is there", "2d");
  await context.run("ask for the payment", () => `pay ${item}, please`);
  const returned = await context.waitForEvent("a return", `returned ${email}`, { timeout: "28d" });
  return context.run("close", () => ({ parcel, kept: returned.timeout }));
});
