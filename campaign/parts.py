"""The parts of the campaign, in the order in which they are played."""

from __future__ import annotations

from collections.abc import Mapping

from campaign import (
    determinism,
    disk,
    egress,
    ends,
    files,
    followers,
    kills,
    making,
    pages,
    receivers,
    runs,
    worlds,
)
from campaign.rounds import Part

PARTS: Mapping[str, Part] = {
    "kills": Part(
        what="random work under kill -9: nothing acknowledged is lost, nothing cancelled is sent", play=kills.play
    ),
    "making": Part(what="kills while worlds are made: every next start works", play=making.play),
    "worlds": Part(
        what="kills while worlds are forked, undone, restored, imported and removed", play=worlds.play_kills
    ),
    "crowd": Part(what="forks, undos, snapshots and restores at once, beside traffic", play=worlds.play_crowd),
    "disk": Part(
        what="full disks, failing writes, a database file that vanishes", play=disk.play, namespaces=("--mount",)
    ),
    "receivers": Part(what="hostile receivers: nothing else is held up", play=receivers.play, limit_s=900),
    "followers": Part(what="followers of the stream that read nothing: bounded, and cut off", play=followers.play),
    "ends": Part(what="signals while calls of all kinds are under way: a server ends in order", play=ends.play),
    "wide": Part(what="runs of thousands of parallel steps: memory, time, and what calls deliver", play=runs.play_wide),
    "forged": Part(what="runs that invoke each other beside forged headers: every chain ends", play=runs.play_forged),
    "files": Part(what="hostile databases, snapshots, fixtures, dialects and settings", play=files.play),
    "pages": Part(what="requests as web pages send them: none changes or reads anything", play=pages.play),
    "egress": Part(what="connections counted while tricky URLs are published", play=egress.play, namespaces=("--net",)),
    "determinism": Part(
        what="the same run across processes, hash seeds, time zones and Python versions", play=determinism.play
    ),
}
