"""The HTTP client against real sockets on loopback: exact bytes, and one text for each way to fail."""

from __future__ import annotations

import asyncio
import errno
import shutil
import socket
import ssl
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import aiohttp
import pytest

from emulator.core.model.messages import Response
from emulator.core.model.options import Method
from emulator.core.record import Headers
from emulator.core.rules.attempts import TIMEOUT_ERROR
from emulator.delivery.aiohttp_transport import InvalidResponse
from emulator.delivery.egress import Resolved
from emulator.delivery.http import CONNECTION_FAILED, REFUSED, RESET, UNREACHABLE, HttpClient, SendFailure, failure_text
from emulator.wire.urls import Target, read_target
from tests.delivery.conftest import Run, on_both_loops
from tests.delivery.receivers import OK, Answer, Then, client, receiver, unused_port

HOST = ("Host", "receiver.test")


async def post(
    http: HttpClient,
    url: str,
    *,
    method: Method = Method.POST,
    headers: Headers = (HOST, ("Content-Length", "5")),
    body: bytes = b"hello",
    timeout_ms: int = 5000,
) -> Response | SendFailure:
    return await http.exchange(method=method, url=url, headers=headers, body=body, timeout_ms=timeout_ms)


# -- mistakes of ours ---------------------------------------------------------------------------


