"""`/_emulator/deliveries` as lists of very many attempts ask for it."""

from __future__ import annotations

import pytest
from msgspec.json import decode, encode
from msgspec.structs import replace

from emulator.control.deliveries import PARAMETERS, delivery_view, read_delivery_query
from emulator.core.errors import InvalidInput
from emulator.core.model.messages import AttemptOutcome, Response, Via
from emulator.core.model.options import Method, Redaction
from emulator.core.record import AccountId, MessageId
from emulator.queries.history import DeliveryQuery, HistoryFilter, RecordedDelivery
from emulator.wire.query_reader import control_query
from tests.harness.emulators import InProcess, with_emulator
from tests.harness.simulations import make_message

RULE = {"match": {"url": "https://app.test/bad"}, "respond": {"status": 503, "body": "é" * 300}}


@with_emulator(external="capture")
async def test_brief_deliveries_say_why_without_headers_and_bodies(emulator: InProcess) -> None:
    """D-322."""
    await emulator.control("POST", "/destinations", RULE)
    given = {"Svc-Retries": "2", "Svc-Label": "nightly"}
    await emulator.call("POST", "/v2/publish/https://app.test/bad", given, b"secret")
    listed = await emulator.control("GET", "/deliveries?brief=true")
    told = await emulator.control("GET", "/stream?from=start&follow=false&brief=true")
    wrong = await emulator.control("GET", "/deliveries?brief=maybe")

    (only,) = listed.json["deliveries"]
    assert (only["attempt"], only["attempts"], only["status"], only["labels"]) == (1, 3, 503, ["nightly"])
    assert (only["excerpt"], only["created_by"], only["schedule_id"]) == ("é" * 200, "publish", None)
    assert not {"headers", "body", "response"} & set(only)
    assert b"secret" not in listed.body + told.body
    assert b'"attempts":3' in told.body
    assert (wrong.status, wrong.json["field"]) == (400, "brief")


@with_emulator()
async def test_brief_deliveries_say_what_chance_did(emulator: InProcess) -> None:
    """D-439."""
    await emulator.rule("https://app.test/*", respond={"status": 503}, chance=1)
    await emulator.rule("https://late.test/*", duplicate=True)
    await emulator.publish("https://app.test/", {"Svc-Retries": "0"})
    await emulator.publish("https://late.test/")
    brief, whole = [
        (await emulator.control("GET", f"/deliveries?brief={brief}")).json["deliveries"] for brief in ("true", "false")
    ]
    assert (
        [each.get("chaos") for each in brief]
        == [each.get("chaos") for each in whole]
        == [
            {"id": "1.1", "did": "503 instead of a delivery"},
            None,
            {"id": "2.1", "did": "duplicate of attempt 1"},
        ]
    )
    told = await emulator.control("GET", "/stream?from=start&follow=false&brief=true")
    assert told.body.count(b'"chaos":') == 2


@with_emulator(external="capture")
async def test_deliveries_are_listed_newest_first(emulator: InProcess) -> None:
    for number in range(3):
        await emulator.call("POST", f"/v2/publish/https://app.test/{number}")
    first = await emulator.control("GET", "/deliveries?order=latestFirst&limit=2")
    second = await emulator.control("GET", f"/deliveries?order=latestFirst&cursor={first.json['cursor']}")
    wrong = await emulator.control("GET", "/deliveries?order=up")

    assert [each["url"][-1] for each in first.json["deliveries"]] == ["2", "1"]
    assert ([each["url"][-1] for each in second.json["deliveries"]], second.json["cursor"]) == (["0"], None)
    assert (wrong.status, wrong.json["field"]) == (400, "order")


