"""How much one world does at once, and how long it waits; the guard against loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from emulator.core.model.messages import LoopCause, Message, destination_origin
from emulator.core.record import MessageId, Record

# More retries than any plan of the service has. An account that was given more may retry one message without end.
_MANY_RETRIES = 1000
# So many times the maximum may be published in all during an advance.
_TIMES_IN_ALL = 10


class Limits(Record):
    """The limits and waiting times of a driver.

    `concurrency` is how many attempts may be under way at once: per destination origin in a running
    world, in all in a frozen one. None means 64 of each, but 1 during a clock advance and for
    mounted applications.
    """

    concurrency: int | None = None
    max_attempts_per_instant: int = 1_000
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


# With so many destinations in one chain, it is counted anew: each of its messages has a copy of the counts.
_MOST_OF_CHAIN = 1024


class Loop(Record):
    """A destination that has done something more than `limit` times at this instant, the last time `message_id`."""

    origin: str
    limit: int
    cause: LoopCause
    message_id: MessageId


class LoopGuard:
    """Finds destinations that publish to themselves without end at one instant (D-785).

    A request does not say which attempt it comes from, so a message counts as caused by an attempt that
    is in flight when it is published: the oldest to its own destination, and if there is none the oldest
    of all. A callback is caused by the attempt it reports. A message with a cause continues the chain of
    that, in which the messages to each destination are counted. So what counts is how long a series of
    causes is, not how many messages there are: what a test publishes side by side makes many short chains,
    what a handler publishes for each of its users makes one of two, and a loop makes a long one. A message
    that is published while nothing is in flight begins a chain.

    A loop is more than `most` messages to one destination in one chain. Loops that double are long before
    they are deep; an advance, in which few attempts are in flight at once, ends them at ten times as many
    messages that were at least the second to their destination in their chain. The calls of a workflow run
    continue a chain and do not count: a run has a maximum of steps (D-561).

    In a frozen world and during an advance an instant is one of the virtual clock, else a second of real time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._instant: tuple[bool, int] = (False, 0)
        # Per message with a cause, how many of its chain went to each destination.
        self._chains: dict[MessageId, Mapping[str, int]] = {}
        # The chain that was continued last, by which destination, and what it became: messages of one cause share it.
        self._last: tuple[Mapping[str, int], str, Mapping[str, int]] = ({}, "", {})
        # The destinations whose attempts may have published: only they can close a circle.
        self._publishers: set[str] = set()
        # By destination: messages of advances that continue a chain; retries beyond a great many.
        self._continuing: Counter[str] = Counter()
        self._retried: Counter[str] = Counter()

    @property
    def limits(self) -> tuple[int, int]:
        """More than one of these at one instant are a loop."""
        return self._most, _TIMES_IN_ALL * self._most

    def has_chain(self, message_id: MessageId) -> bool:
        """Whether what the message causes continues a chain."""
        return message_id in self._chains

    def move_to(self, now_ms: int, *, rate: float) -> None:
        """The clock has moved, by itself at a rate, or with 0 because somebody moved it.

        At another instant everything is counted anew.
        """
        instant = (rate > 0, int(now_ms // (1000 * rate)) if rate > 0 else now_ms)
        if instant != self._instant:
            self._instant = instant
            self._chains.clear()
            self._publishers.clear()
            self._continuing.clear()
            self._retried.clear()

    def forget(self, message_id: MessageId) -> None:
        """A message has ended."""
        self._chains.pop(message_id, None)

    def published(
        self, message: Message, in_flight: Mapping[str, Mapping[object, Message]], *, advancing: bool
    ) -> Loop | None:
        """A call has created a message; `in_flight` has the messages of attempts, by destination, oldest first."""
        messages = in_flight.get(destination_origin(message.url)) or next(iter(in_flight.values()))
        cause = next(iter(messages.values()))
        publisher = destination_origin(cause.url)
        self._publishers.add(publisher)
        chain = self._chains.get(cause.message_id)
        if chain is None:
            chain = self._chains[cause.message_id] = {publisher: 0}
        return self._continue(message, chain, advancing=advancing)

    def followed(self, message: Message, cause_id: MessageId, *, advancing: bool) -> Loop | None:
        """The outcome of a message that has a chain has created one: a callback, or the next call of a run."""
        return self._continue(message, self._chains[cause_id], advancing=advancing)

    def retried(self, message: Message, number: int) -> Loop | None:
        """Attempt `number` of a message has started."""
        if number <= _MANY_RETRIES:
            return None
        origin = destination_origin(message.url)
        self._retried[origin] += 1
        if self._retried[origin] <= self._most:
            return None
        return Loop(origin=origin, limit=self._most, cause=LoopCause.RETRIED, message_id=message.message_id)

    def _continue(self, message: Message, chain: Mapping[str, int], *, advancing: bool) -> Loop | None:
        origin = destination_origin(message.url)
        is_call_of_run = message.run is not None and not message.run.is_init
        if is_call_of_run or origin not in self._publishers:
            self._chains[message.message_id] = chain
            return None
        continued, to, longer = self._last
        if continued is not chain or to != origin:
            count = chain[origin] + 1 if origin in chain else 0
            kept = chain if len(chain) < _MOST_OF_CHAIN else {}
            longer = {**kept, origin: count}
            self._last = chain, origin, longer
        self._chains[message.message_id] = longer
        count = longer[origin]
        limit = self._most
        if count <= limit:
            if not advancing or count <= 1:
                return None
            self._continuing[origin] += 1
            limit *= _TIMES_IN_ALL
            if self._continuing[origin] <= limit:
                return None
        return Loop(origin=origin, limit=limit, cause=LoopCause.PUBLISHED, message_id=message.message_id)
