"""Destinations that publish to themselves: a loop is held, alone, and what a right test publishes never is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core import commands
from emulator.core.checkpoint import restore
from emulator.core.model.messages import (
    Attempt,
    AttemptOutcome,
    HeldDestination,
    LoopCause,
    Phase,
    destination_origin,
)
from emulator.core.model.options import FlowControl
from emulator.core.record import FlowKey, QueueName, RunId
from emulator.engine.limits import LoopGuard
from tests.harness.engines import Engine, publish
from tests.harness.loops import on_loop
from tests.harness.simulations import (
    ACCOUNT_ID,
    EPOCH_MS,
    HOUR,
    MINUTE,
    SECOND,
    answered,
    callback,
    dump,
)
from tests.harness.workflows import FLOW, WORKFLOW, item, part, step

A, B, C = "http://a.test/hook", "http://b.test/hook", "http://c.test/hook"


def publishing(engine: Engine, at: str, *urls: str, **options: Any) -> None:
    """The application at a URL publishes to these before it answers, each time that it is called."""

    async def receive(_: Attempt) -> AttemptOutcome:
        for url in urls:
            await engine.driver.submit(publish(url, **options))
        return answered()

    engine.transport.handlers[at] = receive


def held(engine: Engine) -> dict[str, HeldDestination]:
    return dict(engine.driver.state.held_destinations)


def waiting(engine: Engine) -> list[str]:
    """The URLs of the messages that wait for a held destination, in their order."""
    messages = engine.driver.state.messages
    lists = [owner.destination_wait_lists for owner in engine.driver.state.accounts.values()]
    return [messages[each].message.url for by_origin in lists for line in by_origin.values() for each in line]


# -- what is a loop ---------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 4])
@on_loop
async def test_a_destination_that_publishes_to_itself_is_held_alone_and_the_advance_goes_on(concurrency: int) -> None:
    """D-785."""
    engine = Engine(max_attempts_per_instant=10, concurrency=concurrency)
    publishing(engine, A, A)
    await engine.publish(A, delay_ms=SECOND)
    await engine.publish(B, delay_ms=SECOND)
    await engine.publish(B, delay_ms=2 * SECOND)

    report = await engine.driver.advance.by(MINUTE)

    # The message that was due by itself, and ten that came of it.
    assert engine.transport.sent.count(A) == 11
    assert [url for url, _ in engine.finished()].count(B) == 2
    assert engine.now_ms == MINUTE
    [destination] = report.held
    assert destination.origin == "http://a.test"
    assert (destination.limit, destination.cause, destination.since_ms) == (
        10,
        LoopCause.PUBLISHED,
        EPOCH_MS + SECOND,
    )
    assert destination.why == (
        "held: http://a.test published to itself more than 10 times at this instant, 2026-01-01T00:00:01Z"
    )
    assert engine.driver.state.messages[destination.message_id].phase is Phase.HELD


@on_loop
async def test_messages_are_counted_over_advances_and_the_hold_outlasts_instants() -> None:
    """D-786."""
    engine = Engine(max_attempts_per_instant=10)
    publishing(engine, A, A)
    await engine.publish(A, delay_ms=SECOND)

    while not held(engine):
        assert (await engine.driver.advance.to(EPOCH_MS + SECOND, max_deliveries=3)).deliveries <= 3
    # Between two of the calls attempts leave beside each other.
    sent = len(engine.transport.sent)
    assert 11 <= sent <= 33

    await engine.publish(A)
    report = await engine.driver.advance.by(HOUR)
    await engine.publish("http://a.test/other", delay_ms=SECOND)
    await engine.driver.advance.by(HOUR)

    assert len(engine.transport.sent) == sent
    assert waiting(engine) == [A, A, "http://a.test/other"]
    assert len(report.held) == 1


@on_loop
async def test_a_loop_is_held_without_an_advance_and_what_is_published_elsewhere_leaves() -> None:
    engine = Engine(max_attempts_per_instant=5)
    publishing(engine, A, A)

    await engine.publish(A)
    await engine.driver.settle()

    # Each leaves beside its publisher, so two or three of them are one step of the chain.
    assert 6 <= len(engine.transport.sent) <= 18
    assert held(engine).keys() == {"http://a.test"}
    await engine.publish(B)
    await engine.driver.settle()
    assert engine.transport.sent[-1] == B
    assert engine.driver.outbox.in_flight == 0


@pytest.mark.parametrize("inside", [False, True], ids=["called", "captured"])
@on_loop
async def test_a_callback_loop_holds_the_application_that_publishes(inside: bool) -> None:
    """The callback of a message to B is A, which publishes to B with itself as the callback."""
    engine = Engine(max_attempts_per_instant=20)
    if inside:
        engine.transport.inside[B] = answered()
    publishing(engine, A, B, callback=callback(A))
    await engine.publish(B, callback=callback(A), delay_ms=SECOND)

    report = await engine.driver.advance.by(MINUTE)

    assert [each.origin for each in report.held] == ["http://a.test"]
    assert engine.transport.sent.count(A) == 21
    assert engine.now_ms == MINUTE


@on_loop
async def test_two_destinations_that_publish_to_each_other_are_a_loop() -> None:
    engine = Engine(max_attempts_per_instant=10)
    publishing(engine, A, B)
    publishing(engine, B, A)
    await engine.publish(A, delay_ms=SECOND)

    report = await engine.driver.advance.by(MINUTE)

    assert len(report.held) == 1
    assert 20 <= len(engine.transport.sent) <= 24


@on_loop
async def test_a_loop_that_doubles_is_held_with_all_that_has_not_left() -> None:
    """It is long before it is deep. What had started and not left waits too, each place free for others."""
    engine = Engine(max_attempts_per_instant=10, account={"max_global_parallelism": 30})
    publishing(engine, A, A, A)
    await engine.publish(A, delay_ms=SECOND)
    await engine.publish(B, delay_ms=2 * SECOND)

    report = await engine.driver.advance.by(MINUTE)

    assert [each.limit for each in report.held] == [100]
    assert engine.transport.sent.count(A) < 100
    assert engine.transport.sent[-1] == B
    owner = engine.driver.state.accounts[ACCOUNT_ID]
    assert (owner.active, len(owner.global_wait_list)) == (0, 0)
    assert len(waiting(engine)) == len(engine.driver.state.messages)
    assert engine.driver.outbox.in_flight == 0


@pytest.mark.parametrize(
    "options",
    [
        {"queue": QueueName("line")},
        {"flow_control": FlowControl(key=FlowKey("k"), parallelism=4, rate=None, period_ms=1_000)},
    ],
)
@on_loop
async def test_what_is_withdrawn_gives_back_its_places(options: dict[str, Any]) -> None:
    engine = Engine(max_attempts_per_instant=10)
    await engine.driver.submit(
        commands.UpsertQueue(account_id=ACCOUNT_ID, name=QueueName("line"), parallelism=4, paused=False)
    )
    publishing(engine, A, A, A, A, **options)
    await engine.publish(A, delay_ms=SECOND)
    await engine.publish(B, delay_ms=2 * SECOND, **{**options, "queue": None})

    [destination] = (await engine.driver.advance.by(MINUTE)).held

    owner = engine.driver.state.accounts[ACCOUNT_ID]
    assert engine.transport.sent[-1] == B
    assert (owner.active, list(owner.queue_slots[QueueName("line")])) == (0, [])
    assert all(flow.active == 0 for flow in owner.flow_keys.values())
    live = len(engine.driver.state.messages)
    assert len(waiting(engine)) == live > 50

    # The application is mended: all messages leave but that one, and everything ends.
    del engine.transport.handlers[A]
    await engine.driver.submit(commands.CancelMessage(account_id=ACCOUNT_ID, message_id=destination.message_id))
    await engine.driver.settle()
    assert not engine.driver.state.messages
    assert (owner.active, owner.queue_slots[QueueName("line")], owner.queue_lag[QueueName("line")]) == (0, {}, 0)
    assert all(flow.active == 0 for flow in owner.flow_keys.values())


@on_loop
async def test_what_was_canceled_before_it_left_ends_although_its_destination_is_held() -> None:
    """D-780."""
    engine = Engine(max_attempts_per_instant=0)
    await engine.publish(A, delay_ms=SECOND)
    waiting_id = await engine.publish(A, delay_ms=SECOND)

    async def receive(_: Attempt) -> AttemptOutcome:
        assert engine.driver.state.messages[waiting_id].phase is Phase.ACTIVE
        await engine.driver.submit(commands.CancelMessage(account_id=ACCOUNT_ID, message_id=waiting_id))
        await engine.publish(A)
        return answered()

    engine.transport.handlers[A] = receive
    report = await engine.driver.advance.by(MINUTE)

    assert len(report.held) == 1
    assert engine.transport.sent == [A]
    assert waiting_id not in engine.driver.state.messages


@on_loop
async def test_a_message_that_is_retried_without_delay_or_end_is_held() -> None:
    engine = Engine(max_attempts_per_instant=10, account={"max_retries": 1_000_000})

    async def fail(_: Attempt) -> AttemptOutcome:
        return replace(answered(), response=None, error="down")

    engine.transport.handlers[A] = fail
    await engine.publish(A, delay_ms=SECOND, max_retries=1_000_000, retry_delay="0")

    report = await engine.driver.advance.by(MINUTE)

    assert len(engine.transport.sent) == 1_010
    [destination] = report.held
    assert destination.why.startswith("held: http://a.test was retried without a delay more than 10 times at this inst")


@on_loop
async def test_a_loop_with_a_delay_is_none() -> None:
    engine = Engine(max_attempts_per_instant=5)
    publishing(engine, A, A, delay_ms=SECOND)
    await engine.publish(A)

    report = await engine.driver.advance.by(MINUTE)

    assert (report.deliveries, report.held) == (60, ())


# -- what is none -----------------------------------------------------------------------------


@on_loop
async def test_what_is_published_side_by_side_is_no_loop() -> None:
    """D-785: 2,000 messages from outside, one call after another, while the first are still in flight."""
    engine = Engine(settle_s=0)

    async def answer_later(_: Attempt) -> AttemptOutcome:
        for _turn in range(20):
            await asyncio.sleep(0)
        return answered()

    engine.transport.handlers[A] = answer_later

    for _ in range(2_000):
        await engine.publish(A)
    await engine.driver.settle()

    assert not held(engine)
    assert len(engine.finished()) == 2_000


@pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen", "running"])
@on_loop
async def test_what_sixteen_callers_publish_is_no_loop(is_frozen: bool) -> None:
    engine = Engine(is_frozen=is_frozen)

    async def answer_later(_: Attempt) -> AttemptOutcome:
        await asyncio.sleep(0)
        return answered()

    engine.transport.handlers[A] = answer_later

    async def call() -> None:
        for _ in range(125):
            await engine.publish(A)

    await asyncio.gather(*(call() for _ in range(16)))
    await engine.driver.settle()

    assert not held(engine)
    assert len(engine.finished()) == 2_000


@on_loop
async def test_what_a_handler_publishes_for_each_of_its_users_is_no_loop() -> None:
    """A cron handler publishes 150 messages to its own application, each of which publishes two more in a row."""
    engine = Engine(max_attempts_per_instant=100)
    first, second, third = (f"http://a.test/{name}" for name in ("users", "mail", "done"))
    publishing(engine, A, *([first] * 150))
    publishing(engine, first, second)
    publishing(engine, second, third)
    await engine.publish(A, delay_ms=SECOND)

    report = await engine.driver.advance.by(MINUTE)

    assert (report.deliveries, report.held) == (1 + 3 * 150, ())


@on_loop
async def test_steps_of_a_run_are_no_loop() -> None:
    """A run has a maximum of steps; the application publishes each while it is called."""
    engine = Engine(max_attempts_per_instant=5)
    calls = 0

    async def receive(_: Attempt) -> AttemptOutcome:
        nonlocal calls
        calls += 1
        if calls <= 60:
            await engine.driver.submit(
                commands.Publish(account_id=ACCOUNT_ID, item=item(body=step(calls), workflow=part()))
            )
        return WORKFLOW

    engine.transport.handlers[FLOW] = receive
    begin = item(workflow=part(is_init=True, url=FLOW), delay_ms=SECOND)
    await engine.driver.submit(commands.Publish(account_id=ACCOUNT_ID, item=begin))

    report = await engine.driver.advance.by(MINUTE)

    assert (report.deliveries, report.held) == (61, ())


@on_loop
async def test_runs_that_begin_each_other_are_a_loop() -> None:
    engine = Engine(max_attempts_per_instant=5)

    async def receive(attempt: Attempt) -> AttemptOutcome:
        number = attempt.message.number
        begin = item(workflow=part(RunId(f"wfr_{number}"), is_init=True, url=FLOW))
        await engine.driver.submit(commands.Publish(account_id=ACCOUNT_ID, item=begin))
        return WORKFLOW

    engine.transport.handlers[FLOW] = receive
    await engine.driver.submit(
        commands.Publish(account_id=ACCOUNT_ID, item=item(workflow=part(is_init=True, url=FLOW), delay_ms=SECOND))
    )

    report = await engine.driver.advance.by(MINUTE)

    assert [each.origin for each in report.held] == ["https://app.test"]
    assert report.to_ms == EPOCH_MS + MINUTE


@on_loop
async def test_messages_and_their_callbacks_are_no_loop() -> None:
    engine = Engine(max_attempts_per_instant=5)
    for _ in range(20):
        await engine.publish(A, delay_ms=SECOND, callback=callback(A))
    for _ in range(20):
        await engine.publish(A, callback=callback(A))

    report = await engine.driver.advance.by(SECOND)

    assert (report.deliveries, report.held) == (40, ())
    assert len(engine.transport.sent) == 80


@on_loop
async def test_schedules_of_one_minute_and_a_line_that_begins_to_move_are_no_loop() -> None:
    engine = Engine(max_attempts_per_instant=5)
    line = QueueName("line")
    await engine.driver.submit(commands.UpsertQueue(account_id=ACCOUNT_ID, name=line, parallelism=1, paused=True))
    for _ in range(20):
        await engine.schedule("* * * * *", A)
        await engine.publish(A, queue=line)

    await engine.driver.submit(commands.SetQueuePaused(account_id=ACCOUNT_ID, name=line, paused=False))
    await engine.driver.settle()
    report = await engine.driver.advance.by(MINUTE)

    assert (report.schedules_fired, report.deliveries, report.held) == (20, 20, ())
    assert len(engine.finished()) == 40


@on_loop
async def test_another_instant_is_counted_anew() -> None:
    engine = Engine(max_attempts_per_instant=10)
    calls = 0

    async def receive(_: Attempt) -> AttemptOutcome:
        nonlocal calls
        calls += 1
        await engine.driver.submit(publish(A, delay_ms=0 if calls % 9 else SECOND))
        return answered()

    engine.transport.handlers[A] = receive
    await engine.publish(A, delay_ms=SECOND)

    report = await engine.driver.advance.by(MINUTE)

    assert (report.deliveries, report.held) == (60 * 9, ())


@on_loop
async def test_a_loop_over_many_destinations_is_held() -> None:
    """One for each tenant, say, and each publishes to the next."""
    engine = Engine(max_attempts_per_instant=3)
    urls = [f"http://tenant-{number}.test/hook" for number in range(200)]
    for url, following in zip(urls, [*urls[1:], urls[0]], strict=True):
        publishing(engine, url, following)
    await engine.publish(urls[0], delay_ms=SECOND)

    report = await engine.driver.advance.by(MINUTE)

    assert len(report.held) == 1
    assert len(engine.transport.sent) <= 200 * 5


@pytest.mark.parametrize(
    ("rate", "steps_ms", "is_held"),
    [
        (1, (0, 400, 999), True),
        (1, (0, 999, 1000), False),
        (60, (0, 24_000, 59_999), True),
        (60, (0, 999, 60_000), False),
    ],
)
@on_loop
async def test_where_time_passes_a_second_of_real_time_is_one_instant(
    rate: float, steps_ms: tuple[int, ...], is_held: bool
) -> None:
    """D-785: whatever the clock's rate."""
    engine = Engine()
    ids = [await engine.publish(A, delay_ms=HOUR) for _ in range(4)]
    cause, *messages = (engine.driver.state.messages[message_id].message for message_id in ids)
    guard = LoopGuard(2)
    loops = []
    for now_ms, message in zip(steps_ms, messages, strict=True):
        guard.move_to(now_ms, rate=rate)
        loops.append(guard.published(message, {"http://a.test": {cause: cause}}, advancing=False))
        cause = message
    assert [loop is not None for loop in loops] == [False, False, is_held]


