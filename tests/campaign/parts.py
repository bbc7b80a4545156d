"""The parts of the campaign, in the order in which they are played."""

from __future__ import annotations

from collections.abc import Mapping

from tests.campaign import determinism, disk, egress, files, kills, making, pages, receivers
from tests.campaign.rounds import Part

PARTS: Mapping[str, Part] = {
    "kills": Part(what="random work under kill -9: nothing acknowledged is lost", play=kills.play),
    "making": Part(what="kills while worlds are made: every next start works", play=making.play),
    "disk": Part(
        what="full disks, failing writes, a database file that vanishes", play=disk.play, namespaces=("--mount",)
    ),
    "receivers": Part(what="hostile receivers: nothing else is held up", play=receivers.play, limit_s=900),
    "files": Part(what="hostile databases, snapshots, fixtures, dialects and settings", play=files.play),
    "pages": Part(what="requests as web pages send them: none changes or reads anything", play=pages.play),
    "egress": Part(what="connections counted while tricky URLs are published", play=egress.play, namespaces=("--net",)),
    "determinism": Part(
        what="the same run across processes, hash seeds, time zones and Python versions", play=determinism.play
    ),
}