def test_a_mistake_in_the_client_is_logged_and_not_only_taken_for_the_receivers_fault(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def lookup(host: str, port: int, family: socket.AddressFamily) -> list[Resolved]:
        raise AttributeError("gone in this version")

    async def scenario() -> None:
        async with client(lookup) as http:
            assert await post(http, "http://receiver.test/") == SendFailure(text=CONNECTION_FAILED)

    run(scenario())
    [record] = caplog.records
    assert "a mistake in the emulator or its HTTP client" in record.message
    assert "gone in this version" in caplog.text


# -- what is sent -----------------------------------------------------------------------------


@on_both_loops
async def test_the_request_is_exactly_what_was_given() -> None:
    async with client() as http, receiver() as there:
        headers = (HOST, ("X-Two", "a"), ("x-two", "b"), ("svc-region", "EU"), ("Content-Length", "5"))
        await post(http, there.url("/b//c/../%zz%2F?x=1&y=?"), headers=headers)
        assert there.requests == [
            b"POST /b//c/../%zz%2F?x=1&y=? HTTP/1.1\r\n"
            b"Host: receiver.test\r\nX-Two: a\r\nx-two: b\r\nsvc-region: EU\r\nContent-Length: 5\r\n\r\nhello"
        ]


@pytest.mark.parametrize(
    ("method", "body", "expected"),
    [
        (Method.GET, b"", b"GET /hook HTTP/1.1\r\nHost: receiver.test\r\n\r\n"),
        (Method.GET, b"abc", b"GET /hook HTTP/1.1\r\nHost: receiver.test\r\nContent-Length: 3\r\n\r\nabc"),
        (Method.POST, b"", b"POST /hook HTTP/1.1\r\nHost: receiver.test\r\nContent-Length: 0\r\n\r\n"),
        (Method.DELETE, b"", b"DELETE /hook HTTP/1.1\r\nHost: receiver.test\r\nContent-Length: 0\r\n\r\n"),
        (Method.DELETE, b"abc", b"DELETE /hook HTTP/1.1\r\nHost: receiver.test\r\nContent-Length: 3\r\n\r\nabc"),
        (Method.PUT, b"\x00\xff", b"PUT /hook HTTP/1.1\r\nHost: receiver.test\r\nContent-Length: 2\r\n\r\n\x00\xff"),
        (Method.PATCH, b"abc", b"PATCH /hook HTTP/1.1\r\nHost: receiver.test\r\nContent-Length: 3\r\n\r\nabc"),
    ],
)
@on_both_loops
async def test_nothing_is_added_for_any_method(method: Method, body: bytes, expected: bytes) -> None:
    headers = (HOST,) if method is Method.GET and not body else (HOST, ("Content-Length", str(len(body))))
    async with client() as http, receiver() as there:
        await post(http, there.url(), method=method, headers=headers, body=body)
        assert there.requests == [expected]


@on_both_loops
async def test_a_large_body_arrives_whole() -> None:
    body = bytes(range(256)) * 12_000
    headers = (HOST, ("Content-Length", str(len(body))))
    async with client() as http, receiver() as there:
        assert await post(http, there.url(), headers=headers, body=body) == Response(
            status=200, headers=(("Content-Length", "2"),), body=b"ok"
        )
        assert there.requests[0].partition(b"\r\n\r\n")[2] == body


@on_both_loops
async def test_credentials_and_fragment_of_the_url_are_not_sent() -> None:
    async with client() as http, receiver() as there:
        await post(http, there.url("/x#part").replace("//", "//user:secret@"))
        assert there.requests[0].startswith(b"POST /x HTTP/1.1\r\nHost: receiver.test\r\nContent-Length")


@on_both_loops
async def test_a_header_that_cannot_be_sent_fails_the_request() -> None:
    async with client() as http, receiver() as there:
        headers = (HOST, ("X-Evil", "a\r\nX-Smuggled: b"))
        assert await post(http, there.url(), headers=headers) == SendFailure(
            text="invalid request: a header or the URL cannot be sent"
        )
        assert there.requests == []


# -- what comes back --------------------------------------------------------------------------


@on_both_loops
async def test_the_response_is_kept_as_received() -> None:
    data = (
        b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\n"
        b"X-Text: sch\xc3\xb6n\r\nX-Odd: \xff\r\nContent-Encoding: gzip\r\nConnection: keep-alive\r\n"
        b"Content-Length: 3\r\n\r\n\x1f\x8bx"
    )
    async with client() as http, receiver([Answer(data), Answer()]) as there:
        assert await post(http, there.url()) == Response(
            status=302,
            headers=(
                ("Location", "/elsewhere"),
                ("set-cookie", "a=1"),
                ("Set-Cookie", "b=2"),
                ("X-Text", "schön"),
                ("X-Odd", "\N{REPLACEMENT CHARACTER}"),
                ("Content-Encoding", "gzip"),
                ("Connection", "keep-alive"),
                ("Content-Length", "3"),
            ),
            body=b"\x1f\x8bx",
        )
        await post(http, there.url())
        assert b"cookie" not in there.requests[1].lower()
        assert there.connections == 1


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (Answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"), 200, b"abc"),
        (Answer(b"HTTP/1.1 200 OK\r\n\r\nuntil the end", Then.CLOSE), 200, b"until the end"),
        (Answer(b"HTTP/1.0 200 OK\r\n\r\nold", Then.CLOSE), 200, b"old"),
        (Answer(b"HTTP/1.1 204 No Content\r\n\r\n"), 204, b""),
        (Answer(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"), 304, b""),
        (Answer(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK), 200, b"ok"),
        (Answer(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), 101, b""),
        (Answer(b"HTTP/1.1 489 Non Retryable\r\nContent-Length: 0\r\n\r\n"), 489, b""),
        (Answer(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 60_000 + b"\r\nContent-Length: 0\r\n\r\n"), 200, b""),
    ],
    ids=["chunked", "until close", "HTTP/1.0", "204", "304", "early hints", "101", "489", "large header"],
)
@on_both_loops
async def test_every_kind_of_response_is_read(answer: Answer, status: int, body: bytes) -> None:
    async with client() as http, receiver([answer]) as there:
        response = await post(http, there.url())
        assert isinstance(response, Response)
        assert (response.status, response.body) == (status, body)


# -- failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@on_both_loops
async def test_nobody_listening_is_a_refused_connection(host: str) -> None:
    """D-108: also where one of the host's addresses fails for another reason."""
    async with client() as http:
        outcome = await post(http, f"http://{host}:{await unused_port()}/")
        assert outcome == SendFailure(text="connection refused")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(b"", Then.CLOSE), "server disconnected without a response"),
        (Answer(b"HTTP/1.1 200 OK\r\n", Then.CLOSE), "server disconnected without a response"),
        (
            Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", Then.CLOSE),
            "server disconnected in the middle of the response",
        ),
        (Answer(b"SSH-2.0-OpenSSH\r\n\r\n", Then.CLOSE), "invalid response"),
        (Answer(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Then.CLOSE), "invalid response"),
        (Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"a" * 1001), "response body too large"),
    ],
    ids=["nothing", "half a head", "half a body", "not HTTP", "bad length", "too large"],
)
@pytest.mark.parametrize("method", [Method.POST, Method.GET])
@on_both_loops
async def test_a_broken_answer_fails_once_and_is_not_asked_again(answer: Answer, text: str, method: Method) -> None:
    async with client(max_response_bytes=1000) as http, receiver([answer]) as there:
        assert await post(http, there.url(), method=method) == SendFailure(text=text)
        assert len(there.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [Answer(b"", Then.WAIT), Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", Then.WAIT)],
    ids=["head", "body"],
)
@on_both_loops
async def test_the_timeout_covers_the_whole_exchange(answer: Answer) -> None:
    async with client() as http, receiver([answer]) as there:
        assert await post(http, there.url(), timeout_ms=30) == SendFailure(text="timeout: no response in time")


@on_both_loops
async def test_a_reset_connection_is_called_so() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        # Closing with a linger time of zero sends a reset.
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with client() as http:
        assert await post(http, f"http://127.0.0.1:{port}/") == SendFailure(text="connection reset by peer")
    server.close()


@on_both_loops
async def test_an_unknown_name_is_called_so() -> None:
    async def nobody_knows(host: str, port: int, family: socket.AddressFamily) -> list[Resolved]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with client(nobody_knows) as http:
        assert await post(http, "http://nowhere.internal:81/x") == SendFailure(text="name not known: nowhere.internal")


@pytest.mark.parametrize("plain", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""], ids=["answers", "hangs up"])
@on_both_loops
async def test_a_server_without_tls_fails_the_handshake(plain: bytes) -> None:
    async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(plain)
        writer.close()

    server = await asyncio.start_server(speak_plainly, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with client() as http:
        assert await post(http, f"https://127.0.0.1:{port}/") == SendFailure(text="TLS handshake failed")
    server.close()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_a_certificate_that_nobody_vouches_for_is_not_accepted(run: Run, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost"
    command += " -addext subjectAltName=DNS:localhost -keyout"
    subprocess.run([*command.split(), key, "-out", certificate], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def scenario() -> None:
        async with client() as http, receiver(tls=context) as there:
            failed = SendFailure(text="TLS handshake failed")
            assert await post(http, there.url(host="localhost", scheme="https")) == failed
            assert there.requests == []

    run(scenario())


@on_both_loops
async def test_a_name_that_turns_to_a_metadata_address_is_never_connected_to() -> None:
    """D-105: DNS rebinding."""

    async def rebind(host: str, port: int, family: socket.AddressFamily) -> list[Resolved]:
        return [Resolved(hostname=host, host="169.254.169.254", port=port, family=socket.AF_INET, proto=0, flags=0)]

    async with client(rebind) as http:
        assert await post(http, "http://web.internal/latest/meta-data") == SendFailure(
            text="egress refused: web.internal resolves to a cloud metadata or link-local address"
        )


# -- connections ------------------------------------------------------------------------------


@on_both_loops
async def test_a_server_that_closes_after_each_answer_gets_each_request_once() -> None:
    """It does not announce the close, so every connection in the pool is stale."""
    async with client() as http, receiver([Answer(OK, Then.CLOSE)]) as there:
        for _ in range(20):
            assert isinstance(await post(http, there.url()), Response)
        assert len(there.requests) == 20


@on_both_loops
async def test_kept_connections_that_ended_unseen_are_not_used() -> None:
    """The event loop has had no turn since they ended. What is sent on one could be received, and so received twice."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        async with client() as http:
            sent = [asyncio.create_task(post(http, url)) for _ in range(5)]
            kept = [(await loop.sock_accept(server))[0] for _ in sent]
            for connection in kept:
                await _answer(connection)
            assert all(isinstance(answer, Response) for answer in await asyncio.gather(*sent))
            answering = asyncio.create_task(_answer_next(server))
            for connection in kept:
                connection.shutdown(socket.SHUT_WR)
            assert isinstance(await post(http, url), Response)
            assert (await answering).count(b"POST ") == 1
            for connection in kept:
                assert await loop.sock_recv(connection, 4096) == b""
                connection.close()


async def _answer_next(server: socket.socket) -> bytes:
    """Answer the first request on the next connection; gives all that came on it."""
    with (await asyncio.get_running_loop().sock_accept(server))[0] as connection:
        return await _answer(connection)


async def _answer(connection: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    connection.setblocking(False)
    received = b""
    while not received.endswith(b"\r\n\r\nhello"):
        received += await loop.sock_recv(connection, 4096)
    await loop.sock_sendall(connection, OK)
    return received


@pytest.mark.parametrize("body", [b"hello", b"x" * 2_000_000], ids=["small", "large"])
@on_both_loops
async def test_a_kept_connection_that_dies_under_a_request_is_replaced(body: bytes) -> None:
    """D-109: from here a server that closed an idle connection just then looks the same."""
    headers = (HOST, ("Content-Length", str(len(body))))
    async with client() as http, receiver([Answer(), Answer(b"", Then.CLOSE), Answer()]) as there:
        assert isinstance(await post(http, there.url()), Response)
        assert isinstance(await post(http, there.url(), headers=headers, body=body), Response)
        assert (there.connections, len(there.requests)) == (2, 3)
        assert there.requests[1] == there.requests[2]


@on_both_loops
async def test_requests_in_parallel_each_get_a_connection() -> None:
    async with client() as http, receiver() as there:
        answers = await asyncio.gather(*(post(http, there.url()) for _ in range(150)))
        assert all(isinstance(answer, Response) for answer in answers)


@on_both_loops
async def test_a_canceled_request_lets_the_cancellation_through() -> None:
    async with client() as http, receiver([Answer(b"", Then.WAIT)]) as there:
        task = asyncio.create_task(post(http, there.url()))
        await there.arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


# -- what the errors of the systems are called --------------------------------------------------

TARGET = cast(Target, read_target("http://app.test:1/"))


def of_windows(number: int, winerror: int, kind: type[OSError] = OSError) -> OSError:
    """An error as Windows gives it: with a number of its own, which `errno` does not tell."""
    error = kind(number, "the text depends on the language")
    error.winerror = winerror  # type: ignore[attr-defined, unused-ignore]  # there is one on Windows only
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(OSError(errno.ECONNREFUSED, "x"), REFUSED, id="refused"),
        pytest.param(OSError(errno.ETIMEDOUT, "x"), TIMEOUT_ERROR, id="timed out"),
        pytest.param(OSError(errno.EHOSTUNREACH, "x"), UNREACHABLE, id="unreachable"),
        pytest.param(OSError(errno.EADDRNOTAVAIL, "x"), CONNECTION_FAILED, id="another"),
        pytest.param(of_windows(errno.EINVAL, 1225, ConnectionRefusedError), REFUSED, id="windows refused by class"),
        pytest.param(of_windows(errno.EINVAL, 1225), REFUSED, id="windows refused"),
        pytest.param(of_windows(10061, 10061), REFUSED, id="windows socket refused"),
        pytest.param(of_windows(errno.EINVAL, 121), TIMEOUT_ERROR, id="windows timed out"),
        pytest.param(of_windows(errno.EINVAL, 64), RESET, id="windows reset"),
        pytest.param(of_windows(errno.EINVAL, 1231), UNREACHABLE, id="windows unreachable"),
        pytest.param(of_windows(errno.EINVAL, 87), CONNECTION_FAILED, id="windows another"),
        pytest.param(ConnectionResetError("no number"), RESET, id="a class alone"),
        pytest.param(
            OSError(f"Multiple exceptions: [Errno {errno.ENETUNREACH}] x, [Errno {errno.ECONNREFUSED}] y"),
            REFUSED,
            id="several addresses",
        ),
        pytest.param(
            OSError("Multiple exceptions: [WinError 1231] x, [WinError 1225] y"), REFUSED, id="several on windows"
        ),
        pytest.param(OSError("Multiple exceptions: [WinError 121] x, [Errno 99999] y"), TIMEOUT_ERROR, id="mixed"),
        pytest.param(OSError("Multiple exceptions: [Errno 99999] x, y"), CONNECTION_FAILED, id="several unknown"),
    ],
)
def test_errors_of_connecting_are_told_apart_on_every_system(error: OSError, text: str) -> None:
    failed = aiohttp.ClientConnectorError(SimpleNamespace(ssl=True, host="app.test", port=1), error)  # type: ignore[arg-type]  # all that is read of it

    assert failure_text(failed, TARGET) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(TimeoutError(), "timeout: no response in time", id="timeout"),
        pytest.param(ssl.SSLError(), "TLS handshake failed", id="tls"),
        pytest.param(aiohttp.ServerDisconnectedError(), "server disconnected without a response", id="disconnected"),
        pytest.param(aiohttp.ClientPayloadError(), "server disconnected in the middle of the response", id="cut-short"),
        pytest.param(InvalidResponse(), "invalid response", id="no-http"),
        pytest.param(aiohttp.InvalidURL("x"), "invalid request: a header or the URL cannot be sent", id="invalid-url"),
        pytest.param(ValueError(), "invalid request: a header or the URL cannot be sent", id="invalid-header"),
        pytest.param(RuntimeError(), CONNECTION_FAILED, id="another"),
    ],
)
def test_each_error_of_the_client_has_its_text(error: Exception, text: str) -> None:
    assert failure_text(error, TARGET) == text


def test_an_error_of_a_connection_is_told_by_what_caused_it() -> None:
    error = aiohttp.ClientOSError(errno.EINVAL, "the specified network name is no longer available")
    error.__cause__ = of_windows(errno.EINVAL, 64, ConnectionResetError)

    assert failure_text(error, TARGET) == RESET
