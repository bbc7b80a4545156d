"""A world for tests: a simulation with one account, no server and no network.

Attempts are answered by a function, in the order in which they started, as soon as the command
that started them is done; so a test reads as: do something, move the clock, look at the facts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from emulator.core import commands, message_facts
from emulator.core.checkpoint import Checkpoint, capture
from emulator.core.commands import Command, PublishItem
from emulator.core.model.messages import (
    Accepted,
    AttemptOutcome,
    EventState,
    Message,
    MessageFilter,
    PublishedMessage,
    Response,
    Source,
    Via,
    delivered_bytes,
)
from emulator.core.model.options import (
    CallbackOptions,
    DeliveryPolicy,
    Destination,
    DestinationKind,
    FlowControl,
    MessageOptions,
)
from emulator.core.model.resources import Account, DestinationRule, Endpoint, Plan, Queue, ScheduleProgress, SigningKeys
from emulator.core.record import (
    AccountId,
    DeadLetterId,
    FlowKey,
    GroupName,
    Headers,
    MessageId,
    QueueName,
    RuleId,
    ScheduleId,
    world_key,
)
from emulator.core.simulation import Simulation
from emulator.core.state import AccountState, Fact, State, delivered_message

R = TypeVar("R")
F = TypeVar("F", bound=Fact)

SECOND = 1_000
MINUTE = 60_000
HOUR = 3_600_000
DAY = 86_400_000

# Thu, 01 Jan 2026 00:00:00 GMT
EPOCH_MS = 1_767_225_600_000
ACCOUNT_ID = AccountId("99a4c327-31f0-490f-a594-043ade84085a")
CALLER_IP = "203.0.113.7"

Answering = Callable[[Message, int], AttemptOutcome]


# -- accounts ---------------------------------------------------------------------------------


def make_account(plan: Plan = Plan.PAID, **changes: Any) -> Account:
    """An account with the sample numbers of its plan, changed where a test says so."""
    is_free = plan is Plan.FREE
    account = Account(
        customer_id="example@example.com",
        id=ACCOUNT_ID,
        password="ZXhhbXBsZUBleGFtcGxlLmNvbTpuYWJlcg==",
        token="eyJVc2VySUQiOiJhIiwiUGFzc3dvcmQiOiJiIn0=",
        read_only_token="eyJVc2VySUQiOiJhIiwiUGFzc3dvcmQiOiJjIn0=",
        signing_keys=SigningKeys(current="sig_current", next="sig_next"),
        active=True,
        state="active",
        modifying_state="",
        last_plan_upgrade_time=0 if is_free else 1_761_267_303,
        max_message_size=1_048_576 if is_free else 52_428_800,
        max_requests_per_day=1_000 if is_free else 1_000_000,
        max_requests_per_day_hard=1_000 if is_free else 10_000_000,
        max_endpoints_per_topic=100 if is_free else 1_000,
        max_requests_per_second=100 if is_free else 500,
        max_dlq_size=1_000_000 if is_free else 2_147_483_647,
        max_completion_tokens_per_day=10_000,
        max_completion_tokens_per_minute=1_000,
        max_completions_per_day=100,
        max_completions_per_minute=10,
        max_retries=5 if is_free else 20,
        max_topics=1 if is_free else 1_000,
        max_schedules=10 if is_free else 1_000_000,
        max_events_size=10_000 if is_free else 100_000,
        max_dlq_retention_time_milis=259_200_000 if is_free else 2_592_000_000,
        max_delay=604_800 if is_free else 2_147_483_647,
        max_parallelism=2 if is_free else 10,
        max_global_parallelism=10 if is_free else 200,
        max_queues=10 if is_free else 1_000,
        retention=3 if is_free else 7,
        timeout=900 if is_free else 21_600,
        rate_limit=100,
        type=plan,
        reserved_type="" if is_free else "queue_fixed_1m",
        reserved_price=0 if is_free else 180,
        prod_pack_enabled=False,
        metrics_enabled="false",
        enterprise=None,
        region="eu-central-1" if is_free else "us-east-1",
        budget=0,
        created_by="example@example.com",
        creation_time=1_760_423_113,
    )
    return replace(account, **changes)


# -- messages ---------------------------------------------------------------------------------


def make_message(**values: Any) -> Message:
    """A message with these values, those of its policy and source among them."""
    policy, source = (
        {name: values.pop(name) for name in kind.__struct_fields__ if name in values}
        for kind in (DeliveryPolicy, Source)
    )
    return Message(**values, policy=DeliveryPolicy(**policy), source=Source(**source))


def changed(message: Message, **changes: Any) -> Message:
    """A message with these changes, those of its policy and source among them."""
    for name in ("policy", "source"):
        part = getattr(message, name)
        own = {each: changes.pop(each) for each in part.__struct_fields__ if each in changes}
        message = replace(message, **{name: replace(part, **own)})
    return replace(message, **changes)


# -- outcomes ---------------------------------------------------------------------------------


def answered(status: int = 200, *, headers: Headers = (), body: bytes = b"") -> AttemptOutcome:
    """The destination answered with a status; 489 together with its marker asks for no further attempt."""
    return AttemptOutcome(
        response=Response(status=status, headers=headers, body=body),
        error=None,
        via=Via.NETWORK,
        non_retryable=status == 489 and ("Svc-NonRetryable-Error", "true") in headers,
    )


def unreachable(error: str = "connection refused") -> AttemptOutcome:
    return AttemptOutcome(response=None, error=error, via=Via.NETWORK)


def always(outcome: AttemptOutcome) -> Answering:
    return lambda message, number: outcome


DELIVER = always(answered())


def by_url(outcomes: dict[str, AttemptOutcome | Sequence[AttemptOutcome]]) -> Answering:
    """Per URL one outcome, or one for each attempt of which the last repeats; other URLs answer 200."""

    def answer(message: Message, number: int) -> AttemptOutcome:
        found = outcomes.get(message.url)
        if found is None:
            return answered()
        return found if isinstance(found, AttemptOutcome) else found[min(number, len(found)) - 1]

    return answer


# -- options ----------------------------------------------------------------------------------


def flow(key: str, *, parallelism: int | None = None, rate: int | None = None, period_ms: int = SECOND) -> FlowControl:
    return FlowControl(key=FlowKey(key), parallelism=parallelism, rate=rate, period_ms=period_ms)


def callback(url: str, **options: Any) -> CallbackOptions:
    return CallbackOptions(url=url, options=MessageOptions(**options))


def rule(url: str, **changes: Any) -> DestinationRule:
    """A destination rule; its id is given when it is added."""
    return replace(DestinationRule(rule_id=RuleId("unset"), url=url, method=None), **changes)


# -- the world --------------------------------------------------------------------------------


class World:
    """One simulation, everything it ever produced, and a destination that answers.

    `answering` decides every attempt; None leaves attempts under way until `finish`.
    """

    def __init__(
        self,
        account: Account | None = None,
        *,
        answering: Answering | None = DELIVER,
        now_ms: int = EPOCH_MS,
        seed: int = 0,
    ) -> None:
        first = make_account() if account is None else account
        self.first_account = first
        self.account_id = first.id
        self.answering = answering
        self.began_ms = now_ms
        self.facts: list[Fact] = []
        self.messages: dict[MessageId, Message] = {}
        self.under_way: deque[message_facts.AttemptStarted | message_facts.DuplicateStarted] = deque()
        self._state = State(key=world_key(seed), now_ms=now_ms, accounts=[first])
        self.simulation = Simulation(self._state)

    # -- acting -----------------------------------------------------------------------------

    def do(self, command: Command[R]) -> R:
        """Submit a command, then answer what it started, and what that started, in order."""
        reply = self.submit(command)
        while self.answering is not None and self.under_way:
            started = self.under_way.popleft()
            message = self.messages[started.message_id]
            delivered = delivered_message(self._state, message)
            assert len(delivered.body) == delivered_bytes(message)
            outcome = self.answering(delivered, started.number)
            self.submit(
                commands.RecordAttempt(
                    message_id=started.message_id,
                    number=started.number,
                    outcome=outcome,
                    is_duplicate=isinstance(started, message_facts.DuplicateStarted),
                    redelivery=started.redelivery if isinstance(started, message_facts.DuplicateStarted) else 0,
                )
            )
        return reply

    def act(self, kind: Callable[..., Command[R]], **fields: Any) -> R:
        """Do a command of the account."""
        return self.do(kind(account_id=self.account_id, **fields))

    def submit(self, command: Command[R]) -> R:
        """Submit one command and answer nothing."""
        outcome = self.simulation.handle(command)
        for fact in outcome.facts:
            if isinstance(fact, message_facts.MessageCreated):
                self.messages[fact.message.message_id] = fact.message
            elif isinstance(fact, message_facts.AttemptStarted | message_facts.DuplicateStarted):
                self.under_way.append(fact)
        self.facts += outcome.facts
        return outcome.reply

    def finish(self, message_id: MessageId, outcome: AttemptOutcome | None = None) -> None:
        """Let an attempt under way come back."""
        started = next(each for each in self.under_way if each.message_id == message_id)
        self.under_way.remove(started)
        self.do(commands.RecordAttempt(message_id=message_id, number=started.number, outcome=outcome or answered()))

    def run_until(self, offset_ms: int) -> None:
        """Move the clock to an instant counted from the world's beginning, doing everything due on the way."""
        target_ms = self.began_ms + offset_ms
        while (due_ms := self.simulation.state.timers.next_due_ms()) is not None and due_ms <= target_ms:
            self.do(commands.AdvanceClock(to_ms=due_ms))
        self.do(commands.AdvanceClock(to_ms=target_ms))

    def run_for(self, duration_ms: int) -> None:
        self.run_until(self.now_ms + duration_ms)

    def publish(self, url: str, *, body: bytes = b"", caller_ip: str = CALLER_IP, **options: Any) -> MessageId:
        """Publish to a URL."""
        return self.publish_reply(url, body=body, caller_ip=caller_ip, **options).message_id

    def publish_reply(
        self, url: str, *, body: bytes = b"", caller_ip: str = CALLER_IP, **options: Any
    ) -> PublishedMessage:
        reply = self._publish(DestinationKind.URL, url, None, body, caller_ip, options)
        assert not reply.is_group
        (published,) = reply.messages
        return published

    def publish_to_group(self, name: str, *, body: bytes = b"", **options: Any) -> tuple[PublishedMessage, ...]:
        reply = self._publish(DestinationKind.GROUP, name, None, body, CALLER_IP, options)
        assert reply.is_group
        return reply.messages

    def enqueue(self, queue: str, url: str, *, body: bytes = b"", **options: Any) -> MessageId:
        reply = self._publish(DestinationKind.URL, url, QueueName(queue), body, CALLER_IP, options)
        return reply.messages[0].message_id

    def _publish(
        self,
        kind: DestinationKind,
        text: str,
        queue: QueueName | None,
        body: bytes,
        caller_ip: str,
        options: dict[str, Any],
    ) -> Accepted:
        item = PublishItem(
            destination=Destination(kind=kind, text=text),
            body=body,
            options=MessageOptions(**options),
            caller_ip=caller_ip,
            queue=queue,
        )
        return self.act(commands.Publish, item=item).accepted

    def make_group(self, name: str, *endpoints: str | Endpoint) -> None:
        given = tuple(Endpoint(url=each, name=None) if isinstance(each, str) else each for each in endpoints)
        self.act(commands.UpsertEndpoints, name=GroupName(name), endpoints=given)

    def set_group_defaults(self, name: str, **options: Any) -> None:
        defaults = MessageOptions(**options)
        self.act(commands.SetGroupDefaults, name=GroupName(name), headers=(), defaults=defaults)

    def write_queue(self, name: str, *, parallelism: int | None = None, paused: bool | None = None) -> None:
        self.act(commands.UpsertQueue, name=QueueName(name), parallelism=parallelism, paused=paused)

    def delete_queue(self, name: str) -> None:
        self.act(commands.DeleteQueue, name=QueueName(name))

    def write_schedule(
        self, cron: str, destination: str, *, schedule_id: str | None = None, body: bytes = b"", **options: Any
    ) -> ScheduleId:
        kind = DestinationKind.URL if destination.startswith("http") else DestinationKind.GROUP
        return self.act(
            commands.WriteSchedule,
            schedule_id=None if schedule_id is None else ScheduleId(schedule_id),
            cron=cron,
            destination=Destination(kind=kind, text=destination),
            body=body,
            options=MessageOptions(**options),
            caller_ip=CALLER_IP,
        )

    def pause_schedule(self, schedule_id: ScheduleId, *, paused: bool = True) -> None:
        self.act(commands.SetSchedulePaused, schedule_id=schedule_id, paused=paused)

    def cancel(self, message_id: MessageId) -> None:
        self.act(commands.CancelMessage, message_id=message_id)

    def cancel_all(self, *, count: int | None = None, **wanted: Any) -> int:
        return self.act(commands.CancelMessages, wanted=MessageFilter(**wanted), count=count)

    def pause_key(self, key: str, *, paused: bool = True) -> None:
        self.act(commands.SetFlowPaused, key=FlowKey(key), paused=paused)

    def pin_key(
        self, key: str, *, parallelism: int | None = None, rate: int | None = None, period_ms: int | None = None
    ) -> None:
        self.act(commands.PinFlow, key=FlowKey(key), parallelism=parallelism, rate=rate, period_ms=period_ms)

    def unpin_key(self, key: str, *, parallelism: bool = False, rate: bool = False) -> None:
        self.act(commands.UnpinFlow, key=FlowKey(key), parallelism=parallelism, rate=rate)

    def reset_key(self, key: str, *, parallelism: bool = True) -> None:
        self.act(commands.ResetFlow, key=FlowKey(key), parallelism=parallelism)

    def retry_dead_letters(
        self, *ids: DeadLetterId, strict: bool = True, **overrides: Any
    ) -> tuple[PublishedMessage, ...]:
        """Publish dead letters again, each with the message that history keeps for it."""
        failed = {each.dead_letter_id: self.messages[each.message_id] for each in self.all(message_facts.MessageFailed)}
        entries = tuple(commands.DeadLetterContent(dead_letter_id=each, message=failed[each]) for each in ids)
        given = MessageOptions(**overrides)
        return self.act(commands.RetryDeadLetters, entries=entries, overrides=given, strict=strict)

    def delete_dead_letters(self, *ids: DeadLetterId, strict: bool = False) -> int:
        return self.act(commands.DeleteDeadLetters, dead_letter_ids=ids, strict=strict)

    def add_rule(self, url: str, **changes: Any) -> RuleId:
        return self.do(commands.AddRule(rule=rule(url, **changes)))

    def change_account(self, **changes: Any) -> None:
        self.do(commands.ChangeAccount(account=replace(self.owner.account, **changes)))

    # -- looking ----------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The clock, counted from the world's beginning."""
        return self.simulation.state.now_ms - self.began_ms

    @property
    def next_due_ms(self) -> int | None:
        due_ms = self.simulation.state.timers.next_due_ms()
        return None if due_ms is None else due_ms - self.began_ms

    @property
    def owner(self) -> AccountState:
        return self._state.accounts[self.account_id]

    def queue(self, name: str) -> Queue:
        return self.owner.queues[QueueName(name)]

    def schedule(self, schedule_id: str) -> ScheduleProgress:
        return self.owner.schedules[ScheduleId(schedule_id)]

    def all(self, kind: type[F]) -> list[F]:
        """All facts of one kind so far."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def starts(self) -> list[tuple[str, int, int]]:
        """Every attempt that started: URL, number, instant counted from the world's beginning."""
        return [
            (self.messages[each.message_id].url, each.number, each.at_ms - self.began_ms)
            for each in self.all(message_facts.AttemptStarted)
        ]

    def start_times(self, message_id: MessageId | None = None) -> list[int]:
        return [
            each.at_ms - self.began_ms
            for each in self.all(message_facts.AttemptStarted)
            if message_id is None or each.message_id == message_id
        ]

    def urls_started(self) -> list[str]:
        return [url for url, _, _ in self.starts()]

    def sent_to(self, url: str) -> list[Message]:
        """The messages created for a URL, in order."""
        return [message for message in self.messages.values() if message.url == url]

    def events_of(self, message_id: MessageId) -> list[str]:
        """What the event log shows of a message."""
        return [state.value for state in _events(self.facts, message_id)]

    def dead_letter_ids(self) -> list[DeadLetterId]:
        return list(self.owner.dead_letters)

    def snapshot(self) -> StateDump:
        return dump(self._state)


