"""What a message redacts is hidden from every answer of the API, and delivered in clear."""

from __future__ import annotations

import base64
import hashlib
import json

from tests.harness.emulators import InProcess, with_emulator

URL = "https://api.test/hook"
SECRETS = ("the-body-secret", "the-header-secret")
BODY_MARK = "REDACTED:" + hashlib.sha256(b"the-body-secret").hexdigest()
HEADER_MARK = "REDACTED:" + hashlib.sha256(b"the-header-secret").hexdigest()
OPTIONS = {
    "Svc-Redact-Fields": "body, header[x-secret]",
    "Svc-Forward-X-Secret": "the-header-secret",
    "Svc-Forward-X-Open": "open",
    "Svc-Retries": "0",
}


@with_emulator()
async def test_messages_events_and_dead_letters_show_hashes(emulator: InProcess) -> None:
    await emulator.rule(f"{URL}/down", respond={"status": 500})
    waiting = await emulator.publish(URL, {**OPTIONS, "Svc-Delay": "1h"}, "the-body-secret")
    await emulator.publish(f"{URL}/down", OPTIONS, "the-body-secret")
    record = (await emulator.get(f"/v2/messages/{waiting}")).json
    assert record["body"] == BODY_MARK
    assert record["header"] == {"X-Secret": [HEADER_MARK], "X-Open": ["open"]}
    (entry,) = (await emulator.get("/v2/dlq")).json["messages"]
    assert (entry["body"], entry["header"]["X-Secret"]) == (BODY_MARK, [HEADER_MARK])
    events = (await emulator.get("/v2/events")).json["events"]
    assert {base64.b64decode(event["body"]).decode() for event in events} == {BODY_MARK}
    assert {event["header"]["X-Secret"][0] for event in events} == {HEADER_MARK}
    for target in ("/v2/events", "/v2/logs", "/v2/dlq", f"/v2/messages/{waiting}", f"/v2/dlq/{entry['dlqId']}"):
        text = (await emulator.get(target)).body.decode()
        for secret in SECRETS:
            assert secret not in text
            assert base64.b64encode(secret.encode()).decode() not in text


@with_emulator()
async def test_schedules_show_hashes_and_fire_the_original(emulator: InProcess) -> None:
    headers = {**OPTIONS, "Svc-Cron": "* * * * *", "Svc-Schedule-Id": "s"}
    await emulator.post(f"/v2/schedules/{URL}", headers, "the-body-secret")
    record = (await emulator.get("/v2/schedules/s")).json
    assert (record["body"], record["header"]["X-Secret"]) == (BODY_MARK, [HEADER_MARK])
    listed = (await emulator.get("/v2/schedules")).body.decode()
    assert not any(secret in listed for secret in SECRETS)
    await emulator.advance("1m")
    (delivery,) = await emulator.deliveries()
    assert (delivery["body"], delivery["headers"]["X-Secret"]) == ("the-body-secret", ["the-header-secret"])


@with_emulator()
async def test_deliveries_are_in_clear_unless_redaction_is_asked_for(emulator: InProcess) -> None:
    await emulator.publish(URL, OPTIONS, "the-body-secret")
    (clear,) = await emulator.deliveries()
    assert (clear["body"], clear["headers"]["X-Secret"]) == ("the-body-secret", ["the-header-secret"])
    answer = await emulator.control("GET", "/deliveries?redact=true")
    (hidden,) = answer.json["deliveries"]
    assert (hidden["body"], hidden["headers"]["X-Secret"]) == (BODY_MARK, [HEADER_MARK])
    assert hidden["headers"]["X-Open"] == ["open"]
    trace = (await emulator.control("GET", "/trace")).body.decode()
    assert not any(secret in trace for secret in SECRETS)


