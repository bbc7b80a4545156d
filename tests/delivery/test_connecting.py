"""Connections that are kept: for how long, and which of them are used again."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from emulator.core.model import Method, Response
from emulator.delivery.egress import CheckedResolver, EgressPolicy, Lookup, Resolved
from emulator.delivery.http import Failure, HttpClient
from tests.delivery.conftest import Run
from tests.delivery.receivers import OK, Answer, Then, receiver

CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
OLD = b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def client(lookup: Lookup | None = None) -> AsyncIterator[HttpClient]:
    made = HttpClient(CheckedResolver(EgressPolicy(), lookup))
    try:
        yield made
    finally:
        await made.close()


async def post(http: HttpClient, url: str, body: bytes = b"hello") -> Response | Failure:
    headers = (("Host", "receiver.test"), ("Content-Length", str(len(body))))
    return await http.exchange(method=Method.POST, url=url, headers=headers, body=body, timeout_ms=5000)


@pytest.mark.parametrize(
    "data",
    [CLOSING, OLD, OK + OK, OK + b"and more"],
    ids=["it says so", "HTTP/1.0", "another answer follows", "something follows"],
)
def test_a_connection_that_may_not_be_used_again_is_not(run: Run, data: bytes) -> None:
    async def scenario() -> None:
        async with client() as http, receiver([Answer(data)]) as there:
            for _ in range(3):
                response = await post(http, there.url())
                assert isinstance(response, Response)
                assert response.body == b"ok"
            assert there.connections == 3

    run(scenario())


def test_a_connection_that_nobody_uses_is_closed_before_its_server_would(run: Run) -> None:
    """D-109."""

    async def scenario() -> None:
        ended = asyncio.Event()

        async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"hello")
            writer.write(OK)
            await reader.read()
            ended.set()
            writer.close()

        server = await asyncio.start_server(converse, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with client() as http:
            assert isinstance(await post(http, f"http://127.0.0.1:{port}/"), Response)
            await asyncio.wait_for(ended.wait(), timeout=4)
        server.close()

    run(scenario())


def test_many_kept_connections_that_died_are_replaced_at_once(run: Run) -> None:
    """D-109: the request that finds that out is sent on a new one."""

    async def scenario() -> None:
        async with client() as http, receiver([Answer()] * 8 + [Answer(b"", Then.CLOSE), Answer()]) as there:
            await asyncio.gather(*(post(http, there.url()) for _ in range(8)))
            assert isinstance(await post(http, there.url()), Response)
            assert len(there.requests) == 10

    run(scenario())


def test_an_answer_before_the_end_of_a_large_request_counts(run: Run) -> None:
    async def scenario() -> None:
        refusal = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n"
        ended = asyncio.Event()

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(refusal)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
            ended.set()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1000)
        port = server.sockets[0].getsockname()[1]
        async with client() as http:
            response = await post(http, f"http://127.0.0.1:{port}/", b"x" * 20_000_000)
            assert isinstance(response, Response)
            assert response.status == 413
            await ended.wait()
        server.close()

    run(scenario())


def test_each_address_of_a_name_is_tried(run: Run) -> None:
    async def two(host: str, port: int, family: socket.AddressFamily) -> list[Resolved]:
        return [
            Resolved(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for address in ("127.0.0.2", "127.0.0.1")
        ]

    async def scenario() -> None:
        async with client(two) as http, receiver() as there:
            assert isinstance(await post(http, there.url(host="app.internal")), Response)

    run(scenario())


def test_a_certificate_that_is_vouched_for_is_accepted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("app.localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

    async def scenario() -> None:
        async with client() as http, receiver(tls=context) as there:
            for _ in range(2):
                response = await post(http, there.url(host="app.localhost", scheme="https"))
                assert isinstance(response, Response)
            assert there.connections == 1

    run(scenario())
