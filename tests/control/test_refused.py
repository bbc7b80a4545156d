"""Refused calls as they are shown."""

from __future__ import annotations

import pytest

from emulator.worlds.calls import head_of_call
from tests.harness.emulators import InProcess, with_emulator


@pytest.mark.parametrize(
    ("path", "query", "shown"),
    [
        ("/v2/logs", "", "/v2/logs"),
        ("/v2/logs", "count=3&state=a=b", "/v2/logs?count=3&state=a=b"),
        ("/v2/logs", "queue_token=abc", "/v2/logs?queue_token=***"),
        ("/v2/logs", "QSTASH_TOKEN=abc&x", "/v2/logs?QSTASH_TOKEN=***&x"),
        ("/v2/publish/https://a.test/", "apiKey=1&svc-forward-authorization=B", None),
        ("/v2/publish/https://me:secret@a.test/", "", "/v2/publish/https://***@a.test/"),
        ("/v2/publish/https://a.test/", "to=http://me@b.test/", "/v2/publish/https://a.test/?to=http://***@b.test/"),
        ("/v2/publish/https://a.test/@me", "", "/v2/publish/https://a.test/@me"),
    ],
)
def test_credentials_are_masked(path: str, query: str, shown: str | None) -> None:
    """D-332."""
    expected = shown or "/v2/publish/https://a.test/?apiKey=***&svc-forward-authorization=***"
    assert head_of_call(path, query) == expected


def test_a_long_path_is_cut() -> None:
    assert head_of_call("/" + "a" * 3_000, "") == "/" + "a" * 1_999 + "..."


@with_emulator()
async def test_no_more_are_listed_than_asked_for(emulator: InProcess) -> None:
    for _ in range(101):
        await emulator.call("GET", "/v2/queues", {"Authorization": "Bearer wrong"})
    for query, expected in (("", 100), ("?limit=7", 7)):
        assert len((await emulator.control("GET", f"/refused{query}")).json["refused"]) == expected
    answer = await emulator.control("GET", "/refused?limit=0")
    assert answer.json["error"] == "limit: expected an integer from 1 to 1000"
