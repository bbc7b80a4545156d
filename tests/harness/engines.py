"""A driver between fakes: a journal that knows what is durable, destinations that are functions, a clock to set."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from emulator.core import commands, message_facts
from emulator.core.errors import WorldBroken
from emulator.core.model.messages import Attempt, AttemptOutcome, Response
from emulator.core.model.options import Destination, DestinationKind, MessageOptions
from emulator.core.record import MessageId, ScheduleId, world_key
from emulator.core.simulation import Simulation
from emulator.core.state import Fact, State
from emulator.delivery.mounts import MountedRequest
from emulator.delivery.transport import Inside, Leaves, Route
from emulator.engine.clock import Anchor, PacedClock
from emulator.engine.driver import Driver
from emulator.engine.limits import Limits
from emulator.wire.urls import origin_of
from tests.harness.simulations import ACCOUNT_ID, CALLER_IP, EPOCH_MS, answered, make_account

Handler = Callable[[Attempt], Awaitable[AttemptOutcome]]


class FakeJournal:
    """Facts in order, and how many of them are durable. `gate`, once closed, holds commits up."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.durable = 0
        self.commits = 0
        self.failing = False
        self.gate = asyncio.Event()
        self.gate.set()

    def append(self, facts: Sequence[Fact]) -> None:
        self.facts += facts

    async def commit(self) -> None:
        if self.failing:
            raise WorldBroken("the disk is full")
        if self.durable == len(self.facts):
            return
        wanted = len(self.facts)
        await asyncio.sleep(0)
        await self.gate.wait()
        self.commits += 1
        self.durable = max(self.durable, wanted)

    async def apply_backpressure(self) -> None:
        if self.failing:
            raise WorldBroken("the disk is full")


async def accept(_: Attempt) -> AttemptOutcome:
    return answered()


async def _mount(request: MountedRequest) -> Response:
    raise AssertionError("the handler answers")


class FakeTransport:
    """Destinations by URL: `inside` answers without leaving, `handlers` do the rest; an unknown one answers 200."""

    def __init__(self, journal: FakeJournal) -> None:
        self.inside: dict[str, AttemptOutcome] = {}
        self.handlers: dict[str, Handler] = {}
        # The URLs whose handlers count as mounted applications.
        self.mounted: set[str] = set()
        # The message number and attempt number of every attempt that was routed.
        self.routed: list[tuple[int, int]] = []
        self.sent: list[str] = []
        self.under_way = 0
        self.most_under_way = 0
        # Whether everything that had happened was durable when each request left.
        self.was_durable: list[bool] = []
        self._journal = journal

    def route(self, attempt: Attempt) -> Route:
        url = attempt.message.url
        self.routed.append((attempt.message.number, attempt.number))
        if url in self.inside:
            return Inside(outcome=self.inside[url])
        return Leaves(url=url, origin=origin_of(url) or "", mount=_mount if url in self.mounted else None)

    async def send(self, attempt: Attempt, route: Leaves) -> AttemptOutcome:
        url = route.url
        self.sent.append(url)
        self.was_durable.append(started(attempt) in self._journal.facts[: self._journal.durable])
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await self.handlers.get(url, accept)(attempt)
        finally:
            self.under_way -= 1


def started(attempt: Attempt) -> message_facts.AttemptStarted:
    return message_facts.AttemptStarted(
        message_id=attempt.message.message_id, number=attempt.number, at_ms=attempt.at_ms, answer=attempt.answer
    )


class FakeClock(PacedClock):
    """A clock whose wall clock stands still until a test sets it, or moves by a step each time it is read."""

    def __init__(self, rate: float) -> None:
        self.rebased: list[int] = []
        self.wall_step_ms = 0
        self._wall_ms = 0
        super().__init__(Anchor(virtual_ms=EPOCH_MS, wall_ms=0, rate=rate), self._read_wall_ms)

    def _read_wall_ms(self) -> int:
        self._wall_ms += self.wall_step_ms
        return self._wall_ms

    def pass_to(self, instant_ms: int) -> None:
        """Let real time pass until it is so many virtual milliseconds after the beginning."""
        self._wall_ms = self.anchor.wall_ms + int((EPOCH_MS + instant_ms - self.anchor.virtual_ms) / self.rate)

    def rebase(self, now_ms: int) -> None:
        self.rebased.append(now_ms - EPOCH_MS)
        super().rebase(now_ms)


class Engine:
    """One driver with everything around it."""

    def __init__(
        self,
        *,
        is_frozen: bool = True,
        rate: float = 1,
        state: State | None = None,
        account: dict[str, Any] | None = None,
        **limits: Any,
    ) -> None:
        self.journal = FakeJournal()
        self.transport = FakeTransport(self.journal)
        self.clock = FakeClock(0 if is_frozen else rate)
        self.world_state = state or State(key=world_key(0), now_ms=EPOCH_MS, accounts=[make_account(**(account or {}))])
        self.driver = Driver(
            Simulation(self.world_state), self.journal, self.transport, self.clock, limits=Limits(**limits)
        )

    async def publish(self, url: str, **options: Any) -> MessageId:
        reply = await self.driver.submit(publish(url, **options))
        return reply.accepted.messages[0].message_id

    async def schedule(self, cron: str, url: str) -> ScheduleId:
        return await self.driver.submit(
            commands.WriteSchedule(
                account_id=ACCOUNT_ID,
                schedule_id=None,
                cron=cron,
                destination=Destination(kind=DestinationKind.URL, text=url),
                body=b"",
                options=MessageOptions(),
                caller_ip=CALLER_IP,
            )
        )

    @property
    def now_ms(self) -> int:
        """The clock, counted from the beginning."""
        return self.driver.state.now_ms - EPOCH_MS

    def finished(self) -> list[tuple[str, int]]:
        """URL and instant of every attempt whose outcome was applied, in that order."""
        urls = {fact.message.message_id: fact.message.url for fact in self.all(message_facts.MessageCreated)}
        return [(urls[fact.message_id], fact.at_ms - EPOCH_MS) for fact in self.all(message_facts.AttemptFinished)]

    def started(self) -> list[tuple[str, int]]:
        """URL and instant of every attempt that started."""
        urls = {fact.message.message_id: fact.message.url for fact in self.all(message_facts.MessageCreated)}
        return [(urls[fact.message_id], fact.at_ms - EPOCH_MS) for fact in self.all(message_facts.AttemptStarted)]

    def all(self, kind: type[Any]) -> list[Any]:
        return [fact for fact in self.journal.facts if isinstance(fact, kind)]


def publish(url: str, **options: Any) -> commands.Publish:
    return commands.Publish(
        account_id=ACCOUNT_ID,
        item=commands.PublishItem(
            destination=Destination(kind=DestinationKind.URL, text=url),
            body=b"",
            options=MessageOptions(**options),
            caller_ip=CALLER_IP,
        ),
    )


class Gate:
    """A handler that tells when a request has come, and answers when it is opened."""

    def __init__(self, outcome: AttemptOutcome | None = None) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self._outcome = outcome or answered()

    async def __call__(self, _: Attempt) -> AttemptOutcome:
        self.entered.set()
        await self.opened.wait()
        return self._outcome
