"""The stream of a world: everything that happens, in order, once, as it happens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, to_builtins

from emulator.control.stream import (
    EndReason,
    StreamedClock,
    StreamEnd,
    StreamRequest,
    read_stream_request,
)
from emulator.core.errors import InvalidInput, Malformed
from emulator.core.model.messages import Response
from emulator.delivery.mounts import MountedRequest
from emulator.journal.history import History
from emulator.journal.store import open_store
from emulator.queries.history import HistoryPosition
from emulator.wire.event_stream import (
    KEEP_ALIVE,
    OPENING,
    Kind,
    StreamEvent,
    StreamReader,
    written,
)
from tests.contracts.conformance import check_value
from tests.contracts.documents import load
from tests.harness.emulators import EPOCH_MS, InProcess, in_process, with_emulator
from tests.harness.loops import on_loop
from tests.harness.stores import crash
from tests.harness.streams import streaming

HOOK = "https://api.test/hook"
DOWN = "https://down.test/hook"
HOUR_MS = 3_600_000


def said(events: list[StreamEvent]) -> list[str]:
    """Events in short: a state, an attempt's status, or the hours that the clock stands after the epoch."""
    return [_said(event) for event in events]


def _said(event: StreamEvent) -> str:
    data: Any = event.data
    match event.kind:
        case "event":
            return str(data["state"])
        case "attempt":
            return str(data["error"] if data["response"] is None else data["response"]["status"])
        case "clock":
            return f"clock {(data['now_ms'] - EPOCH_MS) / HOUR_MS:g}h"
        case kind:
            return f"{kind} {data['reason']}"


def ids(events: list[StreamEvent]) -> list[str | None]:
    return [event.id for event in events]


def sequence(events: list[StreamEvent]) -> list[int]:
    """The numbers of the entries of history among the events."""
    return [event.data["seq"] for event in events if event.kind in ("event", "attempt")]  # type: ignore[call-overload,index,misc]  # whatever JSON it is


async def is_left_alone(emulator: InProcess) -> None:
    """Return when nobody watches the world any more."""
    while emulator.world.watches:  # noqa: ASYNC110  # nothing signals the last one
        await asyncio.sleep(0)


async def refused_firing(emulator: InProcess) -> None:
    """A schedule fires after an hour, beyond the day's quota."""
    await emulator.post(f"/v2/schedules/{HOOK}", {"Svc-Cron": "0 * * * *", "Svc-Schedule-Id": "hourly"})
    await emulator.control("PUT", f"/accounts/{emulator.world.account().id}", {"max_requests_per_day_hard": 0})
    await emulator.advance("1h")


# -- what is sent -----------------------------------------------------------------------------


@with_emulator()
async def test_what_happens_is_told_in_order_as_it_happens(emulator: InProcess) -> None:
    async with streaming(emulator) as stream:
        assert said(await stream.events(1)) == ["clock 0h"]

        await emulator.publish(HOOK)
        assert said(await stream.events(4)) == ["CREATED", "ACTIVE", "200", "DELIVERED"]

        await emulator.publish(HOOK, {"Svc-Delay": "2h"})
        assert said(await stream.events(1)) == ["CREATED"]
        await emulator.advance("1d")
        assert said(await stream.events(4)) == ["ACTIVE", "200", "DELIVERED", "clock 24h"]

    assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")


@with_emulator(max_attempts_per_instant=5)
async def test_the_stream_says_when_a_destination_is_held_and_freed(emulator: InProcess) -> None:
    """D-787."""

    async def receive(_: MountedRequest) -> Response:
        await emulator.publish(HOOK)
        return Response(status=200, headers=(), body=b"")

    emulator.world.transport.mount("https://api.test", receive)
    async with streaming(emulator) as stream:
        await stream.next()
        await emulator.publish(HOOK)
        held: Any = (await stream.until("clock"))[-1].data
        assert held["held"][0]["why"].startswith("held: https://api.test published to itself more than 5 times")
        assert held["from"] is None

        await emulator.delete(f"/v2/messages/{held['held'][0]['message_id']}")
        freed: Any = (await stream.until("clock"))[-1].data
        assert "held" not in freed


