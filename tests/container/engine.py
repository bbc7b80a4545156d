"""A container engine's interface without an engine: what is "created" is a process of this checkout.

It answers the calls of the Docker Engine API that a container's life is made of. Instead of an image
it runs `svc-emulator serve` with the variables that the container is given, and says that the port
it listens on is the published one. Networks, volumes and the image itself are not there.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.emulators import Received, http_server
from tests.harness.processes import ServerProcess, serving

IMAGE = "svc-emulator"
_ID = "c0ffee" * 10


@dataclass(kw_only=True)
class Engine:
    """What the one container was made of, and what has become of it."""

    folder: Path
    url: str = ""
    created: dict[str, Any] = field(default_factory=dict)
    is_removed: bool = False
    process: ServerProcess | None = None
    _running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def start(self) -> None:
        variables = dict(entry.split("=", 1) for entry in self.created["Env"])
        self.process = self._running.enter_context(serving(folder=self.folder, extra=variables))

    def remove(self) -> None:
        self._running.close()
        self.is_removed = True

    def answer(self, method: str, path: str) -> tuple[int, Any]:
        """Status and content for a call; `path` is without the version and the query."""
        match method, path.strip("/").split("/"):
            case "GET", ["version"]:
                return 200, {"ApiVersion": "1.45", "Version": "26.0.0", "Os": "linux", "Arch": "amd64"}
            case "GET", ["images", name, "json"] if name == IMAGE:
                return 200, {"Id": "sha256:1", "RepoTags": [IMAGE], "Config": {}}
            case "POST", ["containers", "create"]:
                return 201, {"Id": _ID, "Warnings": []}
            case "POST", ["containers", _, "start"]:
                self.start()
                return 204, None
            case "GET", ["containers", _, "json"]:
                return 200, self._inspected()
            case "DELETE", ["containers", _]:
                self.remove()
                return 204, None
        return 404, {"message": f"{method} {path} is not known here"}

    def _inspected(self) -> dict[str, Any]:
        port = self.process.url.rpartition(":")[2] if self.process is not None else None
        status = "created" if port is None else "running"
        return {
            "Id": _ID,
            "Name": "/emulator",
            "Config": {"Image": IMAGE},
            "State": {"Status": status, "Running": port is not None, "Health": {"Status": "healthy", "Log": []}},
            "NetworkSettings": {"Ports": {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": port}]}},
        }


@contextlib.contextmanager
def engine(folder: Path) -> Iterator[Engine]:
    """An engine at `url`, for one container."""
    state = Engine(folder=folder)

    def answer(received: Received) -> tuple[int, dict[str, str], bytes]:
        path = re.sub(r"^/v[0-9.]+(?=/)", "", received.path.partition("?")[0])
        if path == "/containers/create":
            state.created = received.json
        status, content = state.answer(received.method, path)
        encoded = b"" if content is None else json.dumps(content).encode()
        return status, {"Content-Type": "application/json"}, encoded

    with http_server(answer) as url:
        state.url = url.replace("http:", "tcp:")
        try:
            yield state
        finally:
            state.remove()
