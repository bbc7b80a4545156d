"""A request's parts: media types, credentials, names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from emulator.core.errors import InvalidInput, NotAcceptable
from emulator.wire import dialect, names
from emulator.wire.names import read_field
from emulator.wire.parts import (
    BasicCredentials,
    basic_credentials,
    bearer_token,
    check_accepts_json,
    check_is_json,
    leads_to_control,
    read_parts,
    read_query,
)
from emulator.wire.times import parse_period_s
from tests.wire.request_parts import refused, request

# -- a request cut into parts ----------------------------------------------------------------------


def test_path_and_query_are_kept_byte_for_byte() -> None:
    parts = read_parts(
        method="POST",
        raw_path=b"/v2/publish/https://example.com//a/../b%2F",
        query_string=b"a=%41&&b",
        raw_headers=[],
        body=b"\x00\xff",
        client_ip="10.0.0.1",
    )
    assert parts.path == "/v2/publish/https://example.com//a/../b%2F"
    assert parts.raw_query == "a=%41&&b"
    assert parts.query == (("a", "A"), ("b", ""))
    assert (parts.method, parts.body, parts.client_ip) == ("POST", b"\x00\xff", "10.0.0.1")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param(b"", (), id="empty"),
        pytest.param(b"a=1&a=2", (("a", "1"), ("a", "2")), id="repeated"),
        pytest.param(b"a=1=2", (("a", "1=2"),), id="equals-in-value"),
        pytest.param(b"a+b=c+d%2Be", (("a b", "c d+e"),), id="plus-is-a-space"),
        pytest.param(b"svc%2Ddelay=5s", (("svc-delay", "5s"),), id="encoded-name"),
        pytest.param(b"a=%C3%A9", (("a", "é"),), id="utf-8"),
        pytest.param(b"a=%FF&b=\xff", (("a", "\ufffd"), ("b", "\ufffd")), id="not-utf-8"),
        pytest.param(b"a=%zz", (("a", "%zz"),), id="no-escape"),
    ],
)
def test_query_is_decoded_like_a_form(query: bytes, expected: Sequence[tuple[str, str]]) -> None:
    assert read_query(query) == expected


def test_header_names_are_lower_case_and_values_utf8() -> None:
    parts = request(("X-A", "é"), ("x-a", "2"))
    assert parts.headers == (("x-a", "é"), ("x-a", "2"))
    assert parts.header("x-a") == "é"
    assert parts.header("x-b") is None


def test_header_that_is_not_utf8_is_named() -> None:
    with refused("X-Odd"):
        read_parts(
            method="POST", raw_path=b"/", query_string=b"", raw_headers=[(b"x-odd", b"\xff")], body=b"", client_ip=""
        )


# -- what a request says about media types (D-175) -------------------------------------------------


@pytest.mark.parametrize(
    "accept",
    [
        "*/*",
        "application/json",
        "application/*",
        "text/html, application/json;q=0.1",
        "text/html,*/*;q=0.8",
        "text/html;q=0, application/json ; q=1.0",
        "*/*;q=0, application/json",
        "application/json;charset=utf-8;q=nonsense",
        "",
    ],
)
def test_json_is_accepted(accept: str) -> None:
    check_accepts_json(request(("Accept", accept)))
    check_accepts_json(request(*(("Accept", each) for each in accept.split(","))))
    check_accepts_json(request())


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "application/json;q=0",
        "*/*, application/json;q=0",
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
    with refused("Content-Type"):
        check_is_json(request(("Content-Type", content_type)))


# -- credentials in a request ----------------------------------------------------------------------


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
    assert bearer_token(request(("Authorization", value)), dialect.SVC) == token
    assert bearer_token(request(), dialect.SVC) is None


def test_token_parameter_wins_over_the_header() -> None:
    """D-079: a webhook's sender may have credentials of its own for the destination."""
    assert bearer_token(request(query="queue_token="), dialect.SVC) is None
    with refused("queue_token"):
        bearer_token(request(query="queue_token=a&queue_token=b"), dialect.SVC)
    parts = request(("Authorization", "Bearer own"), query="queue_token=a%3D&x=1")
    assert bearer_token(parts, dialect.SVC) == "a="
    assert bearer_token(parts, dialect.load("upstash")) == "own"


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
    assert basic_credentials(request(("Authorization", value))) == expected
    assert basic_credentials(request()) is None


