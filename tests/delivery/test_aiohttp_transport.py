"""Receivers that mean ill: what they send is bounded in number, in size and in the time that it takes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from emulator.core.model.messages import Response
from emulator.core.model.options import Method
from emulator.delivery.http import HttpClient, SendFailure
from tests.delivery.conftest import Run, on_both_loops
from tests.delivery.receivers import OK, Answer, Receiver, Then, client, receiver

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
INVALID = SendFailure(text="invalid response")
NO_ROOM = SendFailure(text="no room for the response: the bodies of all attempts under way exceed 256 MiB together")


async def post(http: HttpClient, port: int) -> Response | SendFailure:
    headers = (("Host", "receiver.test"), ("Content-Length", "0"))
    return await http.exchange(
        method=Method.POST, url=f"http://127.0.0.1:{port}/", headers=headers, body=b"", timeout_ms=20_000
    )


async def answer_to(there: Receiver) -> Response | SendFailure:
    async with client() as http:
        return await post(http, there.port)


# -- how much ---------------------------------------------------------------------------------


@on_both_loops
async def test_a_few_interim_answers_are_nobodys_business() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 7
    async with receiver([Answer(CONTINUE + hints + OK)]) as there, client() as http:
        for _ in range(3):
            assert await post(http, there.port) == Response(status=200, headers=(("Content-Length", "2"),), body=b"ok")
        assert there.connections == 1


@pytest.mark.parametrize(
    "data",
    [
        CONTINUE * 9 + OK,
        CONTINUE * 50_000,
        b"HTTP/1.1 200 OK\r\n" + b"a:b\r\n" * 400_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 1_200_000,
        CHUNKED + b"1;" + b"x" * 1_200_000,
    ],
    ids=["nine interim", "interim for ever", "headers for ever", "one endless header", "endless chunk extension"],
)
@on_both_loops
async def test_a_receiver_that_never_comes_to_the_point_is_invalid(data: bytes) -> None:
    """D-273."""
    async with receiver([Answer(data, Then.WAIT)]) as there:
        assert await answer_to(there) == INVALID


@on_both_loops
async def test_trailers_without_an_end_fail_the_attempt() -> None:
    """D-273."""
    async with receiver([Answer(CHUNKED + b"0\r\n" + b"a:b\r\n" * 400_000, Then.WAIT)]) as there:
        assert isinstance(await answer_to(there), SendFailure)


@on_both_loops
async def test_many_headers_are_no_reason_to_fail() -> None:
    """D-273."""
    lines = b"".join(b"X-%d: %d\r\n" % (number, number) for number in range(2000))
    async with receiver([Answer(b"HTTP/1.1 200 OK\r\n" + lines + b"Content-Length: 0\r\n\r\n")]) as there:
        response = await answer_to(there)
        assert isinstance(response, Response)
        assert len(response.headers) == 2001
        assert response.headers[1999] == ("X-1999", "1999")


@on_both_loops
async def test_a_body_in_very_many_pieces_arrives_whole() -> None:
    data = CHUNKED + b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"
    async with receiver([Answer(data)]) as there:
        assert await answer_to(there) == Response(
            status=200, headers=(("Transfer-Encoding", "chunked"),), body=b"x" * 100_000
        )


@pytest.mark.parametrize("close", [Then.CLOSE, Then.KEEP])
@on_both_loops
async def test_a_large_body_arrives_whole_also_if_the_end_is_the_end_of_the_connection(close: Then) -> None:
    body = bytes(range(256)) * 12_000
    length = b"" if close is Then.CLOSE else b"Content-Length: %d\r\n" % len(body)
    async with receiver([Answer(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n" + body, close)]) as there:
        response = await answer_to(there)
        assert isinstance(response, Response)
        assert response.body == body


# -- how much together ------------------------------------------------------------------------


def large(size: int, then: Then = Then.KEEP) -> Answer:
    return Answer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size, then)


@on_both_loops
async def test_bodies_under_way_share_one_budget() -> None:
    """D-274: what one attempt holds is not there for another, and comes back with its end."""
    beginning = Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n" + b"x" * 800_000, Then.WAIT)
    async with (
        client(max_bodies_bytes=2_000_000) as http,
        receiver([beginning]) as stalling,
        receiver([large(500_000)]) as honest,
        receiver([large(1_000)]) as small,
    ):
        holding = asyncio.create_task(post(http, stalling.port))
        # The first that does not fit tells that the other holds its part by now.
        while await post(http, honest.port) != NO_ROOM:
            if holding.done():
                # The honest one had come before it.
                holding = asyncio.create_task(post(http, stalling.port))
            # It may come alone: these take nothing of the budget.
            for _ in range(20):
                await post(http, small.port)
        holding.cancel()
        await asyncio.wait((holding,))
        response = await post(http, honest.port)
        assert isinstance(response, Response)
        assert len(response.body) == 500_000


@pytest.mark.parametrize(
    ("size", "body", "received"),
    [(1_000, b"x" * 1_000, None), (1_001, b"x" * 1_000, 1_001), (500_000, b"x" * 1_000, 500_000)],
)
@on_both_loops
async def test_of_a_long_body_the_beginning_is_kept(size: int, body: bytes, received: int | None) -> None:
    """D-790: it is read to its end, whatever is kept."""
    async with client(max_kept_bytes=1_000) as http, receiver([large(size)]) as there:
        response = await post(http, there.port)
        assert isinstance(response, Response)
        assert (response.body, response.received_bytes) == (body, received)


@on_both_loops
async def test_a_long_body_that_ends_too_early_is_a_failure_whatever_is_kept() -> None:
    """D-790."""
    short = Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n" + b"x" * 400_000, Then.CLOSE)
    async with client(max_kept_bytes=1_000) as http, receiver([short]) as there:
        assert await post(http, there.port) == SendFailure(text="server disconnected in the middle of the response")


@on_both_loops
async def test_what_is_not_kept_needs_no_room() -> None:
    """D-790: neither for itself nor for the base64 of a callback."""
    async with client(max_bodies_bytes=100_000, max_kept_bytes=100_000) as http:
        async with receiver([large(5_000_000)]) as there:
            assert isinstance(await post(http, there.port), Response)
        async with receiver([large(107_000)]) as there:
            assert isinstance(await post(http, there.port), Response)
    async with client(max_bodies_bytes=100_000) as http, receiver([large(110_000)]) as there:
        assert await post(http, there.port) == NO_ROOM


@on_both_loops
async def test_small_bodies_need_no_room() -> None:
    """D-274: a large response never makes an ordinary one fail."""
    async with (
        client(max_bodies_bytes=0) as http,
        receiver([large(60_000)]) as there,
        receiver([large(70_000)]) as big,
    ):
        assert isinstance(await post(http, there.port), Response)
        assert await post(http, big.port) == NO_ROOM


# -- for how long -----------------------------------------------------------------------------


@contextlib.contextmanager
def flooding(head: bytes, piece: bytes) -> Iterator[int]:
    """A receiver in threads of its own that sends as fast as it can, until it is cut off."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    threads: list[threading.Thread] = []
    block = piece * (1 + 500_000 // len(piece))

    def flood(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(head)
            while True:
                connection.sendall(block)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threads.append(threading.Thread(target=flood, args=(connection,)))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        # Wakes the thread that accepts, which closing alone does not everywhere.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (accepting, *threads):
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"", CONTINUE),
        (b"HTTP/1.1 200 OK\r\n", b"a:b\r\n"),
        (CHUNKED, b"1\r\nx\r\n"),
        (CHUNKED + b"1;", b"x"),
        (CHUNKED + b"0\r\n", b"a:b\r\n"),
        (b"", OK),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    ],
    ids=["interim", "headers", "chunks", "extensions", "trailers", "responses", "body"],
)
def test_no_receiver_holds_the_event_loop(run: Run, head: bytes, piece: bytes) -> None:
    """D-273: measured in the loop's own processor time, so that other programs do not count."""

    async def scenario() -> None:
        longest_s = 0.0

        async def watch() -> None:
            nonlocal longest_s
            last_s = time.thread_time()
            while True:
                await asyncio.sleep(0)
                now_s = time.thread_time()
                longest_s, last_s = max(longest_s, now_s - last_s), now_s

        async with client(max_response_bytes=20_000) as http:
            await post(http, 9)  # What it imports at the first request is no receiver's doing.
            watching = asyncio.create_task(watch())
            await asyncio.gather(*(post(http, port) for _ in range(16)))
            watching.cancel()
        assert longest_s < 0.05

    # A collection of the garbage of all tests before would count as well.
    gc.collect()
    gc.disable()
    try:
        with flooding(head, piece) as port:
            run(scenario())
    finally:
        gc.enable()
