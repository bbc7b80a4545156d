"""What holds in a world whatever is done to it, in whatever order.

`FUZZ_MAX_EXAMPLES` is how many runs are tried (the nightly run tries thousands, other ones each night).
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from emulator.core import commands, message_facts, resource_facts
from emulator.core.checkpoint import restore
from emulator.core.commands import Command
from emulator.core.errors import Refused
from emulator.core.model.messages import AttemptOutcome, HoldKind, HoldReason, Message, Phase
from emulator.core.model.resources import ScriptedResponse
from emulator.core.record import FlowKey, MessageId, QueueName, RuleId, ScheduleId
from emulator.core.simulation import Simulation
from emulator.core.state import Fact
from tests.harness.simulations import World, answered, callback, dump, flow, make_account, replay, unreachable

MAX_EXAMPLES = int(os.environ.get("FUZZ_MAX_EXAMPLES", "0"))
URLS = ("https://one.test/a", "https://two.test/b", "https://slow.test/c")
QUEUES = ("one", "many")
KEYS = ("k", "l")
OUTCOMES: tuple[AttemptOutcome, ...] = (
    answered(200),
    answered(500),
    answered(429, headers=(("Retry-After", "3"),)),
    answered(489, headers=(("Svc-NonRetryable-Error", "true"),)),
    unreachable(),
)

flows = st.builds(
    flow,
    st.sampled_from(KEYS),
    parallelism=st.none() | st.integers(1, 3),
    rate=st.none() | st.integers(1, 3),
    period_ms=st.sampled_from((1_000, 10_000)),
)
callbacks = st.none() | st.builds(
    callback,
    st.just("https://back.test/called"),
    max_retries=st.none() | st.just(0),
    flow_control=st.none() | flows,
)
common_options = {
    "max_retries": st.integers(0, 2),
    "retry_delay": st.sampled_from((None, "0", "1000", "4000 * retried")),
    "callback": callbacks,
    "failure_callback": callbacks,
    "labels": st.sampled_from(((), ("red",), ("red", "blue"))),
}
options = st.fixed_dictionaries(
    {
        **common_options,
        "delay_ms": st.sampled_from((None, 0, 1_000, 60_000)),
        "flow_control": st.none() | flows,
        "deduplication_id": st.sampled_from((None, None, "same")),
    }
)


class _Auditor:
    """Reads the facts as they come and checks each against all that came before."""

    def __init__(self, max_global: int) -> None:
        self.messages: dict[MessageId, Message] = {}
        self.ended: dict[MessageId, str] = {}
        self.cancel_requested: set[MessageId] = set()
        self.held_in_queue: set[MessageId] = set()
        # Behind their queues: the flow control key, "" for the account, and the ticket.
        self.held: dict[MessageId, tuple[str, int]] = {}
        self.active: set[MessageId] = set()
        self.active_on_key: dict[FlowKey, set[MessageId]] = defaultdict(set)
        self.limits: dict[FlowKey, resource_facts.FlowKeyChanged] = {}
        self.windows: dict[FlowKey, tuple[int, int]] = {}
        self.max_global = max_global
        self.now_ms = 0

    def read(self, fact: Fact) -> None:
        match fact:
            case resource_facts.ClockMoved():
                assert fact.now_ms > self.now_ms, "the clock went back"
                self.now_ms = fact.now_ms
            case resource_facts.AccountChanged():
                self.max_global = fact.account.max_global_parallelism
            case message_facts.MessageCreated():
                assert fact.message.message_id not in self.messages, "an id was given twice"
                self.messages[fact.message.message_id] = fact.message
            case message_facts.MessageHeld():
                self.held_in_queue.discard(fact.message_id)
                self.held.pop(fact.message_id, None)
                if fact.hold.kind is HoldKind.QUEUE:
                    self.held_in_queue.add(fact.message_id)
                else:
                    self.held[fact.message_id] = (fact.hold.name, fact.ticket)
            case resource_facts.QueueSlotTaken():
                self.held_in_queue.discard(fact.message_id)
                number = self.messages[fact.message_id].number
                waiting = [self.messages[each] for each in self.held_in_queue]
                is_first = all(each.number > number for each in waiting if each.policy.queue == fact.queue)
                assert is_first, "a queue was reordered"
            case message_facts.AttemptStarted():
                self._started(fact)
            case message_facts.AttemptFinished():
                self.active.remove(fact.message_id)
                for active in self.active_on_key.values():
                    active.discard(fact.message_id)
            case message_facts.CancelRequested():
                self.cancel_requested.add(fact.message_id)
            case message_facts.MessageDelivered() | message_facts.MessageFailed() | message_facts.MessageCanceled():
                assert fact.message_id not in self.ended, "a message ended twice"
                self.ended[fact.message_id] = type(fact).__name__
                self.held_in_queue.discard(fact.message_id)
                self.held.pop(fact.message_id, None)
            case resource_facts.FlowKeyChanged():
                self.limits[fact.key] = fact
            case resource_facts.FlowCountersReset():
                self.windows[fact.key] = (fact.at_ms, 0)
                if fact.parallelism:
                    self.active_on_key[fact.key].clear()
            case resource_facts.RateWindowOpened():
                begun_ms, _ = self.windows[fact.key]
                assert fact.at_ms >= begun_ms + self.limits[fact.key].period_ms, "a rate period was cut short"
                self.windows[fact.key] = (fact.at_ms, 0)
            case _:
                pass

    def _started(self, fact: message_facts.AttemptStarted) -> None:
        message = self.messages[fact.message_id]
        assert fact.message_id not in self.ended
        assert fact.message_id not in self.active, "two attempts of one message at a time"
        assert fact.message_id not in self.cancel_requested, "an attempt started after the cancellation"
        assert fact.at_ms >= message.not_before_ms, "an attempt started too early"
        self.held_in_queue.discard(fact.message_id)
        self._assert_nobody_is_overtaken(message)
        self.active.add(fact.message_id)
        assert len(self.active) <= self.max_global
        if message.policy.queue == "one":
            others = [self.messages[each] for each in self.active if self.messages[each].policy.queue == "one"]
            assert others == [message], "two messages of a queue of parallelism 1 were in flight"
        if message.policy.flow_control is not None:
            self._started_under(message.policy.flow_control.key, fact)

    def _assert_nobody_is_overtaken(self, message: Message) -> None:
        """Of those that wait for the account or its key, the message came first, or nobody waits."""
        _, ticket = self.held.pop(message.message_id, ("", None))
        passed = {"", message.policy.flow_key or ""}
        for waiting_id, (name, waiting_ticket) in self.held.items():
            if name in passed:
                is_in_order = ticket is not None and ticket < waiting_ticket
                assert is_in_order, (
                    f"{message.message_id} overtook {waiting_id}, which waits for {name or 'the account'}"
                )

    def _started_under(self, key: FlowKey, fact: message_facts.AttemptStarted) -> None:
        limits = self.limits[key]
        active = self.active_on_key[key]
        active.add(fact.message_id)
        assert not limits.paused, "a paused key let a message through"
        assert limits.parallelism is None or len(active) <= limits.parallelism
        begun_ms, count = self.windows.get(key, (0, 0))
        if begun_ms == 0 or fact.at_ms >= begun_ms + limits.period_ms:
            begun_ms, count = fact.at_ms, 0
        assert limits.rate is None or count < limits.rate
        self.windows[key] = (begun_ms, count + 1)


class Worlds(RuleBasedStateMachine):
    """Anything a client, a receiver or time may do to a world."""

    def __init__(self) -> None:
        super().__init__()
        account = make_account(max_global_parallelism=3, max_dlq_size=4)
        self.world = World(account, answering=None)
        self.auditor = _Auditor(max_global=3)
        self.auditor.now_ms = self.world.began_ms
        self.read = 0
        self.commands: list[Command[Any]] = []
        submit = self.world.submit

        def recording(command: Command[Any]) -> Any:
            self.commands.append(command)
            return submit(command)

        self.world.submit = recording  # type: ignore[method-assign]  # the commands are given again at the end

    @initialize()
    def begin(self) -> None:
        self.world.make_group("group", *URLS[:2])
        self.world.write_queue("many", parallelism=2)

    # -- publishing -------------------------------------------------------------------------

    @rule(url=st.sampled_from(URLS), options=options)
    def publish(self, url: str, options: dict[str, Any]) -> None:
        self.world.publish(url, **options)

    @rule(options=options)
    def publish_to_group(self, options: dict[str, Any]) -> None:
        self.world.publish_to_group("group", **options)

    @rule(queue=st.sampled_from(QUEUES), url=st.sampled_from(URLS), options=options)
    def enqueue(self, queue: str, url: str, options: dict[str, Any]) -> None:
        self.world.enqueue(queue, url, **options)

    @rule(
        destination=st.sampled_from(("group", *URLS)),
        queue=st.sampled_from((None, *QUEUES)),
        delay_ms=st.sampled_from((None, 30_000)),
        options=st.fixed_dictionaries(common_options),
    )
    def write_schedule(
        self, destination: str, queue: str | None, delay_ms: int | None, options: dict[str, Any]
    ) -> None:
        self.world.write_schedule(
            "* * * * *", destination, schedule_id=f"of-{queue}", queue=queue, delay_ms=delay_ms, **options
        )

    @rule(queue=st.sampled_from((None, *QUEUES)), paused=st.booleans())
    def pause_schedule(self, queue: str | None, paused: bool) -> None:
        self._perhaps(
            commands.SetSchedulePaused(
                account_id=self.world.account_id, schedule_id=ScheduleId(f"of-{queue}"), paused=paused
            )
        )

    # -- queues, keys, cancelling -----------------------------------------------------------

    @rule(name=st.sampled_from(QUEUES), paused=st.booleans())
    def write_queue(self, name: str, paused: bool) -> None:
        self.world.write_queue(name, paused=paused)

    @rule(name=st.sampled_from(QUEUES), paused=st.booleans())
    def pause_or_resume_queue(self, name: str, paused: bool) -> None:
        self._perhaps(commands.SetQueuePaused(account_id=self.world.account_id, name=QueueName(name), paused=paused))

    @rule(parallelism=st.integers(1, 3))
    def resize_queue(self, parallelism: int) -> None:
        self.world.write_queue("many", parallelism=parallelism)

    @rule(name=st.sampled_from(QUEUES))
    def delete_queue(self, name: str) -> None:
        self.world.delete_queue(name)

    @rule(key=st.sampled_from(KEYS), paused=st.booleans())
    def pause_key(self, key: str, paused: bool) -> None:
        self._perhaps(commands.SetFlowPaused(account_id=self.world.account_id, key=FlowKey(key), paused=paused))

    @rule(
        key=st.sampled_from(KEYS),
        parallelism=st.none() | st.integers(1, 3),
        rate=st.none() | st.integers(1, 3),
        period_ms=st.sampled_from((None, 5_000)),
    )
    def pin_key(self, key: str, parallelism: int | None, rate: int | None, period_ms: int | None) -> None:
        self.world.pin_key(key, parallelism=parallelism, rate=rate, period_ms=period_ms)

    @rule(key=st.sampled_from(KEYS), parallelism=st.booleans(), rate=st.booleans())
    def unpin_key(self, key: str, parallelism: bool, rate: bool) -> None:
        self._perhaps(
            commands.UnpinFlow(account_id=self.world.account_id, key=FlowKey(key), parallelism=parallelism, rate=rate)
        )

    @rule(key=st.sampled_from(KEYS), parallelism=st.booleans())
    def reset_key(self, key: str, parallelism: bool) -> None:
        self._perhaps(commands.ResetFlow(account_id=self.world.account_id, key=FlowKey(key), parallelism=parallelism))

    @rule(limit=st.integers(1, 4))
    def change_global_parallelism(self, limit: int) -> None:
        self.world.change_account(max_global_parallelism=limit)

    @precondition(lambda self: self.world.simulation.state.messages)
    @rule(data=st.data())
    def cancel_one(self, data: st.DataObject) -> None:
        message_id = data.draw(st.sampled_from(list(self.world.simulation.state.messages)))
        self._perhaps(commands.CancelMessage(account_id=self.world.account_id, message_id=message_id))

    @rule(
        wanted=st.sampled_from(
            ({}, {"queues": ("one",)}, {"labels": ("red",)}, {"flow_keys": ("k",)}, {"hosts": ("two.test",)})
        ),
        count=st.sampled_from((None, 1, 2)),
    )
    def cancel_many(self, wanted: dict[str, Any], count: int | None) -> None:
        self.world.cancel_all(count=count, **wanted)

    # -- dead letters, rules ----------------------------------------------------------------

    @precondition(lambda self: self.world.owner.dead_letters)
    @rule(data=st.data(), flow_control=st.none() | flows)
    def retry_dead_letter(self, data: st.DataObject, flow_control: Any) -> None:
        chosen = data.draw(st.sampled_from(self.world.dead_letter_ids()))
        self.world.retry_dead_letters(chosen, flow_control=flow_control)

    @precondition(lambda self: self.world.owner.dead_letters)
    @rule(data=st.data())
    def delete_dead_letter(self, data: st.DataObject) -> None:
        self.world.delete_dead_letters(data.draw(st.sampled_from(self.world.dead_letter_ids())))

    @rule(latency_ms=st.sampled_from((0, 700, 10_000)), times=st.none() | st.integers(1, 3))
    def add_rule(self, latency_ms: int, times: int | None) -> None:
        self.world.add_rule("https://slow.test/*", responses=(ScriptedResponse(latency_ms=latency_ms),), times=times)

    @precondition(lambda self: self.world.simulation.state.rules)
    @rule(which=st.none() | st.just(0))
    def remove_rules(self, which: int | None) -> None:
        rule_id: RuleId | None = None if which is None else next(iter(self.world.simulation.state.rules))
        self.world.do(commands.RemoveRules(rule_id=rule_id))

    @precondition(lambda self: self.world.simulation.state.rules)
    @rule(data=st.data())
    def order_rules(self, data: st.DataObject) -> None:
        ids = data.draw(st.permutations(list(self.world.simulation.state.rules)))
        self.world.do(commands.OrderRules(rule_ids=tuple(ids)))

    # -- time and outcomes ------------------------------------------------------------------

    @precondition(lambda self: self.world.under_way)
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES))
    def answer(self, data: st.DataObject, outcome: AttemptOutcome) -> None:
        position = data.draw(st.integers(0, len(self.world.under_way) - 1))
        self.world.finish(self.world.under_way[position].message_id, outcome)

    @rule(step_ms=st.sampled_from((1, 500, 3_000, 60_000)))
    def let_time_pass(self, step_ms: int) -> None:
        self.world.run_for(step_ms)

    @precondition(lambda self: self.world.next_due_ms is not None and self.world.next_due_ms < 86_400_000)
    @rule()
    def go_to_the_next_instant(self) -> None:
        self.world.run_until(self.world.next_due_ms or 0)

    @rule()
    def restart(self) -> None:
        """The world is put down and taken up again; the facts must not tell."""
        state = restore(self.world.snapshot()[0])
        assert dump(state) == self.world.snapshot()
        self.world._state = state
        self.world.simulation = Simulation(state)

    def _perhaps(self, command: Command[Any]) -> None:
        before = self.world.snapshot()
        try:
            self.world.do(command)
        except Refused:
            self.commands.pop()
            assert self.world.snapshot() == before, "a refusal changed something"

    # -- what always holds ------------------------------------------------------------------

    @invariant()
    def every_fact_is_allowed(self) -> None:
        recorded = self.world.facts
        while self.read < len(recorded):
            self.auditor.read(recorded[self.read])
            self.read += 1

    @invariant()
    def nobody_waits_without_a_reason(self) -> None:
        owner = self.world.owner
        now_ms = self.world.simulation.state.now_ms
        for progress in self.world.simulation.state.messages.values():
            if progress.phase in (Phase.PENDING, Phase.RETRYING):
                assert progress.due_ms > now_ms
            if progress.dispatch.hold is None:
                assert progress.phase is not Phase.HELD
            elif progress.dispatch.hold.kind is HoldKind.QUEUE:
                queue = owner.queues[QueueName(progress.dispatch.hold.name)]
                assert queue.paused or len(owner.queue_slots[queue.name]) >= queue.parallelism
            elif progress.dispatch.hold.kind is HoldKind.FLOW_CONTROL:
                flow_state = owner.flow_keys[FlowKey(progress.dispatch.hold.name)]
                is_full = flow_state.parallelism is not None and flow_state.active >= flow_state.parallelism
                is_in_window = now_ms < flow_state.window_start_ms + flow_state.period_ms
                is_spent = flow_state.rate is not None and flow_state.rate_count >= flow_state.rate and is_in_window
                assert flow_state.paused or is_full or is_spent
            else:
                assert progress.dispatch.hold.reason is HoldReason.PARALLELISM
                assert owner.active >= owner.account.max_global_parallelism

    @invariant()
    def the_counts_are_those_of_the_messages(self) -> None:
        owner = self.world.owner
        live = self.world.simulation.state.messages.values()
        active = [each for each in live if each.phase is Phase.ACTIVE]
        assert owner.active == len(active)
        for key, flow_state in owner.flow_keys.items():
            assert flow_state.active == len(self.auditor.active_on_key[key])
        for name, lag in owner.queue_lag.items():
            assert lag == sum(1 for each in live if each.message.policy.queue == name)
        assert len(owner.dead_letters) <= 4

    # -- the end ----------------------------------------------------------------------------

    def teardown(self) -> None:
        self._let_everything_end()
        self.every_fact_is_allowed()
        owner = self.world.owner
        assert not self.world.simulation.state.messages
        assert set(self.auditor.ended) == set(self.world.messages)
        assert owner.active == 0
        assert not any(owner.queue_slots.values())
        assert all(flow_state.active == 0 for flow_state in owner.flow_keys.values())
        assert replay(self.world) == self.world.snapshot()
        again = World(self.world.first_account, answering=None)
        for command in self.commands:
            again.submit(command)
        assert again.facts == self.world.facts

    def _let_everything_end(self) -> None:
        for name in list(self.world.owner.queues):
            self.world.write_queue(name, paused=False)
        for key in list(self.world.owner.flow_keys):
            self.world.pause_key(key, paused=False)
        for schedule_id in list(self.world.owner.schedules):
            self.world.do(commands.DeleteSchedule(account_id=self.world.account_id, schedule_id=schedule_id))
        while self.world.under_way or self.world.simulation.state.messages:
            if self.world.under_way:
                self.world.finish(self.world.under_way[0].message_id)
            else:
                assert self.world.next_due_ms is not None, "a message waits for nothing"
                self.world.run_until(self.world.next_due_ms)


Worlds.TestCase.settings = settings(
    max_examples=MAX_EXAMPLES or 100,
    stateful_step_count=50,
    derandomize=not MAX_EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.slow
class TestWorlds(Worlds.TestCase):  # type: ignore[misc,valid-type]  # built by hypothesis
    pass