@with_emulator()
async def test_an_attempt_is_told_as_the_journal_shows_it(emulator: InProcess) -> None:
    async with streaming(emulator) as stream:
        await stream.next()
        await emulator.rule(DOWN, respond={"status": 503, "body": "busy", "latency": "2s"})
        await emulator.publish(DOWN, {"Svc-Retries": "0"}, b"\xff")
        await emulator.advance("1m")

        told = [event.data for event in await stream.until("attempt")]
        assert [each for each in told if isinstance(each, dict) and "via" in each] == await emulator.deliveries()


@with_emulator()
async def test_an_event_tells_what_the_log_knows_of_it(emulator: InProcess) -> None:
    async with streaming(emulator) as stream:
        assert said(await stream.events(1)) == ["clock 0h"]
        await emulator.rule(DOWN, respond={"status": 503})
        headers = {"Svc-Retries": "1", "Svc-Retry-Delay": "60000", "Svc-Label": "billing", "Svc-Flow-Control-Key": "k"}
        headers["Svc-Flow-Control-Value"] = "parallelism=1"
        message_id = await emulator.publish(DOWN, headers)

        events = await stream.events(5)
        assert said(events) == ["CREATED", "ACTIVE", "503", "ERROR", "RETRY"]
        assert events[3].data == {
            "seq": 4,
            "at": "2026-01-01T00:00:00.000Z",
            "at_ms": EPOCH_MS,
            "message_id": message_id,
            "state": "ERROR",
            "url": DOWN,
            "error": "destination answered 503",
            "status": 503,
            "next_delivery": "2026-01-01T00:01:00.000Z",
            "next_delivery_ms": EPOCH_MS + 60_000,
            "url_group": None,
            "queue": None,
            "schedule_id": None,
            "flow_control_key": "k",
            "labels": ["billing"],
        }


@pytest.mark.slow
@on_loop
async def test_every_kind_of_event_has_the_form_that_the_contract_says() -> None:
    """D-225."""
    schemas = load("control")["paths"]["/_emulator/stream"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    async with in_process() as emulator:
        await emulator.control("POST", "/worlds", {"id": "w"})
        await emulator.rule(DOWN, fault="refused")
        async with streaming(emulator, "last_event_id=00000000-0&world=w") as other, streaming(emulator) as stream:
            await emulator.publish(DOWN, {"Svc-Retries": "1", "Svc-Label": "a"})
            await emulator.advance("1d")
            found = await stream.until("attempt") + await other.until("clock")
            await refused_firing(emulator)
            found += await stream.until("firing")
            assert (await emulator.get("/v2/nowhere")).status == 404
            found += await stream.until("refused")
            await emulator.control("DELETE", "/worlds/w")
            found += await other.rest()

    assert {event.kind for event in found} == schemas["x-events"].keys()
    for event in found:
        check_value("control", schemas["x-events"][event.kind], event.data)


@with_emulator()
async def test_a_refused_firing_is_told_by_the_stream(emulator: InProcess) -> None:
    """D-263."""
    async with streaming(emulator) as stream:
        await stream.next()
        await refused_firing(emulator)
        firing, clock = await stream.events(2)

    assert (firing.kind, clock.kind) == ("firing", "clock")
    assert firing.data == {
        "at": "2026-01-01T01:00:00.000Z",
        "at_ms": EPOCH_MS + HOUR_MS,
        "schedule_id": "hourly",
        "account_id": emulator.world.account().id,
        "error": "quota maxRequestsPerDay exceeded, current limit: 0",
        "next": "2026-01-01T02:00:00.000Z",
        "next_ms": EPOCH_MS + 2 * HOUR_MS,
    }


@with_emulator()
async def test_what_a_message_redacts_is_hidden_if_asked(emulator: InProcess) -> None:
    async with streaming(emulator, "redact=true") as stream:
        await stream.next()
        await emulator.publish(HOOK, {"Svc-Redact-Fields": "body"}, b"secret")
        attempt = (await stream.until("attempt"))[-1].data

    assert isinstance(attempt, dict)
    assert str(attempt["body"]).startswith("REDACTED:")


@with_emulator()
async def test_another_world_is_another_stream(emulator: InProcess) -> None:
    await emulator.control("POST", "/worlds", {"id": "w", "epoch": "2026-01-01"})
    async with streaming(emulator, "world=w") as stream:
        assert said(await stream.events(1)) == ["clock 0h"]
        await emulator.publish(HOOK)
        await emulator.advance("1h")
        await emulator.control("POST", "/clock/advance?world=w", {"by": "3h"})

        assert said(await stream.events(1)) == ["clock 3h"]


@on_loop
async def test_what_is_told_survives_a_crash(tmp_path: Path) -> None:
    """D-225."""
    path = tmp_path / "w.db"
    async with in_process(db=str(path)) as emulator, streaming(emulator) as stream:
        told = [await stream.next()]
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})
        assert said(told) == ["clock 0h"]
        publishing = asyncio.get_running_loop().create_task(emulator.advance("1h"))
        for number in range(5):
            told.append(await stream.next())
            store, _ = await open_store(str(crash(path, tmp_path / str(number))))
            await store.resume()
            assert len(await History(store).since(0, 100)) >= len(sequence(told))
            await store.close()
        await publishing

    assert said(told) == ["clock 0h", "CREATED", "ACTIVE", "200", "DELIVERED", "clock 1h"]


