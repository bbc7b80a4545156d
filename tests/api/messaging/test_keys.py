"""The signing keys over the API."""

from __future__ import annotations

import pytest

from tests.harness.emulators import in_process
from tests.harness.loops import on_loop

URL = "https://api.test/hook"


@pytest.mark.parametrize("target", ["/v2/keys/rotate", "/v2/rotate"])
@on_loop
async def test_rotating_makes_the_next_key_the_current_one(target: str) -> None:
    """D-058."""
    async with in_process() as emulator:
        before = (await emulator.get("/v2/keys")).json
        assert before.keys() == {"current", "next"}
        rotated = (await emulator.post(target)).json
        assert rotated["current"] == before["next"]
        assert rotated["next"] not in before.values()
        assert (await emulator.get("/v2/keys")).json == rotated


@on_loop
async def test_the_read_only_token_does_not_read_signing_keys() -> None:
    """D-053."""
    async with in_process() as emulator:
        refused = await emulator.get("/v2/keys", token=emulator.read_only_token)
        assert refused.status == 403
        assert "signing keys" in refused.json["error"]
