"""A call of the messaging API: who makes it, and what every handler gets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from starlette.responses import Response

from emulator.api.endpoint import Answer, Opener, Request, Route
from emulator.core.commands import Command
from emulator.core.errors import Forbidden, Unauthenticated
from emulator.core.model.names import AccountId, QueueName
from emulator.core.model.options import Destination, MessageOptions
from emulator.core.record import Record
from emulator.core.replies import Accepted
from emulator.core.rules.limits import check_account_is_active
from emulator.core.rules.options import not_applied_in_a_queue, queue_of_a_run
from emulator.core.state_view import AccountView, StateView
from emulator.wire.control.refused_calls import DeduplicatedPublish
from emulator.wire.credentials import bearer_token
from emulator.wire.dialect import Dialect
from emulator.wire.messaging.mistakes import mistake
from emulator.wire.messaging.options import Unused
from emulator.wire.parts import RequestParts
from emulator.wire.reasons import ONLY_SCHEDULES, dropped, ignored, not_applied
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World

logger = logging.getLogger(__name__)


class MessagingCall(Record, gc=True):
    """A call by an account of a world."""

    request: Request
    dialect: Dialect
    world: World
    account_id: AccountId

    @property
    def parts(self) -> RequestParts:
        return self.request.parts

    @property
    def state(self) -> StateView:
        return self.world.state

    @property
    def owner(self) -> AccountView:
        """The state of the account that calls."""
        return self.world.state.accounts[self.account_id]

    @property
    def name(self) -> str:
        """The path parameter that names what the call is about."""
        return self.request.path_parameters["name"]

    async def carry_out(self, command: Command[object]) -> Response:
        """Submit a command whose reply is not shown; the answer is empty."""
        await self.world.submit(command)
        return Answer()

    def warn_of_ignored_options(
        self, destination: Destination, options: MessageOptions, queue: QueueName | None, *, keeps_delay: bool = False
    ) -> None:
        """Log the options that a queue does not apply: the answer does not tell of them (D-021)."""
        given = not_applied_in_a_queue(options, queue, keeps_delay=keeps_delay)
        if given:
            names = [self.dialect.rename_field_at_fault(name) for name in given]
            logger.warning("%s (to %s)", not_applied(names), destination.text)
        self.warn_of_unused_queue(destination, queue_of_a_run(options, queue))

    def warn_of_unused_queue(self, destination: Destination, queue: QueueName | None) -> None:
        """Log the queue that is named for a run: the answer does not tell of it (D-325)."""
        if queue is not None:
            logger.warning("queue %s is not applied: runs are in no queue (to %s)", queue, destination.text)

    def warn_of_ignored(self, names: Sequence[str], why: str) -> None:
        """Log the options that mean nothing on this call: the answer does not tell of them."""
        if names:
            logger.warning("%s (%s %s)", ignored(names, why), self.parts.method, self.parts.path)

    def note_deduplicated(self, accepted: Accepted) -> None:
        """Keep what a publish did not make: no message and no event tells of it (D-332)."""
        for each in accepted.messages:
            if each.deduplicated:
                at_ms = self.world.clock.now_ms
                publish = DeduplicatedPublish(at_ms=at_ms, message_id=each.message_id, url=each.url)
                self.world.refused_calls.add_deduplicated(publish)

    def tell_of_unused(self, unused: Unused) -> None:
        """Log what the request gives in vain: the answer does not tell of it (D-074, D-075)."""
        if unused.unknown:
            warn_of_mistakes(self.world, self.dialect, unused.unknown)
        self.warn_of_ignored(unused.ignored, ONLY_SCHEDULES)
        if unused.dropped:
            logger.debug("%s (%s %s)", dropped(unused.dropped), self.parts.method, self.parts.path)


class Policy(Record):
    """Who may call an operation, and how often."""

    # Whether the read-only token may call it (D-053).
    read_only_token: bool = False
    # Whether it counts against the limit of calls a second; those that do not are limited by the day (D-032).
    burst_limit: bool = True


READ = Policy(read_only_token=True)
WRITE = Policy()
# Whoever has a signing key can make requests that receivers believe, which is no reading (D-053).
KEYS = Policy()
PUBLISH = Policy(burst_limit=False)

# A client that makes up names must not fill the memory.
_MOST_NAMES = 10_000


def warn_of_mistakes(world: World, dialect: Dialect, names: Iterable[str]) -> None:
    """Log the names that are probably mistaken for options, each once for a world (D-335)."""
    seen = world.seen_names
    for name in names:
        if name in seen:
            continue
        if len(seen) >= _MOST_NAMES:
            seen.clear()
        seen.add(name)
        text = mistake(name.lower(), dialect)
        if text is not None:
            logger.warning("%s (world %s)", text, world.id, extra={"field": name, "world": world.id})


MessagingRoute: TypeAlias = Route[MessagingCall, Policy]


def opener(worlds: Worlds, policies: Mapping[str, Policy]) -> Opener[MessagingCall]:
    """What makes a call of a request to one path, whose operations have these policies by method."""
    dialect = worlds.dialect

    async def open_call(request: Request) -> MessagingCall:
        policy = policies[request.parts.method]
        token = bearer_token(request.parts, dialect)
        caller = None if token is None else worlds.by_token(token)
        if caller is None:
            raise Unauthenticated("unable to authenticate: invalid token")
        if caller.is_read_only and not policy.read_only_token:
            raise Forbidden(
                "the read-only token cannot publish, create or change anything, and does not read signing keys"
            )
        world, account_id = caller.world, caller.account_id
        seen = world.seen_names
        for name, _ in request.parts.headers:
            if name not in seen:
                warn_of_mistakes(world, dialect, (name,))
        if request.parts.query:
            warn_of_mistakes(world, dialect, (name for name, _ in request.parts.query))
        check_account_is_active(world.state.accounts[account_id].account)
        if policy.burst_limit:
            # What has come due comes first. For a publish, submitting it sees to that.
            await world.current_state()
            world.bursts.count(account_id)
        return MessagingCall(request=request, dialect=dialect, world=world, account_id=account_id)

    return open_call