@with_emulator()
async def test_brief_deliveries_say_how_a_retry_comes_about(emulator: InProcess) -> None:
    """D-324."""
    await emulator.rule("https://down.test/hook", respond={"status": 503, "headers": {"Retry-After": "10"}})
    await emulator.publish("https://down.test/hook", {"Svc-Retries": "1"})
    await emulator.publish("https://api.test/")
    await emulator.control("POST", "/clock/advance", {"by": "10s"})
    found = (await emulator.control("GET", "/deliveries?brief=true")).json["deliveries"]
    assert [each["retry"] for each in found] == ["Retry-After: 10 -> 10s", None, None]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["a", "b", "c", "d"]),
        ("outcome=succeeded", ["a", "b", "c"]),
        ("outcome=delivered", ["a", "b", "c"]),
        ("outcome=failed", ["d"]),
        ("url=https://app.test/a", ["a"]),
        ("url=https://app.test/*", ["a", "b", "c", "d"]),
        ("label=red", ["b"]),
        ("queue=mail", ["c"]),
        ("schedule=nightly", ["d"]),
        ("since=2026-01-01T00:00:30Z", ["d"]),
        ("since=1767225600000&label=red", ["b"]),
        ("label=red&queue=mail", []),
        ("since=2027-01-01", []),
    ],
)
@with_emulator()
async def test_deliveries_are_found_by_what_is_known_of_their_messages(
    emulator: InProcess, query: str, expected: list[str]
) -> None:
    """D-481."""
    await emulator.rule("https://app.test/d", fault="refused")
    await emulator.publish("https://app.test/a")
    await emulator.publish("https://app.test/b", {"Svc-Label": "red"})
    await emulator.call("POST", "/v2/enqueue/mail/https://app.test/c")
    nightly = {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "nightly", "Svc-Retries": "0"}
    await emulator.call("POST", "/v2/schedules/https://app.test/d", nightly)
    await emulator.control("POST", "/clock/advance", {"by": "1m"})

    answer = (await emulator.control("GET", f"/deliveries?limit=1&count=true&{query}")).json
    every = (await emulator.control("GET", f"/deliveries?{query}")).json
    assert [each["url"].rpartition("/")[2] for each in every["deliveries"]] == expected
    assert answer["count"] == {"attempts": len(expected), "messages": len(expected)}
    assert len(answer["deliveries"]) == min(1, len(expected))
    assert "count" not in every
    for each in every["deliveries"]:
        of_one = (await emulator.control("GET", f"/deliveries?message_id={each['message_id']}")).json["deliveries"]
        assert of_one == [each]


@with_emulator()
async def test_deliveries_say_labels_queue_and_schedule_of_their_message(emulator: InProcess) -> None:
    await emulator.call("POST", "/v2/enqueue/mail/https://app.test/c", {"Svc-Label": "red"})
    (only,) = (await emulator.control("GET", "/deliveries")).json["deliveries"]
    assert (only["labels"], only["queue"], only["schedule_id"]) == (["red"], "mail", None)


@with_emulator(keep_history="8")
async def test_nothing_is_missing_of_a_journal_that_was_emptied_after_it_was_cut(emulator: InProcess) -> None:
    for _ in range(10):
        await emulator.publish("https://app.test/a")
    assert "dropped" in (await emulator.control("GET", "/deliveries")).json
    await emulator.control("DELETE", "/deliveries")
    await emulator.publish("https://app.test/b")
    left = (await emulator.control("GET", "/deliveries")).json
    assert ("dropped" in left, len(left["deliveries"])) == (False, 1)


DELIVERY = RecordedDelivery(
    seq=4,
    at_ms=1_767_225_600_000,
    finished_ms=1_767_225_602_000,
    message=make_message(
        message_id=MessageId("msg_1"),
        number=1,
        account_id=AccountId("a"),
        created_ms=0,
        not_before_ms=0,
        url="https://api.example.com/hook",
        method=Method.POST,
        headers=(("x-key", "s3cret"),),
        body=b"s3cret",
        max_retries=0,
        retry_delay=None,
        timeout_ms=1000,
        callback=None,
        failure_callback=None,
        caller_ip="127.0.0.1",
        redaction=Redaction(body=True, all_headers=False, header_names=("x-key",)),
    ),
    attempt=1,
    outcome=AttemptOutcome(
        response=Response(status=200, headers=(("set-cookie", "a=1"), ("set-cookie", "b=2")), body=b"\xff"),
        error=None,
        via=Via.RULE,
        request_headers=(("Host", "api.example.com"), ("x-key", "s3cret"), ("X-Key", "other")),
    ),
)
DELIVERY_VIEW = {
    "seq": 4,
    "at": "2026-01-01T00:00:00.000Z",
    "at_ms": 1_767_225_600_000,
    "message_id": "msg_1",
    "attempt": 1,
    "method": "POST",
    "url": "https://api.example.com/hook",
    "labels": [],
    "queue": None,
    "schedule_id": None,
    "redacts": ["body", "header[x-key]"],
    "headers": {"Host": ["api.example.com"], "x-key": ["s3cret"], "X-Key": ["other"]},
    "body": "s3cret",
    "body_base64": None,
    "via": "rule",
    "response": {"status": 200, "headers": {"set-cookie": ["a=1", "b=2"]}, "body": None, "body_base64": "/w=="},
    "error": None,
    "duration_ms": 2000,
    "took_ms": None,
    "created_ms": 0,
}


