"""`/_emulator/messages`: all messages of a world with where they stand, and what they are found by."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator

URL, DOWN, GONE = "https://api.test/hook", "https://down.test/hook", "https://gone.test/"
HOUR = 3_600_000


async def messages(emulator: InProcess, query: str = "") -> list[Any]:
    answer = await emulator.control("GET", f"/messages{query}")
    assert answer.status == 200, answer.body
    found: list[Any] = answer.json["messages"]
    return found


async def ids(emulator: InProcess, query: str) -> list[str]:
    return [each["message_id"] for each in await messages(emulator, query)]


@with_emulator()
async def test_messages_are_listed_newest_first_with_where_they_stand(emulator: InProcess) -> None:
    """D-340."""
    rule = await emulator.rule(DOWN, respond={"status": 503, "headers": {"Retry-After": "10"}})
    await emulator.rule("https://gone.test/", fault="refused")
    await emulator.rule("https://slow.test/", respond={"latency": "5s"})
    await emulator.post("/v2/queues", (), {"queueName": "q", "parallelism": 1})
    await emulator.post("/v2/queues/q/pause")
    await emulator.publish(URL, {"Svc-Label": "red"})
    await emulator.publish(DOWN, {"Svc-Retries": "3"})
    await emulator.publish("https://gone.test/", {"Svc-Retries": "0"})
    await emulator.publish(URL, {"Svc-Delay": "1h"})
    await emulator.post(f"/v2/enqueue/q/{URL}")
    await emulator.publish("https://slow.test/")
    cancelled = await emulator.publish(URL, {"Svc-Delay": "2h"})
    await emulator.delete(f"/v2/messages/{cancelled}")

    found = await messages(emulator)

    assert [each["state"] for each in found] == [
        "CANCELED", "ACTIVE", "HELD", "PENDING", "FAILED", "RETRYING", "DELIVERED",
    ]  # fmt: skip
    canceled, active, held, pending, failed, retrying, delivered = found
    assert (delivered["labels"], delivered["last_status"], delivered["ended_ms"]) == (["red"], 200, EPOCH_MS)
    assert (retrying["attempts"], retrying["max_attempts"], retrying["next_ms"]) == (1, 4, EPOCH_MS + 10_000)
    assert retrying["last_result"] == f"was answered 503 by {rule} ({DOWN})"
    assert (failed["last_status"], failed["last_error"] in failed["last_result"]) == (None, True)
    assert failed["dead_letter_id"] is not None
    assert pending["next_ms"] == EPOCH_MS + HOUR
    assert (held["queue"], held["waits"], held["next"]) == ("q", "held by queue q (paused)", None)
    assert (active["attempts"], active["last_result"], active["ended"]) == (1, None, None)
    assert (canceled["attempts"], canceled["ended_ms"], canceled["next"]) == (0, EPOCH_MS, None)


@with_emulator()
async def test_a_retried_message_counts_its_attempts_and_tells_of_the_last(emulator: InProcess) -> None:
    await emulator.rule(DOWN, sequence=[{"status": 500}, {"status": 502}, {"status": 200}])
    await emulator.publish(DOWN, {"Svc-Retries": "5", "Svc-Retry-Delay": "1000"})
    await emulator.advance("1s")
    (retrying,) = await messages(emulator)
    assert (retrying["attempts"], retrying["last_status"], retrying["state"]) == (2, 502, "RETRYING")
    await emulator.advance("1s")
    (delivered,) = await messages(emulator)
    assert (delivered["attempts"], delivered["last_status"], delivered["state"]) == (3, 200, "DELIVERED")


@with_emulator()
async def test_messages_are_found_by_what_is_known_of_them(emulator: InProcess) -> None:
    """D-340."""
    await emulator.post("/v2/queues", (), {"queueName": "q", "parallelism": 1})
    red = await emulator.publish(f"{URL}?a=[1]", {"Svc-Label": "Red"})
    queued = (await emulator.post(f"/v2/enqueue/q/{DOWN}")).json["messageId"]
    later = await emulator.publish(URL, {"Svc-Delay": "1h"})
    await emulator.post(f"/v2/schedules/{DOWN}", {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "s"})
    await emulator.advance("1m")
    (fired,) = await ids(emulator, "?schedule=s")

    for query, expected in {
        f"?url={DOWN}": [fired, queued],
        "?url=https://api.*": [later, red],
        "?url=*a=[1]": [red],
        "?label=Red": [red],
        "?label=red": [],
        "?queue=q": [queued],
        f"?id={later[-6:]}": [later],
        f"?id={later}": [later],
        f"?id={later[:-1]}": [],
        f"?text={later[10:30].lower()}": [later],
        "?text=RED": [red],
        "?text=down.TEST": [fired, queued],
        "?state=pending": [later],
        "?state=LIVE": [later],
        "?state=ended": [fired, queued, red],
        "?state=pending,delivered&url=https://api.*": [later, red],
        "?state=failed": [],
        "?label=&state=": [fired, later, queued, red],
    }.items():
        assert await ids(emulator, query) == expected, query


@with_emulator()
async def test_pages_of_messages_meet_without_a_gap(emulator: InProcess) -> None:
    """D-340."""
    published = [await emulator.publish(URL) for _ in range(7)]
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        page = (await emulator.control("GET", f"/messages?limit=3&cursor={cursor}")).json
        # A newer message moves no older one to another page.
        await emulator.publish(URL)
        seen += [each["message_id"] for each in page["messages"]]
        cursor = page["cursor"]
    assert seen == published[::-1]


@pytest.mark.parametrize(
    ("query", "field"),
    [("state=gone", "state"), ("state=,", "state"), ("limit=0", "limit"), ("cursor=x", "cursor"), ("who=me", "who")],
)
@with_emulator()
async def test_a_wrong_query_names_its_parameter(emulator: InProcess, query: str, field: str) -> None:
    answer = await emulator.control("GET", f"/messages?{query}")
    assert (answer.status, answer.json["field"]) == (400, field)


@with_emulator(keep_history="8")
async def test_a_list_says_what_history_has_dropped(emulator: InProcess) -> None:
    for _ in range(10):
        await emulator.publish(URL)
    answer = (await emulator.control("GET", "/messages")).json
    assert answer["dropped"]["entries"] > 0
    assert 0 < len(answer["messages"]) < 10


async def dead_letters(emulator: InProcess, query: str = "") -> list[Any]:
    answer = await emulator.control("GET", f"/dead-letters{query}")
    assert answer.status == 200, answer.body
    found: list[Any] = answer.json["dead_letters"]
    return found


@with_emulator()
async def test_dead_letters_are_found_by_either_id(emulator: InProcess) -> None:
    """D-340."""
    await emulator.rule(DOWN, respond={"status": 503})
    await emulator.rule(GONE, fault="dns")
    first = await emulator.publish(DOWN, {"Svc-Retries": "0", "Svc-Label": "red"})
    second = await emulator.publish(GONE, {"Svc-Retries": "0"})
    newest, oldest = await dead_letters(emulator)
    assert (newest["message_id"], oldest["message_id"]) == (second, first)
    assert (oldest["last_status"], oldest["last_result"]) == (503, f"was answered 503 by rule_1 ({DOWN})")
    assert (newest["last_status"], bool(newest["last_error"])) == (None, True)
    assert oldest["failed_ms"] == EPOCH_MS < oldest["expires_ms"]
    for query in (
        f"id={first[-5:]}",
        f"id={oldest['dead_letter_id']}",
        "label=red",
        "url=https://down*",
        "text=down",
    ):
        assert await dead_letters(emulator, f"?{query}") == [oldest], query
    page = (await emulator.control("GET", "/dead-letters?limit=1")).json
    assert page["dead_letters"] == [newest]
    assert await dead_letters(emulator, f"?cursor={page['cursor']}") == [oldest]
    await emulator.delete(f"/v2/dlq/{oldest['dead_letter_id']}")
    assert await dead_letters(emulator) == [newest]


@with_emulator()
async def test_lists_cover_all_accounts(emulator: InProcess) -> None:
    """D-340."""
    accounts = (await emulator.control("GET", "/accounts")).json["accounts"][:2]
    await emulator.rule(DOWN, respond={"status": 503})
    for account in accounts:
        token = account["token"]
        await emulator.publish(DOWN, {"Svc-Retries": "0"}, token=token)
        await emulator.post("/v2/queues", (), {"queueName": "same", "parallelism": 1}, token=token)
        await emulator.post(f"/v2/schedules/{DOWN}", {"Svc-Cron": "0 0 1 1 *"}, token=token)
        await emulator.post("/v2/topics/same/endpoints", (), {"endpoints": [{"url": DOWN}]}, token=token)
        limited = {"Svc-Flow-Control-Key": "same", "Svc-Flow-Control-Value": "parallelism=1", "Svc-Delay": "1h"}
        await emulator.publish(DOWN, limited, token=token)
    wanted = sorted(account["id"] for account in accounts)
    for path, name in (
        ("/messages", "messages"),
        ("/dead-letters", "dead_letters"),
        ("/queues", "queues"),
        ("/schedules", "schedules"),
        ("/url-groups", "url_groups"),
        ("/flow-control", "keys"),
    ):
        found = (await emulator.control("GET", path)).json[name]
        assert sorted({each["account_id"] for each in found}) == wanted, path


@with_emulator()
async def test_no_search_finds_what_a_redaction_hides(emulator: InProcess) -> None:
    """D-645."""
    await emulator.rule("https://down.test/*", respond={"status": 500, "body": "needle"})
    options = {"Svc-Redact-Fields": "body, header[X-Secret]", "Svc-Forward-X-Secret": "needle", "Svc-Retries": "0"}
    failed = await emulator.publish("https://down.test/", options, b"needle")

    assert await ids(emulator, f"?text={failed[-9:]}") == [failed]
    assert await ids(emulator, "?text=needle") == []
    assert [each["message_id"] for each in await dead_letters(emulator, f"?text={failed[-9:]}")] == [failed]
    for name in ("text", "url", "label", "id"):
        assert await dead_letters(emulator, f"?{name}=needle") == []


@pytest.mark.parametrize("path", ["/deliveries", "/messages", "/dead-letters", "/runs"])
@with_emulator()
async def test_a_filter_of_urls_is_no_longer_than_a_url(emulator: InProcess, path: str) -> None:
    """D-813: the longest of them are no patterns that SQLite finds too complex."""
    # SQLite says so only where there is a URL to compare with.
    await emulator.rule("*", respond={"status": 500})
    await emulator.publish("https://app.test/" + "a" * 8_000, {"Svc-Retries": "0"})
    for longest in ("*" * 8192, "?*" * 4096, "*a" * 4096, "https://" + "a" * 8184):
        assert (await emulator.control("GET", f"{path}?url={quote(longest, safe='')}")).status == 200
    widest = quote("*" + "\N{GRINNING FACE}" * 8191)
    assert (await emulator.control("GET", f"{path}?url={widest}")).status == 200
    for longer in ("*a" * 30_000, "*" * 8193, "a" * 8193):
        answer = await emulator.control("GET", f"{path}?url={longer}")
        assert (answer.status, answer.json["field"]) == (400, "url")
        assert answer.json["error"] == f"url: expected at most 8192 characters, got {len(longer)}"
