"""Snapshots from Python."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from random import Random

import pytest

from emulator import Emulator, Refused
from tests.harness import emulators
from tests.harness.processes import serving

URL = "https://app.test/hook"


def test_a_restored_world_goes_on_as_the_original_did(emu: Emulator) -> None:
    emu.publish(URL, headers={"Svc-Delay": "1h"})
    saved = emu.snapshots.save("before")

    def go_on() -> str:
        emu.publish(URL)
        emu.clock.advance("1d")
        return emu.trace()

    original = go_on()
    emu.snapshots.restore("before")
    assert go_on() == original
    assert (saved.name, saved.now_ms, saved.pending) == ("before", emulators.EPOCH_MS, 1)
    assert [each.name for each in emu.snapshots.all()] == ["before"]
    emu.snapshots.delete("before")
    assert emu.snapshots.all() == []


def test_a_snapshot_travels_as_a_file(emu: Emulator, tmp_path: Path) -> None:
    emu.publish(URL, headers={"Svc-Delay": "1h"})
    emu.snapshots.save("one")
    emu.snapshots.export_to(tmp_path / "one.db", "one")
    with Emulator() as elsewhere:
        token = elsewhere.token
        assert elsewhere.snapshots.import_from(tmp_path / "one.db", "two").pending == 1
        elsewhere.snapshots.restore("two")
        # The snapshot is another world's; whoever uses this one goes on with its own token (D-203).
        assert elsewhere.token == token
        elsewhere.publish(URL)
        assert elsewhere.clock.advance("1h").deliveries == 1
    with Emulator(db=tmp_path / "one.db") as opened:
        assert opened.clock.advance("1h").deliveries == 1


def test_export_that_is_refused_leaves_the_file_as_it_was(emu: Emulator, tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    file.write_bytes(b"before")
    with pytest.raises(Refused):
        emu.snapshots.export_to(file, "nothing")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.db"]
    assert file.read_bytes() == b"before"


@pytest.mark.slow
def test_an_exported_snapshot_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    size = 24 * 1024 * 1024
    # In a process of its own, so that what the server needs does not count.
    with serving(folder=tmp_path) as server, Emulator.connect(server.url) as emu:
        for _ in range(3):
            emu.publish(URL, Random(1).randbytes(size // 3), headers={"Svc-Delay": "1h"})
        emu.snapshots.save("large")
        tracemalloc.start()
        try:
            emu.snapshots.export_to(tmp_path / "large.db", "large")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (tmp_path / "large.db").stat().st_size > size
    # Some pieces are: their number depends on who is faster, the reader or the writer.
    assert peak < size * 3 // 4


def test_what_is_no_snapshot_is_refused_with_nothing_changed(emu: Emulator, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database")
    with pytest.raises(Refused):
        emu.snapshots.import_from(tmp_path / "notes.txt", "bad")
    with pytest.raises(FileNotFoundError):
        emu.snapshots.import_from(tmp_path / "nothing.db", "bad")
    assert emu.snapshots.all() == []
    with pytest.raises(Refused) as refused:
        emu.snapshots.restore("bad")
    assert refused.value.status == 404


def test_tokens_that_change_are_handed_out_changed(emu: Emulator) -> None:
    emu.change_account(token="another-token")
    assert emu.token == "another-token"
    emu.publish(URL)
    emu.reset()
    assert emu.token != "another-token"
    emu.publish(URL)
