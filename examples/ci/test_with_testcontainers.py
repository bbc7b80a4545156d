"""A test that starts the emulator's image by itself.

docker build -t svc-emulator .
pip install 'svc-emulator[testcontainers]' pytest
pytest examples/ci/test_with_testcontainers.py
"""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from emulator.testcontainers import EmulatorContainer


@pytest.fixture(scope="module")
def container():
    with EmulatorContainer("svc-emulator", clock="frozen", epoch="2026-01-01T00:00:00Z") as running:
        yield running


CALLS = []


class App(BaseHTTPRequestHandler):
    def do_POST(self):
        CALLS.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()


@pytest.fixture
def app():
    # All interfaces: the container comes from outside of this machine's loopback.
    with HTTPServer(("0.0.0.0", 0), App) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server.server_port
        server.shutdown()


def test_a_reminder_arrives_the_next_day(container, app):
    with container.connect() as emulator:
        emulator.publish(f"http://host.docker.internal:{app}/remind", body=b'{"user": 7}', headers={"Svc-Delay": "1d"})
        emulator.clock.advance("1d")
    assert CALLS == [("/remind", b'{"user": 7}')]
