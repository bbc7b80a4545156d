"""Cancellations of messages in flight under `kill -9`: what was acknowledged as cancelled does not arrive again.

The receiver holds its answers back, so that a kill, a restore or a fork comes in the midst of an attempt.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from campaign.calls import Answer, Caller, NoAnswer, caller
from campaign.receiver import Receiver
from campaign.rounds import Report

WORLD = "canceling"
# The states in which no attempt follows.
_ENDED = ("CANCELED", "DELIVERED")
_RETRIES = {"Svc-Retries": "3", "Svc-Retry-Delay": "1000"}


@dataclass
class Cancelled:
    """Messages that one call has cancelled, by the paths that they were sent to; each has its id.

    `had_arrived` are the paths at which an attempt was in flight, `at_s` is when the call was answered.
    """

    how: str
    ids: dict[str, str]
    had_arrived: frozenset[str]
    at_s: float


@dataclass
class Canceler:
    """The owner of one world, who cancels what is in flight until the server is gone."""

    receiver: Receiver
    random: Random
    report: Report
    cancelled: list[Cancelled] = field(default_factory=list)
    # When each server after the first had begun.
    starts_s: list[float] = field(default_factory=list)
    _names: itertools.count[int] = field(default_factory=itertools.count)

    def check_after_restart(self, port: int) -> None:
        """What was cancelled has ended, in the world and in its forks. Raises NoAnswer."""
        self.starts_s.append(time.monotonic())
        owner = caller(port, WORLD)
        for entry in self.cancelled[-20:]:
            for path, message_id in entry.ids.items():
                explained = owner.control("GET", f"/messages/{message_id}/explain")
                state = explained.json.get("state") if explained.is_good else str(explained)
                # The end of a run is that of its calls too, whatever their answers were.
                ended = (*_ENDED, "FAILED") if entry.how == "run" else _ENDED
                self.report.expect(state in ended, "a cancelled message has not ended", f"{entry.how} {path}: {state}")
                self.report.count("cancelled messages looked up after a kill")

    def check_arrivals(self) -> None:
        """No attempt came after the cancellation, in any process."""
        for entry in self.cancelled:
            for path in entry.ids:
                # One that had not arrived may have left before the call was answered, and be read later.
                after_s = entry.at_s
                if path not in entry.had_arrived:
                    after_s = next((each for each in self.starts_s if each > entry.at_s), time.monotonic())
                late = [each.at_s - after_s for each in self.receiver.at(path) if each.at_s > after_s]
                self.report.expect(not late, "a cancelled message arrived", f"{entry.how} {path}: {late[:3]} s after")
                self.report.count("cancelled messages that did not arrive again")

    # -- until the server is gone -------------------------------------------------------------

    def run(self, port: int) -> None:
        deeds: tuple[Callable[[Caller], None], ...] = (self._single, self._bulk, self._queue, self._run)
        try:
            owner = caller(port, WORLD)
            while True:
                self.random.choice(deeds)(owner)
                if self.random.random() < 0.2:
                    self._replace(owner, port)
        except NoAnswer:
            pass  # The kill.

    def _single(self, owner: Caller) -> None:
        ids = self._published(owner, "publish", 1)
        (message_id,) = ids.values()
        self._cancel("single", ids, lambda: owner.message("DELETE", f"messages/{message_id}"))

    def _bulk(self, owner: Caller) -> None:
        label = f"bulk-{next(self._names)}"
        ids = self._published(owner, "publish", self.random.randint(2, 6), {"Svc-Label": label})
        self._cancel("bulk", ids, lambda: owner.message("DELETE", f"messages?label={label}"))

    def _queue(self, owner: Caller) -> None:
        """Its first message is in flight, the others wait for it."""
        queue = f"q{next(self._names)}"
        ids = self._published(owner, f"enqueue/{queue}", self.random.randint(1, 3), in_flight=1)
        self._cancel("queue", ids, lambda: owner.message("DELETE", f"queues/{queue}"))

    def _run(self, owner: Caller) -> None:
        run = f"run-{next(self._names)}"
        url = self.receiver.url(f"slow/{run}")
        headers = {"Svc-Workflow-RunId": run, "Svc-Workflow-Init": "true", "Svc-Workflow-Url": url}
        ids = self._published(owner, "publish", 1, headers, name=run)
        self._cancel("run", ids, lambda: owner.message("DELETE", f"workflows/runs/{run}?cancel=true"))

    def _published(
        self,
        owner: Caller,
        verb: str,
        count: int,
        headers: dict[str, str] | None = None,
        *,
        in_flight: int | None = None,
        name: str | None = None,
    ) -> dict[str, str]:
        """The ids of new messages by their paths, once so many of them are in flight."""
        ids: dict[str, str] = {}
        for _ in range(count):
            path = f"/slow/{name or f'm{next(self._names)}'}"
            answer = owner.message("POST", f"{verb}/{self.receiver.url(path[1:])}", {**_RETRIES, **(headers or {})})
            if not answer.is_good:
                raise NoAnswer(f"{verb}: {answer}")
            ids[path] = answer.json["messageId"]
        for path in list(ids)[:in_flight]:
            self.receiver.wait_for(path)
        return ids

    def _cancel(self, how: str, ids: dict[str, str], call: Callable[[], Answer]) -> None:
        had_arrived = frozenset(path for path in ids if self.receiver.at(path))
        answer = call()
        # One that has ended by now is not found.
        if answer.is_good:
            entry = Cancelled(how=how, ids=ids, had_arrived=had_arrived, at_s=time.monotonic())
            self.cancelled.append(entry)
            self.report.count(f"cancellations in flight: {how}")

    def _replace(self, owner: Caller, port: int) -> None:
        """Restore a snapshot that has just been saved, or fork: whatever is in flight is in both."""
        name = f"s{next(self._names)}"
        if self.random.random() < 0.5:
            saved = owner.control("POST", "/snapshots", {"name": name})
            if saved.is_good and owner.control("POST", f"/snapshots/{name}/restore").is_good:
                self.report.count("restores with cancelled messages in flight")
        elif Caller(port).control("POST", f"/worlds/{WORLD}/fork", {"id": f"fork-{name}"}).is_good:
            self.report.count("forks with cancelled messages in flight")
            Caller(port).control("DELETE", f"/worlds/fork-{name}")
