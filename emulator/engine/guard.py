"""The guard of the instant: without it a message that republishes itself without delay would stop the clock."""

from __future__ import annotations

from emulator.core.errors import InstantExhausted
from emulator.core.model import Attempt

# More retries than any plan of the service has; an account that was given more can go on for ever with one message.
_MANY_RETRIES = 1000


class InstantGuard:
    """Counts the attempts at one instant that could go on for ever; `most` of them may start.

    These are the attempts of messages that were published on the way, not before or by the instant
    itself. Without an advance anybody may publish, and as much as they like; so what counts there
    is each round of the outbox, which is every attempt if one message goes round. And these are
    the attempts of a message that is retried without end.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._own_work = 0
        self._round_left = 0
        self._without_end = 0

    def begin(self, messages: int) -> None:
        """An instant begins, or nothing is under way any more: the first `messages` are its own work, however many."""
        self._own_work = messages
        self._round_left = 0
        self._without_end = 0

    def count(self, attempt: Attempt, *, waiting: int, advancing: bool, now_ms: int) -> None:
        """An attempt is to start, the first of so many that wait.

        Raises InstantExhausted beyond the maximum, and has not counted it then.
        """
        # A callback is caused by an attempt, and causes no further one.
        message = attempt.message
        is_new = message.number > self._own_work and message.source_message_id is None
        is_retried = attempt.number > _MANY_RETRIES
        counts = is_retried or (is_new and (advancing or self._round_left <= 1))
        if counts and self._without_end >= self._most:
            question = "is a message retried" if is_retried else "does it publish to itself"
            raise InstantExhausted(
                f"more than {self._most} attempts started at the instant {now_ms}, the last to {message.url}: "
                f"{question} without a delay? (--max-attempts-per-instant)"
            )
        self._without_end += counts
        self._round_left = waiting if self._round_left <= 1 else self._round_left - 1
