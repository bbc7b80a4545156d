"""Lines: the first ticket first, and leaving from anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.model.names import MessageId
from emulator.core.wait_list import WaitList

A, B, C = MessageId("a"), MessageId("b"), MessageId("c")


def test_the_first_ticket_is_first_whoever_joined_first() -> None:
    line = WaitList()
    line.join(A, 3)
    line.join(B, 1)
    line.join(C, 2)
    assert (line.first, line.first_ticket) == (B, 1)
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


def test_leaving_twice_or_never_having_joined_is_no_harm() -> None:
    line = WaitList()
    line.leave(A)
    line.join(A, 1)
    line.leave(A)
    line.leave(A)
    assert (line.first, line.first_ticket, len(line)) == (None, None, 0)


def test_coming_back_with_the_same_ticket_takes_the_same_place() -> None:
    line = WaitList()
    line.join(A, 1)
    line.join(B, 2)
    line.leave(A)
    line.join(A, 1)
    assert list(line) == [A, B]
    line.leave(A)
    assert line.first == B


def test_coming_back_with_a_later_ticket_takes_a_later_place() -> None:
    line = WaitList()
    line.join(A, 1)
    line.join(B, 2)
    line.leave(A)
    line.join(A, 3)
    assert line.first == B


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
