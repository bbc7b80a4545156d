"""Snapshots as JSON."""

from __future__ import annotations

from emulator.queries.reports import Snapshot
from emulator.wire.control.snapshots import snapshot_view, snapshots_view


def test_snapshot_is_shown_with_both_forms_of_its_instant() -> None:
    snapshot = Snapshot(name="before", now_ms=1_767_225_600_001, pending=3, size_bytes=77_824)

    expected = {
        "name": "before",
        "created": "2026-01-01T00:00:00.001Z",
        "created_ms": 1_767_225_600_001,
        "pending": 3,
        "size_bytes": 77_824,
    }
    assert snapshot_view(snapshot) == expected
    assert snapshots_view((snapshot,)) == {"snapshots": [expected]}
