"""HTTP itself, with both servers: what no client library would send, and what happens half way."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator

import httpx
import pytest

from tests.harness.certificates import CertificateFiles
from tests.harness.emulators import Server, control, server
from tests.harness.loops import PATIENCE_S
from tests.scenarios.raw_http import exchange, head

pytestmark = pytest.mark.slow

DESTINATION = "https://api.example.com/hook"


@pytest.fixture(scope="module")
def emulator(http_server: str) -> Iterator[Server]:
    with server(server=http_server) as running:
        yield running


@pytest.fixture(autouse=True)
def _fresh(emulator: Server) -> None:
    control(emulator, "POST", "/reset")


def delivered(emulator: Server) -> list[tuple[str, str]]:
    """Destination and body of every delivery."""
    return [(each["url"], each["body"]) for each in control(emulator, "GET", "/deliveries")["deliveries"]]


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(b"GET /v2/que ues HTTP/1.1\r\nHost: x\r\n\r\n", id="space-in-target"),
        pytest.param("GET /v2/publish/https://x/é HTTP/1.1\r\nHost: x\r\n\r\n".encode(), id="target-not-ascii"),
        pytest.param(b"GET /v2/queues HTTP/1.1\r\nHost: x\r\nBad Name: y\r\n\r\n", id="header-name"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01 no HTTP\r\n\r\n", id="tls-without-a-certificate"),
    ],
)
def test_what_is_no_http_is_refused_and_the_connection_closed(
    emulator: Server, http_server: str, request_bytes: bytes
) -> None:
    """D-231."""
    (answer,) = exchange(emulator, request_bytes)
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    if http_server == "uvicorn":
        assert answer.json == {"error": "Invalid HTTP request received."}
    else:
        assert answer.body == b""


def test_what_is_no_http_forbids_sniffing_too(emulator: Server) -> None:
    """D-270: once, as in every answer of the application."""
    garbage = b"\x00\x01 no HTTP\r\n\r\n"
    for request in (garbage, head(emulator, "GET /v2/keys"), head(emulator, "GET /nowhere")):
        with socket.create_connection(("127.0.0.1", emulator.port), timeout=PATIENCE_S) as connection:
            connection.sendall(request)
            received = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert received.lower().count(b"\r\nx-content-type-options: nosniff\r\n") == 1, request


def test_a_proxy_is_not_believed_unless_it_is_named(emulator: Server, http_server: str) -> None:
    """D-272: the servers' own default would believe every program of this machine."""
    forwarded = "X-Forwarded-For: 198.51.100.1"
    with server(server=http_server, trust_proxy=("127.0.0.1",)) as trusting:
        for running, expected in ((emulator, "127.0.0.1"), (trusting, "198.51.100.1")):
            (answer,) = exchange(running, head(running, f"POST /v2/publish/{DESTINATION}", forwarded, "Svc-Delay: 1h"))
            (message,) = exchange(running, head(running, f"GET /v2/messages/{answer.json['messageId']}"))
            assert message.json["callerIP"] == expected


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        pytest.param("Content-Length: 30", b"only this", id="length"),
        pytest.param("Transfer-Encoding: chunked", b"9\r\nonly this\r\n", id="chunks"),
    ],
)
def test_a_publish_that_breaks_off_is_not_published(emulator: Server, framing: str, body: bytes) -> None:
    """D-230."""
    answers = exchange(emulator, head(emulator, f"POST /v2/publish/{DESTINATION}", framing), body, is_half=True)
    # Who has hung up gets no answer, or at least no good one.
    assert [answer.status for answer in answers] in ([], [400])
    assert delivered(emulator) == []


def test_chunks_make_one_body(emulator: Server) -> None:
    chunked = head(emulator, f"POST /v2/publish/{DESTINATION}", "Transfer-Encoding: chunked")
    (answer,) = exchange(emulator, chunked, b"3\r\nabc\r\n", b"2;x=y\r\nde\r\n", b"0\r\n\r\n")
    assert answer.status == 200
    assert delivered(emulator) == [(DESTINATION, "abcde")]


def test_a_client_that_waits_to_be_asked_for_the_body_is_asked(emulator: Server) -> None:
    asking = head(emulator, f"POST /v2/publish/{DESTINATION}", "Expect: 100-continue", "Content-Length: 3")
    with socket.create_connection(("127.0.0.1", emulator.port), timeout=PATIENCE_S) as connection:
        connection.sendall(asking)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"abc")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
    assert delivered(emulator) == [(DESTINATION, "abc")]


