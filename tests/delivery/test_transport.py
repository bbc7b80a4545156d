"""What answers an attempt: a rule, a mounted application, capture, or the network (D-110)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from qstash import Receiver

from emulator.core.model.messages import Attempt, AttemptOutcome, Response, Via
from emulator.core.model.options import Method
from emulator.core.model.resources import Fault, ScriptedAnswer, ScriptedResponse
from emulator.core.record import Headers, RuleId
from emulator.delivery.egress import EgressPolicy, ExternalPolicy
from emulator.delivery.http import SendFailure
from emulator.delivery.mounts import MountedRequest, call, near_mount
from emulator.delivery.transport import DeliveryTransport, Inside, Leaves
from emulator.wire.messaging.outgoing import headers_of_attempt
from tests.delivery.conftest import on_both_loops
from tests.delivery.receivers import Answer, Then, receiver
from tests.delivery.samples import NEXT_SIGNING_KEY, SIGNING_KEY, SVC, UPSTASH, Names, attempt, forward_to

RULE = RuleId("rule_1")


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def transport(
    external: ExternalPolicy = ExternalPolicy.CAPTURE,
    *,
    allow: tuple[str, ...] = (),
    dialect: Names = SVC,
    llm_url: str | None = None,
) -> DeliveryTransport:
    egress = EgressPolicy(external=external, allow_hosts=allow)
    return DeliveryTransport(dialect=dialect, egress=egress, wall_ms=wall_ms, llm_url=llm_url)


def answered_inside(made: DeliveryTransport, sent: Attempt) -> AttemptOutcome:
    """The outcome of an attempt that needs no network."""
    route = made.route(sent)
    assert isinstance(route, Inside)
    return route.outcome


def headers_inside(made: DeliveryTransport, sent: Attempt) -> Headers:
    """The headers that a request that needs no network would have had."""
    outcome = answered_inside(made, sent)
    assert not outcome.request_headers
    return headers_of_attempt(sent.message, sent.number, sent.at_ms, outcome)


async def send(made: DeliveryTransport, sent: Attempt) -> AttemptOutcome:
    """The outcome of an attempt that leaves."""
    route = made.route(sent)
    assert isinstance(route, Leaves)
    return await made.send(sent, route)


@asynccontextmanager
async def opened(made: DeliveryTransport) -> AsyncIterator[DeliveryTransport]:
    try:
        yield made
    finally:
        await made.close()


# -- inside -----------------------------------------------------------------------------------


def test_a_rule_answers_inside() -> None:
    scripted = ScriptedResponse(status=503, headers=(("Retry-After", "10"),), body=b"busy", latency_ms=2000)
    outcome = answered_inside(transport(), attempt(answer=ScriptedAnswer(rule_id=RULE, respond=scripted)))
    assert outcome.response == Response(status=503, headers=(("Retry-After", "10"),), body=b"busy")
    assert (outcome.error, outcome.via, outcome.non_retryable) == (None, Via.RULE, False)
    asked = attempt(answer=ScriptedAnswer(rule_id=RULE, respond=scripted), number=2)
    assert {("Svc-Message-Id", "msg_1"), ("Svc-Retried", "1")} <= set(headers_inside(transport(), asked))


def test_of_a_long_answer_of_a_rule_the_beginning_is_kept() -> None:
    """D-790."""
    scripted = ScriptedResponse(body=b"x" * 1_048_577)
    outcome = answered_inside(transport(), attempt(answer=ScriptedAnswer(rule_id=RULE, respond=scripted)))
    assert outcome.response == Response(status=200, headers=(), body=b"x" * 1_048_576, received_bytes=1_048_577)


@pytest.mark.parametrize(
    ("dialect", "name"), [(SVC, "Svc-NonRetryable-Error"), (UPSTASH, "upstash-nonretryable-error")]
)
def test_an_answer_can_ask_for_no_further_attempt(dialect: Names, name: str) -> None:
    """D-017."""
    scripted = ScriptedResponse(status=489, headers=((name, "true"),))
    asked = attempt(answer=ScriptedAnswer(rule_id=RULE, respond=scripted))
    assert answered_inside(transport(dialect=dialect), asked).non_retryable


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.REFUSED, "connection refused"),
        (Fault.TIMEOUT, "timeout: no response in time"),
        (Fault.RESET, "connection reset by peer"),
        (Fault.DNS, "name not known: api.example.com"),
        (Fault.TLS, "TLS handshake failed"),
    ],
)
def test_a_rule_can_stage_every_fault(fault: Fault, error: str) -> None:
    outcome = answered_inside(transport(), attempt(answer=ScriptedAnswer(rule_id=RULE, fault=fault)))
    assert (outcome.response, outcome.error, outcome.via) == (None, error, Via.RULE)
    assert headers_inside(transport(), attempt(answer=ScriptedAnswer(rule_id=RULE, fault=fault)))


def test_an_external_destination_is_captured() -> None:
    """D-107."""
    outcome = answered_inside(transport(), attempt())
    assert (outcome.response, outcome.via) == (Response(status=200, headers=(), body=b""), Via.CAPTURE)
    assert headers_inside(transport(), attempt())[0] == ("Host", "api.example.com")


def test_a_forwarded_request_that_may_not_leave_names_the_host_it_would_have_gone_to() -> None:
    asked = attempt(answer=forward_to("http://169.254.169.254"))
    assert headers_inside(transport(), asked)[0] == ("Host", "169.254.169.254")


def test_an_external_destination_fails_where_the_policy_says_so() -> None:
    """D-107."""
    outcome = answered_inside(transport(ExternalPolicy.FAIL), attempt())
    assert outcome.error == "connection failed: external destination api.example.com (external=fail)"
    assert (outcome.response, outcome.via) == (None, Via.CAPTURE)


@pytest.mark.parametrize("external", list(ExternalPolicy))
def test_cloud_metadata_is_refused_inside(external: ExternalPolicy) -> None:
    """D-105."""
    outcome = answered_inside(transport(external), attempt("http://2852039166/latest"))
    assert outcome.error == "egress refused: 169.254.169.254 (a cloud metadata or link-local address)"


def test_what_has_to_leave_is_not_answered_inside() -> None:
    local = Leaves(url="http://127.0.0.1:3000/", origin="http://127.0.0.1:3000")
    external = Leaves(url="https://api.example.com/hook", origin="https://api.example.com")
    forwarded = Leaves(url="http://127.0.0.1:3000/hook", origin="http://127.0.0.1:3000")
    assert transport().route(attempt("http://127.0.0.1:3000/")) == local
    assert transport(ExternalPolicy.ALLOW).route(attempt()) == external
    assert transport(allow=("api.example.com",)).route(attempt()) == external
    assert transport().route(attempt(answer=forward_to("http://127.0.0.1:3000"))) == forwarded


def test_the_signature_of_a_captured_delivery_is_accepted_by_the_public_receiver() -> None:
    """However often it is read, it is the same one: made of what the attempt was made with (D-400)."""
    made, asked = transport(dialect=UPSTASH), attempt(at_ms=wall_ms() + 7 * 86_400_000)
    outcome = answered_inside(made, asked)
    first, second = (headers_of_attempt(asked.message, 1, asked.at_ms, outcome) for _ in range(2))
    assert first == second
    Receiver(SIGNING_KEY, NEXT_SIGNING_KEY).verify(
        signature=dict(first)["Upstash-Signature"],
        body="hello",
        url="https://api.example.com/hook",
    )


# -- the network ------------------------------------------------------------------------------


@on_both_loops
async def test_the_journal_shows_exactly_what_was_sent() -> None:
    async with opened(transport(dialect=UPSTASH)) as made, receiver() as there:
        headers = (("Content-Type", "text/plain"), ("X-Tenant", "t"))
        outcome = await send(
            made, attempt(there.url("/a%2Fb?x=1"), headers=headers, url_group="team", schedule_id="scd_1")
        )
        assert outcome.via is Via.NETWORK
        assert outcome.response == Response(status=200, headers=(("Content-Length", "2"),), body=b"ok")
        head, _, body = there.requests[0].partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert lines[0] == "POST /a%2Fb?x=1 HTTP/1.1"
        assert tuple(tuple(line.split(": ", 1)) for line in lines[1:]) == outcome.request_headers
        Receiver(SIGNING_KEY, NEXT_SIGNING_KEY).verify(
            signature=dict(outcome.request_headers)["Upstash-Signature"],
            body=body.decode(),
            url=there.url("/a%2Fb?x=1"),
        )


@on_both_loops
async def test_a_failed_request_still_says_what_was_sent() -> None:
    async with opened(transport()) as made, receiver([Answer(b"", Then.WAIT)]) as there:
        outcome = await send(made, attempt(there.url(), timeout_ms=30))
        assert (outcome.response, outcome.error) == (None, "timeout: no response in time")
        assert (outcome.via, outcome.request_headers[0]) == (Via.NETWORK, ("Host", f"127.0.0.1:{there.port}"))


# -- forwarding -------------------------------------------------------------------------------


@on_both_loops
async def test_forwarding_replaces_the_origin_and_keeps_the_rest() -> None:
    async with opened(transport(dialect=UPSTASH)) as made, receiver() as there:
        rule = forward_to(there.url("/ignored"))
        outcome = await send(made, attempt("https://api.example.com/hook?x=%2F", answer=rule))
        assert outcome.via is Via.RULE
        assert there.requests[0].startswith(f"POST /hook?x=%2F HTTP/1.1\r\nHost: 127.0.0.1:{there.port}\r\n".encode())
        Receiver(SIGNING_KEY, NEXT_SIGNING_KEY).verify(
            signature=dict(outcome.request_headers)["Upstash-Signature"],
            body="hello",
            url="https://api.example.com/hook?x=%2F",
        )


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "http://169.254.169.254"])
@pytest.mark.parametrize("external", [ExternalPolicy.CAPTURE, ExternalPolicy.FAIL])
def test_forwarding_obeys_the_egress_policy(origin: str, external: ExternalPolicy) -> None:
    """D-111."""
    outcome = answered_inside(transport(external), attempt("http://127.0.0.1:3000/", answer=forward_to(origin)))
    assert outcome.error is not None
    assert outcome.error.startswith(f"egress refused: {origin.partition('//')[2]}")
    assert outcome.via is Via.RULE


# -- the language model -----------------------------------------------------------------------

MODEL = "https://svc.example/llm/v1/chat/completions"


@pytest.mark.parametrize("external", ExternalPolicy)
def test_the_model_answers_with_a_canned_completion(external: ExternalPolicy) -> None:
    """D-311."""
    sent = attempt(MODEL, api="llm", body=b'{"model":"m"}')
    outcome = answered_inside(transport(external), sent)
    assert outcome.via is Via.CAPTURE
    assert outcome.response is not None
    assert outcome.response.status == 200
    assert json.loads(outcome.response.body)["model"] == "m"
    assert outcome.response == answered_inside(transport(external), sent).response


def test_a_url_that_only_looks_like_the_models_is_any_destination() -> None:
    outcome = answered_inside(transport(llm_url="http://127.0.0.1:9/"), attempt(MODEL))
    assert (outcome.response, outcome.via) == (Response(status=200, headers=(), body=b""), Via.CAPTURE)


@on_both_loops
async def test_the_model_is_asked_at_the_server_of_the_user() -> None:
    """D-311."""
    async with receiver() as there, opened(transport(llm_url=there.url("/v1/chat/completions"))) as made:
        outcome = await send(made, attempt(MODEL, api="llm", body=b"{}"))
        assert outcome.via is Via.NETWORK
        assert outcome.response is not None
        assert outcome.response.body == b"ok"
        assert there.requests[0].startswith(b"POST /v1/chat/completions HTTP/1.1")


@on_both_loops
async def test_rules_and_mounts_answer_for_the_model_first() -> None:
    """D-311."""
    made = transport(llm_url="http://127.0.0.1:9/v1/chat/completions")
    scripted = ScriptedAnswer(rule_id=RULE, respond=ScriptedResponse(status=503))
    outcome = answered_inside(made, attempt(MODEL, api="llm", answer=scripted))
    assert (outcome.via, outcome.response and outcome.response.status) == (Via.RULE, 503)
    forwarded = Leaves(url="http://127.0.0.1:3000/llm/v1/chat/completions", origin="http://127.0.0.1:3000")
    assert made.route(attempt(MODEL, api="llm", answer=forward_to("http://127.0.0.1:3000"))) == forwarded
    application = Application()
    made.mount("https://svc.example", application)
    outcome = await send(made, attempt(MODEL, api="llm"))
    assert outcome.via is Via.MOUNT
    assert application.requests[0].url == MODEL


# -- mounts -----------------------------------------------------------------------------------


class Application:
    def __init__(self) -> None:
        self.requests: list[MountedRequest] = []

    async def __call__(self, request: MountedRequest, /) -> Response:
        self.requests.append(request)
        return Response(status=201, headers=(("X-App", "1"),), body=b"made")


@on_both_loops
async def test_a_mounted_application_gets_the_request_as_a_receiver_would() -> None:
    application = Application()
    made = transport()
    made.mount("https://API.example.com:443", application)
    sent = attempt("https://api.example.com/hook?x=1", method=Method.PUT)
    outcome = await send(made, sent)
    assert outcome.response == Response(status=201, headers=(("X-App", "1"),), body=b"made")
    assert (outcome.via, outcome.request_headers[0]) == (Via.MOUNT, ("Host", "api.example.com"))
    assert application.requests == [
        MountedRequest(
            method=Method.PUT,
            url="https://api.example.com/hook?x=1",
            headers=outcome.request_headers,
            body=b"hello",
            message_id=sent.message.message_id,
            at_ms=sent.at_ms,
        )
    ]


@on_both_loops
async def test_an_attempt_that_leaves_says_how_long_it_took_in_real_time() -> None:
    """D-510: the virtual clock may stand still meanwhile."""

    async def slow(request: MountedRequest, /) -> Response:
        loop = asyncio.get_running_loop()
        answers = loop.create_future()
        loop.call_later(0.05, answers.set_result, None)
        await answers
        return Response(status=200, headers=(), body=request.body)

    made = transport()
    made.mount("https://app.test", slow)
    took_ms = (await send(made, attempt("https://app.test/"))).took_ms
    assert took_ms is not None
    # Loops round their timers.
    assert 45 <= took_ms < 10_000
    assert answered_inside(made, attempt("https://other.test/")).took_ms is None


def test_a_mount_answers_for_its_own_origin_only() -> None:
    made = transport()
    made.mount("https://app.test", Application())
    for url in ("http://app.test/", "https://app.test:8443/", "https://www.app.test/"):
        outcome = answered_inside(made, attempt(url))
        assert outcome.via is Via.CAPTURE


def test_an_unmounted_origin_is_captured_again() -> None:
    made = transport()
    made.mount("https://app.test", Application())
    made.unmount("https://app.test")
    made.unmount("https://app.test")
    assert isinstance(made.route(attempt("https://app.test/")), Inside)


def test_only_an_origin_can_be_mounted() -> None:
    with pytest.raises(ValueError, match="not an http"):
        transport().mount("app", Application())


def test_a_rule_beats_a_mount() -> None:
    """D-110."""
    made = transport()
    made.mount("https://api.example.com", Application())
    outcome = answered_inside(made, attempt(answer=ScriptedAnswer(rule_id=RULE, respond=ScriptedResponse(status=500))))
    assert outcome.via is Via.RULE


@on_both_loops
async def test_a_rule_can_forward_to_a_mount() -> None:
    application = Application()
    made = transport()
    made.mount("https://app.test", application)
    outcome = await send(made, attempt(answer=forward_to("https://app.test")))
    assert outcome.via is Via.RULE
    assert [request.url for request in application.requests] == ["https://app.test/hook"]


@on_both_loops
async def test_an_application_that_breaks_is_a_failed_attempt() -> None:
    async def broken(request: MountedRequest, /) -> Response:
        raise KeyError("secret")

    made = transport()
    made.mount("https://api.example.com", broken)
    outcome = await send(made, attempt())
    assert (outcome.response, outcome.error) == (None, "mounted application failed: KeyError")


@on_both_loops
async def test_an_application_that_never_answers_runs_into_the_timeout() -> None:
    async def silent(request: MountedRequest, /) -> Response:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    made = transport()
    made.mount("https://api.example.com", silent)
    outcome = await send(made, attempt(timeout_ms=20))
    assert outcome.error == "timeout: no response in time"


@pytest.mark.parametrize(
    ("timeout_ms", "mount_timeout_ms", "text"),
    [
        pytest.param(20, 40, "timeout: no response in time", id="of-the-message"),
        pytest.param(20, 20, "timeout: no response in time", id="of-both"),
        pytest.param(
            40,
            20,
            "timeout: the application mounted at https://app.test did not answer within 20ms of real time"
            " (mount_timeout)",
            id="of-the-emulator",
        ),
    ],
)
@on_both_loops
async def test_an_application_that_does_not_answer_has_the_shorter_of_two_limits(
    timeout_ms: int, mount_timeout_ms: int, text: str
) -> None:
    request = MountedRequest(method=Method.POST, url="https://app.test/hook", headers=(), body=b"")

    async def never(_: MountedRequest) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    outcome = await call(never, request, timeout_ms=timeout_ms, mount_timeout_ms=mount_timeout_ms)
    assert outcome == SendFailure(text=text)


@pytest.mark.parametrize(
    ("url", "question"),
    [
        ("http://shop.test/a", "https://shop.test is mounted; is https meant?"),
        ("https://shop.test:8443/", "https://shop.test is mounted; is https://shop.test meant?"),
        ("http://shop.test:8443/", "https://shop.test is mounted; is https://shop.test meant?"),
        ("https://www.shop.test", "https://shop.test is mounted; is https://shop.test meant?"),
        ("https://app.test:3000/", "http://www.app.test:3000 is mounted; is http://www.app.test:3000 meant?"),
        ("HTTPS://SHOP.test./a", None),
        ("https://api.shop.test/", None),
        ("https://other.test/", None),
        ("my-group", None),
    ],
)
def test_near_origins(url: str, question: str | None) -> None:
    """D-473."""
    assert near_mount(url, ["https://shop.test", "http://www.app.test:3000"]) == question


def test_the_nearest_origin_is_that_of_the_same_host() -> None:
    """D-473."""
    origins = ["https://www.shop.test", "https://shop.test"]
    assert near_mount("http://shop.test/", origins) == "https://shop.test is mounted; is https meant?"
    assert near_mount("http://www.shop.test/", origins) == "https://www.shop.test is mounted; is https meant?"
