"""What a request says about media types (D-175)."""

from __future__ import annotations

import pytest

from emulator.core.errors import InvalidInput, NotAcceptable
from emulator.wire.media_types import check_accepts_json, check_is_json
from tests.wire.request_parts import request


@pytest.mark.parametrize(
    "accept",
    [
        "*/*",
        "application/json",
        "APPLICATION/JSON",
        "application/*",
        "text/html, application/json;q=0.1",
        "text/html,*/*;q=0.8",
        "text/html;q=0, application/json ; q=1.0",
        "*/*;q=0, application/json",
        "application/json;charset=utf-8",
        "application/json;q=nonsense",
        "",
    ],
)
def test_json_is_accepted(accept: str) -> None:
    check_accepts_json(request(("Accept", accept)))


def test_without_the_header_everything_is_accepted() -> None:
    check_accepts_json(request())


def test_the_header_may_come_in_several_lines() -> None:
    check_accepts_json(request(("Accept", "text/html"), ("Accept", "application/json")))


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "application/xml, text/*",
        "application/json;q=0",
        "*/*, application/json;q=0",
        "*/*;q=0",
        "nonsense",
    ],
)
def test_json_is_excluded(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="application/json"):
        check_accepts_json(request(("Accept", accept)))


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json", " "]
)
def test_a_body_is_json(content_type: str) -> None:
    check_is_json(request(("Content-Type", content_type)))
    check_is_json(request())


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "text/json", "application/jsonp", "json"]
)
def test_a_body_is_not_json(content_type: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_is_json(request(("Content-Type", content_type)))
    assert refused.value.field == "Content-Type"
