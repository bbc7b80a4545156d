"""Snapshots in the control API's JSON."""

from __future__ import annotations

from collections.abc import Iterable

from emulator.queries.reports import Snapshot
from emulator.wire.instants import iso
from emulator.wire.json_fields import Json


def snapshot_view(snapshot: Snapshot) -> dict[str, Json]:
    """A snapshot: its name, where its clock stands, how many messages were live, and how large its file is."""
    return {
        "name": snapshot.name,
        "created": iso(snapshot.now_ms),
        "created_ms": snapshot.now_ms,
        "pending": snapshot.pending,
        "size_bytes": snapshot.size_bytes,
    }


def snapshots_view(snapshots: Iterable[Snapshot]) -> dict[str, Json]:
    """All snapshots of a world."""
    return {"snapshots": [snapshot_view(each) for each in snapshots]}
