"""What commands are answered with, where that is more than an id, a number or a record of the model."""

from __future__ import annotations

from emulator.core.errors import Refused
from emulator.core.model.names import MessageId, RunId
from emulator.core.record import Record
from emulator.core.workflows import Waiter


class Published(Record):
    """One message of a publish; `deduplicated` means that an earlier one stands for it."""

    message_id: MessageId
    url: str
    deduplicated: bool


class Accepted(Record):
    """What one publish made: one message for a URL, one per endpoint for a group."""

    is_group: bool
    messages: tuple[Published, ...]

    @property
    def is_deduplicated(self) -> bool:
        """Whether earlier messages stand for all of it, so that nothing new was made."""
        return bool(self.messages) and all(message.deduplicated for message in self.messages)


class DailyQuota(Record):
    """What is left of the day's soft limit; the day ends at `reset_s`, a Unix second."""

    limit: int
    remaining: int
    reset_s: int


class PublishReply(Record):
    """What a publish made, and where it left the account's quota."""

    accepted: Accepted
    quota: DailyQuota


class BatchReply(Record):
    """What became of each item of a batch, in their order, and where the whole left the account's quota."""

    items: tuple[Accepted | Refused, ...]
    quota: DailyQuota


class TriggeredRun(Record):
    """A run that was started; `deduplicated`: it is active already and nothing was sent."""

    run_id: RunId
    created_ms: int
    deduplicated: bool = False


class NotifiedWaiter(Record):
    """A waiter that an event resumed, and the message that tells its run."""

    waiter: Waiter
    message_id: MessageId
    run_id: RunId
    run_created_ms: int