# -- being free again -------------------------------------------------------------------------


async def looped(engine: Engine, **options: Any) -> HeldDestination:
    """A destination that is held at the first second, and has been mended since."""
    publishing(engine, A, A, **options)
    await engine.publish(A, delay_ms=SECOND)
    [destination] = (await engine.driver.advance.by(SECOND)).held
    del engine.transport.handlers[A]
    engine.transport.sent.clear()
    return destination


@on_loop
async def test_deleting_the_message_frees_the_destination_and_what_waited_behind_it() -> None:
    """D-786."""
    engine = Engine(max_attempts_per_instant=10)
    destination = await looped(engine)
    behind = await engine.publish("http://a.test/other")
    assert not engine.transport.sent
    assert engine.driver.state.messages[behind].phase is Phase.HELD

    await engine.driver.submit(commands.CancelMessage(account_id=ACCOUNT_ID, message_id=destination.message_id))
    await engine.driver.settle()

    assert not held(engine)
    assert engine.transport.sent == ["http://a.test/other"]
    assert not engine.driver.state.messages


@on_loop
async def test_deleting_what_waits_behind_it_frees_nothing() -> None:
    engine = Engine(max_attempts_per_instant=10)
    await looped(engine)
    behind = await engine.publish("http://a.test/other")

    await engine.driver.submit(commands.CancelMessage(account_id=ACCOUNT_ID, message_id=behind))

    assert held(engine).keys() == {"http://a.test"}
    assert waiting(engine) == [A]


