"""The watch over every answer: it sees those of each kind of emulator, and finds what the contracts do not have."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from emulator.wire import dialect
from emulator.wire.dialect import SVC
from tests.contracts.answers import WATCHER, Answered, Watcher, read_from, told, write_to
from tests.contracts.conformance import NotInContract
from tests.harness import processes
from tests.harness.emulators import in_process, server
from tests.harness.loops import on_loop


def test_an_answer_that_is_not_in_the_contracts_is_raised_once() -> None:
    watcher = Watcher()
    for body in (b'{"current":"a","next":"b"}', b'{"current":"a","next":"b","more":"x"}'):
        headers = {"content-type": "application/json"}
        watcher.seen(Answered(dialect=SVC, method="GET", target="/v2/keys", status=200, headers=headers, body=body))

    assert watcher.checked == 2
    with pytest.raises(NotInContract, match="more: unknown field"):
        watcher.raise_found()
    watcher.raise_found()


@on_loop
async def test_an_answer_of_an_emulator_in_process_is_checked() -> None:
    async with in_process() as emulator:
        before = WATCHER.checked
        await emulator.get("/v2/keys")
        await emulator.get("/nowhere")
        assert WATCHER.checked == before + 2


@pytest.mark.slow
@pytest.mark.parametrize("dialect_name", ["svc", "upstash"])
@pytest.mark.parametrize("server_name", ["uvicorn", "hypercorn"])
def test_an_answer_of_a_server_is_checked_whoever_asked(server_name: str, dialect_name: str) -> None:
    before = WATCHER.checked
    with server(server=server_name, dialect=dialect_name) as emulator:
        given = {"Authorization": f"Bearer {emulator.token}"}
        assert httpx.get(f"{emulator.url}/v2/keys", headers=given, trust_env=False).status_code == 200
    assert WATCHER.checked == before + 1


@pytest.mark.slow
def test_an_answer_of_a_server_process_is_checked(tmp_path: Path) -> None:
    with processes.serving("--dialect", "upstash", folder=tmp_path) as running:
        httpx.get(f"{running.url}/_emulator/clock?world=nobody", trust_env=False)
    (answered,) = running.answers
    assert (answered.target, answered.status, answered.dialect) == ("/_emulator/clock", 404, dialect.load("upstash"))


@pytest.mark.parametrize(
    ("name", "target", "is_known"),
    [("svc", "/v2/queue/users", True), ("upstash", "/v2/qstash/users", True), ("upstash", "/v2/queue/users", False)],
)
def test_a_dialect_has_the_contract_of_its_own_names(name: str, target: str, is_known: bool) -> None:
    refused = Answered(
        dialect=dialect.load(name),
        method="GET",
        target=target,
        status=400,
        headers={"content-type": "application/json"},
        body=b'{"error":"x"}',
    )
    if is_known:
        refused.check()
    else:
        with pytest.raises(NotInContract, match="status 400: not in the contract"):
            refused.check()


def test_answers_are_the_same_when_they_were_written_down(tmp_path: Path) -> None:
    answers = [
        Answered(dialect=dialect.load(name), method="GET", target="/é", status=200, headers={"a": "b"}, body=body)
        for name in ("svc", "upstash")
        for body in (b"\xff", None)
    ]
    file = tmp_path / "answers"
    for answered in answers:
        write_to(file)(answered)
    with file.open("ab") as half:
        half.write(b"AAAA")
    assert read_from(file) == answers


@pytest.mark.parametrize(
    ("content_type", "body"), [(b"text/event-stream; charset=utf-8", None), (b"text/plain", b"ab")]
)
@on_loop
async def test_an_answer_without_an_end_is_seen_without_its_body(content_type: bytes, body: bytes | None) -> None:
    seen: list[Answered] = []
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def respond(send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", content_type)]})
        for piece in (b"a", b"b"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        raise asyncio.CancelledError

    scope = {"type": "http", "method": "GET", "path": "/v2/keys"}
    with pytest.raises(asyncio.CancelledError):
        await told(respond, SVC, scope, send, seen.append)
    assert [message["type"].rpartition(".")[2] for message in sent] == ["start", "body", "body"]
    assert [(answered.target, answered.body) for answered in seen] == [("/v2/keys", body)]
