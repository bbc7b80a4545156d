"""A long run of everything at once, chosen by dice that fall the same way in every process and version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeVar

from tests.golden.stage import Stage
from tests.golden.worlds import World

T = TypeVar("T")

_HOSTS = ("ok", "slow", "slower", "shaky", "down", "hinting", "plain", "refused")
_KEYS = ("alpha", "beta", "gamma")
_KEY_CHANGES = (
    "pause",
    "resume",
    "resume",
    "pin?parallelism=2",
    "pin?rate=1&period=1m",
    "unpin?parallelism=true",
    "unpin?rate=true&parallelism=true",
    "reset",
    "resetRate",
)
_QUEUES = ("first", "second", "third")
_DELAYS = ("1s", "10s", "45s", "3m", "17m", "1h", "5h")
_STEPS = ("1s", "5s", "30s", "2m", "10m", "40m", "2h")


def mixture(stage: Stage) -> None:
    """Two seeds, so that two runs of dice meet two sets of ids."""
    for seed, steps in ((91, 150), (92, 30)):
        world = stage.world(f"mixture-{seed}", seed=seed)
        mixed = Mixture(world, seed)
        mixed.prepare()
        mixed.run(steps)
        world.look_ahead()
        world.advance("7h")
        world.look(messages=0)
        mixed.ask_about(20)


class _Dice:
    """Numbers that follow from a seed alone."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rolls = 0

    def below(self, count: int) -> int:
        self._rolls += 1
        digest = sha256(f"{self._seed}/{self._rolls}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % count

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def happens(self, one_in: int) -> bool:
        return self.below(one_in) == 0


class Mixture:
    """Deeds in a world, one after the other."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.dice = _Dice(seed)
        self.number = 0

    def prepare(self) -> None:
        """What the deeds need to be there: rules, a URL group and schedules."""
        world = self.world
        world.rule("https://slow.example.com/*", respond={"status": 200, "latency": "7s"})
        world.rule("https://slower.example.com/*", respond={"status": 202, "latency": "4m"})
        world.rule(
            "https://shaky.example.com/*", sequence=[{"status": 500}, {"status": 200, "latency": "1s"}, {"status": 503}]
        )
        world.rule("https://down.example.com/*", respond={"status": 500, "latency": "100ms"})
        world.rule("https://hinting.example.com/*", respond={"status": 429, "headers": {"Retry-After": "75"}}, times=9)
        world.rule("https://refused.example.com/*", fault="refused", latency="2s")
        endpoints = [{"url": f"https://{host}.example.com/group", "name": host} for host in _HOSTS[:4]]
        world.call("POST", "/v2/topics/fan/endpoints", {}, {"endpoints": endpoints})
        world.schedule("25 * * * *", "https://shaky.example.com/often", schedule_id="often", retry_delay="20000")
        world.schedule("CRON_TZ=Europe/Berlin 5 * * * *", "fan", schedule_id="hourly", retries=1)
        world.schedule("10,50 * * * *", "https://slow.example.com/q", schedule_id="queued", queue_name="second")
        world.control("PUT", f"/accounts/{world.account_id}", {"max_global_parallelism": 6})

    def run(self, steps: int) -> None:
        """So many deeds."""
        deeds: tuple[tuple[int, Callable[[], object]], ...] = (
            (30, self.publish),
            (14, self.enqueue),
            (6, self.batch),
            (24, self.advance),
            (5, self.cancel),
            (4, self.change_queue),
            (4, self.change_key),
            (3, self.change_schedule),
            (4, self.dead_letter),
            (2, self.change_account),
            (4, self.ask),
        )
        weighted = [deed for weight, deed in deeds for _ in range(weight)]
        for _ in range(steps):
            self.number += 1
            self.dice.pick(weighted)()

    def ask_about(self, count: int) -> None:
        """Look at so many of the messages one by one."""
        for _ in range(count):
            message_id = self.dice.pick(self.world.message_ids)
            self.world.call("GET", f"/v2/messages/{message_id}")
            self.world.control("GET", f"/messages/{message_id}/explain")

    def publish(self) -> str:
        url = "fan" if self.dice.happens(9) else self.url()
        return self.world.publish(url, f"published {self.number}", **self.options())

    def enqueue(self) -> str:
        return self.world.enqueue(self.dice.pick(_QUEUES), self.url(), f"queued {self.number}", **self.retries())

    def batch(self) -> list[str]:
        return self.world.batch(
            {
                "destination": self.url() if not self.dice.happens(8) else "no-such-group",
                "body": f"{self.number}.{index}",
                "headers": self.world.named(**self.options()),
                **({"queue": self.dice.pick(_QUEUES)} if self.dice.happens(4) else {}),
            }
            for index in range(1 + self.dice.below(5))
        )

    def url(self) -> str:
        return f"https://{self.dice.pick(_HOSTS)}.example.com/{self.number % 10}"

    def retries(self) -> dict[str, object]:
        options: dict[str, object] = {"retries": self.dice.below(4)}
        if self.dice.happens(2):
            options["retry_delay"] = self.dice.pick(("2000", "pow(3, retried) * 1000", "60000 * (1 + retried)"))
        return options

    def options(self) -> dict[str, object]:
        options = self.retries()
        if self.dice.happens(2):
            options["delay"] = self.dice.pick(_DELAYS)
        if self.dice.happens(3):
            options["flow_control_key"] = self.dice.pick(_KEYS)
            options["flow_control_value"] = self.dice.pick(
                ("parallelism=1", "parallelism=2,rate=3,period=40s", "rate=2")
            )
        if self.dice.happens(5):
            options["callback"] = f"https://{self.dice.pick(_HOSTS)}.example.com/callback"
        if self.dice.happens(6):
            options["failure_callback"] = "https://ok.example.com/failed"
        if self.dice.happens(5):
            options["label"] = self.dice.pick(("red", "green", "red,blue"))
        if self.dice.happens(8):
            options["deduplication_id"] = f"d{self.dice.below(6)}"
        if self.dice.happens(9):
            options["timeout"] = self.dice.pick(("5s", "3m"))
        if self.dice.happens(12):
            options["redact_fields"] = "body"
        return options

    def advance(self) -> object:
        if self.dice.happens(6):
            return self.world.control("POST", "/clock/next")
        if self.dice.happens(12):
            return self.world.control("POST", "/clock/advance", {"by": "1h", "max_deliveries": 1 + self.dice.below(5)})
        return self.world.advance(self.dice.pick(_STEPS))

    def cancel(self) -> object:
        if self.dice.happens(4):
            return self.world.call("DELETE", f"/v2/messages?label={self.dice.pick(('red', 'green'))}&count=3")
        known = self.world.message_ids[-30:]
        return self.world.call("DELETE", f"/v2/messages/{self.dice.pick(known)}") if known else None

    def change_queue(self) -> object:
        queue = self.dice.pick(_QUEUES)
        match self.dice.below(4):
            case 0:
                return self.world.call("POST", f"/v2/queues/{queue}/pause")
            case 1 | 2:
                return self.world.call("POST", f"/v2/queues/{queue}/resume")
            case _:
                body = {"queueName": queue, "parallelism": 1 + self.dice.below(3)}
                return self.world.call("POST", "/v2/queues", {}, body)

    def change_key(self) -> object:
        key = self.dice.pick(_KEYS)
        change = self.dice.pick(_KEY_CHANGES)
        return self.world.call("POST", f"/v2/flowControl/{key}/{change}")

    def change_schedule(self) -> object:
        name = self.dice.pick(("often", "hourly", "queued"))
        change = self.dice.pick(("pause", "resume", "resume"))
        return self.world.call("POST", f"/v2/schedules/{name}/{change}")

    def dead_letter(self) -> object:
        found = self.world.call("GET", "/v2/dlq?count=5&order=latestFirst").json["messages"]
        if not found:
            return None
        entry = self.dice.pick(found)["dlqId"]
        if self.dice.happens(3):
            return self.world.call("DELETE", f"/v2/dlq/{entry}")
        return self.world.call("POST", f"/v2/dlq/retry/{entry}", self.world.named(retries=self.dice.below(2)))

    def change_account(self) -> object:
        if self.dice.happens(2):
            return self.world.call("POST", "/v2/keys/rotate")
        places = {"max_global_parallelism": 1 + self.dice.below(8)}
        return self.world.control("PUT", f"/accounts/{self.world.account_id}", places)

    def ask(self) -> object:
        self.world.look_ahead()
        self.world.call("GET", "/v2/queues")
        self.world.call("GET", "/v2/flowControl")
        return self.world.call("GET", "/v2/globalParallelism")
