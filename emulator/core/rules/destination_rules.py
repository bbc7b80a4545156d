"""Destination rules: adding and removing them, which one decides an attempt, and what it says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec.structs import replace

from emulator.core.commands import AddRule, OrderRules, RemoveRules
from emulator.core.errors import InvalidInput, NotFound
from emulator.core.model.messages import Message, Progress
from emulator.core.model.resources import DestinationRule, Disturbance, Fault, ScriptedAnswer, ScriptedResponse
from emulator.core.record import Record, RuleId, draw
from emulator.core.resource_facts import RuleAdded, RulesOrdered, RulesRemoved
from emulator.core.state import Decision, StateView


@lru_cache(maxsize=4096)
def _pattern(url: str) -> re.Pattern[str]:
    first, *middle, last = (re.escape(part) for part in url.split("*"))
    # Each part is found at its first place and kept (an atomic group), so that matching takes no backtracking.
    found = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)


def matches_url(wanted: str, url: str) -> bool:
    """Whether a URL is as wanted: exactly, or by a glob whose `*` means any characters."""
    return wanted == url or ("*" in wanted and _pattern(wanted).fullmatch(url) is not None)


def matches(rule: DestinationRule, message: Message) -> bool:
    """Whether the rule is about this message, by its URL and, if the rule names one, its method.

    An empty query makes no difference, unless the rule names it (D-797).
    """
    if rule.method is not None and rule.method is not message.method:
        return False
    url = message.url
    return matches_url(rule.url, url) or (url.endswith("?") and matches_url(rule.url, url[:-1]))


def answer_for(state: StateView, progress: Progress) -> ScriptedAnswer | None:
    """What the rules with uses left say for the next attempt; None leaves it to the network.

    The first rule that answers decides. In a sequence each attempt that the rule decides takes the
    next response, and the last repeats. Rules before it that only disturb are carried out as well.
    """
    disturbing: list[DestinationRule] = []
    for rule in state.rules.values():
        if _applies_to(state, rule, progress):
            if rule.answers:
                return _answer(state, progress, rule, disturbing)
            disturbing.append(rule)
    return _answer(state, progress, None, disturbing) if disturbing else None


def _answer(
    state: StateView, progress: Progress, decides: DestinationRule | None, disturbing: Sequence[DestinationRule]
) -> ScriptedAnswer:
    """`disturbing` are rules without an answer of their own; one of the two is given."""
    respond, latency_ms, added_ms, disturbance = None, 0, 0, None
    if decides is not None:
        responses = decides.responses
        respond = responses[min(decides.used, len(responses) - 1)] if responses else None
        latency_ms = _latency_ms(state, decides, progress, decides if respond is None else respond)
    rules = [rule for rule in (decides, *disturbing) if rule is not None]
    if disturbing or _is_disturbing(rules[0], respond):
        is_range = decides is not None and (decides if respond is None else respond).latest_ms is not None
        added_ms = sum(_latency_ms(state, rule, progress, rule) for rule in disturbing)
        disturbance = Disturbance(
            is_answered=decides is not None and decides.chance is not None,
            latency_ms=added_ms + (latency_ms if is_range else 0),
            is_postponed=progress.message.policy.queue is None and any(rule.reorder_ms is not None for rule in rules),
        )
    return ScriptedAnswer(
        rule_id=rules[0].rule_id,
        respond=respond,
        forward_to=None if decides is None else decides.forward_to,
        fault=None if decides is None else decides.fault,
        latency_ms=latency_ms + added_ms,
        duplicate_ms=min((rule.duplicate_ms for rule in rules if rule.duplicate_ms is not None), default=None),
        disturbance=disturbance,
        others=tuple(rule.rule_id for rule in rules[1:]),
    )


# -- what is left to chance -------------------------------------------------------------------


# How often an attempt is put behind the others of its instant at most, so that many orders come about.
_MOST_PLACES = 8


def _applies_to(state: StateView, rule: DestinationRule, progress: Progress) -> bool:
    """Whether a rule has uses left, is about the message, and meets its next attempt."""
    if (rule.times is not None and rule.used >= rule.times) or not matches(rule, progress.message):
        return False
    if rule.exempt_attempts and attempt_key(progress.message, progress.dispatch.retried + 1) in rule.exempt_attempts:
        return False
    return rule.chance is None or _drawn(state, rule, progress, "meets") < rule.chance


def attempt_key(message: Message, number: int) -> str:
    """How `exempt_attempts` names an attempt: by the numbers of the message and of the attempt, `3.1`."""
    return f"{message.number}.{number}"


def _drawn(state: StateView, rule: DestinationRule, progress: Progress, purpose: str) -> float:
    """A number from 0 up to 1 that follows from the world's seed, the rule, the message and the attempt (D-420).

    It depends on nothing that was drawn before, so that a restart or a snapshot changes none.
    """
    attempt = progress.dispatch.retried + 1
    return draw(state.event_key, f"{rule.rule_id}/{purpose}/{attempt}", progress.message.number)


def _latency_ms(
    state: StateView, rule: DestinationRule, progress: Progress, given: DestinationRule | ScriptedResponse
) -> int:
    if given.latest_ms is None:
        return given.latency_ms
    steps = given.latest_ms - given.latency_ms + 1
    return given.latency_ms + int(_drawn(state, rule, progress, "latency") * steps)


def _is_disturbing(rule: DestinationRule, respond: ScriptedResponse | None) -> bool:
    """Whether the rule does more than answer every attempt that it is about alike."""
    return (
        rule.chance is not None
        or rule.duplicate_ms is not None
        or rule.reorder_ms is not None
        or rule.latest_ms is not None
        or (respond is not None and respond.latest_ms is not None)
    )


def postponed_until_ms(state: StateView, progress: Progress) -> int | None:
    """Until when rules put back an attempt that is due; None if it may leave now.

    Messages of a queue keep their order, which the service promises (D-422).
    """
    if progress.message.policy.queue is not None:
        return None
    decided = False
    for rule in state.rules.values():
        if decided or not _applies_to(state, rule, progress):
            continue
        decided = rule.answers
        postponed = progress.dispatch.postponed
        # An attempt is put back once for a while, or so often behind the others of the instant.
        if rule.reorder_ms and postponed == 0:
            return state.now_ms + 1 + int(_drawn(state, rule, progress, "reorder") * rule.reorder_ms)
        if rule.reorder_ms == 0 and postponed < 1 + int(_drawn(state, rule, progress, "place") * (_MOST_PLACES - 1)):
            return state.now_ms
    return None


# -- how long it takes ------------------------------------------------------------------------


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
    """Add a rule behind all others; its id."""
    rule_id = RuleId(f"rule_{state.counters.rules + 1}")
    yield RuleAdded(rule=replace(command.rule, rule_id=rule_id))
    return rule_id


def remove_rules(state: StateView, command: RemoveRules) -> Decision[None]:
    """Remove one rule, or all without an id. Raises NotFound for an id that no rule has."""
    if command.rule_id is not None and command.rule_id not in state.rules:
        raise NotFound("destination rule", command.rule_id)
    chosen = tuple(state.rules) if command.rule_id is None else (command.rule_id,)
    if chosen:
        yield RulesRemoved(rule_ids=chosen)


def order_rules(state: StateView, command: OrderRules) -> Decision[None]:
    """Each rule is named once, so that one that was added meanwhile gets a place only if one was chosen (D-328)."""
    wanted, there = command.rule_ids, tuple(state.rules)
    if sorted(wanted) != sorted(there):
        expected = f"expected each of {', '.join(there) or 'no rules'} once"
        raise InvalidInput("ids", f"{expected}, got {', '.join(wanted) or 'none'}")
    if wanted != there:
        yield RulesOrdered(rule_ids=wanted)


# -- chaos --------------------------------------------------------------------------------------

# The longest latency that is added, virtual time.
_LATEST_MS = 5_000


class Chaos(Record, rename={"exempt_attempts": "spared"}):
    """How much goes wrong in a world: `level` from 0 to 1, and the attempts that are spared (`3.1`)."""

    level: float = 0.0
    exempt_attempts: tuple[str, ...] = ()


def chaos_rules(chaos: Chaos) -> tuple[DestinationRule, ...]:
    """The rules for all destinations that a level of chaos stands for, none for 0 (D-423).

    Each attempt fails with about the chance of the level: half of these are answered 503, the others
    are refused or time out. With the level's chance each, an attempt leaves behind others of
    its instant, its answer takes up to five seconds, and a delivery is made twice.
    """
    if not chaos.level:
        return ()
    level = chaos.level
    rule = DestinationRule(rule_id=RuleId(""), url="*", method=None, exempt_attempts=chaos.exempt_attempts)
    return (
        replace(rule, chance=level, duplicate_ms=0),
        replace(rule, chance=level, reorder_ms=0),
        replace(rule, chance=level, latest_ms=_LATEST_MS),
        replace(rule, chance=level / 2, responses=(ScriptedResponse(status=503),)),
        replace(rule, chance=level / 4, fault=Fault.REFUSED),
        replace(rule, chance=level / 4, fault=Fault.TIMEOUT),
    )
