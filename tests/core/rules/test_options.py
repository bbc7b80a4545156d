"""Putting configuration together: what a request says wins over what it leaves to the defaults."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import fields

from emulator.core.model.options import REUSE, MessageOptions, Redaction
from emulator.core.record import Headers, QueueName
from emulator.core.rules.options import (
    applied_in_a_queue,
    delivered_headers,
    headers_over,
    ignored_by_queues,
    not_applied_in_a_queue,
    with_callback_defaults,
    with_defaults,
)
from tests.harness.simulations import callback, flow


def test_every_option_has_its_place_in_the_table_of_reuse() -> None:
    missing = {field.name for field in fields(MessageOptions)} - REUSE.keys()
    assert not missing, f"say in REUSE, in core/model/options.py, which calls of a run get {', '.join(missing)}"
    assert REUSE.keys() == {field.name for field in fields(MessageOptions)}


REDACTION = Redaction(body=True, all_headers=False, header_names=())


@pytest.mark.parametrize(
    ("said", "default", "expected"),
    [
        pytest.param({"max_retries": 0}, {"max_retries": 4}, {"max_retries": 0}, id="zero-is-said"),
        pytest.param({"forward_incoming": False}, {"forward_incoming": True}, {"forward_incoming": False}, id="false"),
        pytest.param({"delay_ms": 0}, {"delay_ms": 9}, {"delay_ms": 0}, id="no-delay-is-said"),
        pytest.param({}, {"max_retries": 0}, {"max_retries": 0}, id="a-default-of-zero"),
        pytest.param({"labels": ("a",)}, {"labels": ("b", "c")}, {"labels": ("a",)}, id="labels-are-not-joined"),
        pytest.param(
            {"callback": callback("https://mine.test/")},
            {"callback": callback("https://theirs.test/", max_retries=1)},
            {"callback": callback("https://mine.test/")},
            id="callbacks-are-taken-whole",
        ),
        pytest.param({"not_before_ms": 5}, {"delay_ms": 9}, {"not_before_ms": 5}, id="one-way-to-wait-is-enough"),
        pytest.param({"delay_ms": 9}, {"not_before_ms": 5}, {"delay_ms": 9}, id="one-way-to-wait-the-other-way"),
        pytest.param(
            {"forwarded": (("X-A", "1"),)},
            {"forwarded": (("x-a", "2"), ("X-B", "3"))},
            {"forwarded": (("X-A", "1"), ("X-B", "3"))},
            id="forwarded-headers-are-joined-by-name",
        ),
    ],
)
def test_what_is_said_wins(said: dict[str, Any], default: dict[str, Any], expected: dict[str, Any]) -> None:
    """Decision D-020."""
    assert with_defaults(MessageOptions(**said), MessageOptions(**default)) == MessageOptions(**expected)


_MINE, _THEIRS = "https://mine.test/", "https://theirs.test/"
_ONE = (("X-A", "1"),)
_TWO = (("x-a", "2"), ("X-B", "2"))
_BOTH = (("X-A", "1"), ("X-B", "2"))


@pytest.mark.parametrize(
    ("said", "default", "expected"),
    [
        pytest.param(
            {"callback": callback(_MINE, forwarded=_ONE)},
            {"callback": callback(_THEIRS, forwarded=_TWO, max_retries=1)},
            {"callback": callback(_MINE, forwarded=_BOTH, max_retries=1)},
            id="both-name-a-url",
        ),
        pytest.param(
            {"callback_settings": MessageOptions(forwarded=_ONE)},
            {"callback": callback(_THEIRS, forwarded=_TWO)},
            {"callback": callback(_THEIRS, forwarded=_BOTH)},
            id="the-url-is-a-default",
        ),
        pytest.param(
            {"failure_callback": callback(_MINE, forwarded=_ONE)},
            {"failure_callback_settings": MessageOptions(forwarded=_TWO, max_retries=0)},
            {"failure_callback": callback(_MINE, forwarded=_BOTH, max_retries=0)},
            id="the-url-is-the-publishs",
        ),
        pytest.param(
            {"callback": callback(_MINE, failure_callback=callback(_MINE))},
            {"callback_settings": MessageOptions(failure_callback_settings=MessageOptions(max_retries=1))},
            {"callback": callback(_MINE, failure_callback=callback(_MINE, max_retries=1))},
            id="callbacks-of-callbacks",
        ),
        pytest.param({}, {"callback": callback(_THEIRS)}, {"callback": callback(_THEIRS)}, id="a-default-alone"),
        pytest.param({"max_retries": 1}, {"labels": ("a",)}, {"max_retries": 1, "labels": ("a",)}, id="no-callback"),
    ],
)
def test_callbacks_are_put_together_option_by_option_with_the_defaults_of_a_group(
    said: dict[str, Any], default: dict[str, Any], expected: dict[str, Any]
) -> None:
    """D-020."""
    assert with_callback_defaults(MessageOptions(**said), MessageOptions(**default)) == MessageOptions(**expected)


def test_defaults_that_say_nothing_change_nothing() -> None:
    options = MessageOptions(max_retries=1, forwarded=(("X-A", "1"),))
    assert with_defaults(options, MessageOptions()) is options
    assert with_callback_defaults(options, MessageOptions()) is options


@pytest.mark.parametrize(
    ("headers", "defaults", "expected"),
    [
        pytest.param((), (("A", "1"),), (("A", "1"),), id="only-defaults"),
        pytest.param((("A", "1"),), (), (("A", "1"),), id="only-headers"),
        pytest.param((("a", "1"), ("a", "2")), (("A", "3"),), (("a", "1"), ("a", "2")), id="by-name-whatever-the-case"),
    ],
)
def test_headers_replace_defaults_of_the_same_name(headers: Headers, defaults: Headers, expected: Headers) -> None:
    assert headers_over(headers, defaults) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, (), id="nothing"),
        pytest.param({"content_type": "text/plain"}, (("Content-Type", "text/plain"),), id="content-type"),
        pytest.param(
            {"content_type": "text/plain", "forwarded": (("content-type", "text/html"),)},
            (("content-type", "text/html"),),
            id="a-forwarded-content-type-replaces-it",
        ),
        pytest.param({"incoming": (("X-A", "1"),)}, (), id="incoming-unasked"),
        pytest.param(
            {
                "content_type": "text/plain",
                "forwarded": (("X-A", "f"),),
                "incoming": (("x-a", "i"), ("X-B", "i"), ("content-type", "i")),
                "forward_incoming": True,
            },
            (("Content-Type", "text/plain"), ("X-A", "f"), ("X-B", "i")),
            id="incoming-asked-for",
        ),
    ],
)
def test_what_the_destination_gets(options: dict[str, Any], expected: Headers) -> None:
    assert delivered_headers(MessageOptions(**options)) == expected


@pytest.mark.parametrize(
    ("keeps_delay", "applied", "named"),
    [
        pytest.param(False, {}, ("Svc-Delay", "Svc-Not-Before", "Svc-Flow-Control-Key"), id="publish"),
        pytest.param(True, {"delay_ms": 5, "not_before_ms": 9}, ("Svc-Flow-Control-Key",), id="schedule"),
    ],
)
def test_a_queue_ignores_delay_and_flow_control(
    keeps_delay: bool, applied: dict[str, Any], named: tuple[str, ...]
) -> None:
    """D-021."""
    options = MessageOptions(delay_ms=5, not_before_ms=9, flow_control=flow("k", rate=1), max_retries=2)
    assert applied_in_a_queue(options, keeps_delay=keeps_delay) == MessageOptions(max_retries=2, **applied)
    assert not_applied_in_a_queue(options, QueueName("q"), keeps_delay=keeps_delay) == named
    assert not_applied_in_a_queue(MessageOptions(delay_ms=0), QueueName("q"), keeps_delay=keeps_delay) == ()
    headers = [header for each in ignored_by_queues(keeps_delay=keeps_delay).values() for header in each]
    assert headers == [*named, "Svc-Flow-Control-Value"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        pytest.param(MessageOptions(delay_ms=5), (), id="no-queue"),
        pytest.param(MessageOptions(delay_ms=5, queue=QueueName("q")), ("Svc-Delay",), id="queue-among-the-options"),
    ],
)
def test_without_a_queue_every_option_is_applied(options: MessageOptions, named: tuple[str, ...]) -> None:
    assert not_applied_in_a_queue(options, None) == named
