"""What a plan permits: each limit with its text, its field, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core.errors import InvalidInput, PayloadTooLarge, QuotaExceeded, Refused
from emulator.core.model.resources import Plan
from emulator.core.rules import limits
from emulator.core.rules.limits import events_since_ms, is_readable, readable_until_ms
from tests.harness.simulations import DAY, EPOCH_MS, HOUR, SECOND, World, callback, make_account

URL = "https://api.example.com/hook"
BACK = "https://back.test/"
WEEK = 604_800_000
TOO_LONG = "quota maxDelay exceeded, current limit: 604800"
TOO_OFTEN = "quota maxRetries exceeded, current limit: 5"
DELAYED = "a callback cannot be delayed, expected no delay or 0s"


def refused(world: World, act: Callable[[], object]) -> Refused:
    """The refusal of an act, which left the world as it was."""
    before = world.snapshot()
    with pytest.raises(Refused) as refusal:
        act()
    assert world.snapshot() == before
    return refusal.value


# -- per message ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "field", "reason"),
    [
        ({"delay_ms": WEEK + 1}, "Svc-Delay", TOO_LONG),
        ({"not_before_ms": EPOCH_MS + WEEK + 1}, "Svc-Not-Before", TOO_LONG),
        ({"max_retries": 6}, "Svc-Retries", TOO_OFTEN),
        ({"callback": callback(BACK, max_retries=6)}, "Svc-Callback-Retries", TOO_OFTEN),
        (
            {"failure_callback": callback(BACK, callback=callback(BACK, max_retries=6))},
            "Svc-Failure-Callback-Callback-Retries",
            TOO_OFTEN,
        ),
        ({"callback": callback(BACK, delay_ms=1000)}, "Svc-Callback-Delay", DELAYED),
    ],
)
def test_a_per_message_limit_names_its_field(options: dict[str, Any], field: str, reason: str) -> None:
    """D-042."""
    world = World(make_account(Plan.FREE))
    refusal = refused(world, lambda: world.publish(URL, **options))
    assert isinstance(refusal, InvalidInput)
    assert (refusal.field, refusal.text) == (field, f"{field}: {reason}")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"delay_ms": WEEK}, id="delay"),
        pytest.param({"not_before_ms": EPOCH_MS + WEEK}, id="not-before"),
        pytest.param({"delay_ms": 700_000_000, "not_before_ms": 1}, id="delay-that-not-before-overrules"),
        pytest.param({"max_retries": 5}, id="retries"),
    ],
)
def test_the_limit_itself_is_permitted(options: dict[str, Any]) -> None:
    World(make_account(Plan.FREE)).publish(URL, **options)


def test_a_body_above_the_message_size_is_too_large() -> None:
    """D-042."""
    world = World(make_account(Plan.FREE))
    world.publish(URL, body=b"x" * 1_048_576)
    refusal = refused(world, lambda: world.publish(URL, body=b"x" * 1_048_577))
    assert isinstance(refusal, PayloadTooLarge)
    assert refusal.text == "quota maxMessageSize exceeded, current limit: 1048576"


def test_the_limits_hold_for_group_defaults_together_with_the_publish() -> None:
    world = World(make_account(Plan.FREE))
    world.make_group("team", URL)
    world.change_account(max_retries=20)
    world.set_group_defaults("team", max_retries=10)
    world.change_account(max_retries=5)
    refusal = refused(world, lambda: world.publish_to_group("team"))
    assert refusal.text == "Svc-Retries: quota maxRetries exceeded, current limit: 5"
    assert len(world.publish_to_group("team", max_retries=1)) == 1


# -- defaults ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "max_retries", "expected"),
    [
        pytest.param(Plan.FREE, 5, 3, id="free"),
        pytest.param(Plan.PAID, 20, 5, id="paid"),
        pytest.param(Plan.PAID, 2, 2, id="never-above-the-account"),
    ],
)
def test_the_retry_default_is_that_of_the_plan(plan: Plan, max_retries: int, expected: int) -> None:
    """D-005."""
    assert limits.default_retries(make_account(plan, max_retries=max_retries)) == expected


# -- per day ----------------------------------------------------------------------------------


def test_the_hard_daily_limit_refuses_and_tells_when_it_ends() -> None:
    """Decision D-028."""
    world = World(make_account(max_requests_per_day_hard=2))
    world.run_until(HOUR)
    world.publish(URL)
    world.publish(URL)
    refusal = refused(world, lambda: world.publish(URL))
    assert isinstance(refusal, QuotaExceeded)
    assert refusal.text == "quota maxRequestsPerDay exceeded, current limit: 2"
    assert (refusal.limit, refusal.remaining, refusal.reset_s, refusal.daily) == (2, 0, 1_767_312_000, True)


def test_the_day_ends_at_midnight_utc_of_the_virtual_clock() -> None:
    world = World(make_account(max_requests_per_day_hard=1))
    world.run_until(DAY - 1)
    world.publish(URL)
    refused(world, lambda: world.publish(URL))
    world.run_until(DAY)
    world.publish(URL)
    assert (world.owner.usage_day, world.owner.usage_count) == (20_455, 1)


def test_a_publish_that_does_not_fit_as_a_whole_is_refused_as_a_whole() -> None:
    world = World(make_account(max_requests_per_day_hard=3))
    world.make_group("team", "https://a.test/", "https://b.test/")
    world.publish_to_group("team")
    refusal = refused(world, lambda: world.publish_to_group("team"))
    assert isinstance(refusal, QuotaExceeded)
    assert refusal.remaining == 1


# -- per second -------------------------------------------------------------------------------


def test_more_calls_than_the_plan_has_in_a_second_are_refused() -> None:
    """Decision D-032."""
    account = make_account(max_requests_per_second=2)
    window = limits.count_call(None, account, 10_000, 0)
    window = limits.count_call(window, account, 10_500, 500)
    with pytest.raises(QuotaExceeded) as refusal:
        limits.count_call(window, account, 10_999, 999)
    assert refusal.value.text == "quota maxRequestsPerSecond exceeded, current limit: 2"
    assert (refusal.value.limit, refusal.value.remaining, refusal.value.reset_s) == (2, 0, 11)
    assert not refusal.value.daily


@pytest.mark.parametrize(
    ("now_ms", "wall_ms"),
    [
        pytest.param(11_000, 1, id="the-next-virtual-second"),
        pytest.param(10_000, SECOND, id="a-second-of-real-time-while-the-virtual-clock-stands"),
        pytest.param(10_000, -1, id="a-wall-clock-that-was-put-back"),
    ],
)
def test_the_count_of_calls_begins_again(now_ms: int, wall_ms: int) -> None:
    account = make_account(max_requests_per_second=1)
    window = limits.count_call(None, account, 10_000, 0)
    assert limits.count_call(window, account, now_ms, wall_ms).count == 1


def test_a_running_clock_counts_calls_against_the_plans_limit() -> None:
    """Decision D-032."""
    account = make_account()
    assert limits.counts_calls(account, is_frozen=False)
    assert not limits.counts_calls(account, is_frozen=True)
    assert limits.counts_calls(replace(account, burst_limit_is_set=True), is_frozen=True)


def test_rate_limit_parallelism_budget_and_completion_caps_of_the_record_limit_nothing() -> None:
    """D-004, D-264, D-265."""
    tokens = {"max_completion_tokens_per_day": 0, "max_completion_tokens_per_minute": 0}
    completions = {"max_completions_per_day": 0, "max_completions_per_minute": 0}
    account = replace(make_account(budget=20, max_parallelism=1, rate_limit=1), **tokens, **completions)
    world, window = World(account, answering=None), None
    for _ in range(3):
        window = limits.count_call(window, account, 10_000, 0)
        world.publish(URL)
    assert len(world.starts()) == 3


# -- how long the API shows what is over --------------------------------------------------------


def test_an_ended_message_is_found_for_a_minute() -> None:
    """D-009."""
    assert readable_until_ms(EPOCH_MS) == EPOCH_MS + 60_000
    assert is_readable(EPOCH_MS, EPOCH_MS)
    assert is_readable(EPOCH_MS, EPOCH_MS + 59_999)
    assert not is_readable(EPOCH_MS, EPOCH_MS + 60_000)


@pytest.mark.parametrize(("retention", "shown_days"), [(1, 1), (14, 14), (30, 14)])
def test_events_are_shown_for_the_days_of_the_account_and_at_most_fourteen(retention: int, shown_days: int) -> None:
    """D-002."""
    assert events_since_ms(make_account(retention=retention), EPOCH_MS) == EPOCH_MS - shown_days * DAY
