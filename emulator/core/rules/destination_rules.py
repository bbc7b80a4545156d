"""Destination rules: adding and removing them, which one decides an attempt, and what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec.structs import replace

from emulator.core.commands import AddRule, OrderRules, RemoveRules
from emulator.core.decision import Decision
from emulator.core.errors import InvalidInput, NotFound
from emulator.core.facts import RuleAdded, RulesOrdered, RulesRemoved
from emulator.core.model import DestinationRule, Fault, Message, RuleId, ScriptedAnswer
from emulator.core.state_view import StateView


@lru_cache(maxsize=4096)
def _pattern(url: str) -> re.Pattern[str]:
    first, *middle, last = (re.escape(part) for part in url.split("*"))
    # Each part is found at its first place and kept (an atomic group), so that matching takes no backtracking.
    found = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)


def matches_url(wanted: str, url: str) -> bool:
    """Whether a URL is the one that is wanted: exactly, or by a glob whose `*` means any characters."""
    return wanted == url or ("*" in wanted and _pattern(wanted).fullmatch(url) is not None)


def matches(rule: DestinationRule, message: Message) -> bool:
    """Whether the rule is about this message, by its URL and, if the rule names one, its method."""
    return (rule.method is None or rule.method is message.method) and matches_url(rule.url, message.url)


def answer_for(rules: Mapping[RuleId, DestinationRule], message: Message) -> ScriptedAnswer | None:
    """What the first matching rule with uses left says for the next attempt; None leaves it to the network.

    In a sequence each attempt that the rule decides takes the next response, and the last repeats.
    """
    for rule in rules.values():
        if (rule.times is None or rule.used < rule.times) and matches(rule, message):
            respond = rule.responses[min(rule.used, len(rule.responses) - 1)] if rule.responses else None
            return ScriptedAnswer(
                rule_id=rule.rule_id,
                respond=respond,
                forward_to=rule.forward_to,
                fault=rule.fault,
                latency_ms=rule.latency_ms if respond is None else respond.latency_ms,
            )
    return None


def virtual_duration_ms(answer: ScriptedAnswer | None, timeout_ms: int) -> int:
    """How long the attempt takes on the virtual clock: the rule's latency, at most the message's timeout."""
    if answer is None:
        return 0
    if answer.fault is Fault.TIMEOUT:
        return timeout_ms
    return min(answer.latency_ms, timeout_ms)


def times_out(answer: ScriptedAnswer | None, timeout_ms: int) -> bool:
    """Whether the rule keeps the attempt waiting past the message's timeout."""
    return answer is not None and (answer.fault is Fault.TIMEOUT or answer.latency_ms > timeout_ms)


def add_rule(state: StateView, command: AddRule) -> Decision[RuleId]:
    rule_id = RuleId(f"rule_{state.counters.rules + 1}")
    yield RuleAdded(rule=replace(command.rule, rule_id=rule_id))
    return rule_id


def remove_rules(state: StateView, command: RemoveRules) -> Decision[None]:
    if command.rule_id is not None and command.rule_id not in state.rules:
        raise NotFound(f"destination rule {command.rule_id} not found")
    chosen = tuple(state.rules) if command.rule_id is None else (command.rule_id,)
    if chosen:
        yield RulesRemoved(rule_ids=chosen)


def order_rules(state: StateView, command: OrderRules) -> Decision[None]:
    """Each rule is named once, so that one that was added meanwhile gets no place that nobody chose (D-328)."""
    wanted, there = command.rule_ids, tuple(state.rules)
    if sorted(wanted) != sorted(there):
        raise InvalidInput("ids", f"expected each of {', '.join(there) or 'no rules'} once, got {_named(wanted)}")
    if wanted != there:
        yield RulesOrdered(rule_ids=wanted)


def _named(rule_ids: tuple[RuleId, ...]) -> str:
    return ", ".join(rule_ids) or "none"
