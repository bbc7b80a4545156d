"""`/_emulator/deliveries` as lists of very many attempts ask for it."""

from __future__ import annotations

from tests.harness.emulators import in_process
from tests.harness.loops import on_loop

RULE = {"match": {"url": "https://app.test/bad"}, "respond": {"status": 503, "body": "é" * 300}}


@on_loop
async def test_brief_deliveries_say_why_without_headers_and_bodies() -> None:
    """D-322."""
    async with in_process(external="capture") as emulator:
        await emulator.control("POST", "/destinations", RULE)
        given = {"Svc-Retries": "2", "Svc-Label": "nightly"}
        await emulator.call("POST", "/v2/publish/https://app.test/bad", given, b"secret")
        listed = await emulator.control("GET", "/deliveries?brief=true")
        told = await emulator.control("GET", "/stream?from=start&follow=false&brief=true")
        wrong = await emulator.control("GET", "/deliveries?brief=maybe")

    (only,) = listed.json["deliveries"]
    assert (only["attempt"], only["attempts"], only["status"], only["labels"]) == (1, 3, 503, ["nightly"])
    assert (only["excerpt"], only["created_by"], only["schedule_id"]) == ("é" * 200, "publish", None)
    assert not {"headers", "body", "response"} & set(only)
    assert b"secret" not in listed.body + told.body
    assert b'"attempts":3' in told.body
    assert (wrong.status, wrong.json["field"]) == (400, "brief")


@on_loop
async def test_brief_deliveries_say_what_chance_did() -> None:
    """D-439."""
    async with in_process() as emulator:
        await emulator.rule("https://app.test/*", respond={"status": 503}, chance=1)
        await emulator.rule("https://late.test/*", duplicate=True)
        await emulator.publish("https://app.test/", {"Svc-Retries": "0"})
        await emulator.publish("https://late.test/")
        brief, whole = [
            (await emulator.control("GET", f"/deliveries?brief={brief}")).json["deliveries"]
            for brief in ("true", "false")
        ]
        assert (
            [each.get("chaos") for each in brief]
            == [each.get("chaos") for each in whole]
            == [
                {"id": "1.1", "did": "503 instead of a delivery"},
                None,
                {"id": "2.1", "did": "duplicate of attempt 1"},
            ]
        )
        told = await emulator.control("GET", "/stream?from=start&follow=false&brief=true")
        assert told.body.count(b'"chaos":') == 2


@on_loop
async def test_deliveries_are_listed_newest_first() -> None:
    async with in_process(external="capture") as emulator:
        for number in range(3):
            await emulator.call("POST", f"/v2/publish/https://app.test/{number}")
        first = await emulator.control("GET", "/deliveries?order=latestFirst&limit=2")
        second = await emulator.control("GET", f"/deliveries?order=latestFirst&cursor={first.json['cursor']}")
        wrong = await emulator.control("GET", "/deliveries?order=up")

    assert [each["url"][-1] for each in first.json["deliveries"]] == ["2", "1"]
    assert ([each["url"][-1] for each in second.json["deliveries"]], second.json["cursor"]) == (["0"], None)
    assert (wrong.status, wrong.json["field"]) == (400, "order")


@on_loop
async def test_brief_deliveries_say_how_a_retry_comes_about() -> None:
    """D-324."""
    async with in_process() as emulator:
        await emulator.rule("https://down.test/hook", respond={"status": 503, "headers": {"Retry-After": "10"}})
        await emulator.publish("https://down.test/hook", {"Svc-Retries": "1"})
        await emulator.publish("https://api.test/")
        await emulator.control("POST", "/clock/advance", {"by": "10s"})
        found = (await emulator.control("GET", "/deliveries?brief=true")).json["deliveries"]
        assert [each["retry"] for each in found] == ["Retry-After: 10 -> 10s", None, None]
