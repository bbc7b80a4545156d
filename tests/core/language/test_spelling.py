"""Which known name is meant by a misspelt one."""

from __future__ import annotations

import pytest

from emulator.core.language.spelling import near

HEADERS = (
    "Svc-Method",
    "Svc-Retries",
    "Svc-Retry-Delay",
    "Svc-Callback",
    "Svc-Callback-Method",
    "Svc-Failure-Callback",
)


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        pytest.param("Svc-Retires", HEADERS, ["Svc-Retries"], id="letters swapped"),
        pytest.param("svc_retries", HEADERS, ["Svc-Retries"], id="another separator and case"),
        pytest.param("Svc-Foo", HEADERS, [], id="only the prefix alike"),
        pytest.param("Upstash-Foo", ("Upstash-Method",), [], id="only a long prefix alike"),
        pytest.param("max_foo", ("max_retries", "max_queues"), [], id="only a first word alike"),
        pytest.param("max_retires", ("max_retries", "max_queues"), ["max_retries"], id="underscores"),
        pytest.param("/v2/event", ("/v2/events", "/v2/logs"), ["/v2/events"], id="a path"),
        pytest.param("/v2/nothing", ("/v2/queues", "/v2/topics"), [], id="no path"),
        pytest.param("Svc-Callback", ("Svc-Callback-Method",), ["Svc-Callback-Method"], id="a word more"),
        pytest.param("cuont", ("count", "cursor"), ["count"], id="one word"),
        pytest.param("json", ("body", "body_json"), ["body_json"], id="the end of a name"),
        pytest.param("", HEADERS, [], id="nothing"),
        pytest.param("a", (), [], id="nothing known"),
    ],
)
def test_only_what_is_near_is_meant(name: str, known: tuple[str, ...], meant: list[str]) -> None:
    assert near(name, known) == meant


def test_the_nearest_come_first() -> None:
    assert near("max_retrie", ("max_rates", "max_retries", "max_tries"), most=2) == ["max_retries", "max_tries"]
