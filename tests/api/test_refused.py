"""Calls that are refused are kept; a server that ends answers."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest
from starlette.responses import Response

from emulator.server.exchanges import answer_at_the_end
from tests.harness.emulators import EPOCH_MS, InProcess, http_scope, with_emulator

# -- refused calls: what is kept of them, in which world, and what was probably meant (D-332) ------


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


@with_emulator()
async def test_a_refused_call_is_listed_with_its_reason(emulator: InProcess, caplog: pytest.LogCaptureFixture) -> None:
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
@with_emulator()
async def test_a_refused_call_says_what_was_probably_meant(
    emulator: InProcess, method: str, target: str, headers: dict[str, str], hint: str
) -> None:
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


@with_emulator()
async def test_a_refusal_that_quotes_credentials_is_listed_without_them(emulator: InProcess) -> None:
    """D-777: the caller reads what it has sent, others do not."""
    url = "ftp://bob:s3cretpw@h/?token=s3crettok"
    await emulator.post(f"/v2/publish/{url}")
    await emulator.post(PUBLISH, {"Svc-Callback": url})
    await emulator.post(PUBLISH, {"Svc-Delay": emulator.token})
    calls = await refused(emulator)
    assert len(calls) == 3
    for secret in ("s3cretpw", "s3crettok", emulator.token[:30]):
        assert secret not in json.dumps(calls)


@with_emulator()
async def test_a_call_is_listed_in_the_world_of_its_credentials(emulator: InProcess) -> None:
    theirs = await second_world(emulator)
    await emulator.post(PUBLISH, {"Svc-Delay": "1"}, token=theirs)
    await emulator.post(PUBLISH, {"Authorization": theirs}, token=None)
    await emulator.post(PUBLISH, token="nobody")

    assert [call["status"] for call in await refused(emulator, "?world=other")] == [400, 401]
    assert [call["status"] for call in await refused(emulator)] == [401]
    assert (await emulator.control("GET", "/refused?world=nobody")).status == 404


@with_emulator()
async def test_a_reset_empties_the_list_and_numbers_go_on(emulator: InProcess) -> None:
    for number in (1, 2, 3):
        await emulator.get(f"/v2/nowhere-{number}")
    assert [call["seq"] for call in await refused(emulator, "?limit=2")] == [2, 3]
    assert (await emulator.control("DELETE", "/refused")).status == 204
    assert await refused(emulator) == []
    await emulator.get("/v2/nowhere")
    assert [call["seq"] for call in await refused(emulator)] == [4]
    await emulator.control("POST", "/reset")
    assert await refused(emulator) == []


@with_emulator()
async def test_what_is_no_refusal_of_ours_is_not_listed(emulator: InProcess) -> None:
    await emulator.rule("https://svc.example/*", respond={"status": 429, "body": "slow down"})
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    assert (await emulator.post("/llm/v1/chat/completions", (), body)).status == 429
    assert (await emulator.control("GET", "/nowhere")).status == 404
    assert (await emulator.control("GET", "/refused?limit=0")).status == 400
    assert (await emulator.get("/favicon.ico")).status == 404
    assert await refused(emulator) == []
    assert (await emulator.post("/llm/v1/chat/completions", (), {})).status == 400
    assert len(await refused(emulator)) == 1


@with_emulator(strict=True)
async def test_a_head_that_cannot_be_read_and_a_strict_refusal_are_listed(emulator: InProcess) -> None:
    await emulator.post(PUBLISH, (("X-Text", "\udcff"),))
    await emulator.post(f"/v2/enqueue/q/{URL}", {"Svc-Delay": "1m"})
    assert [call["field"] for call in await refused(emulator)] == ["X-Text", "Svc-Delay"]


@with_emulator()
async def test_deduplicated_publishes_are_listed(emulator: InProcess) -> None:
    message_id = await emulator.publish(URL, {"Svc-Deduplication-Id": "a"})
    again = {"Svc-Deduplication-Id": "a"}
    assert (await emulator.post(PUBLISH, again)).status == 202
    assert (await emulator.post("/v2/batch", (), [{"destination": URL, "headers": again}])).status == 200
    answer = (await emulator.control("GET", "/refused")).json
    expected = {"at": "2026-01-01T00:00:00.000Z", "at_ms": EPOCH_MS, "message_id": message_id, "url": URL}
    assert answer == {"refused": [], "deduplicated": [expected, expected]}


@with_emulator()
async def test_refused_items_of_a_batch_are_listed_and_logged(
    emulator: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """D-590."""
    items = [{"destination": URL}, {"destination": URL, "headers": {"Svc-Delay": "5x"}}, {"destination": "nowhere"}]
    assert (await emulator.post("/v2/batch", (), items)).status == 200
    first, second = await refused(emulator)

    assert (first["path"], first["status"], first["field"]) == ("/v2/batch", 400, "Svc-Delay")
    assert first["error"].startswith("item 2: Svc-Delay: expected a duration")
    assert (second["seq"], second["status"]) == (2, 404)
    assert "refused: POST /v2/batch -> 400 item 2: Svc-Delay: " in caplog.text


# -- the answer to a call that the end of the server cuts off: D-291 -------------------------------


def body_of(answer: Response) -> Any:
    return json.loads(bytes(answer.body))


@pytest.mark.parametrize(
    ("target", "header", "where"),
    [
        pytest.param("/_emulator/clock", "", ", the clock stands at 2026-01-01T00:00:00.000Z", id="default world"),
        pytest.param("/_emulator/clock?world=b", "", ", the clock stands at 2027-01-01T00:00:00.000Z", id="named"),
        pytest.param("/_emulator/clock?world=c", "", "", id="no world"),
        pytest.param("/v2/logs", "Bearer {token}", ", the clock stands at 2027-01-01T00:00:00.000Z", id="token"),
        pytest.param("/v2/logs?queue_token={token}", "", ", the clock stands at 2027-01-01T00:00:00.000Z", id="query"),
        pytest.param("/v2/search", "Basic {login}", ", the clock stands at 2027-01-01T00:00:00.000Z", id="login"),
        pytest.param("/v2/logs", "Bearer nobody", "", id="token of nobody"),
        pytest.param("/v2/logs?queue_token=a&queue_token=b", "", "", id="two tokens"),
        pytest.param("/v2/logs", "", "", id="no token"),
    ],
)
@with_emulator()
async def test_it_says_where_the_clock_of_the_callers_world_stands(
    emulator: InProcess, target: str, header: str, where: str
) -> None:
    await emulator.control("POST", "/worlds", {"id": "b", "epoch": "2027-01-01"})
    world = emulator.emulation.worlds.get("b")
    token, login = world.account().token, base64.b64encode(":".join(world.login).encode()).decode()
    names = {"token": token, "login": login}
    headers = [("Authorization", header.format(**names))] if header else []
    scope = http_scope("GET", target.format(**names).encode(), headers, "127.0.0.1")

    answer = answer_at_the_end(emulator.emulation.worlds, scope)

    assert (answer.status_code, body_of(answer)["error"]) == (503, f"the server is stopping{where}")
