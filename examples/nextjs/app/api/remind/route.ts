import { verifySignatureAppRouter } from "@upstash/qstash/nextjs";

async function handler(request: Request) {
  const { email, item } = await request.json();
  return Response.json({ to: email, text: `How do you like ${item}?` });
}

/** Only what the service has signed with the keys of QSTASH_CURRENT_SIGNING_KEY and QSTASH_NEXT_SIGNING_KEY passes. */
export const POST = verifySignatureAppRouter(handler);
