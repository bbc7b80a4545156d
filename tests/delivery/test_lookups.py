"""Look-ups of names: bounded in number and time, and in nobody's way."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from emulator.core.model.messages import Response
from emulator.core.model.options import Method
from emulator.delivery.egress import CheckedResolver, EgressPolicy, Infos, Lookups, LookupTimeout, ask_system
from emulator.delivery.http import HttpClient, SendFailure
from tests.delivery.conftest import on_both_loops
from tests.delivery.receivers import client, receiver


class Silence:
    """Name servers that do not answer before they are released."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = threading.Event()

    def ask(self, host: str, port: int, family: int) -> Infos:
        self.asked.append(host)
        self.may_answer.wait()
        return answer(port)


def answer(port: int) -> Infos:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


@contextmanager
def silence() -> Iterator[Silence]:
    found = Silence()
    try:
        yield found
    finally:
        found.may_answer.set()


async def post(http: HttpClient, url: str) -> Response | SendFailure:
    return await http.exchange(method=Method.POST, url=url, headers=(("Host", "x"),), body=b"", timeout_ms=10_000)


@on_both_loops
async def test_names_that_nobody_answers_for_hold_up_neither_addresses_nor_localhost() -> None:
    """D-275."""
    with silence() as servers:
        async with client(Lookups(servers.ask).find) as http, receiver() as there:
            waiting = [asyncio.create_task(post(http, f"http://nobody-{number}/")) for number in range(100)]
            for host in ("127.0.0.1", "localhost", "app.localhost"):
                assert isinstance(await post(http, there.url(host=host)), Response)
            assert not any(task.done() for task in waiting)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)


@on_both_loops
async def test_a_name_that_nobody_answers_for_is_given_up_in_time() -> None:
    """D-275."""
    with silence() as servers:
        async with client(Lookups(servers.ask, limit_s=0.01).find) as http:
            assert await post(http, "http://nobody/") == SendFailure(text="name lookup timed out: nobody")


@on_both_loops
async def test_so_many_threads_ask_and_no_more() -> None:
    """D-275, D-564: a look-up that was given up counts until it ends."""
    with silence() as servers:
        lookups = Lookups(servers.ask, threads=2, slow_threads=3, limit_s=0.05, slow_s=0)
        for number in range(8):
            with pytest.raises(LookupTimeout):
                await lookups.find(f"nobody-{number}", 80, 0)
        assert len(servers.asked) == 5
        servers.may_answer.set()
        patient = Lookups(servers.ask, threads=2)
        found = await asyncio.gather(*(patient.find(f"later-{number}", 80, 0) for number in range(5)))
        assert [[(each["host"], each["port"]) for each in of_name] for of_name in found] == [[("127.0.0.1", 80)]] * 5


@on_both_loops
async def test_names_that_nobody_answers_for_do_not_hold_up_other_names() -> None:
    """D-564."""
    with silence() as servers:

        def ask(host: str, port: int, family: int) -> Infos:
            return servers.ask(host, port, family) if host.startswith("nobody") else answer(port)

        lookups = Lookups(ask, limit_s=60, slow_s=0.01)
        waiting = [asyncio.create_task(lookups.find(f"nobody-{number}", 80, 0)) for number in range(100)]
        async with asyncio.timeout(10):
            assert [each["host"] for each in await lookups.find("somebody", 80, 0)] == ["127.0.0.1"]
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


@on_both_loops
async def test_an_address_is_looked_up_nowhere() -> None:
    """D-275."""

    def ask(host: str, port: int, family: int) -> Infos:
        raise AssertionError(f"asked for {host}")

    resolver = CheckedResolver(EgressPolicy(), Lookups(ask).find)
    for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        (found,) = await resolver.resolve(host, 80)
        assert (found["host"], found["family"], found["port"]) == (host, family, 80)


@on_both_loops
async def test_what_the_system_knows_is_found() -> None:
    assert "127.0.0.1" in {each["host"] for each in await Lookups().find("127.0.0.1", 80, 0)}
    with pytest.raises(socket.gaierror):
        await Lookups(ask_system).find("x" * 70, 80, 0)
