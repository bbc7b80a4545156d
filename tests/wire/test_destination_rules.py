"""Destination rules as JSON: what is read, what is refused and by which name, and what is shown."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.control.destinations import rule_view
from emulator.core.errors import InvalidInput
from emulator.core.model.options import Method
from emulator.core.model.resources import DestinationRule, Fault, ScriptedResponse
from emulator.core.record import RuleId
from emulator.wire.destination_rules import read_rule
from emulator.wire.json_reader import Json
from tests.wire.request_parts import refused

URL = "https://api.example.com/*"
RULE = DestinationRule(rule_id=RuleId(""), url=URL, method=None)


def shown(rule: DestinationRule) -> dict[str, Json]:
    return cast("dict[str, Json]", msgspec.json.decode(msgspec.json.encode(rule_view(rule))))


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
        pytest.param(
            {"match": {"url": URL}, "fault": "reset", "chance": 0.25, "except": ["3.1", "12.2"]},
            replace(RULE, fault=Fault.RESET, chance=0.25, exempt_attempts=("3.1", "12.2")),
            id="chance",
        ),
        pytest.param(
            {"match": {"url": URL}, "latency": {"min": "1s", "max": "5s"}, "duplicate": True, "reorder": "2m"},
            replace(RULE, latency_ms=1_000, latest_ms=5_000, duplicate_ms=0, reorder_ms=120_000),
            id="disturbances",
        ),
        pytest.param(
            {"match": {"url": URL}, "duplicate": "10s", "reorder": True},
            replace(RULE, duplicate_ms=10_000, reorder_ms=0),
            id="later-duplicate",
        ),
        pytest.param(
            {"match": {"url": URL}, "respond": {"status": 200, "latency": {"min": "0s", "max": "2s"}}},
            replace(RULE, responses=(ScriptedResponse(status=200, latest_ms=2_000),)),
            id="latency-range-of-an-answer",
        ),
    ],
)
def test_rule_is_read_and_shown_again_as_it_was_given(document: dict[str, Json], expected: DestinationRule) -> None:
    rule = read_rule(document)
    assert rule == expected
    kept = replace(rule, rule_id=RuleId("rule_1"), used=7)
    assert shown(kept) == {"id": "rule_1", **document, "used": 7}


def test_a_sequence_has_an_end() -> None:
    """D-792."""
    with pytest.raises(InvalidInput) as refused:
        read_rule({"match": {"url": "*"}, "sequence": [{}] * 1_001})
    assert refused.value.text == "sequence: expected at most 1000 responses, got 1001"


def test_response_that_says_nothing_is_an_empty_200() -> None:
    rule = read_rule({"match": {"url": URL}, "respond": {}})
    assert rule == replace(RULE, responses=(ScriptedResponse(status=200, headers=(), body=b"", latency_ms=0),))
    assert shown(rule) == {"id": "", "match": {"url": URL}, "respond": {"status": 200}, "used": 0}


def test_a_method_may_have_any_case_and_a_latency_be_milliseconds() -> None:
    rule = read_rule({"match": {"url": URL, "method": "post"}, "fault": "reset", "latency": 1500})
    assert (rule.method, rule.latency_ms, shown(rule)["latency"]) == (Method.POST, 1500, "1s500ms")


MATCH: dict[str, Json] = {"url": URL}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        pytest.param(None, "body", id="null"),
        pytest.param([], "body", id="list"),
        pytest.param({"fault": "dns"}, "match", id="no-match"),
        pytest.param({"match": URL, "fault": "dns"}, "match", id="match-is-text"),
        pytest.param({"match": {}, "fault": "dns"}, "match.url", id="no-url"),
        *(
            pytest.param({"match": {"url": url}, "fault": "dns"}, "match.url", id=f"never-matches-{url}")
            for url in ("api.example.com/*", "x y", "ftp://*", "http:/x", "https:/", "httpss*", "localhost:3000/hook")
        ),
        pytest.param({"match": {"url": URL, "method": "TRACE"}, "fault": "dns"}, "match.method", id="method"),
        pytest.param({"match": {"url": URL, "host": "a"}, "fault": "dns"}, "match.host", id="unknown-in-match"),
        pytest.param({"match": MATCH}, "respond", id="no-answer"),
        pytest.param({"match": MATCH, "duplicate": False}, "respond", id="no-disturbance"),
        pytest.param({"match": MATCH, "duplicate": "soon"}, "duplicate", id="duplicate"),
        pytest.param({"match": MATCH, "reorder": 1.5}, "reorder", id="reorder"),
        pytest.param({"match": MATCH, "fault": "dns", "chance": 1.1}, "chance", id="chance-over-1"),
        pytest.param({"match": MATCH, "fault": "dns", "chance": True}, "chance", id="chance-true"),
        pytest.param({"match": MATCH, "latency": {"min": "2s"}}, "latency.max", id="latency-without-max"),
        pytest.param({"match": MATCH, "latency": {"min": "2s", "max": "1s"}}, "latency.max", id="latency-turned"),
        pytest.param({"match": MATCH, "fault": "dns", "except": ["3"]}, "except[0]", id="except"),
        pytest.param({"match": MATCH, "respond": {}, "fault": "dns"}, "fault", id="two-answers"),
        pytest.param({"match": MATCH, "fault": "dns", "id": "rule_1"}, "id", id="unknown-key"),
        pytest.param({"match": MATCH, "fault": "gone"}, "fault", id="unknown-fault"),
        pytest.param({"match": MATCH, "fault": "dns", "times": 0}, "times", id="times-0"),
        pytest.param({"match": MATCH, "fault": "dns", "times": True}, "times", id="times-true"),
        pytest.param({"match": MATCH, "fault": "dns", "latency": "soon"}, "latency", id="latency"),
        pytest.param({"match": MATCH, "respond": {}, "latency": "1s"}, "latency", id="latency-in-the-wrong-place"),
        pytest.param({"match": MATCH, "respond": {"status": "200"}}, "respond.status", id="status-is-text"),
        pytest.param({"match": MATCH, "respond": {"status": 199}}, "respond.status", id="status-not-final"),
        pytest.param({"match": MATCH, "respond": {"status": 600}}, "respond.status", id="status-too-large"),
        pytest.param({"match": MATCH, "respond": {"code": 200}}, "respond.code", id="unknown-in-respond"),
        pytest.param({"match": MATCH, "respond": {"latency": "-1s"}}, "respond.latency", id="respond-latency"),
        pytest.param({"match": MATCH, "respond": {"body": {}}}, "respond.body", id="body-is-object"),
        pytest.param({"match": MATCH, "respond": {"body": "\ud800"}}, "respond.body", id="half-a-surrogate-pair"),
        pytest.param({"match": MATCH, "respond": {"body_base64": "?"}}, "respond.body_base64", id="base64"),
        pytest.param({"match": MATCH, "respond": {"body_base64": 1}}, "respond.body_base64", id="base64-is-number"),
        pytest.param({"match": MATCH, "respond": {"body_base64": "é"}}, "respond.body_base64", id="base64-not-ascii"),
        pytest.param(
            {"match": MATCH, "respond": {"body": "", "body_base64": ""}}, "respond.body_base64", id="two-bodies"
        ),
        pytest.param({"match": MATCH, "respond": {"headers": []}}, "respond.headers", id="headers-is-list"),
        pytest.param({"match": MATCH, "respond": {"headers": {"A": 1}}}, "respond.headers.A", id="value-is-number"),
        pytest.param({"match": MATCH, "respond": {"headers": {"A": "b\r\nC: d"}}}, "respond.headers.A", id="injection"),
        pytest.param({"match": MATCH, "respond": {"headers": {"A B": "c"}}}, "respond.headers.A B", id="header-name"),
        pytest.param({"match": MATCH, "sequence": []}, "sequence", id="empty-sequence"),
        pytest.param({"match": MATCH, "sequence": [{}, {"status": 0}]}, "sequence[1].status", id="in-sequence"),
        pytest.param({"match": MATCH, "forward_to": "localhost:3000"}, "forward_to", id="origin-without-scheme"),
        pytest.param({"match": MATCH, "forward_to": "http://a:99999"}, "forward_to", id="origin-port"),
        pytest.param({"match": MATCH, "forward_to": "http://a/b"}, "forward_to", id="origin-with-path"),
        pytest.param({"match": MATCH, "forward_to": "http://a?b"}, "forward_to", id="origin-with-query"),
        pytest.param({"match": MATCH, "forward_to": "http://[::1"}, "forward_to", id="origin-bracket"),
    ],
)
def test_rule_that_is_wrong_names_the_field(document: Json, field: str) -> None:
    with refused(field):
        read_rule(document)


@pytest.mark.parametrize("url", ["*", "*broken*", "h*", "HTTP*/a", "https:/*", "http://*", "https://x y", "HTTPS://A"])
def test_a_pattern_that_a_url_can_match_is_kept_as_it_is(url: str) -> None:
    """D-329."""
    assert read_rule({"match": {"url": url}, "fault": "dns"}).url == url


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
        read_rule({"match": MATCH, "respond": {"headers": {"Retry-After": value}}})
    assert caught.value.reason == reason


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
    rule = read_rule(document)
    written = {key: value for key, value in shown(rule).items() if key not in ("id", "used")}
    assert read_rule(written) == rule
