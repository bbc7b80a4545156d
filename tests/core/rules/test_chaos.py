"""Chaos: what one number stands for."""

from __future__ import annotations

import pytest

from emulator.core import commands, facts
from emulator.core.model.answers import Fault
from emulator.core.rules.chaos import Chaos, rules_of
from tests.harness.simulations import DAY, World


def test_no_chaos_is_no_rule() -> None:
    """D-423."""
    assert rules_of(Chaos()) == ()


def test_a_level_stands_for_these_rules() -> None:
    """D-423."""
    found = [
        (rule.chance, rule.duplicate_ms, rule.reorder_ms, rule.latest_ms, len(rule.responses), rule.fault)
        for rule in rules_of(Chaos(level=0.2))
    ]
    assert found == [
        (0.2, 0, None, None, 0, None),
        (0.2, None, 0, None, 0, None),
        (0.2, None, None, 5_000, 0, None),
        (0.1, None, None, None, 1, None),
        (0.05, None, None, None, 0, Fault.REFUSED),
        (0.05, None, None, None, 0, Fault.TIMEOUT),
    ]


@pytest.mark.parametrize("level", [0.1, 0.5])
def test_about_as_many_attempts_fail_as_the_level_says(level: float) -> None:
    """D-423."""
    world = World()
    for rule in rules_of(Chaos(level=level)):
        world.do(commands.AddRule(rule=rule))
    for number in range(400):
        world.publish(f"https://api.example.com/{number}", delay_ms=1_000)
    world.run_for(DAY)
    first = [each.answer for each in world.all(facts.AttemptStarted) if each.number == 1]
    share = sum(answer is not None and answer.decides for answer in first) / 400
    assert level * 0.6 < share < level * 1.4
