"""The keywords of `publish` (D-350) and what comes back (D-351); batches, the event log, keys and signatures."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import httpx
import pytest
from qstash import Receiver

from emulator import AsyncEmulator, Emulator, Published, Refused
from emulator.client.publishing import PublishOptions, option_headers
from emulator.wire.messaging.options import OPTION_KEYS
from tests.harness.emulators import EPOCH, EPOCH_MS
from tests.harness.loops import on_loop

APP = "https://app.example.com/hook"
DAY_MS = 86_400_000
PARIS = timezone(timedelta(hours=1))
LIMITS = {"key": "a", "parallelism": 3, "rate": 2, "period": timedelta(minutes=1)}
DURATION = 'delay: expected a duration such as "1d2h30m" or a timedelta, '


def shown_by(emu: Emulator, message_id: str) -> dict[str, Any]:
    """A message as the service shows it."""
    message: dict[str, Any] = emu.call("GET", f"/v2/messages/{message_id}").json()
    return message


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"delay": timedelta(days=1)}, {"notBefore": EPOCH_MS + DAY_MS}),
        ({"delay": 0}, {"notBefore": EPOCH_MS}),
        ({"delay": "1d2h"}, {"notBefore": EPOCH_MS + DAY_MS + 7_200_000}),
        ({"not_before": datetime(2026, 1, 2, 1, tzinfo=PARIS)}, {"notBefore": EPOCH_MS + DAY_MS}),
        ({"not_before": datetime(2026, 1, 2, 0, 0, 0, 1, tzinfo=UTC)}, {"notBefore": EPOCH_MS + DAY_MS + 1000}),
        ({"not_before": "2026-01-02T00:00:00Z"}, {"notBefore": EPOCH_MS + DAY_MS}),
        ({"not_before": (EPOCH_MS + DAY_MS) // 1000}, {"notBefore": EPOCH_MS + DAY_MS}),
        ({"retries": 0}, {"maxRetries": 0}),
        ({"retry_delay": timedelta(minutes=1)}, {"retryDelayExpression": "60000"}),
        ({"retry_delay": timedelta(seconds=0.5)}, {"retryDelayExpression": "500"}),
        ({"retry_delay": "1m"}, {"retryDelayExpression": "60000"}),
        ({"retry_delay": "1000 * (1 + retried)"}, {"retryDelayExpression": "1000 * (1 + retried)"}),
        ({"method": "put"}, {"method": "PUT"}),
        ({"queue": "mail"}, {"queueName": "mail"}),
        ({"label": "one"}, {"labels": ["one"]}),
        ({"label": ["one", "two"]}, {"labels": ["one", "two"]}),
        ({"callback": "https://cb.test/"}, {"callback": "https://cb.test/"}),
        ({"failure_callback": "https://cb.test/"}, {"failureCallback": "https://cb.test/"}),
        ({"flow_control": LIMITS}, {"flowControlKey": "a", "parallelism": 3, "rate": 2, "period": 60}),
        ({"flow_control": {"key": "a"}}, {"flowControlKey": "a"}),
        ({"redact": "body"}, {"body": "REDACTED:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}),
        ({"delay": None, "label": None}, {"notBefore": EPOCH_MS}),
        ({"delay": "60s", "headers": {"Svc-Retries": "1"}}, {"notBefore": EPOCH_MS + 60_000, "maxRetries": 1}),
    ],
)
def test_a_keyword_says_what_its_header_says(options: Any, shown: dict[str, Any], emu: Emulator) -> None:
    message = shown_by(emu, emu.publish(APP, "hello", **options))
    assert {name: message.get(name) for name in shown} == shown


# One value of each keyword.
KEYWORDS: dict[str, Any] = {
    "delay": "1s",
    "not_before": 1_767_225_600,
    "retries": 1,
    "retry_delay": "1s",
    "timeout": "1s",
    "method": "PUT",
    "label": "a",
    "flow_control": {"key": "a", "rate": 1},
    "callback": APP,
    "failure_callback": APP,
    "redact": "body",
    "queue": "q",
    "deduplication_id": "d",
    "content_based_deduplication": True,
}
# Options that are headers here as well: of schedules, which have arguments for them; of workflow clients; and one
# about the headers of the call itself.
WITHOUT_KEYWORD = {"cron", "schedule-id", "feature-set", "header-forward"}


def test_every_option_has_a_keyword_or_is_named_here() -> None:
    assert KEYWORDS.keys() == PublishOptions.__annotations__.keys(), "give each keyword of client/publishing.py a value"
    headers = {name.lower() for name in option_headers(KEYWORDS, PublishOptions.__annotations__, "", None)}
    others = {"callback-", "failure-callback-", "workflow-"}
    options = {key for key in OPTION_KEYS if not key.startswith(tuple(others))}
    wrong = {"without a keyword": options - headers - WITHOUT_KEYWORD, "no option": headers - options}
    assert not any(wrong.values()), f"{wrong}: see PublishOptions in client/publishing.py"
    assert options >= WITHOUT_KEYWORD


def test_a_timeout_holds_for_the_attempt(emu: Emulator) -> None:
    emu.destinations.respond(APP, latency="1m")
    emu.publish(APP, timeout=timedelta(seconds=30), retries=0)
    emu.clock.advance("1h")
    emu.verify(APP, status=None, at="0s")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"delay": "soon"}, "delay: expected a duration such as 10s or 1d10h30m"),
        ({"delay": timedelta(seconds=1.5)}, "delay: expected whole seconds, got"),
        ({"delay": timedelta(-1)}, "delay: expected 0 or more, got"),
        ({"delay": 90}, 'delay: expected a duration such as "1d2h30m" or a timedelta, got 90 without a unit, '),
        ({"delay": 1.5}, DURATION + "got 1.5 without a unit, did you mean timedelta(seconds=1.5)?"),
        ({"delay": -1}, DURATION + "got -1"),
        ({"delay": float("nan")}, DURATION + "got nan"),
        ({"delay": False}, DURATION + "got False"),
        ({"delay": "90"}, "delay: expected a duration such as 10s"),
        ({"retry_delay": 5}, 'retry_delay: expected a duration such as "1d2h30m" or a timedelta, got 5 without'),
        ({"flow_control": {"key": "a", "rate": 1, "period": 1.5}}, "flow_control: period: expected a duration"),
        ({"not_before": datetime(2026, 1, 2)}, "not_before: expected a datetime with a time zone, got"),
        ({"timeout": 0}, "timeout: expected a positive duration"),
        ({"not_before": "tomorrow"}, "not_before: expected ISO 8601 such as"),
        ({"not_before": EPOCH_MS}, "not_before: expected Unix seconds from 0 to 253402300799"),
        ({"not_before": float("inf")}, "not_before: expected Unix seconds, got inf"),
        ({"not_before": timedelta(1)}, "not_before: expected a datetime, ISO 8601 or Unix seconds, got"),
        ({"retries": "3"}, "retries: expected a whole number, got '3'"),
        ({"retries": -1}, "retries: expected a number"),
        ({"retry_delay": "pow("}, "retry_delay: expected a number"),
        ({"method": "FETCH"}, "method: expected one of GET, POST"),
        ({"label": ""}, "label: expected a text that is not empty"),
        ({"label": ["a,b"]}, "label: expected at least one text, each without a comma"),
        ({"label": []}, "label: expected at least one text"),
        ({"label": 7}, "label: expected a text or several, got 7"),
        ({"label": "grün"}, "label: expected a text in ASCII, got 'grün'"),
        ({"flow_control": "a"}, "flow_control: expected a key and its limits"),
        ({"flow_control": {"rate": 2}}, "flow_control: expected a key and its limits"),
        ({"flow_control": {"key": "a", "rat": 2}}, "flow_control: no option is named rat, did you mean rate"),
        ({"flow_control": {"key": "a", "rate": 0}}, "flow_control: expected rate from 1"),
        ({"flow_control": {"key": "a", "rate": "2"}}, "flow_control: rate: expected a whole number, got '2'"),
        ({"flow_control": {"key": "a", "period": "1m"}}, "flow_control: expected at least one of parallelism and rate"),
        ({"flow_control": {"key": "ä"}}, "flow_control: expected a key in ASCII, got 'ä'"),
        ({"callback": "app.test"}, "callback: "),
        ({"deduplication_id": "a:b"}, "deduplication_id: DeduplicationId cannot contain ':'"),
        ({"content_based_deduplication": "yes"}, "content_based_deduplication: expected True or False, got 'yes'"),
        ({"redact": "bodi"}, "redact: expected a list of body, headers"),
        ({"queue": "no good"}, "queue: expected 1 to 256 letters"),
        ({"queue": "mail", "delay": "1s"}, "delay: a queue ignores it, expected no delay beside queue='mail'"),
        (
            {"delay": "1s", "headers": {"svc-delay": "1s"}},
            "delay: expected the keyword or the header Svc-Delay, got both",
        ),
        ({"dealy": 1}, "no option is named dealy, did you mean delay?"),
    ],
)
def test_a_wrong_keyword_is_named_before_any_call_leaves(options: Any, text: str, emu: Emulator) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        emu.publish(APP, **options)
    assert str(refused.value).startswith(text)
    assert (emu.deliveries(), emu.clock.status().pending) == ([], 0)


def test_what_the_account_may_not_is_refused_by_the_service(emu: Emulator) -> None:
    with pytest.raises(Refused) as refused:
        emu.publish(APP, retries=1000)
    assert (refused.value.status, refused.value.field) == (412, "Svc-Retries")


# -- what comes back --------------------------------------------------------------------------


def test_a_publish_answers_the_id_as_a_text_with_a_record(emu: Emulator) -> None:
    first = emu.publish(APP, "hello", deduplication_id="one", delay="1h")
    again = emu.publish(APP, "hello", deduplication_id="one")
    assert (first.deduplicated, again.deduplicated) == (False, True)
    assert first == again == first.message_id
    assert [message.url for message in first.messages] == [APP]
    assert json.dumps({first: first}) == json.dumps({str(first): first.message_id})
    with pytest.raises(AttributeError):
        first.message_id = "other"  # type: ignore[misc]
    for twin in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert isinstance(twin, Published)
        assert (twin, twin.messages) == (first, first.messages)
    kinds = [emu.publish(APP, text, content_based_deduplication=True).deduplicated for text in ("a", "a", "b")]
    assert kinds == [False, True, False]


def test_a_publish_to_a_group_answers_every_id(emu: Emulator) -> None:
    urls = ["https://a.example.com/", "https://b.example.com/"]
    emu.url_groups.upsert("news", urls)
    published = emu.publish("news", "hello", deduplication_id="one")
    assert [message.url for message in published.messages] == urls
    assert published.message_ids == tuple(each.message_id for each in emu.deliveries())
    assert published == published.message_ids[0]
    emu.url_groups.upsert("news", [APP])
    # The new endpoint alone is delivered to.
    again = emu.publish("news", "hello", deduplication_id="one")
    assert (again.deduplicated, [each.deduplicated for each in again.messages]) == (False, [True, True, False])


@pytest.mark.parametrize(
    ("epoch", "ahead", "warning"),
    [
        ("2001-01-01T00:00:00Z", timedelta(hours=1), "the message waits for"),
        ("2090-01-01T00:00:00Z", timedelta(hours=1), "the message does not wait; was it computed from the real time?"),
        ("2001-01-01T00:00:00Z", timedelta(days=8), None),
        (None, timedelta(hours=1), None),
    ],
)
def test_a_not_before_of_real_time_in_another_year_is_warned_of(
    epoch: str | None, ahead: timedelta, warning: str | None, server: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """D-506, D-507."""
    real = datetime.now(UTC)
    with server.new_world(epoch=epoch or real) as world:
        published = world.publish(APP, not_before=real + ahead)
        batch = [{"destination": APP, "headers": {"Svc-Not-Before": str(int((real + ahead).timestamp()))}}]
        world.call("POST", "/v2/batch", json=batch)
        summary = world.explain(published.message_id)["summary"]
        reasons = [reason["text"] for reason in world.explain(published.message_id)["reasons"]]
        timeline = " ".join(world.timeline().split())
    warnings = [record.getMessage() for record in caplog.records if "is near real time" in record.getMessage()]
    assert len(warnings) == (0 if warning is None else 2)
    assert all(warning is not None and warning in each and APP in each for each in warnings)
    for shown in (summary, " ".join(reasons), timeline):
        assert ("was it computed from the real time?" in shown) == (warning is not None)


# -- batches, the event log, signatures, signing keys and flow control keys by the Python API ------


# -- batches ----------------------------------------------------------------------------------


def test_an_empty_query_is_kept(emu: Emulator) -> None:
    """D-797: by every way to publish that the Python API has."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    emu.mount("https://mounted.test", app)
    emu.publish("https://app.test/?")
    emu.publish("https://mounted.test/?")
    emu.publish_batch([{"destination": "https://app.test/b?"}])
    emu.call("POST", "/v2/publish/https://app.test/c?")
    emu.call("POST", "/v2/publish/https://app.test/d")
    httpx.post(f"{emu.url}/v2/publish/https://app.test/e?", headers={"Authorization": f"Bearer {emu.token}"})
    with Emulator.connect(emu.url, world=emu.world) as connected:
        connected.publish("https://app.test/f?")
        connected.call("POST", "/v2/publish/https://app.test/g?")
    assert [each.url.partition("test")[2] for each in emu.deliveries()] == [
        *("/?", "/?", "/b?", "/c?", "/d", "/e?", "/f?", "/g?"),
    ]
    emu.verify("https://app.test/b?", signed_with="current")


