"""How much one world does at once, and how long it waits; the guard of the instant."""

from __future__ import annotations

from emulator.core.errors import InstantExhausted
from emulator.core.model.messages import Attempt
from emulator.core.record import Record
from emulator.core.state import StateView

# More retries than any plan of the service has. An account that was given more may retry one message without end.
_MANY_RETRIES = 1000


class Limits(Record):
    """The limits and waiting times of a driver.

    `concurrency` is how many attempts may be under way at once: per destination origin in a running
    world, in all in a frozen one. None means 64 of each, but 1 during a clock advance and for
    mounted applications.
    """

    concurrency: int | None = None
    max_attempts_per_instant: int = 10_000
    # How long a call in a frozen world waits for the deliveries it caused. The caller may be the
    # receiver, with one thread, and then cannot answer before its call returns.
    settle_s: float = 1.0
    # How long an advance waits for the next outcome of attempts that left before it began. The
    # caller may be their receiver.
    patience_s: float = 15
    # The same while a call waits for the deliveries it caused: the two wait for each other then, if
    # the caller of the advance is a receiver in its handler (D-293).
    deadlock_s: float = 0.25
    # A clock faster than real time slips when catching up with it takes longer than this.
    slip_after_ms: int = 200
    # A clock that catches up waits for deliveries while so many messages are due and have not ended.
    most_due: int = 1_000
    # It waits no longer than this for the next of them.
    crowded_s: float = 1.0
    # How long after a failed write a world tries to open its database again, and after each further try.
    mend_after_s: float = 1.0
    # A follower of the stream that takes nothing for so long is disconnected (D-563).
    stalled_s: float = 30.0


class InstantGuard:
    """Counts the attempts at one instant that may be part of a loop; `most` of them may start.

    Without it, a message that republishes itself without delay would stop the clock.
    Counted are attempts of messages that were published after the instant began, and attempts of a
    message beyond a great many retries. Without an advance anybody may publish any number of
    messages, so new messages are then counted once for each round of the outbox, which is as long as
    what is in flight when it begins: a message that republishes itself makes rounds of one or two attempts.
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

    def count(self, attempt: Attempt, *, in_flight: int, advancing: bool) -> None:
        """Count an attempt that is to leave, one of `in_flight` that have not come back.

        Raises InstantExhausted at the limit; the attempt is not counted then.
        """
        message = attempt.message
        # A callback is caused by an attempt and causes no further one.
        is_new = message.number > self._messages_before and message.source.source_message_id is None
        is_retried = attempt.number > _MANY_RETRIES
        counts = is_retried or (is_new and (advancing or self._left_of_round <= 1))
        if counts and self._counted >= self._most:
            question = "is a message retried" if is_retried else "does it publish to itself"
            raise InstantExhausted(
                f"more than {self._most} attempts started at the instant {self._state.now_ms}, the last to "
                f"{message.url}: {question} without a delay? (--max-attempts-per-instant)"
            )
        self._counted += counts
        self._left_of_round = in_flight if self._left_of_round <= 1 else self._left_of_round - 1
