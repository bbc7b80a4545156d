"""A long scripted run over HTTP, and the record of everything it was answered.

The run starts `svc-emulator serve` of a checkout and uses nothing else of it, so the same run can
be made with a checkout of any other state of the project. The record is the same byte for byte
wherever and whenever it is made.

    python -m tests.golden.scripted_run                     record again, into trace.ndjson.xz
    python -m tests.golden.scripted_run OUT [CHECKOUT]      write the record of a checkout to OUT, as plain text
"""

from __future__ import annotations

import lzma
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.golden import servers
from tests.golden.acts import accounts, lines, many, mixture, network, publishing, retrying, scheduling, universes
from tests.golden.client import Client
from tests.golden.receiver import receiving
from tests.golden.recording import Recording
from tests.golden.stage import Stage

TRACE = Path(__file__).with_name("trace.ndjson.xz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """Acts on one server."""

    options: tuple[str, ...]
    acts: tuple[Callable[[Stage], None], ...]


# Worlds share nothing, so acts could take place anywhere; two servers take half the time of one.
PLAYS = (
    Play(
        options=("--seed", "7"),
        acts=(
            publishing.publishing,
            publishing.refusals,
            publishing.deduplication,
            retrying.retries,
            retrying.callbacks,
            retrying.dead_letters,
            lines.queues,
            lines.flow_control,
            lines.places,
            many.groups,
            many.batches,
            many.cancellation,
        ),
    ),
    Play(
        options=("--seed", "7"),
        acts=(
            scheduling.daylight,
            scheduling.schedules,
            accounts.accounts,
            accounts.indexes,
            universes.clock,
            universes.snapshots,
            universes.resets,
            universes.worlds,
            network.network,
            mixture.mixture,
        ),
    ),
    Play(
        options=("--concurrency", "8", "--max-attempts-per-instant", "60"),
        acts=(network.concurrent, network.endless),
    ),
    Play(
        options=("--dialect", "upstash", "--plan", "free", "--external", "fail", "--strict"),
        acts=(network.other_names,),
    ),
)


class Run:
    """The whole run with a checkout's emulator: a record for each play."""

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout
        self._recordings = tuple(Recording() for _ in PLAYS)

    def perform(self) -> None:
        """Make the run. The plays take place side by side."""
        with ThreadPoolExecutor(len(PLAYS)) as threads:
            for played in [threads.submit(self._play, *pair) for pair in zip(PLAYS, self._recordings, strict=True)]:
                played.result()

    def _play(self, play: Play, recording: Recording) -> None:
        with (
            receiving() as receiver_port,
            servers.serving(self._checkout, *play.options) as server,
            Client(server.port) as client,
        ):
            stage = Stage(client=client, recording=recording, receiver_port=receiver_port)
            for act in play.acts:
                act(stage)

    def text(self) -> bytes:
        """The records, one after the other: as far as they have come."""
        return b"".join(recording.text() for recording in self._recordings)


def main(arguments: list[str]) -> int:
    run = Run(Path(arguments[1]).resolve() if len(arguments) > 1 else servers.HERE)
    run.perform()
    if arguments:
        Path(arguments[0]).write_bytes(run.text())
    else:
        TRACE.write_bytes(lzma.compress(run.text(), preset=9 | lzma.PRESET_EXTREME))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
