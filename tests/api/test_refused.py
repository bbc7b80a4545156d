"""Refused calls: what is kept of them, in which world, and what was probably meant (D-332)."""

from __future__ import annotations

import base64
import logging
from typing import Any

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, in_process
from tests.harness.loops import on_loop

URL = "https://api.test/orders"
PUBLISH = f"/v2/publish/{URL}"


async def refused(emulator: InProcess, query: str = "") -> list[Any]:
    answer = await emulator.control("GET", f"/refused{query}")
    assert answer.status == 200, answer.body
    found: list[Any] = answer.json["refused"]
    return found


async def second_world(emulator: InProcess) -> str:
    """The token of a further world."""
    made = await emulator.control("POST", "/worlds", {"id": "other"})
    token: str = made.json["credentials"]["queue"]["token"]
    return token


@on_loop
async def test_a_refused_call_is_listed_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    async with in_process() as emulator:
        await emulator.publish(URL)
        await emulator.advance("1h")
        await emulator.post(PUBLISH, {"Svc-Delay": "5x"})
        [call] = await refused(emulator)

    assert call.pop("wall_ms") > EPOCH_MS
    assert call.pop("wall").startswith("20")
    error = call.pop("error")
    assert error.startswith("Svc-Delay: expected a duration")
    assert call == {
        "seq": 1,
        "at": "2026-01-01T01:00:00.000Z",
        "at_ms": EPOCH_MS + 3_600_000,
        "method": "POST",
        "path": PUBLISH,
        "caller": "203.0.113.7",
        "account_id": call["account_id"],
        "status": 400,
        "field": "Svc-Delay",
        "hint": None,
    }
    [entry] = [each for each in caplog.records if each.name == "emulator.api.refused"]
    assert entry.levelno == logging.WARNING
    assert entry.getMessage() == f"2026-01-01T01:00:00.000Z refused: POST {PUBLISH} -> 400 {error}"


@pytest.mark.parametrize(
    ("method", "target", "headers", "hint"),
    [
        pytest.param("POST", PUBLISH, {"Authorization": "{token}"}, "the scheme is missing", id="no scheme"),
        pytest.param("POST", PUBLISH, {"Authorization": "Token {token}"}, "the scheme is Token", id="other scheme"),
        pytest.param("POST", PUBLISH, {"Authorization": 'Bearer "{token}"'}, "between quotes", id="quotes"),
        pytest.param("POST", PUBLISH, {"Authorization": "Bearer Bearer {token}"}, "it alone|expected Auth", id="twice"),
        pytest.param("POST", PUBLISH, {"Authorization": "Basic {encoded}"}, "as a user name", id="as a password"),
        pytest.param("POST", PUBLISH, {"Authorization": "Basic {login}"}, "takes a bearer token", id="management"),
        pytest.param("GET", "/v2/search", {"Authorization": "Bearer {token}"}, "takes a user name", id="messaging"),
        pytest.param("POST", PUBLISH, {"Authorization": "Bearer {key}"}, "is a signing key", id="signing key"),
        pytest.param("POST", PUBLISH, {"Authorization": "Bearer x"}, "no world has these", id="nobody's"),
        pytest.param("POST", PUBLISH, {"Authorization": "x"}, "no world has this token either", id="nobody's, alone"),
        pytest.param("POST", PUBLISH, {}, "no Authorization header was sent", id="none"),
        pytest.param("POST", f"{PUBLISH}?qstash_token={{token}}", {}, "of the dialect upstash", id="parameter"),
        pytest.param("POST", f"{PUBLISH}?token={{token}}", {}, "in the parameter queue_token", id="near parameter"),
        pytest.param("POST", PUBLISH, {"Authorization": "Bearer {read_only}"}, "the account's token may", id="reader"),
        pytest.param("POST", "/v2/publsh/x", {}, "did you mean /v2/publish", id="path"),
        pytest.param("POST", "/v1/publish/x", {}, "did you mean /v2/publish", id="version"),
        pytest.param("POST", "/publish/x", {}, "did you mean /v2/publish", id="no version"),
        pytest.param(
            "GET", "/v2/queues/theirs", {"Authorization": "Bearer {token}"}, "the world other has", id="world"
        ),
        pytest.param("POST", PUBLISH, {"Upstash-Delay": "1s"}, "did you mean Svc-Delay", id="dialect"),
        pytest.param("POST", f"{PUBLISH}?svc-dealy=1s", {}, "did you mean Svc-Delay", id="option"),
    ],
)
@on_loop
async def test_a_refused_call_says_what_was_probably_meant(
    method: str, target: str, headers: dict[str, str], hint: str
) -> None:
    async with in_process() as emulator:
        theirs = await second_world(emulator)
        await emulator.post("/v2/queues", (), {"queueName": "theirs"}, token=theirs)
        known = {
            "token": emulator.token,
            "read_only": emulator.read_only_token,
            "key": emulator.world.account().signing_keys.current,
            "encoded": base64.b64encode(f"{emulator.token}:".encode()).decode(),
            "login": base64.b64encode(":".join(emulator.world.login).encode()).decode(),
        }
        given = {name: value.format_map(known) for name, value in headers.items()}
        answer = await emulator.call(method, target.format_map(known), given, token=None)
        assert 400 <= answer.status < 500
        [call] = await refused(emulator)
        assert any(each in call["hint"] for each in hint.split("|")), call["hint"]
        assert emulator.token not in call["path"]