def test_a_batch_is_published_by_one_call(emu: Emulator) -> None:
    emu.url_groups.upsert("news", ["https://a.example.com", "https://b.example.com"])
    emu.queues.upsert("mail", paused=True)

    made = emu.publish_batch(
        [
            {"destination": APP, "json": {"user": 7}, "headers": {"Svc-Forward-X-Key": "1"}, "label": "a"},
            {"destination": "news", "body": b"hello"},
            {"destination": APP, "queue": "mail"},
        ]
    )

    assert [len(each.message_ids) for each in made] == [1, 2, 1]
    first = emu.deliveries(message_id=made[0])[0]
    assert (first.json(), first.headers["X-Key"]) == ({"user": 7}, "1")
    assert first.headers["Content-Type"] == "application/json"
    assert [each.url for each in made[1].messages] == ["https://a.example.com", "https://b.example.com"]
    assert emu.queues.get("mail").lag == 1


def test_a_message_of_a_batch_that_the_service_refuses_is_named(emu: Emulator) -> None:
    with pytest.raises(Refused) as caught:
        emu.publish_batch([{"destination": APP}, {"destination": "nobody"}])

    assert str(caught.value) == "messages[1] (nobody): topic nobody not found; 1 of 2 were published"


# -- the event log ----------------------------------------------------------------------------


