"""An app that has itself called back by the emulator; compose.yaml runs it. It needs nothing but Python."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

EMULATOR_URL = os.environ["EMULATOR_URL"]
# How the emulator reaches this app: by its service's name, never by localhost, which is the emulator's own.
APP_URL = os.environ["APP_URL"]


class Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        print(f"called back at {self.path}: {body.decode()}", flush=True)
        self.send_response(200)
        self.end_headers()


def call(path, body=None, **headers):
    with urlopen(Request(EMULATOR_URL + path, data=body, headers=headers)) as answer:
        return json.load(answer)


def main():
    # All interfaces: loopback is not what another container reaches.
    server = ThreadingHTTPServer(("0.0.0.0", int(os.environ.get("PORT", "3000"))), Hook)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    token = call("/_emulator/credentials")["queue"]["token"]
    sent = call(f"/v2/publish/{APP_URL}/hook", b'{"user": 7}', Authorization=f"Bearer {token}")
    print(f"published {sent['messageId']}", flush=True)
    serving.join()


if __name__ == "__main__":
    main()
