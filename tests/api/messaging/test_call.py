"""Mistaken names of headers and parameters are warned of, each once for a world (D-335)."""

from __future__ import annotations

import pytest

from tests.harness.emulators import in_process
from tests.harness.loops import on_loop

URL = "https://api.test/orders"
LOGGER = "emulator.api.messaging.call"


@on_loop
async def test_mistaken_names_are_warned_of_once_for_a_world(caplog: pytest.LogCaptureFixture) -> None:
    async with in_process() as emulator:
        other = (await emulator.control("POST", "/worlds", {"id": "w"})).json["credentials"]["queue"]["token"]
        for token in (emulator.token, emulator.token, other):
            headers = {"Svc-Rtries": "1", "Upstash-Delay": "1s", "X-Request-Id": "7"}
            answer = await emulator.post(f"/v2/publish/{URL}?svc-dealy=1m&page=2", headers, token=token)
            assert answer.status == 200

    texts = [each.getMessage() for each in caplog.records if each.name == LOGGER]
    expected = [
        "Svc-Rtries: unknown, did you mean Svc-Retries?",
        "Upstash-Delay: is of the dialect upstash, this server speaks svc, did you mean Svc-Delay?",
        "Svc-Dealy: unknown, did you mean Svc-Delay?",
    ]
    assert texts == [f"{text} (world {world})" for world in ("default", "w") for text in expected]


@on_loop
async def test_names_in_the_items_of_a_batch_are_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    async with in_process() as emulator:
        item = {"destination": URL, "headers": {"Svc-Lable": "a", "Scv-Delay": "1s", "X-Tenant": "7"}}
        assert (await emulator.post("/v2/batch", (), [item, item])).status == 200

    texts = [each.getMessage() for each in caplog.records if each.name == LOGGER]
    assert texts == [
        "Svc-Lable: unknown, did you mean Svc-Label? (world default)",
        "Scv-Delay: unknown, did you mean Svc-Delay? (world default)",
    ]
