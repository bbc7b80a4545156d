"""A call of the messaging API: who makes it, what every handler gets; and the signing keys of the account."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace
from starlette.responses import Response

from emulator.api.endpoint import Answer, Gate, Opener, Route, RoutedRequest
from emulator.core.commands import Command, PublishItem, RotateSigningKeys
from emulator.core.errors import Forbidden, Unauthenticated
from emulator.core.model.messages import Accepted
from emulator.core.model.options import Destination, MessageOptions
from emulator.core.record import AccountId, QueueName, Record
from emulator.core.rules.limits import check_account_is_active
from emulator.core.rules.options import not_applied_in_a_queue, queue_of_a_run
from emulator.core.state import AccountView, StateView
from emulator.engine.clock import wall_ms
from emulator.wire.dialect import Dialect, owner_of_token_parameter, publisher_of, publisher_of_key, start_with
from emulator.wire.messaging import views
from emulator.wire.messaging.mistakes import MOST_NAMES, mistake
from emulator.wire.messaging.options import Note
from emulator.wire.parts import RequestParts, bearer_token
from emulator.wire.reasons import ONLY_SCHEDULES, dropped, ignored, is_of_real_time, not_applied, of_real_time
from emulator.worlds.callers import Caller
from emulator.worlds.calls import DeduplicatedPublish
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World

logger = logging.getLogger(__name__)


class MessagingCall(Record, gc=True):
    """A call by an account of a world."""

    request: RoutedRequest
    dialect: Dialect
    world: World
    account_id: AccountId
    is_read_only: bool = False
    # The span of the caller, where spans are asked for (D-730).
    traceparent: str | None = None
    # How many names the world may have seen by the end of the call: the others are not compared.
    most_seen_names: int = 0

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
        """Log the options that a queue does not apply: the answer does not show them (D-021)."""
        given = not_applied_in_a_queue(options, queue, keeps_delay=keeps_delay)
        if given:
            names = [self.dialect.rename_field_at_fault(name) for name in given]
            logger.warning("%s (to %s)", not_applied(names), destination.text)
        self.warn_of_unused_queue(destination, queue_of_a_run(options, queue))

    def traced(self, item: PublishItem) -> PublishItem:
        """The item with the span of the caller, if there is one to keep."""
        return item if self.traceparent is None else replace(item, traceparent=self.traceparent)

    def marked_if_of_real_time(self, item: PublishItem) -> PublishItem:
        """The item; logged and marked if its not-before was probably computed from the real time (D-506)."""
        not_before_ms = item.options.not_before_ms
        if not_before_ms is None:
            return item
        now_ms = self.world.clock.now_ms
        if not is_of_real_time(not_before_ms, now_ms=now_ms, wall_ms=wall_ms()):
            return item
        logger.warning("%s (to %s)", of_real_time(not_before_ms, now_ms=now_ms), item.destination.text)
        return replace(item, is_near_real_time=True)

    def warn_of_unused_queue(self, destination: Destination, queue: QueueName | None) -> None:
        """Log the queue that is named for a run: the answer does not show it (D-325)."""
        if queue is not None:
            logger.warning("queue %s is not applied: runs are in no queue (to %s)", queue, destination.text)

    def warn_of_ignored(self, names: Sequence[str], why: str) -> None:
        """Log the options that mean nothing on this call: the answer does not show them."""
        if names:
            logger.warning("%s (%s %s)", ignored(names, why), self.parts.method, self.parts.path)

    def note_deduplicated(self, accepted: Accepted) -> None:
        """Remember a deduplicated publish; it leaves no message and no event (D-332)."""
        for each in accepted.messages:
            if each.deduplicated:
                at_ms = self.world.clock.now_ms
                publish = DeduplicatedPublish(at_ms=at_ms, message_id=each.message_id, url=each.url)
                self.world.refused_calls.deduplicated.append(publish)

    def log_note(self, note: Note) -> None:
        """Log the options that are ignored: the answer does not show them (D-074, D-075)."""
        if note.unknown:
            warn_of_mistakes(self.world, self.dialect, note.unknown, self.most_seen_names)
        self.warn_of_ignored(note.ignored, ONLY_SCHEDULES)
        if note.dropped:
            logger.debug("%s (%s %s)", dropped(note.dropped), self.parts.method, self.parts.path)


class MessagingPolicy(Record):
    """Who may call an operation, and how often."""

    # Whether the read-only token may call it (D-053).
    read_only_token: bool = False
    # Whether it counts against the limit of calls a second; those that do not are limited by the day (D-032).
    burst_limit: bool = True


READ = MessagingPolicy(read_only_token=True)
WRITE = MessagingPolicy()
# With a signing key one can make requests that receivers believe, which is no reading (D-053).
KEYS = MessagingPolicy()
PUBLISH = MessagingPolicy(burst_limit=False)

# A client that makes up names must not fill the memory.
_MOST_SEEN = 10_000


def warn_of_mistakes(world: World, dialect: Dialect, names: Iterable[str], most_seen: int) -> None:
    """Log the names that are probably mistaken for options, each once for a world (D-335).

    A world that has seen so many is warned of no more (D-810).
    """
    seen = world.seen_names
    for name in names:
        if name in seen:
            continue
        if len(seen) >= most_seen:
            return
        seen.add(name)
        text = mistake(name.lower(), dialect)
        if text is not None:
            logger.warning("%s (world %s)", text, world.id, extra={"field": name, "world": world.id})


MessagingRoute: TypeAlias = Route[MessagingCall, MessagingPolicy]


def _origin_of(worlds: Worlds, token: str | None, parts: RequestParts) -> str:
    """Where an unknown token comes from: a world that has ended (D-491), another dialect (D-529), a page (D-804)."""
    dialect = worlds.dialect
    published = None if token is None else publisher_of(token)
    if published is not None:
        if published != dialect.name:
            return f", which is published by the dialect {published}: {start_with(published)}"
        return f", which is published for local development, and no account here has it: {_SEE_ENV}"
    if token is not None and publisher_of_key(token) is not None:
        own = dialect.environment.token
        return f", which is a signing key that receivers verify with, expected the token ({own}): {_SEE_ENV}"
    for name, _ in parts.query:
        owner = owner_of_token_parameter(name.lower())
        if owner is not None and name.lower() != dialect.token_parameter.lower():
            return f", and {name} is of the dialect {owner}, this server speaks {dialect.name}: {start_with(owner)}"
    world_id = None if token is None else worlds.ended_with(token)
    return "" if world_id is None else f", which is the token of a world that has ended ({world_id})"


_SEE_ENV = "`svc-emulator env` prints the credentials"


def _caller_of(worlds: Worlds, policy: MessagingPolicy, parts: RequestParts) -> Caller:
    """Whose token a request has. Raises: Unauthenticated, Forbidden, InvalidInput."""
    token = bearer_token(parts, worlds.dialect)
    caller = None if token is None else worlds.by_token(token)
    if caller is None:
        raise Unauthenticated(f"unable to authenticate: invalid token{_origin_of(worlds, token, parts)}")
    if caller.is_read_only and not policy.read_only_token:
        raise Forbidden("the read-only token cannot publish, create or change anything, and does not read signing keys")
    return caller


def gate(worlds: Worlds, policies: Mapping[str, MessagingPolicy]) -> Gate:
    """What asks for the token of an operation before its body is received (D-812)."""

    def check(parts: RequestParts) -> None:
        _caller_of(worlds, policies[parts.method], parts)

    return check


def opener(worlds: Worlds, policies: Mapping[str, MessagingPolicy]) -> Opener[MessagingCall]:
    """What makes a call of a request to one path, whose operations have these policies by method."""
    dialect = worlds.dialect

    async def open_call(request: RoutedRequest) -> MessagingCall:
        policy = policies[request.parts.method]
        caller = _caller_of(worlds, policy, request.parts)
        world, account_id = caller.world, caller.account_id
        seen = world.seen_names
        if len(seen) >= _MOST_SEEN:
            seen.clear()
        most_seen = len(seen) + MOST_NAMES
        for name, _ in request.parts.headers:
            if name not in seen:
                warn_of_mistakes(world, dialect, (name,), most_seen)
        if request.parts.query:
            warn_of_mistakes(world, dialect, (name for name, _ in request.parts.query), most_seen)
        check_account_is_active(world.state.accounts[account_id].account)
        if policy.burst_limit:
            # What has come due comes first. For a publish, submitting it sees to that.
            await world.current_state()
            world.bursts.count(account_id)
        traceparent = request.parts.header("traceparent") if worlds.keeps_traceparents else None
        return MessagingCall(
            request=request,
            dialect=dialect,
            world=world,
            account_id=account_id,
            is_read_only=caller.is_read_only,
            traceparent=traceparent,
            most_seen_names=most_seen,
        )

    return open_call


# -- the signing keys, which receivers verify deliveries with (D-058) -------------------------


async def get_signing_keys(call: MessagingCall) -> Response:
    return Answer(views.signing_keys(call.owner.account.signing_keys))


async def rotate_signing_keys(call: MessagingCall) -> Response:
    return Answer(views.signing_keys(await call.world.submit(RotateSigningKeys(account_id=call.account_id))))


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/keys", get_signing_keys, KEYS),
    MessagingRoute("POST", "/v2/keys/rotate", rotate_signing_keys, WRITE),
    MessagingRoute("POST", "/v2/rotate", rotate_signing_keys, WRITE),
)
