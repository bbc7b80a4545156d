"""Deliveries: their headers and signatures."""

from __future__ import annotations

import time
import warnings
from typing import Any

import jwt
import pytest
from msgspec.structs import replace
from qstash import Receiver
from qstash.errors import SignatureError

from emulator.core.model.messages import AttemptOutcome, Unsent, Via
from emulator.core.model.options import CallType, Method, RunPart
from emulator.core.record import Headers, RunId, jwt_id
from emulator.wire.messaging.outgoing import claims_of, headers_of_attempt, is_non_retryable, request_headers, sign
from tests.delivery.samples import NEXT_SIGNING_KEY, SIGNING_KEY, SVC, UPSTASH, attempt

# -- headers -----------------------------------------------------------------------------------


def test_a_first_attempt_carries_these_headers_in_this_order() -> None:
    """D-102. Other headers with the prefix are forwarded."""
    headers = request_headers(
        attempt(
            headers=(("Content-Type", "text/plain"), ("X-Tenant", "a"), ("X-Tenant", "b"), ("Svc-Workflow-X", "1"))
        ),
        dialect=SVC,
        signature="the-signature",
    )
    assert headers == (
        ("Host", "api.example.com"),
        ("Content-Type", "text/plain"),
        ("X-Tenant", "a"),
        ("X-Tenant", "b"),
        ("Svc-Workflow-X", "1"),
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


def _of_a_run(call_type: CallType, **changes: Any) -> list[tuple[str, str]]:
    """The headers about its run that a call has."""
    part = RunPart(
        run_id=RunId("wfr_1"),
        run_number=1,
        run_created_ms=7,
        url="https://app.test/flow",
        call_type=call_type,
        **changes,
    )
    given = attempt(headers=(("svc-workflow-init", "mine"),))
    sent = request_headers(replace(given, message=replace(given.message, run=part)), dialect=SVC, signature="s")
    return [(name, value) for name, value in sent if name.lower().startswith("svc-workflow-")]


def test_a_call_of_a_run_says_which_and_what_it_is() -> None:
    """D-367."""
    step = [
        ("Svc-Workflow-RunId", "wfr_1"),
        ("Svc-Workflow-Init", "false"),
        ("Svc-Workflow-Url", "https://app.test/flow"),
        ("Svc-Workflow-CreatedAt", "7"),
    ]
    assert _of_a_run(CallType.STEP) == step
    assert _of_a_run(CallType.STEP, is_init=True)[1] == ("Svc-Workflow-Init", "true")
    assert _of_a_run(CallType.STEP, awaits_sdk=True) == [*step, ("Svc-Workflow-Unknown-Sdk", "true")]
    assert _of_a_run(CallType.FAILURE_CALL) == [
        *step,
        ("Svc-Workflow-Is-Failure", "true"),
        ("Svc-Workflow-Failure-Callback", "true"),
    ]
    # The request to a third party has what the workflow gave it.
    assert _of_a_run(CallType.TO_CALLBACK) == [("svc-workflow-init", "mine")]


def test_the_headers_of_an_attempt_that_needed_no_network_are_made_as_it_would_have_sent_them() -> None:
    """D-400, D-705."""
    given = attempt(number=2)
    unsent = Unsent(
        wall_ms=given.at_ms, signing_key=SIGNING_KEY, region="us-east-1",
        header_prefix="Svc-", user_agent="Svc-Queue", issuer="Svc", url="http://127.0.0.1:3000/hook",
    )  # fmt: skip
    outcome = AttemptOutcome(response=None, error="refused", via=Via.RULE, unsent=unsent, redelivery=3)
    for is_duplicate in (False, True):
        made = headers_of_attempt(given.message, 2, given.at_ms, outcome, is_duplicate=is_duplicate)
        again = replace(given, region="us-east-1", redelivery=3, is_duplicate=is_duplicate)
        token = sign(again, issuer="Svc", wall_ms=given.at_ms)
        assert made == request_headers(again, dialect=SVC, signature=token, url="http://127.0.0.1:3000/hook")
    sent = (("X-Sent", "1"),)
    real = AttemptOutcome(response=None, error="refused", via=Via.NETWORK, request_headers=sent)
    assert headers_of_attempt(given.message, 2, given.at_ms, real) == sent


def test_the_user_may_set_the_defaults() -> None:
    given = (("user-agent", "mine"), ("ACCEPT-ENCODING", "br"))
    sent = request_headers(attempt(headers=given), dialect=SVC, signature="s")
    assert [pair for pair in sent if pair[0].lower() in ("user-agent", "accept-encoding")] == list(given)


@pytest.mark.parametrize(
    "name",
    [
        *("Svc-Message-Id", "svc-retried", "SVC-SIGNATURE", "Svc-Topic-Name", "svc-schedule-id", "Svc-Caller-Ip"),
        "Svc-Region",
    ],
)
def test_a_forwarded_header_never_stands_for_the_services_own(name: str) -> None:
    sent = request_headers(attempt(headers=((name, "forged"),)), dialect=SVC, signature="s")
    assert "forged" not in [value for _, value in sent]


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "content-length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade"),
        *("Expect", "Proxy-Connection"),
    ],
)
def test_headers_of_the_connection_are_not_forwarded(name: str) -> None:
    """D-101."""
    sent = request_headers(attempt(headers=((name, "forged"),)), dialect=SVC, signature="s")
    assert "forged" not in [value for _, value in sent]


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


