"""`/_emulator/url-groups`: URL groups with their endpoints and default headers."""

from __future__ import annotations

from tests.harness.emulators import in_process
from tests.harness.loops import on_loop

URL, DOWN = "https://api.test/hook", "https://down.test/hook"


@on_loop
async def test_a_group_shows_its_endpoints_and_hides_what_its_messages_hide() -> None:
    async with in_process() as emulator:
        endpoints = [{"url": URL}, {"url": DOWN, "name": "down"}]
        await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": endpoints})
        headers = {"Svc-Retries": ["1"], "Svc-Forward-Key": ["secret"], "Svc-Redact-Fields": ["header[key]"]}
        assert (await emulator.call("PATCH", "/v2/topics/g", (), {"headers": headers})).status == 200
        answer = await emulator.control("GET", "/url-groups")
        (group,) = answer.json["url_groups"]
        assert group["name"] == "g"
        assert group["endpoints"] == [{"name": None, "url": URL}, {"name": "down", "url": DOWN}]
        assert group["headers"]["Svc-Retries"] == ["1"]
        assert "Svc-Forward-Key" in group["headers"]
        assert b"secret" not in answer.body