@pytest.mark.slow
@with_emulator()
async def test_a_world_that_is_far_ahead_is_told_whole(emulator: InProcess) -> None:
    async with streaming(emulator) as stream:
        await stream.next()
        stream.is_read.clear()
        await emulator.call("POST", f"/v2/schedules/{HOOK}", {"Svc-Cron": "* * * * *"})
        await emulator.advance("10h")
        stream.is_read.set()

        events = await stream.until("clock")
        while events[-1].data["now_ms"] < EPOCH_MS + 10 * HOUR_MS:  # type: ignore[call-overload,index,operator]  # whatever JSON it is
            events += await stream.until("clock")
        assert sequence(events) == list(range(1, 2401))


# -- where it begins --------------------------------------------------------------------------


@with_emulator()
async def test_it_begins_with_what_happens_from_now_on_or_with_the_first_entry(emulator: InProcess) -> None:
    """D-222."""
    await emulator.publish(HOOK)
    async with streaming(emulator) as now, streaming(emulator, "from=start") as start:
        assert said(await now.events(1)) == ["clock 0h"]
        assert said(await start.events(5)) == ["CREATED", "ACTIVE", "200", "DELIVERED", "clock 0h"]
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})

        assert said(await now.events(1)) == said(await start.events(1)) == ["CREATED"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("last=2", ["200", "DELIVERED", "clock 0h"]),
        ("last=0", ["clock 0h"]),
        ("last=1000000&from=now", ["CREATED", "ACTIVE", "200", "DELIVERED", "clock 0h"]),
    ],
)
@with_emulator()
async def test_it_begins_with_the_last_entries(emulator: InProcess, query: str, expected: list[str]) -> None:
    """D-326."""
    await emulator.publish(HOOK)
    async with streaming(emulator, f"{query}&follow=false") as stream:
        events = await stream.events(1)
        assert said([*events, *await stream.rest()]) == expected
    # A repeated address continues behind the last event, whatever it said of the beginning.
    async with streaming(emulator, f"{query}&follow=false&last_event_id={events[0].id}") as stream:
        assert said(await stream.rest()) == (expected[1:] or expected)


@with_emulator()
async def test_what_is_done_after_the_answer_has_begun_is_told(emulator: InProcess) -> None:
    async with streaming(emulator) as stream:
        # Its first event has not come yet.
        await emulator.publish(HOOK)

        assert "CREATED" in said(await stream.until("attempt"))


