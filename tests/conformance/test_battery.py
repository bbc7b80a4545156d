"""The battery against receivers that are right, or make one mistake on purpose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from emulator.conformance.battery import check
from emulator.conformance.checks import CHECKS
from emulator.conformance.reports import Receiver, ReceiverReport, Verdict
from emulator.conformance.sending import BLIND, RESTLESS, read_url, written_otherwise
from emulator.core.model.messages import Response
from emulator.core.model.options import Method
from emulator.delivery.mounts import MountedRequest
from tests.harness.job_receivers import CURRENT, JOB, MISTAKES, NEXT, JobReceiver, served

RECEIVER = Receiver(
    url="https://jobs.test/run",
    current_signing_key=CURRENT,
    next_signing_key=NEXT,
    header_prefix="Svc-",
    issuer="Svc",
    user_agent="Svc",
    body=JOB,
    slow_ms=200,
    takes_callbacks=True,
)


def checked(
    jobs: JobReceiver,
    receiver: Receiver = RECEIVER,
    effect: Callable[[], object] | None = None,
    profile: str = "none",
) -> ReceiverReport:
    """What the battery shows of a mounted receiver; its effect is the list of done jobs unless another is given."""

    async def read() -> object:
        return jobs.done if effect is None else effect()

    return asyncio.run(check(receiver, mount=jobs, effect=read, profile=profile, clock=lambda: jobs.clock_s))


def ids(report: ReceiverReport, verdict: Verdict) -> list[str]:
    return [result.id for result in report.of(verdict)]


# -- mistakes ---------------------------------------------------------------------------------


def test_a_right_receiver_passes_every_check() -> None:
    """The battery is within its number of requests (D-410)."""
    jobs = JobReceiver()
    report = checked(jobs)
    assert report.passed
    assert ids(report, Verdict.NOT_JUDGED) == ["slow-client"]
    assert len(ids(report, Verdict.PASSED)) == len(CHECKS) - 1
    assert report.requests <= 37
    report.raise_for_failures()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_is_found_by_exactly_its_check(mistake: str) -> None:
    """Also what may be answered to odd bodies and to deliveries at once (D-412, D-413, D-577, D-578)."""
    report = checked(JobReceiver(mistake=mistake))
    assert ids(report, Verdict.FAILED) == [MISTAKES[mistake]]
    [failure] = report.failures
    assert failure.note
    assert failure.sent.startswith(("POST", "GET"))
    with pytest.raises(AssertionError, match=failure.id):
        report.raise_for_failures()


def test_every_check_but_those_of_a_real_connection_has_a_mistake_that_it_finds() -> None:
    assert set(CHECKS) - set(MISTAKES.values()) == {"valid", "slow-client"}


def test_a_receiver_with_other_keys_fails_at_good_deliveries() -> None:
    report = checked(
        JobReceiver(current="sig_current_key_of_another_world_1", following="sig_next_key_of_another_world_123")
    )
    assert {"valid", "next-key", "retry"} <= set(ids(report, Verdict.FAILED))
    assert report["valid"].came.startswith("401 Unauthorized")
    assert report["no-effect"].note == BLIND
    assert report["duplicate"].note == "the first delivery was not accepted"
    assert report["latency"].note == "no good delivery was accepted"


# -- effects ----------------------------------------------------------------------------------

EFFECTS = ["no-effect", "idempotency", "concurrent-effect", "retry-effect"]


def test_without_an_effect_source_effects_are_not_judged() -> None:
    """Nothing is said of what cannot be seen (D-411)."""
    jobs = JobReceiver(mistake="works before it verifies")
    report = asyncio.run(check(RECEIVER, mount=jobs))
    assert report.passed
    assert ids(report, Verdict.NOT_JUDGED) == [*EFFECTS, "slow-client"]
    assert "no effect source was given" in report["no-effect"].note


def test_an_effect_source_that_shows_nothing_or_never_rests_judges_nothing() -> None:
    counter = iter(range(1000))
    for effect, note in ((lambda: 7, BLIND), (lambda: next(counter), RESTLESS)):
        report = checked(JobReceiver(mistake="works twice for duplicates"), effect=effect)
        assert [report[check_id].note for check_id in EFFECTS] == [note] * 4


def checked_with_late_work(effect_delay_ms: int) -> ReceiverReport:
    """Of a receiver whose work shows a few turns of the loop after its answer."""
    jobs, done = JobReceiver(), list[str]()

    async def endpoint(request: MountedRequest) -> Response:
        answer = await jobs(request)
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, lambda: done.__setitem__(slice(None), jobs.done))
        return answer

    async def read() -> object:
        return done

    return asyncio.run(check(replace(RECEIVER, effect_delay_ms=effect_delay_ms), mount=endpoint, effect=read))


def test_work_that_goes_on_after_the_answer_is_waited_for() -> None:
    assert checked_with_late_work(0)["no-effect"].note == BLIND
    patient = checked_with_late_work(5)
    assert ids(patient, Verdict.NOT_JUDGED) == ["slow-client"]
    assert patient.passed


def test_several_effects_need_a_state_that_can_be_counted() -> None:
    jobs = JobReceiver(mistake="looks before it works")
    report = checked(jobs, effect=lambda: f"jobs: {len(jobs.done)}")
    assert report["idempotency"].verdict is Verdict.PASSED
    assert report["concurrent-effect"].verdict is Verdict.NOT_JUDGED
    assert "nothing can be counted" in report["concurrent-effect"].note


def test_what_the_same_body_does_once_is_judged_as_far_as_it_shows() -> None:
    """The receiver's work is the same for all messages with a body, such as a row with a key."""
    jobs = JobReceiver()
    report = checked(jobs, effect=lambda: min(len(jobs.done), 1))
    assert report.passed
    assert [report[check_id].verdict.value for check_id in EFFECTS] == ["passed", "passed", "not judged", "not judged"]
    early = JobReceiver(mistake="works before it verifies")
    assert ids(checked(early, effect=lambda: min(len(early.done), 1)), Verdict.FAILED) == ["no-effect"]


