from __future__ import annotations

import pytest

from emulator.core.model.names import Headers
from emulator.core.model.options import Method
from emulator.wire.messaging.outgoing import is_non_retryable, request_headers
from tests.delivery.samples import SVC, UPSTASH, attempt


def test_a_first_attempt_carries_these_headers_in_this_order() -> None:
    """D-102."""
    headers = request_headers(
        attempt(headers=(("Content-Type", "text/plain"), ("X-Tenant", "a"), ("X-Tenant", "b"))),
        dialect=SVC,
        signature="the-signature",
    )
    assert headers == (
        ("Host", "api.example.com"),
        ("Content-Type", "text/plain"),
        ("X-Tenant", "a"),
        ("X-Tenant", "b"),
        ("User-Agent", "Svc-Queue"),
        ("Accept-Encoding", "gzip"),
        ("Svc-Message-Id", "msg_1"),
        ("Svc-Retried", "0"),
        ("Svc-Signature", "the-signature"),
        ("Svc-Caller-Ip", "203.0.113.7"),
        ("svc-region", "EU-CENTRAL-1"),
        ("Content-Length", "5"),
    )


def test_a_dialect_renames_the_services_own_headers() -> None:
    sent = dict(request_headers(attempt(number=3), dialect=UPSTASH, signature="s"))
    assert sent["User-Agent"] == "Upstash-QStash"
    assert sent["Upstash-Message-Id"] == "msg_1"
    assert sent["Upstash-Retried"] == "2"
    assert sent["upstash-region"] == "EU-CENTRAL-1"
    assert not [name for name in sent if name.lower().startswith("svc")]


def test_group_and_schedule_are_named_only_where_there_are_any() -> None:
    plain = dict(request_headers(attempt(), dialect=SVC, signature="s"))
    assert not {"Svc-Topic-Name", "Svc-Schedule-Id"} & set(plain)
    both = dict(request_headers(attempt(url_group="team", schedule_id="scd_1"), dialect=SVC, signature="s"))
    assert (both["Svc-Topic-Name"], both["Svc-Schedule-Id"]) == ("team", "scd_1")


def test_the_user_may_set_the_defaults() -> None:
    given = (("user-agent", "mine"), ("ACCEPT-ENCODING", "br"))
    sent = request_headers(attempt(headers=given), dialect=SVC, signature="s")
    assert [pair for pair in sent if pair[0].lower() in ("user-agent", "accept-encoding")] == list(given)


@pytest.mark.parametrize(
    "name",
    [
        "Svc-Message-Id",
        "svc-retried",
        "SVC-SIGNATURE",
        "Svc-Topic-Name",
        "svc-schedule-id",
        "Svc-Caller-Ip",
        "Svc-Region",
    ],
)
def test_a_forwarded_header_never_stands_for_the_services_own(name: str) -> None:
    sent = request_headers(attempt(headers=((name, "forged"),)), dialect=SVC, signature="s")
    assert "forged" not in [value for _, value in sent]


@pytest.mark.parametrize(
    "name",
    ["Host", "content-length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade", "Expect"],
)
def test_headers_of_the_connection_are_not_forwarded(name: str) -> None:
    """D-101."""
    sent = request_headers(attempt(headers=((name, "forged"),)), dialect=SVC, signature="s")
    assert "forged" not in [value for _, value in sent]


def test_other_prefixed_headers_are_forwarded() -> None:
    given = ("Svc-Workflow-RunId", "wfr_1")
    assert given in request_headers(attempt(headers=(given,)), dialect=SVC, signature="s")


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [
        (Method.GET, b"", None),
        (Method.GET, b"abc", "3"),
        (Method.POST, b"", "0"),
        (Method.DELETE, b"", "0"),
        (Method.PUT, b"abc", "3"),
    ],
)
def test_the_length_is_said_except_for_a_get_without_body(method: Method, body: bytes, length: str | None) -> None:
    sent = dict(request_headers(attempt(method=method, body=body), dialect=SVC, signature="s"))
    assert sent.get("Content-Length") == length


def test_credentials_in_the_url_become_an_authorization_header() -> None:
    """D-103."""
    sent = dict(request_headers(attempt("https://u%40x:p@a.test/"), dialect=SVC, signature="s"))
    assert (sent["Host"], sent["Authorization"]) == ("a.test", "Basic dUB4OnA=")


def test_a_forwarded_authorization_beats_credentials_in_the_url() -> None:
    """D-103."""
    given = ("authorization", "Bearer t")
    sent = request_headers(attempt("https://u:p@a.test/", headers=(given,)), dialect=SVC, signature="s")
    assert [pair for pair in sent if pair[0].lower() == "authorization"] == [given]


def test_a_request_that_goes_elsewhere_names_the_host_it_goes_to() -> None:
    sent = request_headers(attempt(), dialect=SVC, signature="s", url="http://127.0.0.1:3000/hook")
    assert sent[0] == ("Host", "127.0.0.1:3000")


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (489, (("svc-nonretryable-error", "true"),), True),
        (489, (("Svc-NonRetryable-Error", " True "),), True),
        (489, (), False),
        (489, (("Svc-NonRetryable-Error", "false"),), False),
        (500, (("Svc-NonRetryable-Error", "true"),), False),
        (489, (("Upstash-NonRetryable-Error", "true"),), False),
    ],
)
def test_only_status_and_header_together_ask_for_no_further_attempt(
    status: int, headers: Headers, expected: bool
) -> None:
    """D-017."""
    assert is_non_retryable(headers, status, "Svc-") is expected