@pytest.mark.parametrize("by_header", [True, False], ids=["header", "parameter"])
@with_emulator()
async def test_it_resumes_behind_any_event_with_nothing_lost_and_nothing_twice(
    emulator: InProcess, by_header: bool
) -> None:
    """D-220."""
    await emulator.rule(DOWN, sequence=[{"status": 503}, {"status": 200}])
    async with streaming(emulator) as stream:
        await stream.next()
        await emulator.publish(HOOK)
        await emulator.publish(DOWN, {"Svc-Retry-Delay": "60000"})
        seen = await stream.events(9)
    # Also what happens while nobody looks.
    await emulator.advance("1h")
    for count in range(1, len(seen) + 1):
        last = str(seen[count - 1].id)
        query, headers = ("", {"Last-Event-ID": last}) if by_header else (f"last_event_id={last}", {})
        async with streaming(emulator, query, headers) as again:
            rest = await again.until("clock")
        assert sequence(seen[:count] + rest) == list(range(1, 13))


@on_loop
async def test_it_resumes_after_a_restart_of_the_server(tmp_path: Path) -> None:
    """D-220."""
    db = str(tmp_path / "w.db")
    async with in_process(db=db) as emulator, streaming(emulator) as stream:
        await stream.next()
        await emulator.publish(HOOK)
        last = (await stream.events(4))[-1].id
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})
    async with in_process(db=db) as emulator:
        await emulator.advance("1h")
        async with streaming(emulator, f"last_event_id={last}") as stream:
            assert said(await stream.events(5)) == ["CREATED", "ACTIVE", "200", "DELIVERED", "clock 1h"]


# -- the clock --------------------------------------------------------------------------------


