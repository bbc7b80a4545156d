"""The entries that were written last, in memory, beside those of the database."""

from __future__ import annotations

from emulator.journal.latest import Latest
from emulator.journal.rows import Rows


def group(first: int, *, body: bytes = b"m") -> Rows:
    """A message that is made, attempted without success, and the event of that."""
    number = first
    return Rows(
        messages=[(number, f"msg_{number}", body)],
        events=[(first, number, 10, "CREATED", None, None), (first + 2, number, 12, "ERROR", first + 1, 99)],
        attempts=[(first + 1, number, 1, 11, 12, 0, 500, b"outcome", b"rule")],
    )


def test_nothing_is_kept_before_somebody_asks() -> None:
    latest = Latest()
    latest.take(group(1))
    assert latest.since(3, 10) is None

    latest.take(group(4))
    found = latest.since(3, 10)
    assert found is not None
    assert [row[0] for row in found.rows] == [4, 5, 6]


def test_entries_are_as_the_database_gives_them() -> None:
    latest = Latest()
    latest.since(0, 1)
    latest.take(group(1))
    found = latest.since(0, 10)
    assert found is not None
    assert found.rows == [
        (1, 1, 10, None, None, "CREATED", None, None, None, 1),
        (2, 1, 11, 12, 1, None, None, b"outcome", b"rule", 1),
        (3, 1, 12, None, None, "ERROR", 99, b"outcome", None, 1),
    ]
    assert found.definitions == {1: b"m"}


def test_a_page_may_span_groups_and_end_anywhere() -> None:
    latest = Latest()
    latest.since(0, 1)
    for first in (1, 4, 7):
        latest.take(group(first))
    pages = [latest.since(at, 4) for at in (0, 4, 8, 9)]
    assert [[row[0] for row in page.rows] for page in pages if page is not None] == [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
        [9],
        [],
    ]


def test_who_asks_for_older_entries_or_later_ones_is_sent_to_the_database() -> None:
    latest = Latest()
    latest.since(0, 1)
    latest.take(group(4))
    assert latest.since(2, 10) is None
    assert latest.since(7, 10) is None


def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    latest = Latest()
    latest.since(0, 1)
    for at in range(20):
        latest.take(group(1 + 3 * at))
    assert latest.since(57, 10) is None


def test_large_bodies_are_kept_for_a_group_alone() -> None:
    latest = Latest()
    latest.since(0, 1)
    latest.take(group(1, body=b"x" * 5_000_000))
    assert latest.since(0, 1) is not None
    latest.take(group(4))
    assert latest.since(0, 1) is None
    assert latest.since(3, 1) is not None
