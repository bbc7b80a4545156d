"""The identifiers and names of things, and headers."""

from __future__ import annotations

from typing import NewType

AccountId = NewType("AccountId", str)
MessageId = NewType("MessageId", str)
ScheduleId = NewType("ScheduleId", str)
GroupName = NewType("GroupName", str)
QueueName = NewType("QueueName", str)
FlowKey = NewType("FlowKey", str)
DeadLetterId = NewType("DeadLetterId", str)
RuleId = NewType("RuleId", str)
IndexId = NewType("IndexId", str)
RunId = NewType("RunId", str)
Headers = tuple[tuple[str, str], ...]
