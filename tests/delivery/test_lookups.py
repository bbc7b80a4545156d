"""Look-ups of names: bounded in number and time, and in nobody's way."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from emulator.core.model.answers import Response
from emulator.core.model.options import Method
from emulator.delivery.egress import CheckedResolver, EgressPolicy, look_up_with
from emulator.delivery.http import Failure, HttpClient
from emulator.delivery.lookups import Infos, Lookups, LookupTimeout, ask_system
from tests.delivery.conftest import Run
from tests.delivery.receivers import receiver


class Silence:
    """Name servers that do not answer before they are told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = threading.Event()

    def ask(self, host: str, port: int, family: int) -> Infos:
        self.asked.append(host)
        self.may_answer.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


@contextmanager
def silence() -> Iterator[Silence]:
    found = Silence()
    try:
        yield found
    finally:
        found.may_answer.set()


async def post(http: HttpClient, url: str) -> Response | Failure:
    return await http.exchange(method=Method.POST, url=url, headers=(("Host", "x"),), body=b"", timeout_ms=10_000)


def test_names_that_nobody_answers_for_hold_up_neither_addresses_nor_localhost(run: Run) -> None:
    """D-275."""

    async def scenario() -> None:
        with silence() as servers:
            resolver = CheckedResolver(EgressPolicy(), look_up_with(Lookups(servers.ask)))
            http = HttpClient(resolver)
            waiting = [asyncio.create_task(post(http, f"http://nobody-{number}/")) for number in range(100)]
            async with receiver() as there:
                for host in ("127.0.0.1", "localhost", "app.localhost"):
                    assert isinstance(await post(http, there.url(host=host)), Response)
            assert not any(task.done() for task in waiting)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            await http.close()

    run(scenario())


def test_a_name_that_nobody_answers_for_is_given_up_in_time(run: Run) -> None:
    """D-275."""

    async def scenario() -> None:
        with silence() as servers:
            http = HttpClient(CheckedResolver(EgressPolicy(), look_up_with(Lookups(servers.ask, limit_s=0.01))))
            assert await post(http, "http://nobody/") == Failure(text="name lookup timed out: nobody")
            await http.close()

    run(scenario())


def test_so_many_threads_ask_and_no_more(run: Run) -> None:
    """D-275: a look-up that was given up counts until it ends."""

    async def scenario() -> None:
        with silence() as servers:
            lookups = Lookups(servers.ask, threads=2, limit_s=0.01)
            for number in range(5):
                with pytest.raises(LookupTimeout):
                    await lookups.find(f"nobody-{number}", 80, 0)
            assert len(servers.asked) == 2
            servers.may_answer.set()
            patient = Lookups(servers.ask, threads=2)
            found = await asyncio.gather(*(patient.find(f"later-{number}", 80, 0) for number in range(5)))
            assert [infos[0][4] for infos in found] == [("127.0.0.1", 80)] * 5

    run(scenario())


def test_an_address_is_looked_up_nowhere(run: Run) -> None:
    """D-275."""

    def ask(host: str, port: int, family: int) -> Infos:
        raise AssertionError(f"asked for {host}")

    async def scenario() -> None:
        resolver = CheckedResolver(EgressPolicy(), look_up_with(Lookups(ask)))
        for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
            (found,) = await resolver.resolve(host, 80)
            assert (found["host"], found["family"], found["port"]) == (host, family, 80)

    run(scenario())


def test_what_the_system_knows_is_found(run: Run) -> None:
    async def scenario() -> None:
        assert "127.0.0.1" in {infos[4][0] for infos in await Lookups().find("127.0.0.1", 80, 0)}
        with pytest.raises(socket.gaierror):
            await Lookups(ask_system).find("x" * 70, 80, 0)

    run(scenario())