def test_a_failure_that_comes_of_writing_json_again_is_named_once() -> None:
    """D-577."""
    report = checked(JobReceiver(mistake="verifies what it has parsed and written again"))
    waiting = [report[check_id] for check_id in ("large-body", "callback", "failure-callback")]
    assert {result.note for result in waiting} == {
        "the good body written otherwise is not accepted: mend `exact-body` first"
    }


@pytest.mark.parametrize("body", [b"a=1", b"", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_cannot_be_written_otherwise(body: bytes) -> None:
    assert written_otherwise(body) is None
    report = checked(JobReceiver(), replace(RECEIVER, body=b"a=1"))
    assert report["exact-body"].note == "the good body is no JSON, which could be written otherwise"


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"user": 7, "mails": ["a", "\u00fc", "\U0001f600", '"\\/\n'], "price": 1.0, "rate": 1e-7, "of": {"a": None}},
        [],
        "text",
        7,
        -0.5,
        [True, [False, {}]],
        "\ud800",
    ],
)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_json_written_otherwise_means_the_same_in_other_bytes(value: object, separators: tuple[str, str]) -> None:
    """D-577."""
    body = json.dumps(value, separators=separators).encode()
    written = written_otherwise(body)
    assert written is not None
    assert json.loads(written) == value
    assert written not in (body, json.dumps(json.loads(written), separators=separators).encode())


def test_written_otherwise_has_spaces_escapes_zeros_and_another_order() -> None:
    assert written_otherwise(b'{"a": 1.0, "b": [7, 1e2]}') == (
        b' \n{  "\\u0062" :\t [ 7 ,  1e2  ]  ,\n "\\u0061" :\t 1.00\n}\t \n'
    )


