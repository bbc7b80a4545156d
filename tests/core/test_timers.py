"""Timers: order, ties, replacement, and what a clock is drawn to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.model.messages import TimerKind
from emulator.core.record import MessageId
from emulator.core.timers import Timers, WaitList

DELIVERY, SCHEDULE, ANSWER = TimerKind.DELIVERY, TimerKind.SCHEDULE, TimerKind.ANSWER
QUIET = TimerKind.DEDUPLICATION_EXPIRY


def subjects(timers: Timers) -> list[str]:
    return [timer.subject for timer in timers]


def fire_all(timers: Timers, now_ms: int) -> list[str]:
    fired: list[str] = []
    while (timer := timers.due(now_ms)) is not None:
        fired.append(timer.subject)
        timers.disarm(timer.kind, timer.subject)
    return fired


def test_timers_fire_by_instant_and_ties_by_the_order_of_arming() -> None:
    timers = Timers()
    for kind, subject, due_ms in (
        (DELIVERY, "late", 30),
        (SCHEDULE, "tie-1", 20),
        (DELIVERY, "tie-2", 20),
        (QUIET, "tie-3", 20),
        (ANSWER, "early", 10),
        (SCHEDULE, "tie-4", 20),
    ):
        timers.arm(kind, subject, due_ms)
    expected = ["early", "tie-1", "tie-2", "tie-3", "tie-4", "late"]
    assert subjects(timers) == expected
    assert fire_all(timers, 30) == expected


def test_a_timer_is_due_at_its_instant_and_not_before() -> None:
    timers = Timers()
    timers.arm(DELIVERY, "a", 10)
    assert timers.due(9) is None
    due = timers.due(10)
    assert due is not None
    assert (due.due_ms, due.kind, due.subject) == (10, DELIVERY, "a")
    assert timers.due(10) is due
    timers.disarm(DELIVERY, "a")
    assert timers.due(10) is None


def test_quiet_timers_are_due_but_are_no_work() -> None:
    timers = Timers()
    timers.arm(QUIET, "account", 10)
    timers.arm(TimerKind.DEAD_LETTER_EXPIRY, "account", 11)
    assert timers.next_due_ms() == 10
    assert timers.next_work_ms() is None


def test_schedule_firings_can_be_left_out_of_the_work() -> None:
    timers = Timers()
    timers.arm(SCHEDULE, "s", 10)
    timers.arm(QUIET, "account", 5)
    assert timers.next_work_ms() == 10
    assert timers.next_work_ms(schedules=False) is None
    timers.arm(DELIVERY, "m", 20)
    assert (timers.next_work_ms(), timers.next_work_ms(schedules=False)) == (10, 20)


arming = st.tuples(st.sampled_from(TimerKind), st.sampled_from("abc"), st.integers(0, 5))


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), arming)))
def test_timers_agree_with_a_sorted_table(steps: list[tuple[bool, tuple[TimerKind, str, int]]]) -> None:
    timers = Timers()
    table: dict[tuple[TimerKind, str], tuple[int, int]] = {}
    for sequence, (is_arming, (kind, subject, due_ms)) in enumerate(steps):
        if is_arming:
            timers.arm(kind, subject, due_ms)
            table[kind, subject] = (due_ms, sequence)
        else:
            timers.disarm(kind, subject)
            table.pop((kind, subject), None)
        first = min(table.values(), default=None)
        assert timers.next_due_ms() == (None if first is None else first[0])
    in_order = sorted(table, key=table.__getitem__)
    assert [(timer.kind, timer.subject) for timer in timers] == in_order
    restored = Timers()
    restored.restore(tuple(timers), timers.sequence)
    assert list(restored) == list(timers)
    assert restored.sequence == timers.sequence
    assert fire_all(restored, 5) == [subject for _, subject in in_order]


# -- waiting for a slot -------------------------------------------------------------------------

A, B, C = MessageId("a"), MessageId("b"), MessageId("c")


def test_the_first_ticket_is_first_whichever_joined_first() -> None:
    line = WaitList()
    line.join(A, 3)
    line.join(B, 1)
    line.join(C, 2)
    assert line.first == B
    assert list(line) == [B, C, A]
    assert len(line) == 3


def test_leaving_from_the_middle_and_from_the_front() -> None:
    line = WaitList()
    for ticket, message_id in enumerate((A, B, C)):
        line.join(message_id, ticket)
    line.leave(B)
    assert list(line) == [A, C]
    line.leave(A)
    assert line.first == C
    assert A not in line
    assert C in line


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), st.sampled_from((A, B, C)), st.integers(0, 4))))
def test_a_line_agrees_with_a_sorted_table(steps: list[tuple[bool, MessageId, int]]) -> None:
    line = WaitList()
    tickets: dict[MessageId, int] = {}
    for joins, message_id, ticket in steps:
        if joins and ticket not in tickets.values():
            line.join(message_id, ticket)
            tickets[message_id] = ticket
        elif not joins:
            line.leave(message_id)
            tickets.pop(message_id, None)
        in_order = sorted(tickets, key=tickets.__getitem__)
        assert list(line) == in_order
        assert line.first == (in_order[0] if in_order else None)
        assert len(line) == len(in_order)