@on_loop
async def test_a_held_message_takes_no_place_of_its_queue() -> None:
    """The queue has one place, and continues with what goes elsewhere."""
    engine = Engine(max_attempts_per_instant=10)
    line = QueueName("line")
    destination = await looped(engine, queue=line)

    await engine.publish(B, queue=line)
    await engine.driver.settle()

    assert engine.transport.sent == [B]
    await engine.driver.submit(commands.CancelMessage(account_id=ACCOUNT_ID, message_id=destination.message_id))
    owner = engine.driver.state.accounts[ACCOUNT_ID]
    assert (owner.queue_slots[line], owner.queue_lag[line]) == ({}, 0)


@pytest.mark.parametrize(("most", "is_free"), [(10, False), (11, True)], ids=["same", "another"])
@on_loop
async def test_a_restart_keeps_the_hold_unless_the_maximum_is_another(most: int, is_free: bool) -> None:
    """D-786."""
    engine = Engine(max_attempts_per_instant=10)
    await looped(engine)

    again = Engine(max_attempts_per_instant=most, state=engine.world_state)
    again.driver.resume()
    await again.driver.settle()

    assert (not held(again)) is is_free
    assert again.transport.sent == ([A] if is_free else [])


@on_loop
async def test_facts_and_checkpoint_have_the_hold() -> None:
    engine = Engine(max_attempts_per_instant=3, account={"max_global_parallelism": 4})
    publishing(engine, A, A, A, A)
    before = dump(engine.world_state)
    await engine.publish(A, delay_ms=SECOND)
    await engine.driver.advance.by(MINUTE)

    assert held(engine)
    replayed = restore(before[0])
    for fact in engine.journal.facts:
        replayed.apply(fact)
    assert dump(replayed) == dump(engine.world_state)
    assert dump(restore(dump(engine.world_state)[0])) == dump(engine.world_state)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://App.test/hook", "https://app.test"),
        ("HTTPS://app.test:443?x=1", "https://app.test"),
        ("http://app.test.:80/", "http://app.test"),
        ("http://app.test:443/", "http://app.test:443"),
        ("http://[::1]:8080/x", "http://[::1]:8080"),
        ("http://[::1]", "http://[::1]"),
    ],
)
def test_a_destination_has_one_spelling(url: str, origin: str) -> None:
    assert destination_origin(url) == origin