_EVENTS = {
    message_facts.AttemptStarted: EventState.ACTIVE,
    message_facts.RetryScheduled: EventState.RETRY,
    message_facts.MessageDelivered: EventState.DELIVERED,
    message_facts.MessageFailed: EventState.FAILED,
    message_facts.CancelRequested: EventState.CANCEL_REQUESTED,
    message_facts.MessageCanceled: EventState.CANCELED,
}


def _events(recorded: Iterable[Fact], message_id: MessageId) -> Iterable[EventState]:
    for fact in recorded:
        match fact:
            case message_facts.MessageCreated() if fact.message.message_id == message_id:
                yield EventState.CREATED
            case message_facts.AttemptFinished(message_id=subject) if subject == message_id:
                if not (fact.outcome.succeeded or fact.outcome.abandoned):
                    yield EventState.ERROR
            case message_facts.MessageStep(message_id=subject) if subject == message_id and type(fact) in _EVENTS:
                yield _EVENTS[type(fact)]


# -- comparing states -------------------------------------------------------------------------

StateDump = tuple[Checkpoint, tuple[tuple[str, tuple[MessageId, ...]], ...]]


def dump(state: State) -> StateDump:
    """A whole state as plain data that compares by value: every record, timers and lines in order."""
    lines: list[tuple[str, tuple[MessageId, ...]]] = []
    for account_id, owner in state.accounts.items():
        lines += [(f"{account_id}/queue/{name}", tuple(line)) for name, line in owner.queue_wait_lists.items()]
        lines += [(f"{account_id}/key/{key}", tuple(line)) for key, line in owner.flow_wait_lists.items()]
        lines.append((f"{account_id}/global", tuple(owner.global_wait_list)))
        lines += [(f"{account_id}/{origin}", tuple(line)) for origin, line in owner.destination_wait_lists.items()]
    return capture(state), tuple(lines)


def replay(world: World) -> StateDump:
    """What applying the recorded facts again to a fresh state gives."""
    image, _ = world.snapshot()
    fresh = State(key=image.key, now_ms=world.began_ms, accounts=[world.first_account])
    for fact in world.facts:
        fresh.apply(fact)
    return dump(fresh)
