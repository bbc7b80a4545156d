// A receiver as the public JavaScript client's documentation writes it, on Express. Run by
// test_receivers.py beside installed packages. At /jobs it compares its URL, at /anywhere not.
import { Receiver } from "@upstash/qstash";
import express from "express";

const receiver = new Receiver();
const app = express();
const done = new Set();
let url;

function jobs(withUrl) {
  return async (request, response) => {
    try {
      await receiver.verify({
        signature: request.get("Upstash-Signature") ?? "",
        body: request.body ?? "",
        ...(withUrl ? { url: url + request.originalUrl } : {}),
      });
    } catch {
      return response.status(401).send("not signed by the service");
    }
    try {
      if (request.body) JSON.parse(request.body);
    } catch {
      return response.status(400).send("no JSON");
    }
    done.add(request.get("Upstash-Message-Id"));
    response.json({ done: done.size });
  };
}

const raw = express.text({ type: () => true, limit: "2mb" });
app.post("/jobs", raw, jobs(true));
app.post("/anywhere", raw, jobs(false));
app.get("/done", (request, response) => response.json(done.size));

const server = app.listen(0, "127.0.0.1", () => {
  url = `http://127.0.0.1:${server.address().port}`;
  console.log(`listening on ${url}`);
});
