"""The control API's JSON: what is read, what is refused and by which name, and what is answered."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.core.errors import InvalidInput, Malformed
from emulator.core.model import (
    AccountId,
    AttemptOutcome,
    DestinationRule,
    Fault,
    Message,
    MessageId,
    Method,
    Plan,
    Redaction,
    Response,
    RuleId,
    ScriptedResponse,
    Via,
)
from emulator.queries.history import Delivery, DeliveryQuery, Page
from emulator.queries.reports import (
    AdvanceReport,
    AdvanceRequest,
    ClockChange,
    ClockStatus,
    Credentials,
    DrainRequest,
    ResetRequest,
    WorldRequest,
)
from emulator.wire.control import bodies as control_json
from emulator.wire.json_fields import Json

FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999


# -- instants ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        pytest.param(0, 0, id="zero"),
        pytest.param(1_767_225_600_000, 1_767_225_600_000, id="milliseconds"),
        pytest.param(-1, -1, id="before-the-epoch"),
        pytest.param("2026-01-01T00:00:00Z", 1_767_225_600_000, id="utc"),
        pytest.param("2026-01-01T00:00:00.000Z", 1_767_225_600_000, id="as-answered"),
        pytest.param("2026-01-01T00:00:00", 1_767_225_600_000, id="naive-is-utc"),
        pytest.param("2026-01-01", 1_767_225_600_000, id="date-alone"),
        pytest.param("2026-01-01 00:00", 1_767_225_600_000, id="blank-and-no-seconds"),
        pytest.param("2026-01-01t00:00:00z", 1_767_225_600_000, id="lower-case"),
        pytest.param("2026-01-01T02:00:00+02:00", 1_767_225_600_000, id="east"),
        pytest.param("2025-12-31T18:30:00-0530", 1_767_225_600_000, id="west-without-colon"),
        pytest.param("2026-01-01T01:00:00+01", 1_767_225_600_000, id="hours-only"),
        pytest.param("2026-01-01T00:00:00.1234567Z", 1_767_225_600_123, id="fraction-is-cut"),
        pytest.param("2026-01-01T00:00:00,5Z", 1_767_225_600_500, id="comma"),
        pytest.param(" 2026-01-01T00:00:00Z\n", 1_767_225_600_000, id="blanks-around"),
        pytest.param("2024-02-29T00:00:00Z", 1_709_164_800_000, id="leap-day"),
        pytest.param("1969-12-31T23:59:59.999Z", -1, id="just-before-the-epoch"),
        pytest.param("0001-01-01T00:00:00Z", FIRST_MS, id="first"),
        pytest.param("9999-12-31T23:59:59.999Z", LAST_MS, id="last"),
    ],
)
def test_instant_is_iso_8601_or_milliseconds(value: str | int, expected_ms: int) -> None:
    assert control_json.read_instant_ms(value) == expected_ms


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param("now", id="word"),
        pytest.param("1767225600000", id="digits"),
        pytest.param("20260101T000000Z", id="basic-form"),
        pytest.param("2026-W01-1", id="week"),
        pytest.param("2026-02-29", id="no-leap-year"),
        pytest.param("2026-13-01", id="month"),
        pytest.param("2026-01-01T24:00:00Z", id="hour-24"),
        pytest.param("2026-01-01T00:00:60Z", id="leap-second"),
        pytest.param("2026-01-01T00:00:00+24:00", id="offset-too-far"),
        pytest.param("2026-01-01T00:00:00+01:60", id="offset-minutes"),
        pytest.param("2026-01-01Z", id="date-with-zone"),
        pytest.param("0000-01-01", id="year-0"),
        pytest.param("0001-01-01T00:00:00+01:00", id="before-year-1"),
        pytest.param("9999-12-31T23:59:59-01:00", id="after-year-9999"),
        pytest.param("٢٠٢٦-01-01", id="digits-of-other-scripts"),
        pytest.param(LAST_MS + 1, id="too-late"),
        pytest.param(FIRST_MS - 1, id="too-early"),
        pytest.param(True, id="boolean"),
    ],
)
def test_instant_that_is_none_is_malformed(value: str | int) -> None:
    with pytest.raises(Malformed, match="expected"):
        control_json.read_instant_ms(value)


@given(st.integers(FIRST_MS, LAST_MS))
def test_instant_survives_the_journey_through_iso(instant_ms: int) -> None:
    assert control_json.read_instant_ms(control_json.iso(instant_ms)) == instant_ms


@pytest.mark.slow
@given(st.text() | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.,]{0,12}[Z+-]?[0-9:]{0,5}") | st.integers())
def test_instant_is_read_or_malformed(value: str | int) -> None:
    with suppress(Malformed):
        assert FIRST_MS <= control_json.read_instant_ms(value) <= LAST_MS


@pytest.mark.parametrize(
    ("instant_ms", "expected"),
    [
        pytest.param(1_767_225_600_000, "2026-01-01T00:00:00.000Z", id="whole"),
        pytest.param(-1, "1969-12-31T23:59:59.999Z", id="negative"),
        pytest.param(FIRST_MS, "0001-01-01T00:00:00.000Z", id="first"),
        pytest.param(LAST_MS, "9999-12-31T23:59:59.999Z", id="last"),
    ],
)
def test_iso_has_milliseconds_and_z(instant_ms: int, expected: str) -> None:
    assert control_json.iso(instant_ms) == expected


@pytest.mark.parametrize("instant_ms", [FIRST_MS - 1, LAST_MS + 1])
def test_iso_knows_the_years_1_to_9999(instant_ms: int) -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        control_json.iso(instant_ms)


# -- destination rules ------------------------------------------------------------------------

URL = "https://api.example.com/*"
RULE = DestinationRule(rule_id=RuleId(""), url=URL, method=None)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            {
                "match": {"url": URL, "method": "POST"},
                "respond": {"status": 503, "headers": {"Retry-After": "10"}, "body": "busy", "latency": "2s"},
                "times": 2,
            },
            replace(
                RULE,
                method=Method.POST,
                responses=(
                    ScriptedResponse(status=503, headers=(("Retry-After", "10"),), body=b"busy", latency_ms=2000),
                ),
                times=2,
            ),
            id="everything",
        ),
        pytest.param(
            {
                "match": {"url": URL},
                "sequence": [
                    {"status": 500},
                    {
                        "status": 200,
                        "headers": {"Set-Cookie": ["a=1", "b=2"]},
                        "body_base64": "/w==",
                        "latency": "1m500ms",
                    },
                ],
            },
            replace(
                RULE,
                responses=(
                    ScriptedResponse(status=500),
                    ScriptedResponse(
                        headers=(("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")), body=b"\xff", latency_ms=60_500
                    ),
                ),
                is_sequence=True,
            ),
            id="sequence",
        ),
        pytest.param(
            {"match": {"url": URL}, "sequence": [{"status": 204}]},
            replace(RULE, responses=(ScriptedResponse(status=204),), is_sequence=True),
            id="sequence-of-one",
        ),
        pytest.param(
            {"match": {"url": URL}, "forward_to": "http://127.0.0.1:3000", "latency": "10s"},
            replace(RULE, forward_to="http://127.0.0.1:3000", latency_ms=10_000),
            id="forward",
        ),
        pytest.param(
            {"match": {"url": URL, "method": "DELETE"}, "fault": "dns", "times": 1},
            replace(RULE, method=Method.DELETE, fault=Fault.DNS, times=1),
            id="fault",
        ),
    ],
)
def test_rule_is_read_and_shown_again_as_it_was_given(document: dict[str, Json], expected: DestinationRule) -> None:
    rule = control_json.read_rule(document)
    assert rule == expected
    kept = replace(rule, rule_id=RuleId("rule_1"), used=7)
    view = json.loads(json.dumps(control_json.rule_view(kept)))
    assert view == {"id": "rule_1", **document, "used": 7}


def test_response_that_says_nothing_is_an_empty_200() -> None:
    rule = control_json.read_rule({"match": {"url": URL}, "respond": {}})
    assert rule == replace(RULE, responses=(ScriptedResponse(status=200, headers=(), body=b"", latency_ms=0),))
    assert control_json.rule_view(rule) == {"id": "", "match": {"url": URL}, "respond": {"status": 200}, "used": 0}


def test_rule_method_may_be_written_in_any_case() -> None:
    rule = control_json.read_rule({"match": {"url": URL, "method": "post"}, "fault": "tls"})
    assert rule.method is Method.POST


def test_latency_is_read_as_milliseconds_too() -> None:
    rule = control_json.read_rule({"match": {"url": URL}, "fault": "reset", "latency": 1500})
    assert rule.latency_ms == 1500
    assert control_json.rule_view(rule)["latency"] == "1s500ms"


MATCH: dict[str, Json] = {"url": URL}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        pytest.param(None, "body", id="null"),
        pytest.param([], "body", id="list"),
        pytest.param("rule", "body", id="text"),
        pytest.param({"fault": "dns"}, "match", id="no-match"),
        pytest.param({"match": URL, "fault": "dns"}, "match", id="match-is-text"),
        pytest.param({"match": {}, "fault": "dns"}, "match.url", id="no-url"),
        pytest.param({"match": {"url": ""}, "fault": "dns"}, "match.url", id="empty-url"),
        pytest.param({"match": {"url": URL, "method": "TRACE"}, "fault": "dns"}, "match.method", id="method"),
        pytest.param({"match": {"url": URL, "method": None}, "fault": "dns"}, "match.method", id="null-method"),
        pytest.param({"match": {"url": URL, "host": "a"}, "fault": "dns"}, "match.host", id="unknown-in-match"),
        pytest.param({"match": MATCH}, "respond", id="no-answer"),
        pytest.param({"match": MATCH, "respond": {}, "fault": "dns"}, "fault", id="two-answers"),
        pytest.param({"match": MATCH, "fault": "dns", "id": "rule_1"}, "id", id="unknown-key"),
        pytest.param({"match": MATCH, "fault": "gone"}, "fault", id="unknown-fault"),
        pytest.param({"match": MATCH, "fault": 1}, "fault", id="fault-is-number"),
        pytest.param({"match": MATCH, "fault": "dns", "times": 0}, "times", id="times-0"),
        pytest.param({"match": MATCH, "fault": "dns", "times": True}, "times", id="times-true"),
        pytest.param({"match": MATCH, "fault": "dns", "times": 1.0}, "times", id="times-fraction"),
        pytest.param({"match": MATCH, "fault": "dns", "latency": "soon"}, "latency", id="latency"),
        pytest.param({"match": MATCH, "fault": "dns", "latency": True}, "latency", id="latency-true"),
        pytest.param({"match": MATCH, "fault": "dns", "latency": 1.5}, "latency", id="latency-fraction"),
        pytest.param({"match": MATCH, "respond": {}, "latency": "1s"}, "latency", id="latency-in-the-wrong-place"),
        pytest.param({"match": MATCH, "respond": []}, "respond", id="respond-is-list"),
        pytest.param({"match": MATCH, "respond": {"status": "200"}}, "respond.status", id="status-is-text"),
        pytest.param({"match": MATCH, "respond": {"status": 199}}, "respond.status", id="status-not-final"),
        pytest.param({"match": MATCH, "respond": {"status": 600}}, "respond.status", id="status-too-large"),
        pytest.param({"match": MATCH, "respond": {"code": 200}}, "respond.code", id="unknown-in-respond"),
        pytest.param({"match": MATCH, "respond": {"latency": "-1s"}}, "respond.latency", id="respond-latency"),
        pytest.param({"match": MATCH, "respond": {"body": {}}}, "respond.body", id="body-is-object"),
        pytest.param({"match": MATCH, "respond": {"body": "\ud800"}}, "respond.body", id="half-a-surrogate-pair"),
        pytest.param({"match": MATCH, "respond": {"body_base64": "?"}}, "respond.body_base64", id="base64"),
        pytest.param({"match": MATCH, "respond": {"body_base64": "é"}}, "respond.body_base64", id="base64-not-ascii"),
        pytest.param({"match": MATCH, "respond": {"body_base64": 1}}, "respond.body_base64", id="base64-is-number"),
        pytest.param(
            {"match": MATCH, "respond": {"body": "", "body_base64": ""}}, "respond.body_base64", id="two-bodies"
        ),
        pytest.param({"match": MATCH, "respond": {"headers": []}}, "respond.headers", id="headers-is-list"),
        pytest.param({"match": MATCH, "respond": {"headers": {"A": 1}}}, "respond.headers.A", id="value-is-number"),
        pytest.param(
            {"match": MATCH, "respond": {"headers": {"A": [1]}}}, "respond.headers.A", id="values-are-numbers"
        ),
        pytest.param({"match": MATCH, "respond": {"headers": {"A": "b\r\nC: d"}}}, "respond.headers.A", id="injection"),
        pytest.param({"match": MATCH, "respond": {"headers": {"A B": "c"}}}, "respond.headers.A B", id="header-name"),
        pytest.param({"match": MATCH, "sequence": []}, "sequence", id="empty-sequence"),
        pytest.param({"match": MATCH, "sequence": {}}, "sequence", id="sequence-is-object"),
        pytest.param({"match": MATCH, "sequence": "abc"}, "sequence", id="sequence-is-text"),
        pytest.param({"match": MATCH, "sequence": [{}, {"status": 0}]}, "sequence[1].status", id="in-sequence"),
        pytest.param({"match": MATCH, "forward_to": ""}, "forward_to", id="empty-origin"),
        pytest.param({"match": MATCH, "forward_to": "localhost:3000"}, "forward_to", id="origin-without-scheme"),
        pytest.param({"match": MATCH, "forward_to": "http://"}, "forward_to", id="origin-without-host"),
        pytest.param({"match": MATCH, "forward_to": "http://a:99999"}, "forward_to", id="origin-port"),
        pytest.param({"match": MATCH, "forward_to": "http://a/b"}, "forward_to", id="origin-with-path"),
        pytest.param({"match": MATCH, "forward_to": "http://a?b"}, "forward_to", id="origin-with-query"),
        pytest.param({"match": MATCH, "forward_to": "http://[::1"}, "forward_to", id="origin-bracket"),
    ],
)
def test_rule_that_is_wrong_names_the_field(document: Json, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        control_json.read_rule(document)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(10, "expected a text, or a list of texts, got a number", id="number"),
        pytest.param(["a", None], "expected a text, or a list of texts, got null", id="null"),
        pytest.param("b\r\nC: d", "expected a header's value in one line", id="two-lines"),
    ],
)
def test_header_of_a_rule_says_what_it_may_be(value: Json, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        control_json.read_rule({"match": MATCH, "respond": {"headers": {"Retry-After": value}}})
    assert caught.value.reason == reason


texts = st.text(max_size=8)
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("status", "headers", "body", "body_base64", "latency", "url", "x")), inner)
    ),
    max_leaves=8,
)
header_values = st.text("abc 1,=", max_size=5)
responses = st.fixed_dictionaries(
    {},
    optional={
        "status": st.integers(200, 599),
        "headers": st.dictionaries(
            st.sampled_from(("A", "a", "X-Key")), header_values | st.lists(header_values, min_size=1, max_size=3)
        ),
        "body": st.text(st.characters(codec="utf-8")),
        "latency": st.integers(0, 10**9),
    },
)
rules = st.builds(
    lambda answer, rest: {**answer, **rest},
    st.fixed_dictionaries({"respond": responses})
    | st.fixed_dictionaries({"sequence": st.lists(responses, min_size=1, max_size=3)})
    | st.fixed_dictionaries({"fault": st.sampled_from(tuple(Fault)).map(str)}, optional={"latency": st.integers(0, 9)}),
    st.fixed_dictionaries({"match": st.just(MATCH)}, optional={"times": st.integers(1, 9)}),
)


@pytest.mark.slow
@given(rules)
def test_rule_that_is_shown_reads_as_the_same_rule(document: dict[str, Json]) -> None:
    rule = control_json.read_rule(document)
    shown = {key: value for key, value in control_json.rule_view(rule).items() if key not in ("id", "used")}
    assert control_json.read_rule(json.loads(json.dumps(shown))) == rule


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(("match", "respond", "sequence", "forward_to", "fault", "times")), values))
def test_rule_is_read_or_refused(document: dict[str, Json]) -> None:
    with suppress(InvalidInput):
        control_json.read_rule(document)


# -- the clock --------------------------------------------------------------------------------

STATUS = ClockStatus(now_ms=1_767_225_600_000, rate=0.0, next_due_ms=None, pending=0, in_flight=0)
STATUS_VIEW = {
    "now": "2026-01-01T00:00:00.000Z",
    "now_ms": 1_767_225_600_000,
    "rate": 0,
    "next_due_ms": None,
    "pending": 0,
    "in_flight": 0,
}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(STATUS, STATUS_VIEW, id="frozen"),
        pytest.param(
            replace(STATUS, rate=60.0, next_due_ms=1_767_225_601_000, pending=2, in_flight=1),
            {**STATUS_VIEW, "rate": 60, "next_due_ms": 1_767_225_601_000, "pending": 2, "in_flight": 1},
            id="running",
        ),
        pytest.param(replace(STATUS, rate=0.5), {**STATUS_VIEW, "rate": 0.5}, id="slow"),
    ],
)
def test_clock_view(status: ClockStatus, expected: dict[str, Json]) -> None:
    assert json.dumps(control_json.clock_view(status)) == json.dumps(expected)


REPORT = AdvanceReport(
    from_ms=1_767_225_600_000,
    to_ms=1_767_312_000_000,
    deliveries=3,
    succeeded=2,
    failed=1,
    schedules_fired=1,
    messages_created=2,
    wall_ms=7,
    stopped=None,
    idle=None,
)
REPORT_VIEW = {
    "from": "2026-01-01T00:00:00.000Z",
    "from_ms": 1_767_225_600_000,
    "to": "2026-01-02T00:00:00.000Z",
    "to_ms": 1_767_312_000_000,
    "deliveries": 3,
    "succeeded": 2,
    "failed": 1,
    "schedules_fired": 1,
    "messages_created": 2,
    "wall_ms": 7,
}


@pytest.mark.parametrize(
    ("report", "more"),
    [
        pytest.param(REPORT, {}, id="advance"),
        pytest.param(replace(REPORT, stopped="max_deliveries"), {"stopped": "max_deliveries"}, id="stopped"),
        pytest.param(replace(REPORT, idle=False), {"idle": False}, id="drain"),
    ],
)
def test_advance_view(report: AdvanceReport, more: dict[str, Json]) -> None:
    assert control_json.advance_view(report) == {**REPORT_VIEW, **more}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({"rate": 0}, ClockChange(rate=0.0, now_ms=None), id="freeze"),
        pytest.param({"rate": 0.5, "now": 5}, ClockChange(rate=0.5, now_ms=5), id="both"),
        pytest.param({"now": "1970-01-02"}, ClockChange(rate=None, now_ms=86_400_000), id="now"),
    ],
)
def test_clock_change_is_read(document: Json, expected: ClockChange) -> None:
    assert control_json.read_clock_change(document) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({"by": "1d2h30m"}, AdvanceRequest(by_ms=95_400_000, to_ms=None), id="by"),
        pytest.param({"by": 0}, AdvanceRequest(by_ms=0, to_ms=None), id="by-nothing"),
        pytest.param({"to": "1970-01-01T00:00:01Z"}, AdvanceRequest(by_ms=None, to_ms=1000), id="to"),
        pytest.param(
            {"by": "1s", "max_deliveries": 1}, AdvanceRequest(by_ms=1000, to_ms=None, max_deliveries=1), id="at-most"
        ),
    ],
)
def test_advance_is_read(document: Json, expected: AdvanceRequest) -> None:
    assert control_json.read_advance(document) == expected
    assert AdvanceRequest(by_ms=1, to_ms=None).max_deliveries == 1_000_000


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(None, DrainRequest(horizon_ms=2_592_000_000, max_deliveries=1_000_000), id="no-body"),
        pytest.param({}, DrainRequest(horizon_ms=2_592_000_000), id="empty"),
        pytest.param({"horizon": "1h"}, DrainRequest(horizon_ms=3_600_000), id="horizon"),
        pytest.param({"max_deliveries": 5}, DrainRequest(max_deliveries=5), id="at-most"),
    ],
)
def test_drain_is_read(document: Json, expected: DrainRequest) -> None:
    assert control_json.read_drain(document) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(None, WorldRequest(), id="no-body"),
        pytest.param(
            {"id": "w-1", "seed": 7, "epoch": "1970-01-02", "rate": 60, "fixtures": {"queues": []}, "plan": "free"},
            WorldRequest(id="w-1", seed=7, epoch_ms=86_400_000, rate=60.0, fixtures={"queues": []}, plan=Plan.FREE),
            id="everything",
        ),
    ],
)
def test_world_is_read(document: Json, expected: WorldRequest) -> None:
    assert control_json.read_world(document) == expected


def test_reset_and_snapshot_are_read() -> None:
    assert control_json.read_reset(None) == ResetRequest(fixtures=None)
    assert control_json.read_reset({"fixtures": {"queues": []}}) == ResetRequest(fixtures={"queues": []})
    assert control_json.read_snapshot_name({"name": "before-test.1"}) == "before-test.1"


@pytest.mark.parametrize(
    ("reader", "document", "field"),
    [
        pytest.param(control_json.read_clock_change, None, "body", id="clock-null"),
        pytest.param(control_json.read_clock_change, {}, "rate", id="clock-empty"),
        pytest.param(control_json.read_clock_change, {"rate": "1"}, "rate", id="rate-is-text"),
        pytest.param(control_json.read_clock_change, {"rate": True}, "rate", id="rate-true"),
        pytest.param(control_json.read_clock_change, {"rate": -1}, "rate", id="rate-negative"),
        pytest.param(control_json.read_clock_change, {"rate": float("nan")}, "rate", id="rate-nan"),
        pytest.param(control_json.read_clock_change, {"rate": 10**400}, "rate", id="rate-huge"),
        pytest.param(control_json.read_clock_change, {"rate": 1e-300}, "rate", id="rate-tiny"),
        pytest.param(control_json.read_clock_change, {"now": "today"}, "now", id="now"),
        pytest.param(control_json.read_clock_change, {"now": 1.5}, "now", id="now-fraction"),
        pytest.param(control_json.read_clock_change, {"now": True}, "now", id="now-true"),
        pytest.param(control_json.read_clock_change, {"speed": 1}, "speed", id="clock-unknown"),
        pytest.param(control_json.read_advance, {}, "by", id="advance-empty"),
        pytest.param(control_json.read_advance, {"by": "1d", "to": 5}, "to", id="by-and-to"),
        pytest.param(control_json.read_advance, {"by": "tomorrow"}, "by", id="by"),
        pytest.param(control_json.read_advance, {"by": -1}, "by", id="by-negative"),
        pytest.param(control_json.read_advance, {"by": None}, "by", id="by-null"),
        pytest.param(control_json.read_advance, {"to": ""}, "to", id="to"),
        pytest.param(control_json.read_advance, {"by": 1, "max_deliveries": 0}, "max_deliveries", id="at-most-0"),
        pytest.param(control_json.read_advance, {"by": 1, "max": 1}, "max", id="advance-unknown"),
        pytest.param(control_json.read_drain, {"horizon": []}, "horizon", id="horizon"),
        pytest.param(control_json.read_drain, [], "body", id="drain-list"),
        pytest.param(control_json.read_world, {"id": ""}, "id", id="world-id-empty"),
        pytest.param(control_json.read_world, {"id": ".."}, "id", id="world-id-dots"),
        pytest.param(control_json.read_world, {"id": "a/b"}, "id", id="world-id-slash"),
        pytest.param(control_json.read_world, {"id": "a" * 65}, "id", id="world-id-long"),
        pytest.param(control_json.read_world, {"seed": "7"}, "seed", id="seed"),
        pytest.param(control_json.read_world, {"seed": 2**60}, "seed", id="seed-not-exact"),
        pytest.param(control_json.read_world, {"epoch": {}}, "epoch", id="epoch"),
        pytest.param(control_json.read_world, {"rate": None}, "rate", id="world-rate"),
        pytest.param(control_json.read_world, {"fixtures": "a.yaml"}, "fixtures", id="fixtures"),
        pytest.param(control_json.read_world, {"plan": "gold"}, "plan", id="plan"),
        pytest.param(control_json.read_world, {"clock": 0}, "clock", id="world-unknown"),
        pytest.param(control_json.read_reset, {"fixtures": []}, "fixtures", id="reset-fixtures"),
        pytest.param(control_json.read_reset, {"seed": 1}, "seed", id="reset-unknown"),
        pytest.param(control_json.read_snapshot_name, None, "body", id="snapshot-null"),
        pytest.param(control_json.read_snapshot_name, {}, "name", id="snapshot-without-name"),
        pytest.param(control_json.read_snapshot_name, {"name": "../up"}, "name", id="snapshot-name"),
    ],
)
def test_body_that_is_wrong_names_the_field(reader: object, document: Json, field: str) -> None:
    """D-127, D-128."""
    assert callable(reader)
    with pytest.raises(InvalidInput) as caught:
        reader(document)
    assert caught.value.field == field


# -- worlds -----------------------------------------------------------------------------------


def test_world_view_holds_credentials_and_clock() -> None:
    credentials = Credentials(
        account_id=AccountId("a"),
        token="t",
        read_only_token="r",
        current_signing_key="sig_1",
        next_signing_key="sig_2",
        username="user@example.com",
        password="p",
        search_index_ids=("s1",),
        vector_index_ids=(),
    )
    assert control_json.world_view("w-1", credentials, STATUS) == {
        "id": "w-1",
        "credentials": {
            "queue": {
                "account_id": "a",
                "token": "t",
                "read_only_token": "r",
                "current_signing_key": "sig_1",
                "next_signing_key": "sig_2",
            },
            "management": {"username": "user@example.com", "password": "p"},
            "search_index_ids": ["s1"],
            "vector_index_ids": [],
        },
        "clock": STATUS_VIEW,
    }


# -- the delivery journal ---------------------------------------------------------------------

DELIVERY = Delivery(
    seq=4,
    at_ms=1_767_225_600_000,
    finished_ms=1_767_225_602_000,
    message=Message(
        message_id=MessageId("msg_1"),
        number=1,
        account_id=AccountId("a"),
        created_ms=0,
        not_before_ms=0,
        url="https://api.example.com/hook",
        method=Method.POST,
        headers=(("x-key", "s3cret"),),
        body=b"s3cret",
        max_retries=0,
        retry_delay=None,
        timeout_ms=1000,
        callback=None,
        failure_callback=None,
        caller_ip="127.0.0.1",
        redaction=Redaction(body=True, all_headers=False, header_names=("x-key",)),
    ),
    attempt=1,
    outcome=AttemptOutcome(
        response=Response(status=200, headers=(("set-cookie", "a=1"), ("set-cookie", "b=2")), body=b"\xff"),
        error=None,
        via=Via.RULE,
        request_headers=(("Host", "api.example.com"), ("x-key", "s3cret"), ("X-Key", "other")),
    ),
)
DELIVERY_VIEW = {
    "seq": 4,
    "at": "2026-01-01T00:00:00.000Z",
    "at_ms": 1_767_225_600_000,
    "message_id": "msg_1",
    "attempt": 1,
    "method": "POST",
    "url": "https://api.example.com/hook",
    "headers": {"Host": ["api.example.com"], "x-key": ["s3cret"], "X-Key": ["other"]},
    "body": "s3cret",
    "body_base64": None,
    "via": "rule",
    "response": {"status": 200, "headers": {"set-cookie": ["a=1", "b=2"]}, "body": None, "body_base64": "/w=="},
    "error": None,
    "duration_ms": 2000,
    "created_ms": 0,
}


def test_delivery_shows_what_was_sent_exactly() -> None:
    assert control_json.delivery_view(DELIVERY, redact=False) == DELIVERY_VIEW


def test_delivery_hides_on_request_what_the_message_hides() -> None:
    marker = "REDACTED:1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0"
    other = "REDACTED:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"
    assert control_json.delivery_view(DELIVERY, redact=True) == {
        **DELIVERY_VIEW,
        "headers": {"Host": ["api.example.com"], "x-key": [marker], "X-Key": [other]},
        "body": marker,
    }


def test_delivery_without_response_has_null_and_an_error() -> None:
    failed = replace(DELIVERY, outcome=AttemptOutcome(response=None, error="refused", via=Via.NETWORK))
    page = control_json.deliveries_page(Page(items=(failed,), cursor=None), redact=False)
    expected = {**DELIVERY_VIEW, "headers": {}, "via": "network", "response": None, "error": "refused"}
    assert page == {"deliveries": [expected], "cursor": None}


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        pytest.param([], DeliveryQuery(limit=100), id="nothing"),
        pytest.param([("world", "w"), ("url", ""), ("cursor", "")], DeliveryQuery(), id="empty-is-absent"),
        pytest.param(
            [
                ("url", "https://a/*"),
                ("message_id", "msg_1"),
                ("outcome", "failed"),
                ("limit", "1000"),
                ("cursor", "9"),
            ],
            DeliveryQuery(limit=1000, cursor="9", url="https://a/*", message_id="msg_1", outcome="failed"),
            id="everything",
        ),
        pytest.param([("outcome", "delivered")], DeliveryQuery(outcome="succeeded"), id="delivered-is-succeeded"),
    ],
)
def test_delivery_query_is_read(pairs: list[tuple[str, str]], expected: DeliveryQuery) -> None:
    assert control_json.delivery_query(pairs) == expected


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("TRUE", True), ("false", False)])
def test_redaction_of_the_journal_is_asked_for(text: str, expected: bool) -> None:
    assert control_json.read_redact([("redact", text), ("limit", "5")]) is expected
    assert control_json.delivery_query([("redact", text)]) == DeliveryQuery()


def test_redact_is_true_or_false() -> None:
    with pytest.raises(InvalidInput) as caught:
        control_json.read_redact([("redact", "yes")])
    assert caught.value.field == "redact"


@pytest.mark.parametrize(
    ("pairs", "field"),
    [
        pytest.param([("limit", "0")], "limit", id="limit-0"),
        pytest.param([("limit", "1001")], "limit", id="limit-too-large"),
        pytest.param([("limit", "ten")], "limit", id="limit-word"),
        pytest.param([("limit", "٣")], "limit", id="limit-of-another-script"),
        pytest.param([("outcome", "pending")], "outcome", id="outcome"),
        pytest.param([("uri", "x")], "uri", id="unknown"),
        pytest.param([("url", "a"), ("url", "b")], "url", id="twice"),
    ],
)
def test_delivery_query_that_is_wrong_names_the_field(pairs: list[tuple[str, str]], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        control_json.delivery_query(pairs)
    assert caught.value.field == field
