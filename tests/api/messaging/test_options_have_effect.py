"""Every option header of the interface document does what it says: on a publish and on a schedule.

Each case gives its options to a message and looks at what really went out and at the log. The
destination fails when asked to, so that retries and failure callbacks can be seen.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.harness.emulators import InProcess, with_emulator

URL = "https://api.test/hook"
DOWN = "https://down.test/hook"
SUCCESS = "https://cb.test/success"
FAILURE = "https://cb.test/failure"


@dataclass(frozen=True)
class Seen:
    """What came of one message, its times counted from the instant it was published."""

    deliveries: list[Any]
    events: list[Any]
    published_ms: int

    def at(self, url: str) -> list[Any]:
        return [delivery for delivery in self.deliveries if delivery["url"] == url]

    def times_s(self, url: str) -> list[float]:
        return [(delivery["at_ms"] - self.published_ms) / 1000 for delivery in self.at(url)]

    @property
    def first(self) -> Any:
        return self.deliveries[0]


@dataclass(frozen=True)
class Case:
    """Options, what the destination does, and what must be seen."""

    options: dict[str, str]
    check: Callable[[Seen], Any]
    destination: str = URL
    rules: list[dict[str, Any]] = field(default_factory=list)
    kinds: tuple[str, ...] = ("publish", "query", "batch", "schedule")


def seconds(*expected: float) -> Callable[[Seen], bool]:
    return lambda seen: seen.times_s(DOWN) == list(expected)


def callback_case(family: str, url: str) -> dict[str, Case]:
    """The options of one callback family; the callback itself fails, so that its retries show."""
    fails = [{"match": {"url": url}, "respond": {"status": 500, "latency": "3s"}}]
    base = {f"Svc-{family}": url, "Svc-Retries": "0"}

    def case(options: dict[str, str], check: Callable[[Seen], Any], **extra: Any) -> Case:
        given = {**base, **{f"Svc-{family}-{name}": value for name, value in options.items()}}
        return Case(given, check, destination=DOWN, **extra)

    def gaps(seen: Seen) -> list[float]:
        times = seen.times_s(url)
        return [later - earlier for earlier, later in itertools.pairwise(times)]

    return {
        f"Svc-{family}": case({}, lambda seen: len(seen.at(url)) == 1),
        f"Svc-{family}-Forward-*": case(
            {"Forward-Team": "x"}, lambda seen: seen.at(url)[0]["headers"]["Team"] == ["x"]
        ),
        f"Svc-{family}-Method": case({"Method": "PUT"}, lambda seen: seen.at(url)[0]["method"] == "PUT"),
        f"Svc-{family}-Timeout": case(
            {"Timeout": "1s", "Retries": "0"},
            lambda seen: (seen.at(url)[0]["response"], seen.at(url)[0]["duration_ms"]) == (None, 1_000),
            rules=fails,
        ),
        f"Svc-{family}-Retries": case({"Retries": "2"}, lambda seen: len(seen.at(url)) == 3, rules=fails),
        f"Svc-{family}-Retry-Delay": case(
            {"Retries": "2", "Retry-Delay": "7000 * (retried + 1)"},
            lambda seen: gaps(seen) == [3.0 + 7, 3.0 + 14],
            rules=fails,
        ),
        f"Svc-{family}-Delay": case({"Delay": "0s"}, lambda seen: seen.times_s(url) == [0.0]),
        f"Svc-{family}-Redact-Fields": case(
            {"Redact-Fields": "body"},
            lambda seen: all(
                base64.b64decode(event["body"]).startswith(b"REDACTED:") for event in seen.events if event["url"] == url
            ),
        ),
        f"Svc-{family}-Label": case(
            {"Label": "told"}, lambda seen: {event["label"] for event in seen.events if event["url"] == url} == {"told"}
        ),
        f"Svc-{family}-Flow-Control-Key": case(
            {"Flow-Control-Key": "k"},
            lambda seen: {event["flowControlKey"] for event in seen.events if event["url"] == url} == {"k"},
        ),
    }


OPTIONS: dict[str, Case] = {
    "Content-Type": Case(
        {"Content-Type": "application/x-thing"},
        lambda seen: seen.first["headers"]["Content-Type"] == ["application/x-thing"],
        kinds=("publish", "batch", "schedule"),
    ),
    "Svc-Method": Case({"Svc-Method": "DELETE"}, lambda seen: seen.first["method"] == "DELETE"),
    "Svc-Method default": Case({}, lambda seen: seen.first["method"] == "POST"),
    "Svc-Timeout": Case(
        {"Svc-Timeout": "5s", "Svc-Retries": "0"},
        lambda seen: (seen.first["response"], seen.first["duration_ms"]) == (None, 5_000),
        destination=DOWN,
        rules=[{"match": {"url": DOWN}, "respond": {"latency": "10s"}}],
    ),
    "Svc-Retries": Case({"Svc-Retries": "2"}, lambda seen: len(seen.deliveries) == 3, destination=DOWN),
    "Svc-Retries default": Case({}, lambda seen: len(seen.deliveries) == 6, destination=DOWN),
    "Svc-Retry-Delay": Case(
        {"Svc-Retries": "3", "Svc-Retry-Delay": "pow(2, retried) * 1000"}, seconds(0, 1, 3, 7), destination=DOWN
    ),
    "Svc-Retry-Delay default": Case({"Svc-Retries": "2"}, seconds(0, 12, 160), destination=DOWN),
    "Svc-Delay": Case({"Svc-Delay": "1d10h30m"}, lambda seen: seen.times_s(URL) == [124_200.0]),
    "Svc-Not-Before": Case(
        {"Svc-Not-Before": "1767225690"}, lambda seen: seen.times_s(URL) == [90.0], kinds=("publish", "query", "batch")
    ),
    "Svc-Forward-*": Case({"Svc-Forward-X-Team": "blue"}, lambda seen: seen.first["headers"]["X-Team"] == ["blue"]),
    "Svc-Header-Forward": Case(
        {"Svc-Header-Forward": "true", "X-Mine": "yes"},
        lambda seen: seen.first["headers"]["X-Mine"] == ["yes"] and "Svc-Header-Forward" not in seen.first["headers"],
        kinds=("publish", "batch", "schedule"),
    ),
    "Svc-Header-Forward absent": Case(
        {"X-Mine": "yes"}, lambda seen: "X-Mine" not in seen.first["headers"], kinds=("publish", "batch", "schedule")
    ),
    "Svc-Redact-Fields": Case(
        {"Svc-Redact-Fields": "body"},
        lambda seen: (
            seen.first["body"] == "payload"
            and {base64.b64decode(event["body"])[:9] for event in seen.events} == {b"REDACTED:"}
        ),
    ),
    "Svc-Label": Case({"Svc-Label": "a, b"}, lambda seen: all(event["labels"] == ["a", "b"] for event in seen.events)),
    "Svc-Flow-Control": Case(
        {
            "Svc-Flow-Control-Key": "k",
            "Svc-Flow-Control-Value": "rate=1, period=1m",
            "Svc-Retries": "2",
            "Svc-Retry-Delay": "0",
        },
        seconds(0, 60, 120),
        destination=DOWN,
    ),
    "Svc-Queue-Name": Case(
        {"Svc-Queue-Name": "q"}, lambda seen: {event["queueName"] for event in seen.events} == {"q"}
    ),
    "Svc-Deduplication-Id": Case(
        {"Svc-Deduplication-Id": "d"}, lambda seen: len(seen.deliveries) == 1, kinds=("publish", "query", "batch")
    ),
    **callback_case("Callback", SUCCESS),
    **callback_case("Failure-Callback", FAILURE),
}
# The header table of the interface document, without the two that have tests of their own below.
DOCUMENTED = (
    "Content-Type",
    "Svc-Method",
    "Svc-Timeout",
    "Svc-Retries",
    "Svc-Retry-Delay",
    "Svc-Delay",
    "Svc-Forward-*",
    "Svc-Header-Forward",
    "Svc-Redact-Fields",
    *(
        f"Svc-{family}{option}"
        for family in ("Callback", "Failure-Callback")
        for option in ("", "-Forward-*", "-Method", "-Timeout", "-Retries", "-Retry-Delay", "-Delay")
    ),
)
CASES = [pytest.param(case, kind, id=f"{name} on {kind}") for name, case in OPTIONS.items() for kind in case.kinds]


async def publish(emulator: InProcess, case: Case) -> None:
    answer = await emulator.post(f"/v2/publish/{case.destination}", case.options, "payload")
    assert answer.status == 200, answer.body


async def publish_with_query(emulator: InProcess, case: Case) -> None:
    query = "&".join(
        f"{name.lower()}={value.replace(' ', '%20').replace('+', '%2B')}" for name, value in case.options.items()
    )
    answer = await emulator.post(f"/v2/publish/{case.destination}?{query}", (), "payload")
    assert answer.status == 200, answer.body


async def publish_in_batch(emulator: InProcess, case: Case) -> None:
    headers = {name.lower(): value for name, value in case.options.items()}
    answer = await emulator.post(
        "/v2/batch", (), [{"destination": case.destination, "headers": headers, "body": "payload"}]
    )
    assert "messageId" in answer.json[0], answer.body


async def schedule(emulator: InProcess, case: Case) -> None:
    """Fires one minute after the start, and once only."""
    headers = {"Svc-Cron": "1 0 1 1 *", **case.options}
    answer = await emulator.post(f"/v2/schedules/{case.destination}", headers, "payload")
    assert answer.status == 200, answer.body
    assert (await emulator.advance("1m"))["schedules_fired"] == 1


GIVE: dict[str, Callable[[InProcess, Case], Awaitable[None]]] = {
    "publish": publish,
    "query": publish_with_query,
    "batch": publish_in_batch,
    "schedule": schedule,
}


@pytest.mark.parametrize(("case", "kind"), CASES)
@with_emulator()
async def test_an_option_has_its_effect(emulator: InProcess, case: Case, kind: str) -> None:
    for rule in case.rules:
        assert (await emulator.control("POST", "/destinations", rule)).status == 201
    await emulator.rule(DOWN, respond={"status": 500})
    await GIVE[kind](emulator, case)
    await emulator.advance("5d")
    events = (await emulator.get("/v2/events?order=earliestFirst")).json["events"]
    seen = Seen(await emulator.deliveries(), events, events[0]["time"])
    assert case.check(seen), json.dumps([seen.deliveries, seen.events], indent=1)[:4_000]


def test_the_table_holds_every_option_of_the_interface_document() -> None:
    assert OPTIONS.keys() >= set(DOCUMENTED)


@with_emulator()
async def test_cron_decides_when_a_schedule_fires(emulator: InProcess) -> None:
    await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "CRON_TZ=America/New_York 30 9 * * MON-FRI"})
    await emulator.advance("7d")
    fired = [delivery["at"] for delivery in await emulator.deliveries()]
    # From Thursday, 1 January 2026; New York is five hours behind.
    assert fired == [f"2026-01-0{day}T14:30:00.000Z" for day in (1, 2, 5, 6, 7)]


@with_emulator()
async def test_a_schedule_id_names_the_schedule(emulator: InProcess) -> None:
    await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "my.id-1_x"})
    assert (await emulator.get("/v2/schedules/my.id-1_x")).status == 200


@with_emulator()
async def test_content_based_deduplication_sends_the_same_content_once(emulator: InProcess) -> None:
    for value in ("true", "True"):
        await emulator.post(f"/v2/publish/{URL}", {"Svc-Content-Based-Deduplication": value}, "x")
    assert len(await emulator.deliveries()) == 1


@with_emulator()
async def test_a_failure_callback_is_sent_once_with_the_dead_letters_id_and_a_callback_after_each_attempt(
    emulator: InProcess,
) -> None:
    await emulator.rule(DOWN, respond={"status": 503, "body": "sorry", "headers": {"X-A": "b"}})
    options = {
        "Svc-Retries": "1",
        "Svc-Retry-Delay": "1000",
        "Svc-Callback": SUCCESS,
        "Svc-Failure-Callback": FAILURE,
        "Content-Type": "text/plain",
    }
    message_id = await emulator.publish(DOWN, options, "payload")
    await emulator.advance("1m")
    told = [json.loads(delivery["body"]) for delivery in await emulator.deliveries(SUCCESS)]
    (failed,) = [json.loads(delivery["body"]) for delivery in await emulator.deliveries(FAILURE)]
    (entry,) = (await emulator.get("/v2/dlq")).json["messages"]
    assert [each["retried"] for each in told] == [0, 1]
    assert told[0] == {
        "status": 503,
        "header": {"X-A": ["b"]},
        "body": base64.b64encode(b"sorry").decode(),
        "retried": 0,
        "maxRetries": 1,
        "sourceMessageId": message_id,
        "url": DOWN,
        "method": "POST",
        "sourceHeader": {"Content-Type": "text/plain"},
        "sourceBody": base64.b64encode(b"payload").decode(),
        "notBefore": "1767225600000",
        "createdAt": "1767225600000",
        "callerIP": "203.0.113.7",
    }
    assert failed == {**told[1], "dlqId": entry["dlqId"]}
    assert all("dlqId" not in each for each in told)


@pytest.mark.parametrize(
    ("header", "value", "wait_s"),
    [
        ("Retry-After", "100", 100),
        ("X-RateLimit-Reset", "100", 100),
        ("X-RateLimit-Reset-Requests", "1m40s", 100),
        ("X-RateLimit-Reset-Tokens", "100", 100),
        ("Retry-After", "Thu, 01 Jan 2026 00:01:40 GMT", 100),
        ("Retry-After", "0", 0),
        ("Retry-After", "100000", 12),
        ("Retry-After", "soon", 5),
    ],
)
@with_emulator()
async def test_a_hint_of_the_response_decides_the_next_retry(
    emulator: InProcess, header: str, value: str, wait_s: int
) -> None:
    await emulator.rule(DOWN, respond={"status": 429, "headers": {header: value}})
    await emulator.publish(DOWN, {"Svc-Retries": "1", "Svc-Retry-Delay": "5000"})
    await emulator.advance("1h")
    first, second = await emulator.deliveries()
    assert (second["at_ms"] - first["at_ms"]) // 1000 == wait_s