# -- names that clients choose (D-076) -------------------------------------------------------------


@pytest.mark.parametrize("text", ["a", "A-b_c.9", ".", "x" * 256])
def test_names_are_letters_digits_hyphens_underscores_and_periods(text: str) -> None:
    assert names.read_queue_name(text) == text
    assert names.read_group_name(text) == text


@pytest.mark.parametrize("text", ["", "a b", "a/b", "a:b", "é", "a\n", "x" * 257])
def test_other_names_are_refused_by_the_field(text: str) -> None:
    with refused("queueName"):
        names.read_queue_name(text)
    with refused("url_group_name"):
        names.read_group_name(text)


@pytest.mark.parametrize(("raw", "key"), [("a", "a"), ("a%20b%2Fc", "a b/c"), ("%C3%A9", "é"), ("a+b", "a+b")])
def test_flow_key_is_decoded_from_the_path(raw: str, key: str) -> None:
    assert names.read_flow_key(raw) == key


@pytest.mark.parametrize("raw", ["", "%FF", "%00", "x" * 257])
def test_flow_key_that_cannot_be_is_refused(raw: str) -> None:
    with refused("flowControlKey"):
        names.read_flow_key(raw)


def test_a_value_is_parsed_and_its_refusal_names_the_field() -> None:
    assert read_field("period", "1m", parse_period_s) == 60
    with pytest.raises(
        InvalidInput, match=r"^period: expected a period from 1 second to 1 week, of whole seconds, got"
    ):
        read_field("period", "0s", parse_period_s)


# -- paths of the control API ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/_emulator",
        "/_emulator/",
        "/_emulator?world=other",
        "/_emulator/reset?world=other",
        "/_EMULATOR/reset",
        "/_eMuLaToR/reset",
        "//_emulator/reset",
        "///_emulator//reset",
        "/\\_emulator/reset",
        "\\_emulator\\reset",
        "/%5femulator/reset",
        "/%5Femulator/reset",
        "/%5F%65%6D%75%6C%61%74%6F%72/reset",
        "/%255femulator/reset",
        "/%25%35%66emulator/reset",
        "/%25252525255femulator/reset",
        "/%2525252525252525252525255femulator/reset",
        "/%2f_emulator/reset",
        "/%2F%5Femulator%2Freset",
        "/%5c_emulator/reset",
        "/./_emulator/reset",
        "/%2e/_emulator/reset",
        "/v2/../_emulator/reset",
        "/v2/%2e%2e/_emulator/reset",
        "/v2/.%2E/_emulator/reset",
        "/v2%2f..%2f_emulator/reset",
        "/v2/publish/..;x=1/..;/_emulator/reset",
        "/../../_emulator/reset",
        "/_emulator/../_emulator/reset",
        "/_emulator/docs/../../v2/keys",
        "/_emulator;jsessionid=1/reset",
        "/_emulator%00/reset",
        "/%20_emulator/reset",
        "/%09_emulator%0d%0a/reset",
        "/_emulator./reset",
        "/_emulator%3fx",
        "/_emulator%23/reset",
        "_emulator/reset",
        pytest.param("/v2/" + "%25" * 100_000, id="longer-than-any-destination"),
    ],
)
def test_a_path_leads_to_the_control_api_however_it_is_spelt(path: str) -> None:
    """D-771."""
    assert leads_to_control(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/?/_emulator",
        "/?x=/../_emulator",
        "/hook",
        "/v2/publish/https://app.test/hook",
        "/v2/publish/http://127.0.0.1:8080/_emulator/reset",
        "/v2/publish/http%3A%2F%2F127.0.0.1%3A8080%2F_emulator%2Freset",
        "/v2/keys?world=_emulator",
        "/my_emulator/reset",
        "/emulator/reset",
        "/_/emulator",
        "/a/../b",
        "/a%2f%zz%",
        "/%C3%A9_emulator",
        pytest.param("/v2/publish/https://app.test/" + "%20" * 2_700, id="as-long-as-a-destination"),
    ],
)
def test_other_paths_do_not_lead_to_the_control_api(path: str) -> None:
    """D-771."""
    assert not leads_to_control(path)
