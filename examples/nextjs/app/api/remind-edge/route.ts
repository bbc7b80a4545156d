import { verifySignatureAppRouter } from "@upstash/qstash/nextjs";

export const runtime = "edge";

async function handler(request: Request) {
  const { email, item } = await request.json();
  return Response.json({ to: email, text: `Would you order ${item} again?` });
}

export const POST = verifySignatureAppRouter(handler);
