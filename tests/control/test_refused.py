"""Refused calls as they are shown."""

from __future__ import annotations

import pytest

from emulator.control.refused import read_refused_query
from emulator.core.errors import InvalidInput
from emulator.worlds.calls import masked


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
    assert masked(path, query) == expected


def test_a_long_path_is_cut() -> None:
    assert masked("/" + "a" * 3_000, "") == "/" + "a" * 1_999 + "..."


def test_a_limit_is_read() -> None:
    assert read_refused_query(()) == 100
    assert read_refused_query((("limit", "7"), ("world", "w"))) == 7
    with pytest.raises(InvalidInput, match="limit: expected an integer from 1 to 1000"):
        read_refused_query((("limit", "0"),))