def test_five_at_once_that_take_turns_are_not_judged() -> None:
    """D-576."""
    jobs, turns = JobReceiver(mistake="looks before it works"), asyncio.Lock()
    taken: list[MountedRequest] = []

    async def endpoint(request: MountedRequest) -> Response:
        async with turns:
            taken.append(request)
            return await jobs(request)

    async def read() -> object:
        return jobs.done

    report = asyncio.run(check(RECEIVER, mount=endpoint, effect=read, turns=lambda: len(taken)))
    assert report.passed
    assert ids(report, Verdict.NOT_JUDGED) == ["concurrent", "concurrent-effect", "slow-client"]
    assert report["concurrent"].note == report["concurrent-effect"].note
    assert "take turns (with_connections)" in report["concurrent"].note


# -- profiles and ends ------------------------------------------------------------------------


def test_a_tolerance_of_the_profile_is_named_and_no_failure() -> None:
    """A tolerance is of one check and one reason (D-414)."""
    report = checked(JobReceiver(mistake="does not compare the URL"), profile="qstash-python")
    assert report.passed
    [tolerated] = report.of(Verdict.TOLERATED)
    assert (tolerated.id, "only if verify() is given one" in tolerated.note) == ("tampered-url", True)
    assert not checked(JobReceiver(mistake="ignores exp"), profile="qstash-npm").passed
    with pytest.raises(ValueError, match="profile: expected none, qstash-python, qstash-npm, got 'php'"):
        checked(JobReceiver(), profile="php")


def test_callbacks_are_judged_only_if_the_endpoint_takes_them() -> None:
    report = checked(JobReceiver(mistake="refuses callbacks"), replace(RECEIVER, takes_callbacks=False))
    assert report.passed
    assert ids(report, Verdict.NOT_JUDGED) == ["callback", "failure-callback", "slow-client"]


def test_nobody_at_the_address_ends_the_battery() -> None:
    with served(JobReceiver()) as url:
        pass
    report = asyncio.run(check(replace(RECEIVER, url=url)))
    assert ids(report, Verdict.FAILED) == ["valid"]
    assert "connection refused" in report["valid"].came
    assert report["valid"].mend.startswith("Start the receiver, or correct the URL")
    assert len(ids(report, Verdict.NOT_JUDGED)) == len(CHECKS) - 1
    assert report.requests == 2


def test_requests_are_those_of_a_delivery_of_the_dialect() -> None:
    seen: list[MountedRequest] = []

    async def endpoint(request: MountedRequest) -> Response:
        seen.append(request)
        return Response(status=200, headers=(), body=b"")

    put = replace(RECEIVER, method=Method.PUT, header_prefix="Upstash-", issuer="Upstash", user_agent="Upstash-QStash")
    asyncio.run(check(put, mount=endpoint))
    good = next(request for request in seen if request.method is Method.PUT)
    assert [name for name, _ in good.headers] == [
        "Host",
        "Content-Type",
        "User-Agent",
        "Accept-Encoding",
        "Upstash-Message-Id",
        "Upstash-Retried",
        "Upstash-Caller-Ip",
        "upstash-region",
        "Content-Length",
    ]
    signed = [dict(request.headers) for request in seen if "Upstash-Signature" in dict(request.headers)]
    assert len(signed) == len(seen) - 5 - 2
    ids_of_messages = [headers["Upstash-Message-Id"] for headers in signed]
    assert len(set(ids_of_messages)) == len(ids_of_messages) - 1 - 4


# -- over the network -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("one_at_a_time", [False, True])
def test_a_slow_client_is_no_harm_to_others(one_at_a_time: bool) -> None:
    jobs = JobReceiver()
    with served(jobs, one_at_a_time=one_at_a_time) as url:
        effect = read_url(url.replace("/run", "/done"))
        receiver = replace(RECEIVER, url=url, slow_ms=200 if one_at_a_time else 1000)
        report = asyncio.run(check(receiver, effect=effect))
    assert ids(report, Verdict.FAILED) == (["slow-client"] if one_at_a_time else [])
    assert ids(report, Verdict.NOT_JUDGED) == []
