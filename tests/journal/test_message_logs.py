"""What is recorded of single messages: complete, in order, across restarts, and after their end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emulator.core import commands
from emulator.core.model.messages import AttemptOutcome, EventState, Via
from emulator.core.model.options import Method
from emulator.core.model.resources import Disturbance, Fault
from emulator.core.record import MessageId
from emulator.journal.message_logs import MessageLogs
from emulator.queries.history import (
    Annotation,
    AnsweringRule,
    DeliveryQuery,
    Failure,
    LoggedEvent,
    MessageLog,
    RecordedAttempt,
)
from tests.harness.loops import on_loop
from tests.harness.simulations import EPOCH_MS, HOUR, MINUTE, SECOND, answered, by_url, callback, flow
from tests.harness.stores import KeptWorld, kept

URL, DOWN = "https://one.test/a", "https://down.test/b"
ANSWERS = by_url({DOWN: [answered(500), answered(503), answered()]})


async def story_of(world: KeptWorld, message_id: MessageId) -> MessageLog:
    log = await MessageLogs(world.store).find(message_id)
    assert log is not None
    assert log.message == world.messages[message_id]
    return log


def shown(log: MessageLog) -> list[tuple[str, int]]:
    """Every entry by what it is, and its instant counted from the world's beginning."""
    found: list[tuple[str, int]] = []
    for entry in log.entries:
        match entry:
            case LoggedEvent():
                what = entry.state.value
            case RecordedAttempt():
                what = f"attempt {entry.number}"
            case Annotation():
                what = " ".join(filter(None, (entry.kind.value, entry.name, entry.reason)))
        found.append((what, entry.at_ms - EPOCH_MS))
    return found


@on_loop
async def test_a_story_has_every_event_and_attempt_in_order() -> None:
    async with kept(answering=ANSWERS) as world:
        message_id = world.publish(DOWN, retry_delay="1000")
        world.publish(URL)
        world.run_for(HOUR)

        log = await story_of(world, message_id)

        assert shown(log) == [
            ("CREATED", 0),
            ("ACTIVE", 0),
            ("attempt 1", 0),
            ("ERROR", 0),
            ("RETRY", 0),
            ("ACTIVE", 1000),
            ("attempt 2", 1000),
            ("ERROR", 1000),
            ("RETRY", 1000),
            ("ACTIVE", 2000),
            ("attempt 3", 2000),
            ("DELIVERED", 2000),
        ]
        assert [entry.outcome for entry in log.entries if isinstance(entry, RecordedAttempt)] == [
            answered(500),
            answered(503),
            answered(),
        ]
        assert await MessageLogs(world.store).find(MessageId("msg_nobody")) is None
        assert log.entries[4] == LoggedEvent(at_ms=EPOCH_MS, state=EventState.RETRY, next_delivery_ms=EPOCH_MS + SECOND)


@on_loop
async def test_holds_are_recorded_with_what_held() -> None:
    async with kept(answering=ANSWERS) as world:
        world.write_queue("q", paused=True)
        queued = world.enqueue("q", URL)
        world.pin_key("k", parallelism=1)
        world.pause_key("k")
        keyed = world.publish(URL, flow_control=flow("k", parallelism=1))
        world.run_for(MINUTE)
        world.write_queue("q", paused=False)
        world.pause_key("k", paused=False)

        assert shown(await story_of(world, queued)) == [
            ("CREATED", 0),
            ("queue_hold q paused", 0),
            ("ACTIVE", MINUTE),
            ("attempt 1", MINUTE),
            ("DELIVERED", MINUTE),
        ]
        assert shown(await story_of(world, keyed))[1] == ("key_hold k paused", 0)


@on_loop
async def test_a_duplicate_is_recorded_with_its_message_and_its_rule_though_that_is_removed_before() -> None:
    """D-421."""
    async with kept() as world:
        rule_id = world.add_rule(URL, duplicate_ms=MINUTE, forward_to="http://127.0.0.1:3000")
        message_id = world.publish(URL)
        world.do(commands.RemoveRules(rule_id=rule_id))
        world.run_for(HOUR)

        assert shown(await story_of(world, message_id))[-1] == ("duplicate 1 200", MINUTE)
        _, again = (await world.history.deliveries(DeliveryQuery())).items
        assert again.answered_by == AnsweringRule(
            rule_id=rule_id, url="", method=None, forward_to="http://127.0.0.1:3000", fault=None,
            disturbance=Disturbance(is_duplicate=True),
        )  # fmt: skip