# -- signatures --------------------------------------------------------------------------------


VIRTUAL_MS = 1_767_225_600_999
WALL_MS = 1_760_000_000_500


def decoded(token: str, key: str = SIGNING_KEY) -> dict[str, object]:
    claims: dict[str, object] = jwt.decode(token, key, algorithms=["HS256"], options={"verify_exp": False})
    return claims


def test_the_token_says_what_was_sent_where_and_when() -> None:
    """D-104, D-112."""
    token = sign(attempt(body=b"", at_ms=VIRTUAL_MS), issuer="Svc", wall_ms=WALL_MS)
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT"}
    assert decoded(token) == {
        "iss": "Svc",
        "sub": "https://api.example.com/hook",
        "exp": 1_767_225_900,
        "nbf": 0,
        "iat": 1_760_000_000,
        "jti": jwt_id(b"msg_1", 1),
        "body": "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=",
    }


def test_a_virtual_clock_in_the_past_gives_a_token_that_lives_now() -> None:
    """D-104."""
    claims = decoded(sign(attempt(at_ms=WALL_MS), issuer="Svc", wall_ms=VIRTUAL_MS))
    assert (claims["iat"], claims["exp"]) == (1_760_000_000, 1_767_225_900)


@pytest.mark.parametrize("offset_ms", [0, 86_400_000, 10 * 365 * 86_400_000, -86_400_000, -50 * 365 * 86_400_000])
@pytest.mark.parametrize("body", [b"", b"hello", "schön ☃".encode()], ids=["empty", "ascii", "unicode"])
def test_the_public_receiver_accepts_it_wherever_the_virtual_clock_stands(offset_ms: int, body: bytes) -> None:
    wall_ms = time.time_ns() // 1_000_000
    made = attempt(body=body, at_ms=wall_ms + offset_ms)
    signature = sign(made, issuer="Upstash", wall_ms=wall_ms)
    receiver = Receiver(SIGNING_KEY, NEXT_SIGNING_KEY)
    receiver.verify(signature=signature, body=body.decode(), url="https://api.example.com/hook")


def test_the_public_receiver_accepts_it_by_its_next_key_after_a_rotation() -> None:
    wall_ms = time.time_ns() // 1_000_000
    signature = sign(attempt(signing_key=NEXT_SIGNING_KEY, at_ms=wall_ms), issuer="Upstash", wall_ms=wall_ms)
    Receiver(SIGNING_KEY, NEXT_SIGNING_KEY).verify(signature=signature, body="hello")


def test_each_delivery_of_an_attempt_has_a_token_of_its_own() -> None:
    """D-421, D-705: an attempt, its duplicate, and each time that it is sent again."""
    deliveries = [
        replace(attempt(), number=2, is_duplicate=is_duplicate, redelivery=redelivery)
        for is_duplicate, redelivery in ((False, 0), (True, 0), (True, 1), (True, 2))
    ]
    numbers = (2, 2 + 2**19, 2 + 2**19 + 2**20, 2 + 2**19 + 2 * 2**20)
    ids = [claims_of(delivery, issuer="Svc", wall_ms=WALL_MS)["jti"] for delivery in deliveries]
    assert ids == [jwt_id(b"msg_1", number) for number in numbers]


def test_a_key_signs_as_it_is_however_short_it_is() -> None:
    """A warning of the JWT library would fail this test."""
    token = sign(attempt(signing_key="short", at_ms=VIRTUAL_MS), issuer="Svc", wall_ms=WALL_MS)
    with warnings.catch_warnings(action="ignore"):  # Reading it may warn; signing it did not.
        assert decoded(token, "short")["jti"] == jwt_id(b"msg_1", 1)


@pytest.mark.parametrize("virtual_ms", [WALL_MS - 86_400_000, WALL_MS, WALL_MS + 86_400_000])
def test_the_virtual_instant_can_be_read_from_a_signature(virtual_ms: int) -> None:
    """D-505. By a receiver whose clock shows the real time, a second later."""
    claims = decoded(sign(attempt(at_ms=virtual_ms), issuer="Svc", wall_ms=WALL_MS))
    iat, exp = claims["iat"], claims["exp"]
    assert isinstance(iat, int)
    assert isinstance(exp, int)
    ahead_s = exp - 300
    assert (ahead_s if ahead_s * 1000 > WALL_MS + 1000 else iat) == virtual_ms // 1000


def test_a_token_issued_in_the_future_is_refused_by_receivers() -> None:
    """D-505: why `iat` is not the virtual instant in a world of the future."""
    wall_s = int(time.time())
    claims = {"iss": "Upstash", "sub": "", "nbf": 0, "iat": wall_s + 3600, "exp": wall_s + 7200, "body": ""}
    token = jwt.encode(claims, SIGNING_KEY)
    with pytest.raises(jwt.ImmatureSignatureError):
        jwt.decode(token, SIGNING_KEY, algorithms=["HS256"])
    with pytest.raises(SignatureError, match=r"not yet valid \(iat\)"):
        Receiver(SIGNING_KEY, SIGNING_KEY).verify(signature=token, body="")