def test_events_are_listed_with_the_newest_last(emu: Emulator) -> None:
    emu.destinations.sequence("https://app.example.com/*", [503, 200])
    published = emu.publish(APP, "hello", retry_delay="10s", label="orders", flow_control={"key": "api"})
    emu.publish("https://other.test/")
    emu.clock.advance("1m")

    events = emu.events(message_id=published)

    assert [event.state for event in events] == ["CREATED", "ACTIVE", "ERROR", "RETRY", "ACTIVE", "DELIVERED"]
    failed, retry = events[2:4]
    assert failed.response is not None
    assert (failed.response.status, retry.next_ms) == (503, EPOCH_MS + 10_000)
    assert retry.at == datetime(2026, 1, 1, tzinfo=UTC)
    assert (retry.text, retry.labels, retry.flow_control) == ("hello", ("orders",), {"key": "api"})
    assert emu.logs(message_id=published) == events
    assert [event.url for event in emu.events(state="DELIVERED")] == ["https://other.test/", APP]
    assert emu.events(label="orders", until="2025-01-01T00:00:00Z") == []


def test_all_pages_of_a_log_are_read(emu: Emulator) -> None:
    for _ in range(3):
        emu.publish_batch([{"destination": APP, "delay": "1h"}] * 50)

    assert len(emu.logs()) == len(emu.events()) == 150


