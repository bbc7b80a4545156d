"""The keywords of `publish` (D-350): what each says to the service, which are refused; what comes back (D-351)."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from emulator import Emulator, Published, Refused
from tests.harness import emulators

APP = "https://app.example.com/hook"
DAY_MS = 86_400_000


def shown_by(emu: Emulator, message_id: str) -> dict[str, Any]:
    """A message as the service shows it."""
    message: dict[str, Any] = emu.call("GET", f"/v2/messages/{message_id}").json()
    return message


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        pytest.param({"delay": timedelta(days=1)}, {"notBefore": emulators.EPOCH_MS + DAY_MS}, id="delay-timedelta"),
        pytest.param({"delay": 90}, {"notBefore": emulators.EPOCH_MS + 90_000}, id="delay-seconds"),
        pytest.param({"delay": 90.0}, {"notBefore": emulators.EPOCH_MS + 90_000}, id="delay-float"),
        pytest.param({"delay": "1d2h"}, {"notBefore": emulators.EPOCH_MS + DAY_MS + 7_200_000}, id="delay-text"),
        pytest.param(
            {"not_before": datetime(2026, 1, 2, 1, tzinfo=timezone(timedelta(hours=1)))},
            {"notBefore": emulators.EPOCH_MS + DAY_MS},
            id="not-before-datetime",
        ),
        pytest.param(
            {"not_before": datetime(2026, 1, 2, 0, 0, 0, 1)},
            {"notBefore": emulators.EPOCH_MS + DAY_MS + 1000},
            id="not-before-rounds-up",
        ),
        pytest.param(
            {"not_before": "2026-01-02T00:00:00Z"}, {"notBefore": emulators.EPOCH_MS + DAY_MS}, id="not-before-text"
        ),
        pytest.param(
            {"not_before": (emulators.EPOCH_MS + DAY_MS) // 1000},
            {"notBefore": emulators.EPOCH_MS + DAY_MS},
            id="not-before-seconds",
        ),
        pytest.param({"retries": 0}, {"maxRetries": 0}, id="retries"),
        pytest.param({"retry_delay": timedelta(minutes=1)}, {"retryDelayExpression": "60000"}, id="retry-timedelta"),
        pytest.param({"retry_delay": 0.5}, {"retryDelayExpression": "500"}, id="retry-seconds"),
        pytest.param({"retry_delay": "1m"}, {"retryDelayExpression": "60000"}, id="retry-text"),
        pytest.param(
            {"retry_delay": "1000 * (1 + retried)"},
            {"retryDelayExpression": "1000 * (1 + retried)"},
            id="retry-formula",
        ),
        pytest.param({"method": "put"}, {"method": "PUT"}, id="method"),
        pytest.param({"label": "one"}, {"labels": ["one"]}, id="label"),
        pytest.param({"label": ["one", "two"]}, {"labels": ["one", "two"]}, id="labels"),
        pytest.param({"callback": "https://cb.test/"}, {"callback": "https://cb.test/"}, id="callback"),
        pytest.param(
            {"failure_callback": "https://cb.test/"}, {"failureCallback": "https://cb.test/"}, id="failure-callback"
        ),
        pytest.param(
            {"flow_control": {"key": "a", "parallelism": 3, "rate": 2, "period": timedelta(minutes=1)}},
            {"flowControlKey": "a", "parallelism": 3, "rate": 2, "period": 60},
            id="flow-control",
        ),
        pytest.param({"flow_control": {"key": "a"}}, {"flowControlKey": "a"}, id="flow-control-key"),
        pytest.param(
            {"redact": "body"}, {"body": "REDACTED:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}
        ),
        pytest.param({"delay": None, "label": None}, {"notBefore": emulators.EPOCH_MS}, id="none"),
        pytest.param(
            {"delay": 60, "headers": {"Svc-Retries": "1"}},
            {"notBefore": emulators.EPOCH_MS + 60_000, "maxRetries": 1},
            id="headers-beside",
        ),
    ],
)
def test_a_keyword_says_what_its_header_says(options: Any, shown: dict[str, Any], emu: Emulator) -> None:
    message = shown_by(emu, emu.publish(APP, "hello", **options))
    assert {name: message.get(name) for name in shown} == shown


def test_a_timeout_holds_for_the_attempt(emu: Emulator) -> None:
    emu.destinations.respond(APP, latency="1m")
    emu.publish(APP, timeout=timedelta(seconds=30), retries=0)
    emu.clock.advance("1h")
    emu.verify(APP, status=None, at="0s")


def test_a_queue_takes_the_message(emu: Emulator) -> None:
    emu.queues.upsert("mail", paused=True)
    assert shown_by(emu, emu.publish(APP, queue="mail"))["queueName"] == "mail"


def test_the_headers_are_those_of_the_dialect() -> None:
    with Emulator(dialect="upstash") as emulator:
        assert shown_by(emulator, emulator.publish(APP, delay="1h", label="a"))["label"] == "a"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"delay": "soon"}, "delay: expected a duration such as 10s or 1d10h30m"),
        ({"delay": 1.5}, "delay: expected whole seconds, got 1.5"),
        ({"delay": timedelta(milliseconds=1)}, "delay: expected whole seconds"),
        ({"delay": -1}, "delay: expected 0 or more, got -1"),
        ({"delay": float("nan")}, "delay: expected 0 or more, got nan"),
        ({"delay": True}, "delay: expected a timedelta, seconds or a text such as 1d2h30m, got True"),
        ({"delay": 10**30}, "delay: expected a duration"),
        ({"timeout": 0}, "timeout: expected a positive duration"),
        ({"not_before": "tomorrow"}, "not_before: expected ISO 8601 such as"),
        ({"not_before": emulators.EPOCH_MS}, "not_before: expected Unix seconds from 0 to 253402300799"),
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
        ({"queue": "mail", "delay": 1}, "delay: a queue ignores it, expected no delay beside queue='mail'"),
        ({"delay": 1, "headers": {"svc-delay": "1s"}}, "delay: expected the keyword or the header Svc-Delay, got both"),
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


def test_contents_tell_duplicates_too(emu: Emulator) -> None:
    emu.publish(APP, "hello", content_based_deduplication=True)
    assert emu.publish(APP, "hello", content_based_deduplication=True).deduplicated
    assert not emu.publish(APP, "other", content_based_deduplication=True).deduplicated


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


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_what_was_published_can_be_copied(copied: Any, emu: Emulator) -> None:
    published = emu.publish(APP)
    twin = copied(published)
    assert isinstance(twin, Published)
    assert (twin, twin.messages) == (published, published.messages)


def test_a_naive_datetime_is_utc(emu: Emulator) -> None:
    emu.publish(APP, not_before=datetime(2026, 1, 2))
    emu.publish(APP, not_before=datetime(2026, 1, 2, tzinfo=UTC))
    emu.clock.advance("2d")
    emu.verify(APP, at="1d", times=2)
