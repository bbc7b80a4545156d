"""Reading history: every filter, both orders, page by page, and what was removed from view."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core import message_facts
from emulator.core.errors import InvalidInput
from emulator.core.model.messages import EventState, Message
from emulator.core.record import AccountId, MessageId
from emulator.journal.history import History
from emulator.queries.history import (
    DeadLetterQuery,
    DeliveryQuery,
    Event,
    EventQuery,
    HistoryFilter,
    Page,
    RecordedDelivery,
)
from tests.harness.loops import on_loop
from tests.harness.simulations import ACCOUNT_ID, EPOCH_MS, HOUR, MINUTE, SECOND, answered, by_url, flow, unreachable
from tests.harness.stores import ALL, KeptWorld, kept

ONE, TWO = "https://one.example.com:8443/a/b?c=d", "https://two.example.com/"
UNENDED = "https://later.example.com/"
DOWN, ODD = "https://down.example.com/", "https://odd.example.com/x?[y]=*"

ANSWERS = by_url({DOWN: unreachable(), TWO: [answered(503, body=b"busy"), answered()], ODD: answered(404)})


def fill(world: KeptWorld) -> None:
    """Messages that differ in everything that can be asked for."""
    world.publish(ONE, labels=("red", "big"), caller_ip="203.0.113.1")
    world.publish(TWO, labels=("blue",), max_retries=1, retry_delay="1000", caller_ip="203.0.113.2")
    world.publish(DOWN, labels=("red",), max_retries=1, retry_delay="2000")
    world.run_for(10 * SECOND)
    world.make_group("g", ONE, DOWN)
    world.publish_to_group("g", max_retries=0)
    world.write_queue("q", parallelism=2)
    world.enqueue("q", ODD, max_retries=0)
    world.publish(ONE, flow_control=flow("k", parallelism=1))
    world.write_schedule("* * * * *", TWO, schedule_id="each-minute")
    world.run_for(3 * MINUTE)
    world.cancel(world.publish(TWO, delay_ms=HOUR))
    world.publish(ODD, max_retries=0, labels=("blue", "red"))
    world.publish(UNENDED, delay_ms=HOUR)


@contextlib.asynccontextmanager
async def filled() -> AsyncIterator[KeptWorld]:
    async with kept(answering=ANSWERS) as world:
        fill(world)
        yield world


def has_not_ended(event: Event) -> bool:
    """One message is delayed, and that of the last firing waits for its retry."""
    message = event.message
    return message.url == UNENDED or (
        message.source.schedule_id is not None and message.created_ms == EPOCH_MS + 3 * MINUTE
    )


# -- the event log ----------------------------------------------------------------------------


def among(value_of: Callable[[Message], object], *wanted: object) -> Callable[[Event], bool]:
    return lambda event: value_of(event.message) in wanted


def between(from_ms: int, to_ms: int) -> Callable[[Event], bool]:
    return lambda event: EPOCH_MS + from_ms <= event.at_ms <= EPOCH_MS + to_ms


def labelled(*labels: str) -> Callable[[Event], bool]:
    return lambda event: not set(labels).isdisjoint(event.message.policy.labels)


ERROR, RETRY, FAILED = EventState.ERROR, EventState.RETRY, EventState.FAILED
FILTERS: dict[str, tuple[dict[str, Any], Callable[[Event], bool]]] = {
    "in progress": ({"in_progress": True}, has_not_ended),
    "in progress or state": (
        {"in_progress": True, "states": (ERROR,)},
        lambda event: has_not_ended(event) or event.state is ERROR,
    ),
    "state": ({"states": (ERROR, RETRY)}, lambda event: event.state in (ERROR, RETRY)),
    "url": ({"urls": (ONE, ODD)}, among(lambda message: message.url, ONE, ODD)),
    "host": ({"hosts": ("one.example.com:8443",)}, among(lambda message: message.url, ONE)),
    "path": ({"paths": ("/a/b", "/x")}, among(lambda message: message.url, ONE, ODD)),
    "group": ({"url_groups": ("g",)}, among(lambda message: message.source.url_group, "g")),
    "schedule": ({"schedule_ids": ("each-minute",)}, among(lambda message: message.source.schedule_id, "each-minute")),
    "queue": ({"queues": ("q",)}, among(lambda message: message.policy.queue, "q")),
    "flow key": ({"flow_keys": ("k",)}, among(lambda message: message.policy.flow_control, flow("k", parallelism=1))),
    "caller": ({"caller_ips": ("203.0.113.1",)}, among(lambda message: message.source.caller_ip, "203.0.113.1")),
    "label": ({"labels": ("red",)}, labelled("red")),
    "either label": ({"labels": ("blue", "big")}, labelled("blue", "big")),
    "from": ({"from_ms": EPOCH_MS + 11 * SECOND}, between(11 * SECOND, HOUR)),
    "to": ({"to_ms": EPOCH_MS + SECOND}, between(0, SECOND)),
    "instant": (
        {"from_ms": EPOCH_MS + 2 * SECOND, "to_ms": EPOCH_MS + 2 * SECOND},
        between(2 * SECOND, 2 * SECOND),
    ),
    "retention": ({"since_ms": EPOCH_MS + MINUTE}, between(MINUTE, HOUR)),
    "two fields": (
        {"urls": (DOWN,), "states": (FAILED,)},
        lambda event: event.message.url == DOWN and event.state is FAILED,
    ),
    "no quotes": ({"urls": ("' OR 1=1 --",)}, lambda event: False),
}


@pytest.mark.parametrize(("changes", "is_meant"), FILTERS.values(), ids=FILTERS.keys())
@on_loop
async def test_events_are_filtered(changes: dict[str, Any], is_meant: Callable[[Event], bool]) -> None:
    async with filled() as world:
        every = await world.events()
        expected = [event for event in every if is_meant(event)]

        page = await world.history.events(replace(ALL, **changes))

        assert list(page.items) == expected
        assert page.cursor is None
        assert bool(expected) == (changes.get("urls") != ("' OR 1=1 --",))


@on_loop
async def test_error_entry_tells_what_the_destination_answered() -> None:
    async with filled() as world:
        states = (ERROR, RETRY)
        busy, retry = (await world.history.events(replace(ALL, urls=(TWO,), states=states, to_ms=EPOCH_MS))).items
        failed = (await world.history.events(replace(ALL, urls=(DOWN,), states=(FAILED,)))).items

    assert busy.error == "destination answered 503"
    assert busy.response is not None
    assert busy.response.body == b"busy"
    assert (busy.next_delivery_ms, retry.next_delivery_ms) == (EPOCH_MS + SECOND, EPOCH_MS + SECOND)
    assert [event.error for event in failed] == ["connection refused"] * 2
    assert all(event.response is None for event in failed)


@on_loop
async def test_plan_keeps_the_newest_events_only() -> None:
    """D-002."""
    async with filled() as world:
        every = await world.events()

        async def newest(count: int, *states: EventState) -> list[Event]:
            return list((await world.history.events(replace(ALL, newest=count, states=states))).items)

        assert await newest(5) == every[-5:]
        assert await newest(10_000) == every
        assert await newest(5, FAILED) == [e for e in every[-5:] if e.state is FAILED]


@on_loop
async def test_events_of_messages_by_id_and_none_of_another_account() -> None:
    async with filled() as world:
        every = await world.events()
        wanted = {event.message.message_id for event in every[:3]}
        found = (await world.history.events(replace(ALL, message_ids=tuple(wanted)))).items
        assert [event for event in every if event.message.message_id in wanted] == list(found)

        other_account = AccountId("somebody-else")

        assert (await world.history.events(replace(ALL, account_id=other_account))).items == ()
        assert (await world.history.dead_letters(DeadLetterQuery(account_id=other_account, count=100))).items == ()
        (message_id, *_) = world.messages
        assert await world.history.ended_message(other_account, message_id) is None


async def pages(ask: Callable[[str | None], Awaitable[Page[Any]]]) -> list[Any]:
    """Everything, page by page."""
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = await ask(cursor)
        found += page.items
        if page.cursor is None:
            return found
        assert page.items
        cursor = page.cursor


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("latest_first", [True, False], ids=["latest first", "oldest first"])
@on_loop
async def test_pages_together_are_the_whole_list(size: int, latest_first: bool) -> None:
    async with filled() as world:
        events = replace(ALL, latest_first=latest_first)
        letters = DeadLetterQuery(account_id=ACCOUNT_ID, count=1000, latest_first=latest_first)
        history = world.history

        assert await pages(lambda cursor: history.events(replace(events, count=size, cursor=cursor))) == list(
            (await history.events(events)).items
        )
        assert await pages(lambda cursor: history.dead_letters(replace(letters, count=size, cursor=cursor))) == list(
            (await history.dead_letters(letters)).items
        )
        assert await pages(lambda cursor: history.deliveries(DeliveryQuery(limit=size, cursor=cursor))) == list(
            (await history.deliveries(DeliveryQuery(limit=1000))).items
        )


@on_loop
async def test_page_goes_on_where_it_stopped_whatever_has_come_since() -> None:
    async with filled() as world:
        before = await world.events()
        first = await world.history.events(replace(ALL, latest_first=True, count=3))
        world.publish(ONE)

        second = await world.history.events(replace(ALL, latest_first=True, cursor=first.cursor))

        assert [*first.items, *second.items] == list(reversed(before))


@pytest.mark.parametrize("cursor", ["", "x", "1-", "-1", "1-x", "1-" + "9" * 19, "१-१", "1-1-1"])
@on_loop
async def test_foreign_cursor_is_refused(cursor: str) -> None:
    async with kept() as world:
        for ask in (
            lambda: world.history.events(replace(ALL, cursor=cursor)),
            lambda: world.history.dead_letters(DeadLetterQuery(account_id=ACCOUNT_ID, count=1, cursor=cursor)),
            lambda: world.history.deliveries(DeliveryQuery(cursor=cursor)),
        ):
            with pytest.raises(InvalidInput) as refusal:
                await ask()
            assert refusal.value.field == "cursor"


# -- dead letters -----------------------------------------------------------------------------


DEAD_FILTERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "what a listing asks for": ({"wanted": HistoryFilter(url="https://d*", label="red", text="DOWN")}, [DOWN]),
    "none": ({}, [DOWN, DOWN, ODD, ODD]),
    "url": ({"urls": (ODD,)}, [ODD, ODD]),
    "queue": ({"queues": ("q",)}, [ODD]),
    "group": ({"url_groups": ("g",)}, [DOWN]),
    "label": ({"labels": ("red",)}, [DOWN, ODD]),
    "status": ({"response_statuses": (404,)}, [ODD, ODD]),
    "no response": ({"response_statuses": (0,)}, [DOWN, DOWN]),
    "from": ({"from_ms": EPOCH_MS + 3 * SECOND}, [DOWN, ODD, ODD]),
    "to": ({"to_ms": EPOCH_MS + 2 * SECOND}, [DOWN]),
    "schedule": ({"schedule_ids": ("each-minute",)}, []),
    "flow key": ({"flow_keys": ("k",)}, []),
    "caller": ({"caller_ips": ("203.0.113.2",)}, []),
}


@pytest.mark.parametrize(("changes", "expected"), DEAD_FILTERS.values(), ids=DEAD_FILTERS.keys())
@on_loop
async def test_dead_letters_are_filtered(changes: dict[str, Any], expected: list[str]) -> None:
    async with filled() as world:
        page = await world.history.dead_letters(DeadLetterQuery(account_id=ACCOUNT_ID, count=100, **changes))

        assert [entry.message.url for entry in page.items] == expected


@on_loop
async def test_dead_letters_by_id_and_by_message() -> None:
    async with filled() as world:
        query = DeadLetterQuery(account_id=ACCOUNT_ID, count=100)
        every = (await world.history.dead_letters(query)).items
        chosen = every[1]

        by_id = await world.history.dead_letters(replace(query, dead_letter_ids=(chosen.dead_letter_id, "0-99")))
        by_message = await world.history.dead_letters(replace(query, message_ids=(chosen.message.message_id,)))

        assert [entry.dead_letter_id for entry in every] == world.dead_letter_ids()
        assert by_id.items == by_message.items == (chosen,)


@on_loop
async def test_removed_dead_letters_are_gone_from_the_list() -> None:
    async with filled() as world:
        world.delete_dead_letters(*world.dead_letter_ids()[:2])
        world.retry_dead_letters(world.dead_letter_ids()[0])

        page = await world.history.dead_letters(DeadLetterQuery(account_id=ACCOUNT_ID, count=100))

        # The message that was published again failed again.
        assert [entry.dead_letter_id for entry in page.items] == world.dead_letter_ids()
        assert [entry.message.url for entry in page.items] == [ODD, ODD]


# -- deliveries -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param(ONE, {ONE}, id="exact"),
        pytest.param("https://one.example.com:8443/a/*", {ONE}, id="glob"),
        pytest.param("*example.com*", {ONE, TWO, DOWN, ODD}, id="everything"),
        pytest.param("https://odd.example.com/x?[y]=*", {ODD}, id="question mark and bracket are literal"),
        pytest.param("https://odd.example.com/?*[y]*", set(), id="question mark is no wildcard"),
        pytest.param("https://one.example.com:844[0-9]/*", set(), id="bracket is no class"),
        pytest.param("HTTPS://ONE*", set(), id="case counts"),
        pytest.param("https://one.example.com:8443/a/b?c=_", set(), id="underscore is literal"),
        pytest.param("https://one%", set(), id="percent is literal"),
    ],
)
@on_loop
async def test_deliveries_by_url(url: str, expected: set[str]) -> None:
    async with filled() as world:
        every = (await world.history.deliveries(DeliveryQuery(limit=1000))).items

        found = (await world.history.deliveries(DeliveryQuery(limit=1000, wanted=HistoryFilter(url=url)))).items

        assert found == tuple(each for each in every if each.message.url in expected)
        assert {each.message.url for each in found} == expected


@on_loop
async def test_deliveries_by_message_and_by_outcome() -> None:
    async with filled() as world:
        every = (await world.history.deliveries(DeliveryQuery(limit=1000))).items
        message_id = next(each.message.message_id for each in every if each.message.url == TWO)

        for outcome, attempts in ((None, [1, 2]), ("failed", [1]), ("succeeded", [2])):
            found = (await world.history.deliveries(DeliveryQuery(message_id=message_id, outcome=outcome))).items
            assert [each.attempt for each in found] == attempts


@on_loop
async def test_cleared_deliveries_are_gone_and_the_event_log_and_trace_are_not(tmp_path: Path) -> None:
    async with kept(tmp_path / "w.db", ANSWERS) as world:
        fill(world)
        events, trace = await world.events(), await world.trace()

        await world.history.clear_deliveries()
        world.publish(ONE)

        left = (await world.history.deliveries(DeliveryQuery())).items
        assert [each.message.url for each in left] == [ONE]
        assert (await world.events())[: len(events)] == events
        assert (await world.trace())[: len(trace)] == trace
    async with kept(tmp_path / "w.db", ANSWERS) as again:
        assert [each.message.url for each in (await again.history.deliveries(DeliveryQuery())).items] == [ONE]


# -- messages and the trace -------------------------------------------------------------------


@on_loop
async def test_ended_message_is_found_with_its_end() -> None:
    async with kept(answering=ANSWERS) as world:
        delivered = world.publish(ONE, body=b"x" * 10_000, delay_ms=SECOND)
        live = world.publish(ONE, delay_ms=HOUR)
        failed = world.publish(DOWN, max_retries=0)
        canceled = world.publish(ONE, delay_ms=HOUR)
        world.run_for(MINUTE)
        world.cancel(canceled)

        ended: dict[MessageId, int] = {}
        for message_id in (delivered, live, failed, canceled, MessageId("msg_none")):
            found = await world.history.ended_message(ACCOUNT_ID, message_id)
            if found is not None:
                assert found.message == world.messages[message_id]
                ended[message_id] = found.ended_ms - EPOCH_MS

    assert ended == {delivered: SECOND, failed: 0, canceled: MINUTE}


@on_loop
async def test_event_log_journal_and_trace_show_what_the_facts_say() -> None:
    async with filled() as world:
        events, deliveries = await world.events(), (await world.history.deliveries(DeliveryQuery(limit=1000))).items
        ids = [created.message.message_id for created in world.all(message_facts.MessageCreated)]
        shown: dict[MessageId, list[str]] = {message_id: [] for message_id in ids}
        for event in events:
            shown[event.message.message_id].append(event.state.value)
        assert shown == {message_id: world.events_of(message_id) for message_id in ids}
        assert [(each.message.message_id, each.attempt, each.at_ms, each.outcome) for each in deliveries] == [
            (fact.message_id, fact.number, fact.started_ms, fact.outcome)
            for fact in world.all(message_facts.AttemptFinished)
        ]

        trace = await world.trace()
        assert [each.seq for each in trace] == list(range(1, len(trace) + 1))
        assert [each for each in trace if isinstance(each, Event)] == events
        assert [each for each in trace if isinstance(each, RecordedDelivery)] == list(deliveries)
        for step in (1, 2, len(trace), len(trace) - 1):
            assert [entry async for entry in world.history.trace(step)] == trace
        for size in (1, 7, 10_000):
            found: list[Event | RecordedDelivery] = []
            while piece := await world.history.since(found[-1].seq if found else 0, size):
                assert len(piece) <= size
                found += piece
            assert found == trace


def test_query_has_a_condition_for_every_field() -> None:
    """A field of a query that no condition reads would be accepted and do nothing."""
    tested = {name for changes, _ in FILTERS.values() for name in changes} | {"message_ids"}
    assert tested == set(EventQuery.__struct_fields__) - {
        "account_id",
        "count",
        "cursor",
        "latest_first",
        "newest",
    }
    tested = {name for changes, _ in DEAD_FILTERS.values() for name in changes} | {"message_ids", "dead_letter_ids"}
    assert tested == set(DeadLetterQuery.__struct_fields__) - {
        "account_id",
        "count",
        "cursor",
        "operation",
        "latest_first",
        # The control API alone asks for both queues: tests/control/test_runs.py.
        "both",
        # Its own fields are tested with the dead letters of runs, tests/api/workflow.
        "workflow",
    }


# -- following --------------------------------------------------------------------------------


@on_loop
async def test_the_place_of_a_history_is_behind_its_last_entry() -> None:
    async with kept(answering=ANSWERS) as world:
        assert (await world.history.position()).seq == 0
        assert await world.trace() == []
        fill(world)
        position = await world.history.position()
        assert position.seq == len(await world.trace())
        assert await world.history.since(position.seq, 10) == []


@on_loop
async def test_starting_over_begins_another_life(tmp_path: Path) -> None:
    """D-220: a restart does not."""
    async with kept(tmp_path / "w.db") as world:
        # All get the same, in any order.
        generations = await asyncio.gather(
            world.history.generation(), History(world.store).generation(), world.history.generation()
        )
        assert generations[0] == generations[2]
        assert await History(world.store).generation() == generations[0]
    async with kept(tmp_path / "w.db") as again:
        assert await again.history.generation() == generations[0]
        again.store, _ = await again.store.start_over({})
        assert await History(again.store).generation() != generations[0]


@on_loop
async def test_who_follows_is_given_what_the_database_has_without_writing_what_came_after() -> None:
    """Entries that follow a question come from memory; all from the first one on are read from the database."""
    async with kept(answering=ANSWERS) as world:
        world.publish(ONE, delay_ms=HOUR)
        first = seq = (await world.history.position()).seq
        assert await world.history.since(seq, 10) == []
        fill(world)
        end = (await world.history.position()).seq
        found: list[Event | RecordedDelivery] = []
        while seq < end:
            world.publish(ONE, delay_ms=HOUR)
            found += await world.history.since(seq, min(7, end - seq))
            seq = found[-1].seq
            known = world.store.latest.since(end, 1)
            assert known is not None
            assert known.rows == []
        assert len(await world.history.since(end, 1)) == 1
        assert found == (await world.trace())[first:end]
        assert len(found) > 20