# -- signatures -------------------------------------------------------------------------------


def test_headers_are_those_of_the_dialect_and_what_a_test_signs_passes_its_clients_receiver() -> None:
    with Emulator(dialect="upstash") as emu:
        assert shown_by(emu, emu.publish(APP, delay="1h", label="a"))["label"] == "a"
        receiver = Receiver(emu.signing_keys.current, emu.signing_keys.next)
        for options, body in (({"body": "hello"}, "hello"), ({}, ""), ({"json": {"user": 7}}, '{"user": 7}')):
            signature = emu.sign(APP, **options)["Upstash-Signature"]
            receiver.verify(signature=signature, body=body, url=APP)
            with pytest.raises(Exception, match="Signature verification failed"):
                receiver.verify(signature=signature, body="other", url=APP)
        assert emu.sign(APP)["Upstash-Signature"] != emu.sign(APP)["Upstash-Signature"]


def test_a_rotated_key_signs_the_next_delivery(emu: Emulator) -> None:
    before = emu.signing_keys.next
    emu.signing_keys.rotate()

    emu.publish(APP)

    assert emu.signing_keys.current == before == emu.credentials.current_signing_key
    assert emu.signing_keys.next not in ("", before)
    emu.verify(APP, signed_with="current")


# -- flow control -----------------------------------------------------------------------------


