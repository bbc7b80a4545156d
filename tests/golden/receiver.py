"""A real destination: it answers by the path alone, so that a run reads the same whatever else happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Handler(BaseHTTPRequestHandler):
    """`/status/503` answers that status, `/wait/30` asks for 30 seconds, `/hangup` closes, all else echoes."""

    protocol_version = "HTTP/1.1"

    def parse_request(self) -> bool:
        is_good = super().parse_request()
        if is_good:
            # Every method is answered alike.
            setattr(self, f"do_{self.command}", self.answer)
        return is_good

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        _, what, *rest = self.path.partition("?")[0].split("/")
        if what == "hangup":
            self.close_connection = True
            return
        status, headers = 200, {"Content-Type": "text/plain"}
        if what == "status":
            status = int(rest[0])
        elif what == "wait":
            status, headers["Retry-After"] = 429, rest[0]
        # Without a date and the name of a server, which differ from run to run.
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        content = b"%s %s" % (self.command.encode(), body)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def receiving() -> Iterator[int]:
    """The port of a receiver on loopback."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=partial(httpd.serve_forever, poll_interval=0.01))
    thread.start()
    try:
        yield httpd.server_port
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