@on_loop
async def test_what_becomes_of_a_dead_letter_is_recorded_with_its_message() -> None:
    """And so are its callbacks."""
    async with kept(answering=by_url({DOWN: answered(500)})) as world:
        back: Any = {"callback": callback("https://cb.test/"), "failure_callback": callback("https://fcb.test/")}
        first, second = world.publish(DOWN, max_retries=0, **back), world.publish(DOWN, max_retries=0)
        one, two = world.dead_letter_ids()
        ((told,), (failed,)) = world.sent_to("https://cb.test/"), world.sent_to("https://fcb.test/")
        assert shown(await story_of(world, first))[-3:] == [
            (f"dead_letter {one}", 0),
            (f"failure_callback {failed.message_id}", 0),
            (f"callback {told.message_id}", 0),
        ]
        world.run_for(MINUTE)
        world.delete_dead_letters(one)
        await story_of(world, first)
        (again,) = world.retry_dead_letters(two)

        assert shown(await story_of(world, first))[-1] == ("dead_letter_removed deleted", MINUTE)
        assert shown(await story_of(world, second))[-1] == (f"published_again {again.message_id}", MINUTE)
        assert world.messages[again.message_id].source.from_dead_letter == two


@on_loop
async def test_deduplicated_publishes_are_recorded_with_the_message_they_were_answered_with() -> None:
    """D-213."""
    async with kept(answering=ANSWERS) as world:
        message_id = world.publish(URL, deduplication_id="x")
        world.run_for(MINUTE)
        assert world.publish_reply(URL, deduplication_id="x").deduplicated

        assert shown(await story_of(world, message_id)) == [
            ("CREATED", 0),
            ("deduplication id:x", 0),
            ("ACTIVE", 0),
            ("attempt 1", 0),
            ("DELIVERED", 0),
            ("deduplicated", MINUTE),
        ]
        # The event log and the trace know nothing of it.
        assert [event.state.value for event in await world.events()] == ["CREATED", "ACTIVE", "DELIVERED"]


@on_loop
async def test_an_attempt_is_recorded_with_the_rule_that_decided_it_though_that_is_removed_later() -> None:
    async with kept() as world:
        world.answering = None
        rule_id = world.add_rule("https://one.test/*", method=Method.POST, fault=Fault.RESET)
        message_id = world.publish(URL, max_retries=1, retry_delay="1000")
        world.do(commands.RemoveRules(rule_id=None))
        failed = AttemptOutcome(response=None, error="connection reset", via=Via.RULE)
        world.finish(message_id, failed)
        world.run_for(MINUTE)
        world.finish(message_id)

        tries = [entry for entry in (await story_of(world, message_id)).entries if isinstance(entry, RecordedAttempt)]

        decided = AnsweringRule(
            rule_id=rule_id, url="https://one.test/*", method=Method.POST, forward_to=None, fault=Fault.RESET
        )
        assert [(tried.answered_by, tried.started_ms, tried.at_ms) for tried in tries] == [
            (decided, EPOCH_MS, EPOCH_MS),
            (None, EPOCH_MS + SECOND, EPOCH_MS + MINUTE),
        ]


@on_loop
async def test_a_rule_is_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "world.db"
    async with kept(path) as world:
        world.answering = None
        rule_id = world.add_rule(URL, fault=Fault.DNS)
        message_id = world.publish(URL, max_retries=0)
    async with kept(path) as world:
        world.submit(
            commands.RecordAttempt(
                message_id=message_id,
                number=1,
                outcome=AttemptOutcome(response=None, error="unknown host", via=Via.RULE),
            )
        )
        log = await MessageLogs(world.store).find(message_id)
        assert log is not None
        (tried,) = (entry for entry in log.entries if isinstance(entry, RecordedAttempt))
        assert tried.answered_by is not None
        assert tried.answered_by.rule_id == rule_id


@on_loop
async def test_the_last_failure_of_each_message_is_found() -> None:
    async with kept(answering=by_url({DOWN: [answered(500), answered(503)], URL: answered(404)})) as world:
        twice = world.publish(DOWN, retry_delay="1000")
        once = world.publish(URL, retry_delay="3600000")
        fine = world.publish("https://fine.test/")
        world.run_for(1_500)
        numbers = [world.messages[each].number for each in (twice, once, fine)]

        assert await MessageLogs(world.store).last_failures(numbers) == {
            twice: Failure(number=2, at_ms=EPOCH_MS + SECOND, outcome=answered(503)),
            once: Failure(number=1, at_ms=EPOCH_MS, outcome=answered(404)),
        }
        assert await MessageLogs(world.store).last_failures([]) == {}


@on_loop
async def test_messages_that_ended_after_an_instant_are_found_in_order() -> None:
    async with kept(answering=by_url({DOWN: answered(500)})) as world:
        stories = MessageLogs(world.store)
        assert await stories.ended_after(0, 10) == []
        ids = []
        for number in range(40):
            url = DOWN if number % 3 == 0 else URL
            ids.append(world.publish(url, max_retries=0))
            world.run_for(SECOND)
        world.cancel(world.publish(URL, delay_ms=HOUR))

        for begin in range(-1, 41):
            found = await stories.ended_after(EPOCH_MS + begin * SECOND, 100)
            assert [each.message_id for each in found][: len(ids) - begin - 1] == ids[begin + 1 :]
            assert all(each.ended_ms > EPOCH_MS + begin * SECOND for each in found)
        assert [each.message_id for each in await stories.ended_after(EPOCH_MS + 4 * SECOND, 3)] == ids[5:8]
        assert await stories.ended_after(EPOCH_MS + 40 * SECOND, 100) == []