def test_a_paused_key_holds_its_messages(emu: Emulator) -> None:
    emu.flow_control.pin("api/v1", parallelism=1)
    emu.flow_control.pause("api/v1")
    emu.publish(APP, flow_control={"key": "api/v1", "rate": 5, "period": "1m"})

    [key] = emu.flow_control.all("v1")
    assert (key.key, key.paused, key.waiting, key.rate, key.period_ms) == ("api/v1", True, 1, 5, 60_000)
    assert emu.flow_control.all("nothing") == []
    emu.flow_control.resume("api/v1")
    emu.clock.advance(0)

    assert (emu.flow_control.get("api/v1").waiting, len(emu.deliveries())) == (0, 1)


def test_pinned_limits_are_not_changed_by_messages(emu: Emulator) -> None:
    emu.flow_control.pin("api", parallelism=1, rate=2, period="10s")
    emu.publish(APP, flow_control={"key": "api", "parallelism": 9})
    key = emu.flow_control.get("api")
    assert (key.parallelism, key.rate, key.period_ms, key.rate_used) == (1, 2, 10_000, 1)
    assert (key.pinned_parallelism, key.pinned_rate) == (True, True)

    emu.flow_control.unpin("api", rate=False)
    emu.flow_control.reset("api")

    key = emu.flow_control.get("api")
    assert (key.pinned_parallelism, key.pinned_rate, key.rate_used) == (False, True, 0)


# -- with awaits ------------------------------------------------------------------------------


@on_loop
async def test_the_asynchronous_emulator_has_them_too() -> None:
    async with AsyncEmulator(epoch=EPOCH) as emu:
        await emu.flow_control.pin("api", parallelism=1)
        [made] = await emu.publish_batch([{"destination": APP, "flow_control": {"key": "api"}}])
        assert [event.state for event in await emu.events(message_id=made)][-1] == "DELIVERED"
        assert (await emu.flow_control.get("api")).parallelism == 1
        assert list(await emu.sign(APP, "x")) == ["Svc-Signature"]
        await emu.signing_keys.rotate()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(emu.asgi), base_url=emu.url) as client:
            keys = (await client.get("/v2/keys", headers={"Authorization": f"Bearer {emu.token}"})).json()
        assert keys["current"] == emu.signing_keys.current
