"""Reports and the sending of requests."""

from __future__ import annotations

import asyncio
import gzip
import json
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from emulator.conformance.reports import CheckResult, ReceiverReport, Verdict, json_object, junit_xml, text_lines
from emulator.conformance.sending import EffectUnreadable, amount, read_url
from tests.harness import emulators

# -- a report as lines, JSON and JUnit XML ---------------------------------------------------------


def result(check_id: str, verdict: Verdict, note: str = "") -> CheckResult:
    return CheckResult(
        id=check_id,
        title=f"the check {check_id}",
        verdict=verdict,
        sent="POST",
        expected="2xx",
        came='500 in 7 ms, "<\\u0000>"',
        why="because",
        mend="do it",
        note=note,
    )


REPORT = ReceiverReport(
    url="http://127.0.0.1:3000/jobs",
    profile="none",
    results=(
        result("valid", Verdict.PASSED),
        result("expired", Verdict.FAILED, "it was accepted"),
        result("tampered-url", Verdict.TOLERATED, "the client"),
        result("no-effect", Verdict.NOT_JUDGED, "no source"),
    ),
    requests=31,
    took_ms=1250,
)


def test_lines_tell_of_a_failure_all_that_is_known() -> None:
    assert list(text_lines(REPORT)) == [
        "passed      valid         the check valid",
        "failed      expired       the check expired",
        "            it was accepted",
        "            sent:     POST",
        "            expected: 2xx",
        '            came:     500 in 7 ms, "<\\u0000>"',
        "            why:      because",
        "            mend:     do it",
        "tolerated   tampered-url  the check tampered-url",
        "            the client",
        "not judged  no-effect     the check no-effect",
        "            no source",
        "http://127.0.0.1:3000/jobs: 1 passed, 1 failed, 1 tolerated, 1 not judged (31 requests, 1.2 s)",
    ]


def test_many_checks_that_are_not_judged_for_one_reason_are_told_in_two_lines() -> None:
    open_ones = tuple(result(name, Verdict.NOT_JUDGED, "nobody is there") for name in ("a", "b", "c", "d"))

    assert list(text_lines(replace(REPORT, results=(result("valid", Verdict.FAILED, "no answer"), *open_ones))))[
        -3:
    ] == [
        "not judged  4 checks, from a to d",
        "            nobody is there",
        "http://127.0.0.1:3000/jobs: 1 failed, 4 not judged (31 requests, 1.2 s)",
    ]


def test_json_has_every_part_of_every_check() -> None:
    found = json.loads(json.dumps(json_object(REPORT)))
    assert (found["passed"], found["requests"]) == (False, 31)
    assert found["results"][1] == {
        "id": "expired",
        "title": "the check expired",
        "verdict": "failed",
        "sent": "POST",
        "expected": "2xx",
        "came": '500 in 7 ms, "<\\u0000>"',
        "why": "because",
        "mend": "do it",
        "note": "it was accepted",
    }


def test_junit_has_a_case_for_each_check() -> None:
    suites = ElementTree.fromstring(junit_xml(REPORT))
    [suite] = suites
    assert (suites.tag, suite.tag) == ("testsuites", "testsuite")
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped", "time")]
    assert counts == ["4", "1", "0", "2", "1.250"]
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases == {
        "valid: the check valid": [],
        "expired: the check expired": ["failure"],
        "tampered-url: the check tampered-url": ["skipped"],
        "no-effect: the check no-effect": ["skipped"],
    }
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert (failure.get("message"), "mend:     do it" in (failure.text or "")) == ("it was accepted", True)


# -- how states are read and counted ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "counted"),
    [
        (3, 3),
        (b"7", 7),
        ('{"mails": ["a", "b"], "charged": 1.5, "name": "x"}', 3.5),
        ([1, [2, 3]], 2),
        ({"a", "b"}, 2),
        ({"name": "x"}, None),
        ("three mails", None),
        (None, None),
        (True, None),
        (object, None),
    ],
)
def test_a_state_is_counted_by_its_numbers_and_lists(state: object, counted: float | None) -> None:
    assert amount(state) == counted


def test_a_url_that_does_not_show_a_state_is_an_error() -> None:
    with emulators.http_server(lambda received: (404, {}, b"")) as url:
        read = read_url(f"{url}/state")
        with pytest.raises(EffectUnreadable, match="/state answered 404, expected 2xx"):
            asyncio.run(read())  # type: ignore[arg-type]  # it is a coroutine
    with pytest.raises(EffectUnreadable, match="cannot be read"):
        asyncio.run(read())  # type: ignore[arg-type]


def test_a_state_that_is_very_long_is_not_read_whole() -> None:
    """D-790: packed, it may be a thousand times as long as what is sent."""
    packed = gzip.compress(bytes(9_000_000), mtime=0)
    with emulators.http_server(lambda received: (200, {"Content-Encoding": "gzip"}, packed)) as url:
        read = read_url(f"{url}/state")
        with pytest.raises(EffectUnreadable, match="answered with more than 8 MiB, expected less, such as a count"):
            asyncio.run(read())  # type: ignore[arg-type]  # it is a coroutine