@on_loop
async def test_a_call_is_listed_in_the_world_of_its_credentials() -> None:
    async with in_process() as emulator:
        theirs = await second_world(emulator)
        await emulator.post(PUBLISH, {"Svc-Delay": "1"}, token=theirs)
        await emulator.post(PUBLISH, {"Authorization": theirs}, token=None)
        await emulator.post(PUBLISH, token="nobody")

        assert [call["status"] for call in await refused(emulator, "?world=other")] == [400, 401]
        assert [call["status"] for call in await refused(emulator)] == [401]
        assert (await emulator.control("GET", "/refused?world=nobody")).status == 404


@on_loop
async def test_a_reset_empties_the_list_and_numbers_go_on() -> None:
    async with in_process() as emulator:
        for number in (1, 2, 3):
            await emulator.get(f"/v2/nowhere-{number}")
        assert [call["seq"] for call in await refused(emulator, "?limit=2")] == [2, 3]
        assert (await emulator.control("DELETE", "/refused")).status == 204
        assert await refused(emulator) == []
        await emulator.get("/v2/nowhere")
        assert [call["seq"] for call in await refused(emulator)] == [4]
        await emulator.control("POST", "/reset")
        assert await refused(emulator) == []


@on_loop
async def test_what_is_no_refusal_of_ours_is_not_listed() -> None:
    async with in_process() as emulator:
        await emulator.rule("https://svc.example/*", respond={"status": 429, "body": "slow down"})
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        assert (await emulator.post("/llm/v1/chat/completions", (), body)).status == 429
        assert (await emulator.control("GET", "/nowhere")).status == 404
        assert (await emulator.control("GET", "/refused?limit=0")).status == 400
        assert (await emulator.get("/favicon.ico")).status == 404
        assert await refused(emulator) == []
        assert (await emulator.post("/llm/v1/chat/completions", (), {})).status == 400
        assert len(await refused(emulator)) == 1


@on_loop
async def test_a_head_that_cannot_be_read_and_a_strict_refusal_are_listed() -> None:
    async with in_process(strict=True) as emulator:
        await emulator.post(PUBLISH, (("X-Text", "\udcff"),))
        await emulator.post(f"/v2/enqueue/q/{URL}", {"Svc-Delay": "1m"})
        assert [call["field"] for call in await refused(emulator)] == ["X-Text", "Svc-Delay"]


@on_loop
async def test_deduplicated_publishes_are_listed() -> None:
    async with in_process() as emulator:
        message_id = await emulator.publish(URL, {"Svc-Deduplication-Id": "a"})
        again = {"Svc-Deduplication-Id": "a"}
        assert (await emulator.post(PUBLISH, again)).status == 202
        assert (await emulator.post("/v2/batch", (), [{"destination": URL, "headers": again}])).status == 200
        answer = (await emulator.control("GET", "/refused")).json
        expected = {"at": "2026-01-01T00:00:00.000Z", "at_ms": EPOCH_MS, "message_id": message_id, "url": URL}
        assert answer == {"refused": [], "deduplicated": [expected, expected]}
