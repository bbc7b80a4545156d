"""Credentials in a request."""

from __future__ import annotations

import pytest

from emulator.core.errors import InvalidInput
from emulator.wire import credentials, dialect
from emulator.wire.credentials import BasicCredentials
from tests.wire.request_parts import request


@pytest.mark.parametrize(
    ("value", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc=", "abc="),
        ("BEARER   abc ", "abc"),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic abc", None),
        ("abc", None),
        ("", None),
    ],
)
def test_bearer_token_of_the_header(value: str, token: str | None) -> None:
    assert credentials.bearer_token(request(("Authorization", value)), dialect.SVC) == token


def test_token_parameter_wins_over_the_header() -> None:
    """D-079: a webhook's sender may have credentials of its own for the destination."""
    parts = request(("Authorization", "Bearer own"), query="queue_token=a%3D&x=1")
    assert credentials.bearer_token(parts, dialect.SVC) == "a="
    assert credentials.bearer_token(parts, dialect.load("upstash")) == "own"


def test_empty_token_parameter_counts_as_absent() -> None:
    assert credentials.bearer_token(request(query="queue_token="), dialect.SVC) is None


def test_token_parameter_given_twice_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        credentials.bearer_token(request(query="queue_token=a&queue_token=b"), dialect.SVC)
    assert caught.value.field == "queue_token"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Basic bWVAYS50ZXN0OnA6dw==", BasicCredentials(username="me@a.test", password="p:w")),
        ("basic Og==", BasicCredentials(username="", password="")),
        ("Basic bm8tY29sb24=", None),
        ("Basic !!!", None),
        ("Basic /w==", None),
        ("Basic é", None),
        ("Bearer bWU6cA==", None),
    ],
)
def test_basic_credentials(value: str, expected: BasicCredentials | None) -> None:
    assert credentials.basic_credentials(request(("Authorization", value))) == expected


def test_no_credentials_at_all() -> None:
    assert credentials.basic_credentials(request()) is None
    assert credentials.bearer_token(request(), dialect.SVC) is None
