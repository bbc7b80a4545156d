"""The state that a database makes: its last checkpoint, and the facts after it."""

from __future__ import annotations

import json
from dataclasses import dataclass

import aiosqlite

from emulator.core.checkpoint import restore
from emulator.core.state import State
from emulator.journal import codec, schema
from emulator.journal.backlog import Backlog
from emulator.journal.projection import Projector
from emulator.queries.history import Dropped


@dataclass(slots=True, kw_only=True)
class Replayed:
    """What a store goes on from."""

    state: State
    projector: Projector
    dropped: Dropped
    backlog: Backlog


async def replay(connection: aiosqlite.Connection) -> Replayed:
    """Read a database whole. Raises one of `files.DAMAGE` if it does not hold what was written."""
    meta = codec.whole_meta(await connection.execute_fetchall(schema.SELECT_META))
    if schema.CHECKSUM in meta:
        # A snapshot becomes the database of a world, whose content changes.
        await connection.execute(schema.DELETE_CHECKSUM)
    covers, encoded = codec.whole_checkpoint(await connection.execute_fetchall(schema.SELECT_CHECKPOINT))
    shared = codec.Shared()
    found = Replayed(
        state=restore(codec.decode_checkpoint(encoded, shared)),
        projector=Projector(int(meta.get(schema.HISTORY_SEQ, b"0"))),
        dropped=codec.decode_dropped(meta.get(schema.DROPPED)),
        backlog=Backlog(covered=int(covers), projected=int(meta.get(schema.PROJECTED, b"0")), written=int(covers)),
    )
    await _check_history(connection, found)
    await _count_on(connection, found)
    await _apply_facts(connection, found, shared)
    return found


async def _check_history(connection: aiosqlite.Connection, found: Replayed) -> None:
    ((last_entry,),) = await connection.execute_fetchall(schema.SELECT_LAST_SEQ)
    if max(last_entry, found.dropped.seq) != found.projector.seq:
        raise ValueError(f"its history ends with entry {last_entry}, not {found.projector.seq}")


async def _count_on(connection: aiosqlite.Connection, found: Replayed) -> None:
    """Let the projector begin with what was counted so far."""
    accounts = (json.dumps(list(found.state.accounts)),)
    found.projector.count_on(
        codec.whole_counts(await connection.execute_fetchall(schema.SELECT_USAGE_SO_FAR, accounts)),
        codec.whole_counts(await connection.execute_fetchall(schema.SELECT_WORKFLOWS_SO_FAR, accounts)),
    )


async def _apply_facts(connection: aiosqlite.Connection, found: Replayed, shared: codec.Shared) -> None:
    """Apply the facts after the checkpoint."""
    state, backlog, is_projected = found.state, found.backlog, True
    async with connection.execute(schema.SELECT_FACTS, (backlog.covered,)) as cursor:
        async for last_seq, count, payload, is_whole in cursor:
            if not (is_whole == 1 and last_seq - count == backlog.written):
                raise ValueError(f"what happened after the {backlog.written}th fact is missing or changed")
            for seq, fact in enumerate(codec.decode_facts(payload, shared), start=last_seq - count + 1):
                if seq > backlog.projected:
                    if is_projected:
                        # The first fact that history does not show: seed the projector with the live messages.
                        found.projector.seed(state)
                        is_projected = False
                    backlog.to_project.append(fact)
                state.apply(fact)
            backlog.written = int(last_seq)
    if backlog.projected > backlog.written:
        raise ValueError(f"facts are missing: {backlog.written} of at least {backlog.projected}")
    if is_projected:
        found.projector.seed(state)
        backlog.projected = backlog.written
    backlog.appended = backlog.written