@with_emulator()
async def test_a_retry_of_a_dead_letter_delivers_the_original(emulator: InProcess) -> None:
    await emulator.rule(URL, respond={"status": 500}, times=1)
    await emulator.publish(URL, OPTIONS, "the-body-secret")
    (entry,) = (await emulator.get("/v2/dlq")).json["messages"]
    retried = (await emulator.post(f"/v2/dlq/retry/{entry['dlqId']}")).json["messageId"]
    assert (await emulator.deliveries())[1]["body"] == "the-body-secret"
    assert (await emulator.get(f"/v2/messages/{retried}")).json["body"] == BODY_MARK


@with_emulator()
async def test_a_callback_tells_the_original_and_its_own_record_hides_it(emulator: InProcess) -> None:
    await emulator.publish(URL, {**OPTIONS, "Svc-Callback": "https://cb.test/"}, "the-body-secret")
    callback = (await emulator.deliveries("https://cb.test/"))[0]
    told = json.loads(callback["body"])
    assert base64.b64decode(told["sourceBody"]) == b"the-body-secret"
    assert told["sourceHeader"]["X-Secret"] == "the-header-secret"
    text = (await emulator.get("/v2/events")).body.decode()
    assert base64.b64encode(b"the-body-secret").decode() not in text
    assert (await emulator.get(f"/v2/messages/{callback['message_id']}")).json["body"].startswith("REDACTED:")


@with_emulator()
async def test_a_callback_hides_what_its_source_hides_wherever_it_can_be_read(emulator: InProcess) -> None:
    """D-026: headers forwarded to callbacks, and to the callbacks of callbacks, in every answer."""
    options = {
        "Svc-Redact-Fields": "body,headers",
        "Svc-Retries": "0",
        "Svc-Callback": "https://cb.test/",
        "Svc-Callback-Forward-Authorization": "the-header-secret",
        "Svc-Callback-Redact-Fields": "header[X-Other]",
        "Svc-Callback-Failure-Callback": "https://last.test/",
        "Svc-Callback-Failure-Callback-Forward-Authorization": "the-header-secret",
    }
    await emulator.rule("https://cb.test/*", respond={"status": 500})
    await emulator.publish(URL, options, "the-body-secret")
    deliveries = await emulator.deliveries()
    assert [each["url"] for each in deliveries] == [URL, "https://cb.test/", "https://last.test/"]
    assert deliveries[2]["headers"]["Authorization"] == ["the-header-secret"]
    ids = [each["message_id"] for each in deliveries]
    answers = [await emulator.get(path) for path in ("/v2/events", "/v2/logs", "/v2/dlq")]
    answers += [await emulator.get(f"/v2/messages/{each}") for each in ids]
    answers += [await emulator.control("GET", f"/messages/{each}/explain") for each in ids]
    shown = ("/deliveries?redact=true", "/trace", "/stream?from=start&follow=false&redact=true")
    answers += [await emulator.control("GET", path) for path in shown]
    body = base64.b64encode(b"the-body-secret").decode()
    for answer in answers:
        text = answer.body.decode()
        assert answer.status == 200
        assert not any(secret in text for secret in (*SECRETS, body, base64.b64encode(body.encode()).decode()))


@with_emulator()
async def test_default_headers_of_a_group_that_it_redacts_are_hidden_in_its_record(emulator: InProcess) -> None:
    await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": URL}]})
    headers = {"Svc-Forward-X-Secret": "the-header-secret", "Svc-Redact-Fields": "header[X-Secret]"}
    await emulator.call("PATCH", "/v2/topics/g", (), {"headers": headers})
    assert "the-header-secret" not in (await emulator.get("/v2/topics/g")).body.decode()
    await emulator.post("/v2/publish/g")
    (delivery,) = await emulator.deliveries()
    assert delivery["headers"]["X-Secret"] == ["the-header-secret"]
    for kind in ("Callback", "Failure-Callback"):
        headers = {
            f"Svc-{kind}": "https://cb.test/",
            f"Svc-{kind}-Forward-X-Secret": "the-header-secret",
            f"Svc-{kind}-Redact-Fields": "header[X-Secret]",
        }
        await emulator.call("PATCH", "/v2/topics/g", (), {"headers": headers})
        assert "the-header-secret" not in (await emulator.get("/v2/topics/g")).body.decode()