@with_emulator()
async def test_moves_of_the_clock_are_told_with_where_they_began(emulator: InProcess) -> None:
    """D-223."""
    async with streaming(emulator) as stream:
        await stream.next()
        await emulator.advance("1h")
        await emulator.control("PUT", "/clock", {"now": EPOCH_MS + 2 * HOUR_MS})
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})
        await emulator.control("POST", "/clock/next")

        moves = [event.data for event in await stream.until("attempt") + await stream.until("clock")]
        hours = [
            ((each["from_ms"] - EPOCH_MS) // HOUR_MS, (each["now_ms"] - EPOCH_MS) // HOUR_MS)
            for each in moves
            if isinstance(each, dict) and "rate" in each
        ]
        # Two moves at once may be told as one.
        assert (hours[0][0], hours[-1][1]) == (0, 3)
        assert [end for _, end in hours[:-1]] == [begin for begin, _ in hours[1:]]


@with_emulator()
async def test_a_clock_that_is_set_back_is_told(emulator: InProcess) -> None:
    async with streaming(emulator) as stream:
        await stream.next()
        await emulator.control("PUT", "/clock", {"now": EPOCH_MS - HOUR_MS})

        assert said(await stream.events(1)) == ["clock -1h"]


@with_emulator()
async def test_another_pace_is_told_and_time_that_passes_by_itself_is_not(emulator: InProcess) -> None:
    """D-223."""
    async with streaming(emulator) as stream:
        await stream.next()
        await emulator.control("PUT", "/clock", {"rate": 1})
        clock: Any = (await stream.next()).data
        assert (clock["rate"], clock["from_ms"]) == (1, None)

        for _ in range(3):
            await emulator.control("GET", "/clock")
        await emulator.publish(HOOK)
        assert said(await stream.until("attempt")) == ["CREATED", "ACTIVE", "200"]


# -- resets and ends --------------------------------------------------------------------------


@with_emulator()
async def test_a_reset_is_told_and_then_the_world_as_it_now_is(emulator: InProcess) -> None:
    """D-221."""
    async with streaming(emulator) as stream:
        await stream.next()
        await emulator.publish(HOOK)
        before = await stream.events(4)
        await emulator.control("POST", "/reset")
        await emulator.publish(HOOK)
        await emulator.advance("1h")

        events = [await stream.next()]
        assert said(events) == ["reset reset"]
        events += await stream.until("clock")
        while said(events)[-1] != "clock 1h":
            events += await stream.until("clock")
        assert sequence(events) == [1, 2, 3, 4]
        assert not set(ids(before)) & set(ids(events))


@with_emulator()
async def test_an_id_from_before_a_reset_leads_to_the_history_as_it_now_is(emulator: InProcess) -> None:
    """D-221."""
    async with streaming(emulator) as stream:
        await stream.next()
        await emulator.publish(HOOK)
        last = (await stream.next()).id
    await emulator.control("POST", "/reset")
    await emulator.publish(HOOK)
    async with streaming(emulator, f"last_event_id={last}&follow=false") as stream:
        events = await stream.rest()

    assert said(events) == ["reset unknown_id", "CREATED", "ACTIVE", "200", "DELIVERED", "clock 0h"]


@with_emulator()
async def test_a_restored_world_is_told_anew_and_its_old_ids_are_unknown(emulator: InProcess) -> None:
    """D-221."""
    await emulator.publish(HOOK)
    await emulator.control("POST", "/snapshots", {"name": "s"})
    async with streaming(emulator, "from=start") as stream:
        seen = await stream.until("clock")
        await emulator.publish(HOOK)
        await stream.events(4)
        await emulator.control("POST", "/snapshots/s/restore")
        assert said(await stream.until("clock"))[:2] == ["reset reset", "CREATED"]
    # An entry that is in both histories, even so.
    async with streaming(emulator, f"last_event_id={seen[1].id}&follow=false") as stream:
        assert said(await stream.rest())[0] == "reset unknown_id"


@with_emulator()
async def test_an_entry_that_has_not_been_is_unknown(emulator: InProcess) -> None:
    """D-221."""
    async with streaming(emulator) as stream:
        life = str((await stream.next()).id).partition("-")[0]
    async with streaming(emulator, f"last_event_id={life}-1&follow=false") as stream:
        assert said(await stream.rest()) == ["reset unknown_id", "clock 0h"]


@with_emulator()
async def test_the_stream_of_a_deleted_world_ends(emulator: InProcess) -> None:
    """D-221."""
    await emulator.control("POST", "/worlds", {"id": "w", "epoch": "2026-01-01"})
    async with streaming(emulator, "world=w") as stream:
        await stream.next()
        await emulator.control("DELETE", "/worlds/w")

        assert said(await stream.rest()) == ["end deleted"]


@with_emulator()
async def test_an_emulator_that_closes_ends_its_streams_and_does_not_say_for_good(emulator: InProcess) -> None:
    """D-221."""
    async with streaming(emulator) as stream:
        await stream.next()
        await emulator.emulation.close()

        assert await stream.rest() == []


@on_loop
async def test_a_world_that_breaks_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """D-221."""
    caplog.set_level(logging.CRITICAL)
    async with in_process() as emulator, streaming(emulator) as stream:
        await stream.next()
        emulator.world.driver.stop("a rule failed")
        for watch in emulator.world.watches:
            watch.wake()

        [end] = await stream.rest()
        assert end.data == {"reason": "broken", "error": "this world has stopped: a rule failed"}


@with_emulator()
async def test_deliveries_removed_from_the_journal_are_not_told_again(emulator: InProcess) -> None:
    """D-224."""
    await emulator.publish(HOOK)
    await emulator.control("DELETE", "/deliveries")
    await emulator.publish(HOOK)
    async with streaming(emulator, "from=start&follow=false") as stream:
        events = await stream.rest()

    assert sequence(events) == [1, 2, 4, 5, 6, 7, 8]
    assert [event.id for event in events][-1] == events[-2].id


# -- readers that leave -----------------------------------------------------------------------


@with_emulator()
async def test_nobody_watches_once_the_clients_have_gone(emulator: InProcess) -> None:
    tasks = len(asyncio.all_tasks())
    async with streaming(emulator) as one, streaming(emulator) as other:
        await one.next()
        await other.next()
        assert len(emulator.world.watches) == 2
    assert not emulator.world.watches
    assert len(asyncio.all_tasks()) == tasks


@pytest.mark.parametrize("is_refused", [False, True], ids=["it leaves", "the server refuses to write to it"])
@with_emulator()
async def test_a_client_that_leaves_while_it_is_written_to_is_let_go(emulator: InProcess, is_refused: bool) -> None:
    async with streaming(emulator) as stream:
        await stream.next()
        if is_refused:
            stream.is_refused = True
        else:
            stream.is_read.clear()
        await emulator.publish(HOOK)
        if not is_refused:
            stream.has_left.set()
        await is_left_alone(emulator)
        stream.is_refused = False
        stream.is_read.set()


@pytest.mark.slow
@with_emulator(strict=True)
async def test_strict_mode_lets_events_through_as_they_come(
    emulator: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    async with streaming(emulator) as stream:
        await stream.next()
        await emulator.publish(HOOK)

        assert said(await stream.events(4)) == ["CREATED", "ACTIVE", "200", "DELIVERED"]
    assert caplog.messages == []


@with_emulator()
async def test_a_refused_call_is_told_on_the_stream_of_its_world(emulator: InProcess) -> None:
    """D-333."""
    await emulator.get("/v2/before")
    async with streaming(emulator) as stream:
        await emulator.get("/v2/during")
        told = (await stream.until("refused"))[-1]
        [_, listed] = (await emulator.control("GET", "/refused")).json["refused"]
        assert told.data == listed
        assert listed["path"] == "/v2/during"


# -- many followers ---------------------------------------------------------------------------


@with_emulator()
async def test_followers_at_the_same_place_are_written_one_text(emulator: InProcess) -> None:
    """D-563."""
    async with contextlib.AsyncExitStack() as stack:
        followers = [await stack.enter_async_context(streaming(emulator)) for _ in range(10)]
        for follower in followers:
            await follower.events(1)
        await emulator.publish(HOOK)
        for follower in followers:
            assert said(await follower.events(4)) == ["CREATED", "ACTIVE", "200", "DELIVERED"]
            assert follower.pieces[-1] is followers[0].pieces[-1]


@with_emulator()
async def test_a_slow_follower_holds_one_piece_and_gets_all_that_happens(emulator: InProcess) -> None:
    """D-563: nothing is read for a follower before it has taken what it was sent."""
    async with streaming(emulator) as stream:
        await stream.events(1)
        stream.is_read.clear()
        for _ in range(30):
            await emulator.publish(HOOK, body="x" * 20_000)
        stream.is_read.set()
        found = await stream.events(30 * 4)
        assert sequence(found) == list(range(1, 121))
        assert max(map(len, stream.pieces)) < 64 * 1024 + 21_000


POSITION = HistoryPosition(generation="9f3a1c02", seq=57)


def read(*content: bytes) -> list[StreamEvent]:
    reader = StreamReader()
    events = (reader.take(line) for line in b"".join(content).decode().split("\n"))
    return [event for event in events if event is not None]


# -- writing ----------------------------------------------------------------------------------


def test_an_event_is_its_kind_where_to_resume_and_one_line_of_json() -> None:
    assert written(Kind.ATTEMPT, {"seq": 57, "body": "a"}, POSITION) == (
        b'event: attempt\nid: 9f3a1c02-57\ndata: {"seq":57,"body":"a"}\n\n'
    )


def test_an_event_without_a_place_leaves_its_reader_where_it_is() -> None:
    assert written(Kind.END, StreamEnd(reason=EndReason.DELETED)) == (
        b'event: end\ndata: {"reason":"deleted","error":null}\n\n'
    )


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\rb", "\u2028 \u2029 \x85 \x1c", "\ud800"])
def test_no_text_ends_the_line_of_its_data(text: str) -> None:
    content = written(Kind.EVENT, {"url": text}, POSITION)

    assert len(content.decode().splitlines()) == 4
    assert read(content)[0].data == {"url": text}


def test_a_clock_says_where_it_was_moved_from() -> None:
    clock = StreamedClock(now_ms=1_767_225_600_000, rate=0.5, from_ms=1_767_139_200_000, held=UNSET)
    assert to_builtins(clock) == {
        "now": "2026-01-01T00:00:00.000Z",
        "now_ms": 1_767_225_600_000,
        "rate": 0.5,
        "from": "2025-12-31T00:00:00.000Z",
        "from_ms": 1_767_139_200_000,
    }


# -- reading ----------------------------------------------------------------------------------


def test_a_client_reads_what_is_written() -> None:
    content = (
        OPENING,
        written(Kind.EVENT, {"state": "CREATED"}, POSITION),
        KEEP_ALIVE,
        written(Kind.END, {"reason": "deleted"}),
    )

    assert read(*content) == [
        StreamEvent(kind="event", id="9f3a1c02-57", data={"state": "CREATED"}),
        StreamEvent(kind="end", id="9f3a1c02-57", data={"reason": "deleted"}),
    ]


def test_a_client_reads_what_the_standard_allows_besides() -> None:
    assert read(b'data:[1,\ndata: 2]\nextension: x\n\nevent: empty\n\ndata: {"a":": b"}\n\n') == [
        StreamEvent(kind="message", id=None, data=[1, 2]),
        StreamEvent(kind="message", id=None, data={"a": ": b"}),
    ]


def test_what_is_no_json_is_malformed() -> None:
    with pytest.raises(Malformed, match="got '<html>'"):
        read(b"data: <html>\n\n")


# -- requests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "header", "expected"),
    [
        pytest.param({}, None, StreamRequest(), id="from now on"),
        pytest.param({"from": "start"}, None, StreamRequest(last=None), id="from the start"),
        pytest.param({"last": "0012"}, None, StreamRequest(last=12), id="the last entries"),
        pytest.param({"last": "1000000", "from": "start"}, None, StreamRequest(last=1_000_000), id="last precedes"),
        pytest.param({"from": "now", "follow": "True"}, None, StreamRequest(), id="the defaults, said"),
        pytest.param({"follow": "false"}, None, StreamRequest(follow=False), id="what there is"),
        pytest.param({"redact": "true"}, None, StreamRequest(redact=True), id="redacted"),
        pytest.param({}, "9f3a1c02-57", StreamRequest(after=POSITION), id="by the header"),
        pytest.param({"last_event_id": "9f3a1c02-57"}, None, StreamRequest(after=POSITION), id="by the parameter"),
        pytest.param(
            {"last_event_id": "00000000-1"}, "9f3a1c02-57", StreamRequest(after=POSITION), id="the header precedes"
        ),
        pytest.param({"last_event_id": "", "from": ""}, "", StreamRequest(), id="nothing is absent"),
        pytest.param(
            {"from": "start", "last_event_id": "9f3a1c02-0"},
            None,
            StreamRequest(last=None, after=HistoryPosition(generation="9f3a1c02", seq=0)),
            id="an address that is repeated",
        ),
    ],
)  # fmt: skip
def test_a_request_says_where_to_begin_and_whether_to_follow(
    query: dict[str, str], header: str | None, expected: StreamRequest
) -> None:
    assert read_stream_request(query.items(), header) == expected


WRONG_IDS = ("57", "9f3a1c02", "9f3a1c02-", "9f3a1c02-057", "9f3a1c02--1", "9F3A1C02-57", "9f3a1c02-57 ", "9f3a1c02-٣")


@pytest.mark.parametrize("text", [*WRONG_IDS, "9f3a1c02-1234567890123456"])
def test_an_id_that_is_none_is_refused_by_name(text: str) -> None:
    """D-220."""
    with pytest.raises(InvalidInput) as refused:
        read_stream_request([("last_event_id", text)], None)
    assert refused.value.field == "last_event_id"

    with pytest.raises(InvalidInput) as refused:
        read_stream_request([("last_event_id", "9f3a1c02-57")], text)
    assert refused.value.field == "Last-Event-ID"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ([("from", "yesterday")], "from"),
        ([("follow", "no")], "follow"),
        ([("redact", "body")], "redact"),
        ([("form", "start")], "form"),
        ([("from", "start"), ("from", "now")], "from"),
        ([("last", "-1")], "last"),
        ([("last", "1000001")], "last"),
        ([("last", "1e3")], "last"),
    ],
)
def test_other_parameters_are_refused_by_name(query: list[tuple[str, str]], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_stream_request(query, None)
    assert refused.value.field == field
