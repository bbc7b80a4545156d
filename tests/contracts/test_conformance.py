"""Answers and the contracts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from emulator import resources
from emulator.wire import dialect
from emulator.wire.dialect import SVC
from tests.contracts import control_scenarios, failure_scenarios, fidelity, messaging_scenarios
from tests.contracts.answers import WATCHER, Answered, Watcher, read_from, told, write_to
from tests.contracts.conformance import NotInContract, check_response
from tests.contracts.documents import all_operations
from tests.contracts.scenarios import SCENARIOS
from tests.harness import processes
from tests.harness.emulators import InProcess, server, with_emulator
from tests.harness.loops import on_loop

# -- every operation with its success and each of its failures: what the application answers is in the contracts ---


# Importing them registers their scenarios.
MODULES = (messaging_scenarios, failure_scenarios, control_scenarios)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_responses_are_those_of_the_contracts(name: str) -> None:
    assert SCENARIOS[name]()


@pytest.mark.slow
def test_every_status_of_every_operation_was_met() -> None:
    met = set[tuple[str, int]]().union(*(find_out() for find_out in SCENARIOS.values()))
    statuses = [(operation.id, status) for operation in all_operations() for status in operation.responses]
    promised = {(name, int(status)) for name, status in statuses if status != "default"}
    assert sorted(promised - met) == []


# -- the check itself ---------------------------------------------------------------------------


def test_a_response_that_is_not_in_the_contract_is_noticed() -> None:
    for body in ({"current": "a"}, {"current": "a", "next": "b", "last": "c"}):
        with pytest.raises(NotInContract):
            check_response("GET", "/v2/keys", 200, {"content-type": "application/json"}, json.dumps(body).encode())


# -- the watch over every answer: it sees those of each kind of emulator, and finds what the contracts do not have ---


def test_an_answer_that_is_not_in_the_contracts_is_raised_once() -> None:
    watcher = Watcher()
    for body in (b'{"current":"a","next":"b"}', b'{"current":"a","next":"b","more":"x"}'):
        headers = {"content-type": "application/json"}
        watcher.seen(Answered(dialect=SVC, method="GET", target="/v2/keys", status=200, headers=headers, body=body))

    assert watcher.checked == 2
    with pytest.raises(NotInContract, match="more: unknown field"):
        watcher.raise_found()
    watcher.raise_found()


@with_emulator()
async def test_an_answer_of_an_emulator_in_process_is_checked(emulator: InProcess) -> None:
    before = WATCHER.checked
    await emulator.get("/v2/keys")
    await emulator.get("/nowhere")
    assert WATCHER.checked == before + 2


@pytest.mark.slow
@pytest.mark.parametrize("dialect_name", ["svc", "upstash"])
@pytest.mark.parametrize("server_name", ["uvicorn", "hypercorn"])
def test_an_answer_of_a_server_is_checked_for_any_client(server_name: str, dialect_name: str) -> None:
    before = WATCHER.checked
    with server(server=server_name, dialect=dialect_name) as emulator:
        given = {"Authorization": f"Bearer {emulator.token}"}
        assert httpx.get(f"{emulator.url}/v2/keys", headers=given, trust_env=False, verify=False).status_code == 200
    assert WATCHER.checked == before + 1


@pytest.mark.slow
def test_an_answer_of_a_server_process_is_checked(tmp_path: Path) -> None:
    with processes.serving("--dialect", "upstash", folder=tmp_path) as running:
        httpx.get(f"{running.url}/_emulator/clock?world=nobody", trust_env=False, verify=False)
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
        with write_to(file) as seen:
            seen(answered)
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


# -- the fidelity page says what the contracts and the decisions say -------------------------------


def test_page_is_the_generated_one() -> None:
    """To mend it: `python -m tests.contracts.fidelity > contracts/fidelity.md`."""
    assert resources.path("contracts", "fidelity.md").read_text(encoding="utf-8") == fidelity.page()


def test_every_operation_has_a_row_and_every_number_a_certainty() -> None:
    text = fidelity.page()
    for operation in all_operations():
        assert f"| `{operation.method.upper()} {operation.path}` |" in text
    assert set(fidelity.certainties().values()) == {"known", "observed", "chosen"}