@pytest.mark.parametrize(
    ("line", "framing", "status"),
    [
        pytest.param("POST /nowhere", "Content-Length: 5000000", 404, id="path"),
        pytest.param("PATCH /v2/queues", "Content-Length: 5000000", 405, id="method"),
    ],
)
def test_an_answer_that_comes_early_reaches_a_client_that_is_still_sending(
    emulator: Server, line: str, framing: str, status: int
) -> None:
    (answer,) = exchange(emulator, head(emulator, line, framing), *[b"x" * 1_000_000] * 5)
    assert answer.status == status
    assert answer.json["error"]


def test_a_body_beyond_any_limit_is_refused_at_its_announcement(emulator: Server) -> None:
    announced = head(emulator, f"POST /v2/publish/{DESTINATION}", "Content-Length: 200000000")
    with socket.create_connection(("127.0.0.1", emulator.port), timeout=PATIENCE_S) as connection:
        connection.sendall(announced)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")


def test_a_large_body_arrives_whole(emulator: Server) -> None:
    body = "x" * 900_000
    (answer,) = exchange(
        emulator, head(emulator, f"POST /v2/publish/{DESTINATION}", "Content-Length: 900000"), body.encode()
    )
    assert answer.status == 200
    assert delivered(emulator) == [(DESTINATION, body)]


def test_a_head_answer_has_no_body(emulator: Server) -> None:
    (answer,) = exchange(emulator, head(emulator, "HEAD /v2/queues"))
    assert (answer.status, answer.headers["allow"], answer.body) == (405, "GET, POST", b"")
    assert int(answer.headers["content-length"]) > 0


def test_a_target_may_name_the_server(emulator: Server) -> None:
    (answer,) = exchange(emulator, head(emulator, "GET http://127.0.0.1/_emulator/health"))
    assert answer.json["status"] == "ok"


def test_a_long_head_is_read(emulator: Server) -> None:
    line = f"POST /v2/publish/{DESTINATION}?{'q' * 8_000}"
    (answer,) = exchange(emulator, head(emulator, line, f"Svc-Forward-Long: {'v' * 60_000}", "Content-Length: 0"))
    assert answer.status == 200
    (delivery,) = control(emulator, "GET", "/deliveries")["deliveries"]
    assert delivery["headers"]["Long"] == ["v" * 60_000]


def test_requests_of_one_connection_are_answered_in_their_order(emulator: Server) -> None:
    first = b"GET /_emulator/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    second = b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    answers = exchange(emulator, first + second + head(emulator, "GET /v2/queues"))
    assert [answer.status for answer in answers] == [200, 404, 200]


def test_forwarded_headers_keep_their_values_and_order(emulator: Server) -> None:
    lines = ["Svc-Forward-One: 1", "SVC-FORWARD-TWO: é", "svc-forward-one: 2", "Content-Length: 0"]
    encoded = head(emulator, f"POST /v2/publish/{DESTINATION}", *lines).decode("latin-1").encode()
    (answer,) = exchange(emulator, encoded)
    assert answer.status == 200
    (delivery,) = control(emulator, "GET", "/deliveries")["deliveries"]
    assert (delivery["headers"]["One"], delivery["headers"]["Two"]) == (["1", "2"], ["é"])


def test_a_client_that_says_no_more_does_not_hold_up_the_end(http_server: str) -> None:
    # The connection is there until the server has ended.
    with contextlib.ExitStack() as connections, server(server=http_server) as running:
        connection = connections.enter_context(socket.create_connection(("127.0.0.1", running.port)))
        connection.sendall(head(running, f"POST /v2/publish/{DESTINATION}", "Content-Length: 9"))
        # Another call is answered, so the server has read this one and waits for its body.
        assert control(running, "GET", "/health")["status"] == "ok"


# -- TLS --------------------------------------------------------------------------------------


def test_a_certificate_makes_it_https_and_nothing_else(http_server: str, certificate: CertificateFiles) -> None:
    with server(server=http_server, tls_cert=certificate.cert, tls_key=certificate.key) as running:
        assert running.url == f"https://127.0.0.1:{running.port}"
        trusting = ssl.create_default_context(cafile=certificate.ca)
        with httpx.Client(verify=trusting, trust_env=False, timeout=PATIENCE_S) as client:
            answer = client.post(
                f"{running.url}/v2/publish/{DESTINATION}", headers={"Authorization": f"Bearer {running.token}"}
            )
            assert answer.status_code == 200, answer.text
        with (
            httpx.Client(trust_env=False) as other_client,
            pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY"),
        ):
            other_client.get(f"{running.url}/_emulator/health")
        with httpx.Client(trust_env=False) as plain, pytest.raises(httpx.RemoteProtocolError):
            plain.get(f"http://127.0.0.1:{running.port}/_emulator/health")
