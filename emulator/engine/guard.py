"""The guard of the instant: without it, a message that republishes itself without delay would stop the clock."""

from __future__ import annotations

from emulator.core.errors import InstantExhausted
from emulator.core.model.messages import Attempt
from emulator.core.state_view import StateView

# More retries than any plan of the service has. An account that was given more may retry one message without end.
_MANY_RETRIES = 1000


class InstantGuard:
    """Counts the attempts at one instant that may be part of a loop; `most` of them may start.

    Counted are attempts of messages that were published after the instant began, and attempts of a
    message beyond a great many retries. Without an advance anybody may publish any number of
    messages, so new messages are then counted once for each round of the outbox: a message that
    republishes itself makes a round of every attempt.
    """

    def __init__(self, most: int, state: StateView) -> None:
        self._most = most
        self._state = state
        self._messages_before = 0
        self._left_of_round = 0
        self._counted = 0
        # Set when the limit was reached in the background: nothing leaves until the next `begin`.
        self.refusal: InstantExhausted | None = None

    def begin(self) -> None:
        """An instant begins, or something starts after nothing was in flight. Messages of before are not counted."""
        self._messages_before = self._state.counters.messages
        self._left_of_round = 0
        self._counted = 0
        self.refusal = None

    def count(self, attempt: Attempt, *, waiting: int, advancing: bool) -> None:
        """Count an attempt that is to start, the first of `waiting`.

        Raises InstantExhausted at the limit; the attempt is not counted then.
        """
        message = attempt.message
        # A callback is caused by an attempt and causes no further one.
        is_new = message.number > self._messages_before and message.source_message_id is None
        is_retried = attempt.number > _MANY_RETRIES
        counts = is_retried or (is_new and (advancing or self._left_of_round <= 1))
        if counts and self._counted >= self._most:
            question = "is a message retried" if is_retried else "does it publish to itself"
            raise InstantExhausted(
                f"more than {self._most} attempts started at the instant {self._state.now_ms}, the last to "
                f"{message.url}: {question} without a delay? (--max-attempts-per-instant)"
            )
        self._counted += counts
        self._left_of_round = waiting if self._left_of_round <= 1 else self._left_of_round - 1
