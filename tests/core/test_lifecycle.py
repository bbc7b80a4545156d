"""The message state table: every step it has, and nothing besides."""

from __future__ import annotations

import pytest

from emulator.core import facts, lifecycle
from emulator.core.errors import WorldBroken
from emulator.core.model.messages import Phase

STEPS: dict[type[object], tuple[set[str], str]] = {
    facts.MessageHeld: ({"PENDING", "HELD", "RETRYING"}, "HELD"),
    facts.AttemptStarted: ({"PENDING", "HELD", "RETRYING"}, "ACTIVE"),
    facts.ResponseDelayed: ({"ACTIVE"}, "ACTIVE"),
    facts.AttemptFinished: ({"ACTIVE"}, "ACTIVE"),
    facts.RetryScheduled: ({"ACTIVE"}, "RETRYING"),
    facts.MessageDelivered: ({"ACTIVE"}, "DELIVERED"),
    facts.MessageFailed: ({"ACTIVE"}, "FAILED"),
    facts.MessageCanceled: ({"PENDING", "HELD", "RETRYING", "ACTIVE"}, "CANCELED"),
}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("fact", STEPS)
def test_a_step_leads_where_the_table_says_or_breaks_the_world(fact: type[object], phase: Phase) -> None:
    sources, target = STEPS[fact]
    if phase.value in sources:
        assert lifecycle.next_phase(phase, fact).value == target
    else:
        with pytest.raises(WorldBroken) as broken:
            lifecycle.next_phase(phase, fact)
        assert str(broken.value) == f"a message that is {phase.value} cannot take {fact.__name__}"


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.HELD, Phase.RETRYING, Phase.ACTIVE])
def test_a_cancellation_may_be_requested_in_any_live_phase_and_changes_none(phase: Phase) -> None:
    assert lifecycle.next_phase(phase, facts.CancelRequested) is phase


def test_final_phases_lead_nowhere() -> None:
    assert {phase.value for phase in lifecycle.FINAL} == {"DELIVERED", "FAILED", "CANCELED"}
    assert not {phase for phase, _ in lifecycle.TRANSITIONS} & lifecycle.FINAL


def test_every_final_phase_is_reached() -> None:
    assert set(lifecycle.TRANSITIONS.values()) >= lifecycle.FINAL


def test_the_docstring_lists_every_fact_of_the_table() -> None:
    assert lifecycle.__doc__ is not None
    for fact in {fact for _, fact in lifecycle.TRANSITIONS}:
        assert f"| {fact.__name__} " in lifecycle.__doc__
