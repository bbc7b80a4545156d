"""The service's own language model: messages to it, and chats with it."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from typing import Any

import pytest

from tests.harness.emulators import InProcess, with_emulator

MODEL = "https://svc.example/llm/v1/chat/completions"
BACK = "https://app.test/back"
CHAT = "/llm/v1/chat/completions"
REQUEST: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "what is foo?"}]}
COMPLETION = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "a whale"}, "finish_reason": "stop"}],
}


async def answer_with_a_whale(emulator: InProcess) -> None:
    headers = {"Content-Type": "application/json", "x-ratelimit-limit-requests": "60"}
    await emulator.rule(MODEL, respond={"status": 200, "headers": headers, "body": json.dumps(COMPLETION)})


@with_emulator()
async def test_a_message_to_the_model_is_answered_and_called_back(emulator: InProcess) -> None:
    """D-085."""
    sent = await emulator.post("/v2/publish/api/llm", {"Svc-Callback": BACK}, REQUEST)
    assert sent.status == 200
    record = (await emulator.get(f"/v2/messages/{sent.json['messageId']}")).json
    assert (record["url"], record["api"]) == (MODEL, "llm")
    [asked] = await emulator.deliveries(MODEL)
    assert (asked["via"], json.loads(asked["body"])) == ("capture", REQUEST)
    [told] = await emulator.deliveries(BACK)
    callback = json.loads(told["body"])
    assert (callback["url"], callback["api"], callback["status"]) == (MODEL, "llm", 200)
    completion = json.loads(base64.b64decode(callback["body"]))
    assert (completion["object"], completion["model"]) == ("chat.completion", "m")
    events = (await emulator.get(f"/v2/events?messageId={sent.json['messageId']}")).json["events"]
    assert {event["api"] for event in events} == {"llm"}
    explained = await emulator.control("GET", f"/messages/{sent.json['messageId']}/explain")
    assert "with a canned chat completion" in explained.json["summary"]


@with_emulator()
async def test_the_model_is_asked_with_a_callback_only(emulator: InProcess) -> None:
    """D-085."""
    await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": BACK}]})
    before = emulator.image()
    for target, headers in (
        ("/v2/publish/api/llm", {}),
        ("/v2/publish/api/llm", {"Svc-Failure-Callback": BACK}),
        ("/v2/enqueue/q/api/llm", {}),
        ("/v2/schedules/api/llm", {"Svc-Cron": "* * * * *"}),
    ):
        answer = await emulator.post(target, headers, REQUEST)
        assert (answer.status, answer.json["field"]) == (400, "Svc-Callback"), target
    batch = await emulator.post("/v2/batch", (), [{"destination": "api/llm"}])
    assert batch.json[0]["field"] == "Svc-Callback"
    assert emulator.image() == before


@with_emulator()
async def test_the_model_is_asked_by_queues_batches_and_schedules_too(emulator: InProcess) -> None:
    callback = {"Svc-Callback": BACK}
    assert (await emulator.post("/v2/enqueue/q/api/llm", callback, REQUEST)).status == 200
    item = {"destination": "api/llm", "headers": callback, "body": json.dumps(REQUEST)}
    assert (await emulator.post("/v2/batch", (), [item])).json[0].keys() == {"messageId"}
    made = await emulator.post("/v2/schedules/api/llm", {"Svc-Cron": "0 * * * *", **callback}, REQUEST)
    record = (await emulator.get(f"/v2/schedules/{made.json['scheduleId']}")).json
    assert record["destination"] == "api/llm"
    await emulator.advance("1h")
    assert len(await emulator.deliveries(MODEL)) == 3
    assert len(await emulator.deliveries(BACK)) == 3


@with_emulator()
async def test_a_chat_is_answered_in_the_same_call(emulator: InProcess) -> None:
    """D-312."""
    canned = await emulator.post(CHAT, (), REQUEST)
    assert (canned.status, canned.headers["content-type"]) == (200, "application/json")
    assert canned.json["choices"][0]["message"]["role"] == "assistant"
    await answer_with_a_whale(emulator)
    answer = await emulator.post(CHAT, (), REQUEST)
    assert (answer.status, answer.json) == (200, COMPLETION)
    assert answer.headers["x-ratelimit-limit-requests"] == "60"
    asked = await emulator.deliveries(MODEL)
    assert [each["via"] for each in asked] == ["capture", "rule"]
    assert "Authorization" not in asked[1]["headers"]


@with_emulator()
async def test_a_chat_may_be_a_stream(emulator: InProcess) -> None:
    """D-312."""
    await answer_with_a_whale(emulator)
    answer = await emulator.post(CHAT, (), {**REQUEST, "stream": True})
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    events = answer.body.decode().split("\n\n")
    assert json.loads(events[0].removeprefix("data: "))["choices"][0]["delta"]["content"] == "a whale"
    assert events[-2:] == ["data: [DONE]", ""]


@pytest.mark.parametrize("wants_stream", [False, True])
@with_emulator()
async def test_a_chat_that_the_model_answers_in_gzip_is_unpacked(emulator: InProcess, wants_stream: bool) -> None:
    """D-440: the client of the chat asked for no gzip."""
    packed = base64.b64encode(gzip.compress(json.dumps(COMPLETION).encode(), mtime=0)).decode()
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    await emulator.rule(MODEL, respond={"status": 200, "headers": headers, "body_base64": packed})
    answer = await emulator.post(CHAT, (), {**REQUEST, "stream": wants_stream})
    assert "content-encoding" not in answer.headers
    assert b'"a whale"' in answer.body
    assert answer.body.startswith(b"data: ") is wants_stream


@pytest.mark.parametrize("wants_stream", [False, True])
@with_emulator()
async def test_a_chat_whose_answer_is_too_long_to_keep_is_refused(emulator: InProcess, wants_stream: bool) -> None:
    """D-790: half of a completion is none."""
    packed = base64.b64encode(gzip.compress(b" " * 1024 * 1024 + json.dumps(COMPLETION).encode(), mtime=0)).decode()
    await emulator.rule(MODEL, respond={"headers": {"Content-Encoding": "gzip"}, "body_base64": packed})
    answer = await emulator.post(CHAT, (), {**REQUEST, "stream": wants_stream})
    reason = "the model's answer is longer than 1 MiB unpacked, and so is not kept whole"
    assert (answer.status, answer.json) == (502, {"error": reason})


@with_emulator()
async def test_a_chat_that_fails_leaves_no_dead_letter(emulator: InProcess) -> None:
    """D-312."""
    await emulator.rule(MODEL, respond={"status": 429, "headers": {"Retry-After": "7"}, "body": "slow down"}, times=1)
    await emulator.rule(MODEL, fault="refused")
    limited = await emulator.post(CHAT, (), REQUEST)
    assert (limited.status, limited.body, limited.headers["retry-after"]) == (429, b"slow down", "7")
    refused = await emulator.post(CHAT, (), {**REQUEST, "stream": True})
    assert (refused.status, refused.json) == (502, {"error": "the model could not be asked: connection refused"})
    assert (await emulator.get("/v2/dlq")).json == {"messages": []}
    assert len(await emulator.deliveries(MODEL)) == 2


@pytest.mark.parametrize("body", [b"", b"[]", {"model": "m"}, {"messages": "hello"}, {"messages": [], "stream": 1}])
@with_emulator()
async def test_what_is_no_chat_request_is_refused(emulator: InProcess, body: object) -> None:
    """D-312."""
    before = emulator.image()
    answer = await emulator.post(CHAT, (), body)
    assert answer.status == 400
    assert answer.json["field"] in ("body", "messages", "stream")
    assert (await emulator.post(CHAT, (), REQUEST, token=emulator.read_only_token)).status == 403
    assert emulator.image() == before


@with_emulator()
async def test_a_chat_that_ends_without_an_answer_is_a_conflict(emulator: InProcess) -> None:
    await emulator.control("PUT", f"/accounts/{emulator.world.account().id}", {"timeout": 3600})
    await emulator.rule(MODEL, respond={"status": 200, "latency": "1m"})
    with emulator.world.watches.watch() as watch:
        asking = asyncio.create_task(emulator.post(CHAT, (), REQUEST))
        while not emulator.world.state.messages:
            await watch.wait(1.0)
        await emulator.control("POST", "/reset")
        answer = await asking
    assert answer.status == 409
    assert "has ended without an answer" in answer.json["error"]
