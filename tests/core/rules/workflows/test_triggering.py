"""Runs that are triggered by anybody: ids, the handshake, the failure function."""

from __future__ import annotations

import re

import pytest

from emulator.core.errors import InvalidRunMessage, QuotaExceeded
from tests.harness.simulations import answered, make_account
from tests.harness.workflows import FLOW, RUN, RunWorld, item, part, steps_in


def handshaking() -> RunWorld:
    """A world whose endpoint answers the first call with an init message of its own."""
    world = RunWorld()

    def introduce(_: RunWorld) -> None:
        message = world.calls[-1]
        assert message.run is not None
        if message.run.awaits_sdk:
            own = part(message.run.run_id, is_init=True, url=FLOW, by_sdk=True)
            world.send(item(body=steps_in(message)[0], workflow=own, max_retries=1))

    world.acts[1] = introduce
    return world


def test_a_triggered_run_begins_with_a_handshake() -> None:
    """D-370."""
    world = handshaking()
    (run,) = world.trigger(item(body=b"p", forwarded=(("X-User", "u"),)))
    first, second = world.calls
    assert first.run is not None
    assert second.run is not None
    assert (first.run.awaits_sdk, second.run.awaits_sdk) == (True, False)
    assert first.headers == (("X-User", "u"),)
    assert steps_in(second) == [b"p"]
    assert second.run.run_created_ms == first.run.run_created_ms == run.created_ms
    assert world.endings == []
    assert world.run(run.run_id).options.max_retries == 1


def test_the_service_names_a_run_without_an_id() -> None:
    """D-360."""
    world = handshaking()
    one, two = world.trigger(item(), item())
    assert re.fullmatch("wfr_[1-9A-HJ-NP-Za-km-z]{21}", one.run_id)
    assert one.run_id != two.run_id


def test_an_active_run_of_the_id_is_left_alone() -> None:
    world = handshaking()
    world.trigger(item(workflow=part(RUN)))
    calls = len(world.calls)
    (again,) = world.trigger(item(workflow=part(RUN)))
    assert (again.run_id, again.deduplicated, len(world.calls)) == (RUN, True, calls)


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ((), "detected a non-workflow destination for trigger/invoke"),
        ((("Svc-Workflow-Sdk-Version", "1"),), "trigger rest api is only usable with sdk versions after v1.0.0"),
    ],
)
def test_without_the_handshake_the_run_fails(headers: tuple[tuple[str, str], ...], error: str) -> None:
    world = RunWorld()
    world.outcomes[FLOW] = lambda message, number: answered(headers=headers)
    world.trigger(item(workflow=part(RUN)))
    assert world.endings == [(RUN, "RUN_FAILED")]
    assert error in (world.failed_run().outcome.error or "")
    # The failure function is the workflow's own.
    assert [message.url for message in world.calls] == [FLOW, FLOW]


def test_all_are_triggered_or_none() -> None:
    world = RunWorld(account=make_account(max_requests_per_day_hard=1))
    with pytest.raises(QuotaExceeded):
        world.trigger(item(), item())
    with pytest.raises(InvalidRunMessage):
        world.trigger(item(), item(max_retries=99))
    assert world.facts == []
