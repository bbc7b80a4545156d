"""Plays a scenario for a coding agent, and tells whether it was solved.

    python play.py                     # lists them
    python play.py ID                  # prints the task, writes app.py if there is one, and runs the emulator

The agent works with the running emulator and with app.py, which is read anew for every delivery. A line on standard
input ends its turn, and is its answer where there is a question: the hidden checks are played then, and the exit code
is 0 if all of them hold.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from emulator import AsyncEmulator, Request
from emulator.agents.tool import Connection
from emulator.agents.tools import TOOLS

HERE = Path(__file__).parent
_TOOLS = {tool.tool: tool for tool in TOOLS}


def read(name: str) -> dict[str, dict[str, Any]]:
    """Scenarios, checks or solutions, by the ids of the scenarios."""
    found: dict[str, dict[str, Any]] = yaml.safe_load((HERE / f"{name}.yaml").read_text("utf-8"))
    return found


class Scenario:
    """One scenario in an emulator. `source` is the text of the application now."""

    def __init__(self, emulator: AsyncEmulator, scenario: Mapping[str, Any], source: Callable[[], str]) -> None:
        self.emulator = emulator
        self.effects: list[str] = []
        self._store: dict[str, Any] = {}
        self._scenario = scenario
        self._source = source
        self._connection = Connection(emulator)

    async def begin(self) -> None:
        """Mount the application, and play what has happened before."""
        if "app" in self._scenario:
            await self.emulator.mount("https://app.test", self._receive)
        for step in self._scenario["setup"]:
            await self.step(step)

    def _receive(self, request: Request) -> Any:
        module: dict[str, Any] = {}
        exec(self._source(), module)
        keys = self.emulator.credentials.current_signing_key, self.emulator.credentials.next_signing_key
        return module["receive"](request, self.effects, self._store, keys)

    async def step(self, step: Mapping[str, Any]) -> str:
        """A tool with its arguments, or a call of the service with its headers or its body; what it says."""
        [(name, given)] = step.items()
        if " " in name:
            method, path = name.split(" ", 1)
            return str(await self.call(method, path, given))
        text = msgspec.json.encode(given).decode()
        if "{dead_letter}" in text:
            [letter] = await self.emulator.dead_letters.all()
            text = text.replace("{dead_letter}", letter.dead_letter_id)
        return await msgspec.json.decode(text, type=_TOOLS[name]).perform(self._connection)

    async def call(self, method: str, path: str, given: Mapping[str, Any]) -> Any:
        """A call of the service: what begins as a header does is one, the rest is the body."""
        headers = {name: value for name, value in given.items() if name.startswith("Svc-")}
        body = {name: value for name, value in given.items() if name not in headers} or None
        return await self.emulator.call(method, path, json=body, headers=headers)

    async def failures(self, check: Mapping[str, Any], answer: str | None) -> list[str]:
        """Play the hidden check; what does not hold."""
        found, before = [], len(self.effects)
        for step in check.get("play", ()):
            await self.step(step)
        for wanted in check.get("verify", ()):
            text = await self.step({"verify": wanted})
            if not text.startswith("passed"):
                found.append(text)
        if "delivered" in check and not await self.emulator.deliveries(check["delivered"], outcome="succeeded"):
            found.append(f"nothing was delivered to {check['delivered']}")
        if "forged" in check:
            forged = {"Svc-Signature": "e30.e30.e30"}
            known = len(self.effects)
            # As anybody could call it, who knows no key.
            self._receive(Request(method="POST", url=check["forged"], headers=forged, body=b"forged"))  # type: ignore[arg-type]
            if len(self.effects) != known:
                found.append("a forged delivery was accepted")
        for name, start in (("effects", 0), ("new_effects", before)):
            if name in check and self.effects[start:] != check[name]:
                found.append(f"effects: expected {check[name]}, got {self.effects[start:]}")
        if "answer" in check and answer != check["answer"]:
            found.append(f"the answer {answer!r} is not right")
        return found


def _application(scenario: Mapping[str, Any]) -> Path:
    """The file that the agent mends; one that is there already stays."""
    app = Path("app.py")
    if "app" in scenario and not app.exists():
        app.write_text(scenario["app"], "utf-8")
    return app


async def main(name: str) -> int:
    scenario = read("scenarios")[name]
    app = _application(scenario)
    async with AsyncEmulator(epoch="2026-01-01T00:00:00Z", port=8080, handler_errors="report") as emulator:
        played = Scenario(emulator, scenario, lambda: app.read_text("utf-8"))
        await played.begin()
        print(
            f"{scenario['task']}\nThe emulator is at {emulator.url}. Enter ends your turn; an answer stands before it.",
            flush=True,
        )
        answer = (await asyncio.to_thread(sys.stdin.readline)).strip()
        failures = await played.failures(read("checks")[name], answer)
    print("\n".join(failures) or "solved")
    return int(bool(failures))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("id", nargs="?", choices=read("scenarios"))
    arguments = parser.parse_args()
    if arguments.id is None:
        for each, about in read("scenarios").items():
            print(f"{each}: {about['task']}")
        sys.exit(0)
    sys.exit(asyncio.run(main(arguments.id)))