def test_delivery_shows_what_was_sent_exactly() -> None:
    assert decode(encode(delivery_view(DELIVERY, redact=False))) == DELIVERY_VIEW


def test_delivery_hides_on_request_what_the_message_hides() -> None:
    marker = "REDACTED:1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0"
    answer = "REDACTED:a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89"
    other = "REDACTED:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"
    assert decode(encode(delivery_view(DELIVERY, redact=True))) == {
        **DELIVERY_VIEW,
        "headers": {"Host": ["api.example.com"], "x-key": [marker], "X-Key": [other]},
        "body": marker,
        # It may repeat what is hidden (D-776).
        "response": {"status": 200, "headers": {"set-cookie": ["a=1", "b=2"]}, "body": answer, "body_base64": None},
    }


def test_delivery_without_response_has_null_and_an_error() -> None:
    failed = replace(DELIVERY, outcome=AttemptOutcome(response=None, error="refused", via=Via.NETWORK))
    expected = {**DELIVERY_VIEW, "headers": {}, "via": "network", "response": None, "error": "refused"}
    assert decode(encode(delivery_view(failed, redact=False))) == expected


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        pytest.param([], DeliveryQuery(limit=100), id="nothing"),
        pytest.param([("world", "w"), ("url", ""), ("cursor", "")], DeliveryQuery(), id="empty-is-absent"),
        pytest.param(
            [
                ("url", "https://a/*"),
                ("message_id", "msg_1"),
                ("label", "a"),
                ("queue", "q"),
                ("schedule", "s"),
                ("since", "1970-01-01T00:00:01Z"),
                ("outcome", "failed"),
                ("limit", "1000"),
                ("cursor", "9"),
            ],
            DeliveryQuery(
                limit=1000,
                cursor="9",
                message_id="msg_1",
                wanted=HistoryFilter(url="https://a/*", label="a", queue="q", schedule_id="s"),
                since_ms=1000,
                outcome="failed",
            ),
            id="everything",
        ),
        pytest.param([("outcome", "delivered")], DeliveryQuery(outcome="succeeded"), id="delivered-is-succeeded"),
    ],
)
def test_delivery_query_is_read(pairs: list[tuple[str, str]], expected: DeliveryQuery) -> None:
    assert read_delivery_query(control_query(pairs, *PARAMETERS)) == expected


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("TRUE", True), ("false", False)])
def test_redaction_of_the_journal_is_asked_for(text: str, expected: bool) -> None:
    given = control_query([("redact", text), ("limit", "5")], *PARAMETERS)
    assert given.flag("redact") is expected
    assert read_delivery_query(given) == DeliveryQuery(limit=5)


def test_redact_is_true_or_false() -> None:
    with pytest.raises(InvalidInput) as caught:
        control_query([("redact", "yes")], *PARAMETERS).flag("redact")
    assert caught.value.field == "redact"


@pytest.mark.parametrize(
    ("pairs", "field"),
    [
        pytest.param([("limit", "0")], "limit", id="limit-0"),
        pytest.param([("limit", "1001")], "limit", id="limit-too-large"),
        pytest.param([("limit", "ten")], "limit", id="limit-word"),
        pytest.param([("limit", "٣")], "limit", id="limit-of-another-script"),
        pytest.param([("outcome", "pending")], "outcome", id="outcome"),
        pytest.param([("uri", "x")], "uri", id="unknown"),
        pytest.param([("url", "a"), ("url", "b")], "url", id="twice"),
    ],
)
def test_delivery_query_that_is_wrong_names_the_field(pairs: list[tuple[str, str]], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_delivery_query(control_query(pairs, *PARAMETERS))
    assert caught.value.field == field
