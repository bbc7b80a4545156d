"""The destination rules that decide attempts, as history shows them beside each attempt."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from emulator.core.model.answers import DestinationRule, ScriptedAnswer
from emulator.core.model.names import MessageId, RuleId
from emulator.journal import codec
from emulator.queries.message_log import AnsweringRule, answering


class AnsweringRules:
    """The rules of a world, and those that decided the attempts under way, all encoded."""

    def __init__(self) -> None:
        # Encoded once, because most attempts of a test are decided by a rule.
        self._rules: dict[RuleId, bytes] = {}
        self._answered_by: dict[MessageId, bytes] = {}

    def copy(self) -> AnsweringRules:
        """See `Projector.copy`."""
        twin = AnsweringRules()
        twin._rules, twin._answered_by = dict(self._rules), dict(self._answered_by)
        return twin

    def add(self, rule: DestinationRule) -> None:
        self._rules[rule.rule_id] = codec.encode_rule(answering(rule))

    def remove(self, rule_ids: Iterable[RuleId]) -> None:
        for rule_id in rule_ids:
            self._rules.pop(rule_id, None)

    def answer(self, message_id: MessageId, answer: ScriptedAnswer | None) -> None:
        """An attempt is under way, which a rule may have decided."""
        if answer is not None and (rule := self.encoded(answer)) is not None:
            self._answered_by[message_id] = rule

    def take(self, message_id: MessageId) -> bytes | None:
        """The rule of an attempt that has finished."""
        return self._answered_by.pop(message_id, None) if self._answered_by else None

    def encoded(self, answer: ScriptedAnswer) -> bytes | None:
        """The rule that decides an attempt, and what it does beside that."""
        encoded = self._rules.get(answer.rule_id)
        if answer.disturbance is None:
            return encoded
        # The rule may have been removed before a duplicate of its attempt.
        gone = AnsweringRule(
            rule_id=answer.rule_id, url="", method=None, forward_to=answer.forward_to, fault=answer.fault
        )
        rule = gone if encoded is None else codec.decode_rule(encoded)
        return codec.encode_rule(replace(rule, disturbance=answer.disturbance))
