"""What a refusal of the emulator's own API says to do next."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import click
import pytest

from emulator import cli
from emulator.agents.tool import AS_TOOL
from emulator.api import next_steps
from emulator.core.errors import Damaged, NotInstalled, PayloadTooLarge, WorldBroken
from tests.harness.emulators import InProcess, with_emulator

MEND = "mend that, and call again: GET /_emulator/contract?api=control says what each call takes"


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "next"),
    [
        pytest.param("POST", "/clock/advance", {"by": "soon"}, 400, MEND, id="value"),
        pytest.param("GET", "/clock?wrld=a", b"", 400, MEND, id="parameter"),
        pytest.param("GET", "/clock?world=none", b"", 404, "svc-emulator worlds list", id="world"),
        pytest.param("DELETE", "/worlds/none", b"", 404, "svc-emulator worlds list", id="world-of-the-path"),
        pytest.param("GET", "/messages/msg_1/explain", b"", 404, "svc-emulator messages", id="message"),
        pytest.param("POST", "/clock/advance", {"until": "message msg_1"}, 404, "svc-emulator messages", id="until"),
        pytest.param("GET", "/runs/wfr_1", b"", 404, "svc-emulator runs list", id="run"),
        pytest.param("GET", "/schedules/s/explain", b"", 404, "svc-emulator schedules list", id="schedule"),
        pytest.param("POST", "/deliveries/1/redeliver", b"", 404, "svc-emulator deliveries", id="delivery"),
        pytest.param("DELETE", "/destinations/rule_9", b"", 404, "svc-emulator destinations list", id="rule"),
        pytest.param("POST", "/snapshots/none/restore", b"", 404, "svc-emulator snapshot list", id="snapshot"),
        pytest.param("PUT", "/accounts/none", {}, 404, "GET /_emulator/accounts", id="account"),
        pytest.param("POST", "/clock/undo", b"", 409, "svc-emulator clock show", id="undo"),
        pytest.param("DELETE", "/worlds/default", b"", 409, "svc-emulator worlds list", id="default-world"),
        pytest.param("GET", "/nothing", b"", 404, "GET /llms.txt, or svc-emulator --help", id="path"),
        pytest.param("DELETE", "/clock", b"", 405, "call it with a method of the header Allow", id="method"),
        pytest.param("GET", "/inspector/none.js", b"", 404, "GET /llms.txt, or svc-emulator --help", id="file"),
    ],
)
@with_emulator()
async def test_a_refusal_says_what_to_do_next(
    emulator: InProcess, method: str, target: str, body: Any, status: int, next: str
) -> None:
    """D-747."""
    answer = await emulator.control(method, target, body)
    assert (answer.status, answer.json["next"].startswith(next)) == (status, True), answer.body
    assert set(answer.json) <= {"error", "field", "next"}


@pytest.mark.parametrize(
    ("headers", "next"),
    [
        pytest.param({"Host": "a.evil.test"}, "svc-emulator serve --allow-control-host NAME", id="host"),
        pytest.param({"Origin": "https://evil.test"}, "call it from a program", id="page"),
    ],
)
@with_emulator()
async def test_a_call_that_may_be_a_page_s_hears_what_may_call(
    emulator: InProcess, headers: dict[str, str], next: str
) -> None:
    for path in ("/_emulator/clock", "/_EMULATOR/clock"):
        answer = await emulator.get(path, headers, token=None)
        assert (answer.status, answer.json["next"].startswith(next)) == (403, True), answer.body


@with_emulator(control_token="secret", inspector="read-only", strict=True)
async def test_a_server_with_a_token_asks_for_it_and_a_page_that_only_reads_for_another_server(
    emulator: InProcess,
) -> None:
    answer = await emulator.control("GET", "/clock")
    assert (answer.status, answer.json["next"].partition(":")[0]) == (401, "give the server's control token")
    own = {"Origin": "http://127.0.0.1:8080", "Authorization": "Bearer secret"}
    answer = await emulator.control("POST", "/clock/next", headers=own)
    assert (answer.status, answer.json["next"]) == (403, "svc-emulator serve --inspector on")
    # Strict mode, which refuses before the operation does.
    answer = await emulator.get("/llms.txt?a=%FF", token="secret")
    assert (answer.status, answer.json["next"]) == (400, MEND)


@pytest.mark.parametrize("target", ["/v2/nothing", "/v2/messages/msg_1", "/v2/schedules/none", "/nothing"])
@with_emulator()
async def test_the_service_s_own_api_refuses_as_the_service_does(emulator: InProcess, target: str) -> None:
    answer = await emulator.get(target)
    assert (answer.status, "next" in answer.json) == (404, False), answer.body


@pytest.mark.parametrize(
    ("status", "cause", "next"),
    [
        pytest.param(503, WorldBroken("stopped"), "svc-emulator health", id="stopped"),
        pytest.param(507, WorldBroken("full", is_disk_full=True), "make room on the disk", id="disk"),
        pytest.param(503, Damaged("a.db", "a row"), "svc-emulator db check FILE", id="damaged"),
        pytest.param(413, PayloadTooLarge("too much"), "send less in one call", id="large"),
        pytest.param(404, NotInstalled("no library"), "install what is missing", id="library"),
        pytest.param(500, KeyError("x"), "svc-emulator health", id="fault"),
        pytest.param(503, None, "svc-emulator health", id="ending"),
    ],
)
def test_what_cannot_be_done_now_says_what_to_look_at(status: int, cause: Exception | None, next: str) -> None:
    body = next_steps.with_next_step({"error": "no"}, "/_emulator/clock", status, cause)
    assert (body["error"], body["next"].startswith(next)) == ("no", True), body


# Kinds that only the service's own API names.
OF_SERVICE = {"endpoint", "search index", "user", "vector index"}


def test_everything_that_may_not_be_found_has_a_list() -> None:
    named = set()
    for file in Path(next_steps.__file__).parents[1].rglob("*.py"):
        text = file.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"\b(NotFound|found)\(", text) else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("NotFound", "found"):
                kind = node.args[0 if node.func.id == "NotFound" else 2]
                if isinstance(kind, ast.Constant):
                    named.add(kind.value)
                else:
                    assert file.name == "state.py", file  # `found` hands on what it is given.
    assert named - OF_SERVICE == set(next_steps.LISTS)


def test_each_command_that_is_named_is_one_and_has_a_tool() -> None:
    named = {*next_steps.LISTS.values(), *next_steps._STANDING.values(), "svc-emulator health", "svc-emulator upcoming"}
    commands = {each for each in named if each.startswith("svc-emulator ")}
    for command in commands:
        found: click.Command | None = cli.main
        for word in command.split()[1:]:
            assert isinstance(found, click.Group), command
            found = found.get_command(click.Context(found), word)
        assert isinstance(found, click.Command), command
        assert not isinstance(found, click.Group), command
    assert set(AS_TOOL) == commands
