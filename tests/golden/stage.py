"""Where the acts of the scripted run take place: a server, a real destination, and the record of it all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.golden.client import Client
from tests.golden.recording import Recording
from tests.golden.servers import EPOCH
from tests.golden.worlds import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What an act works with."""

    client: Client
    recording: Recording
    receiver_port: int

    @property
    def receiver(self) -> str:
        """The origin of the real destination."""
        return f"http://127.0.0.1:{self.receiver_port}"

    def world(self, name: str, *, seed: int, epoch: str = EPOCH, **settings: Any) -> World:
        """A new world, its clock frozen."""
        return World.create(self.client, self.recording, name, seed=seed, epoch=epoch, **settings)

    def default_world(self, *, prefix: str = "Svc-", segment: str = "queue") -> World:
        """The world that the server began with."""
        return World(self.client, self.recording, "default", prefix=prefix, segment=segment)
