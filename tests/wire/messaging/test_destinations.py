"""Destinations and other URLs, kept exactly as typed (D-070, D-071)."""

from __future__ import annotations

import pytest

from emulator.core.errors import InvalidInput
from emulator.core.model.options import Destination, DestinationKind
from emulator.wire import dialect, urls
from tests.wire.request_parts import refused


def _url(text: str) -> Destination:
    return Destination(kind=DestinationKind.URL, text=text)


def _group(text: str) -> Destination:
    return Destination(kind=DestinationKind.GROUP, text=text)


@pytest.mark.parametrize(
    "text",
    [
        "http://example.com",
        "https://example.com/",
        "HTTPS://Example.COM/Path",
        "http://localhost:3000/a//b/../c/%2F;p=1",
        "http://127.0.0.1:65535",
        "http://[::1]:8080/x",
        "http://[::ffff:1.2.3.4]",
        "http://web_app",
        "http://example.com./",
        "https://example.com?",
        "https://example.com/?",
        "https://example.com/?&",
        "https://example.com?x=1&svc-delay=5s&queue_token=x",
        "https://example.com/?a=http://other/?b=@:c",
        "https://example.com/a@b:c",
        "https://example.com/" + "a" * (8192 - len("https://example.com/")),
    ],
)
def test_url_is_kept_as_typed(text: str) -> None:
    assert urls.read_batch_destination(text, dialect.SVC) == _url(text)
    assert urls.check_url("Svc-Callback", text) == text
    assert urls.read_destination(text, None, dialect.SVC) == _url(text)


@pytest.mark.parametrize("text", ["orders", "a.b-c_D.9", "g" * 256, "https"])
def test_other_names_are_url_groups(text: str) -> None:
    # Its query goes nowhere.
    assert urls.read_destination(text, "a=1&svc-delay=5s", dialect.SVC) == _group(text)
    assert urls.read_batch_destination(text, dialect.SVC) == _group(text)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("sleep=30000", "https://h.test/p?sleep=30000", id="own"),
        pytest.param("b=2&a=1&b=%20+&&c", "https://h.test/p?b=2&a=1&b=%20+&&c", id="byte-for-byte-in-order"),
        pytest.param("a=1&svc-delay=5s&b=2", "https://h.test/p?a=1&b=2", id="option-removed"),
        pytest.param("a=1&SVC-Delay=5s&Queue_Token=t", "https://h.test/p?a=1", id="any-case"),
        pytest.param("svc%2Ddelay=5s&a=1", "https://h.test/p?a=1", id="encoded-name"),
        pytest.param("queue_token=t&svc-forward-x=1&svc-unknown=2", "https://h.test/p", id="nothing-left"),
        pytest.param("token=own&qstash_token=x", "https://h.test/p?token=own&qstash_token=x", id="not-ours"),
        pytest.param("a=1&&svc-x=1", "https://h.test/p?a=1&", id="empty-piece-stays"),
        pytest.param("", "https://h.test/p?", id="empty"),
        pytest.param("&", "https://h.test/p?&", id="separator"),
        pytest.param("&&", "https://h.test/p?&&", id="separators"),
        pytest.param("?", "https://h.test/p??", id="second-question-mark"),
        pytest.param("&queue_token=t", "https://h.test/p?", id="empty-and-a-token"),
        pytest.param("queue_token=t&", "https://h.test/p?", id="a-token-and-empty"),
        pytest.param("queue_token=t", "https://h.test/p", id="token-alone"),
        pytest.param("=", "https://h.test/p?=", id="no-name"),
    ],
)
def test_query_of_the_destination_is_attached_again(query: str, expected: str) -> None:
    """D-797."""
    assert urls.read_destination("https://h.test/p", query, dialect.SVC) == _url(expected)


def test_service_parameters_have_the_dialects_names() -> None:
    found = urls.read_destination(
        "https://h.test", "qstash_token=t&upstash-delay=1s&queue_token=own&svc-x=1", dialect.load("upstash")
    )
    assert found == _url("https://h.test?queue_token=own&svc-x=1")


@pytest.mark.parametrize(
    "text",
    [
        "example.com/path",
        "https%3A%2F%2Fexample.com",
        "//example.com",
        "ftp://example.com",
        " https://example.com",
        "g" * 257,
        "grüße",
    ],
)
def test_destination_without_a_scheme_says_how_to_add_one(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        urls.read_destination(text, None, dialect.SVC)
    assert caught.value.field == "destination"
    assert "invalid destination url: endpoint has invalid scheme, add http:// or https://" in caught.value.text
    with pytest.raises(InvalidInput, match="endpoint has invalid scheme"):
        urls.check_url("endpoints[0].url", text)


def test_empty_destination_and_its_query() -> None:
    with pytest.raises(InvalidInput, match=r"^destination: a non-empty destination must be provided$"):
        urls.read_destination("", "a=1", dialect.SVC)
    with refused("destination"):
        urls.read_destination("https://h.test", "a=é".encode().decode("latin-1"), dialect.SVC)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("https://user:pw@example.com", "no user and password", id="user"),
        pytest.param("https://example.com/#top", "no fragment", id="fragment"),
        pytest.param("https://example.com/" + "a" * 10_240, "at most 8192 characters", id="10-kB"),
        pytest.param("https://", "expected a host", id="no-host"),
        pytest.param("https://:80/", "expected a host", id="port-only"),
        pytest.param("https://h:0/", "expected a port from 1 to 65535", id="port-0"),
        pytest.param("https://h:65536/", "expected a port from 1 to 65535", id="port-too-large"),
        pytest.param("https://h:/", "expected a port from 1 to 65535", id="port-empty"),
        pytest.param("https://h:1:2/", "expected a host", id="two-ports"),
        pytest.param("https://exa mple.com", "visible ASCII", id="blank"),
        pytest.param("https://example.com/a\r\nX: y", "visible ASCII", id="line-break"),
        pytest.param("https://exämple.com", "visible ASCII", id="non-ascii-host"),
        pytest.param("https://[::1::]/", "IPv6 address", id="bad-address"),
        pytest.param("https://[fe80::1%25eth0]/", "expected a host", id="zone"),
        pytest.param("https://a..b/", "a host name", id="empty-label"),
        pytest.param("https://.a/", "a host name", id="leading-period"),
        pytest.param("https://-a/", "a host name", id="leading-hyphen"),
        pytest.param("https://" + "a" * 64 + ".test/", "a host name", id="label-of-64"),
        pytest.param("https://" + ".".join(["a" * 60] * 5), "a host name", id="name-over-253"),
    ],
)
def test_url_that_nothing_could_be_sent_to_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        urls.read_batch_destination(text, dialect.SVC)
    assert caught.value.field == "destination"
    assert caught.value.reason.startswith("invalid destination url: ")
    assert reason in caught.value.reason
    with pytest.raises(InvalidInput) as caught:
        urls.check_url("Svc-Callback", text)
    assert caught.value.field == "Svc-Callback"
    assert reason in caught.value.reason
    assert len(caught.value.text) < 300


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("svc", "https://svc.example/llm/v1/chat/completions"),
        ("upstash", "https://qstash.upstash.io/llm/v1/chat/completions"),
    ],
)
def test_api_destination_is_the_services_own_model(name: str, url: str) -> None:
    """D-085."""
    expected = Destination(kind=DestinationKind.API, text="api/llm", url=url)
    assert urls.read_destination("api/llm", "a=1", dialect.load(name)) == expected
    for text in ("api/email", "api/llm/", "API/llm", "api/"):
        with pytest.raises(InvalidInput):
            urls.read_destination(text, None, dialect.load(name))
