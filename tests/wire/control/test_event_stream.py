"""The stream of server-sent events, as bytes: what is written, and what a client reads of it."""

from __future__ import annotations

import pytest

from emulator.core.errors import InvalidInput, Malformed
from emulator.queries.history import HistoryPosition
from emulator.wire.control.event_stream import (
    KEEP_ALIVE,
    OPENING,
    EndReason,
    Kind,
    ResetReason,
    StreamEvent,
    StreamReader,
    StreamRequest,
    clock_view,
    end_view,
    read_stream_request,
    reset_view,
    written,
)

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
    assert written(Kind.END, end_view(EndReason.DELETED)) == (
        b'event: end\ndata: {"reason":"deleted","error":null}\n\n'
    )


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\rb", "\u2028 \u2029 \x85 \x1c", "\ud800"])
def test_no_text_ends_the_line_of_its_data(text: str) -> None:
    content = written(Kind.EVENT, {"url": text}, POSITION)

    assert len(content.decode().splitlines()) == 4
    assert read(content)[0].data == {"url": text}


def test_a_clock_says_where_it_was_moved_from() -> None:
    assert clock_view(now_ms=1_767_225_600_000, rate=60.0, from_ms=1_767_139_200_000) == {
        "now": "2026-01-01T00:00:00.000Z",
        "now_ms": 1_767_225_600_000,
        "rate": 60,
        "from": "2025-12-31T00:00:00.000Z",
        "from_ms": 1_767_139_200_000,
    }


def test_a_clock_that_was_not_moved_comes_from_nowhere() -> None:
    view = clock_view(now_ms=1_767_225_600_000, rate=0.5, from_ms=None)

    assert (view["rate"], view["from"], view["from_ms"]) == (0.5, None, None)


def test_a_reset_says_why() -> None:
    assert reset_view(ResetReason.UNKNOWN_ID) == {"reason": "unknown_id"}


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
