"""What a message or a run redacts is shown nowhere, unless originals are asked for (D-513 to D-516)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import httpx
import pytest
import yaml

from emulator import resources
from emulator.cli import main
from tests.cli import shell
from tests.harness import planted
from tests.harness.emulators import Server, control, server
from tests.harness.loops import PATIENCE_S

# Of a path's parameters that are no ids of things in the world.
NAMES = {"/_emulator/inspector/{name}": "main.js", "/_emulator/inspector/views/{name}": "runs.js"}
# The state of a world as a file, to be restored: it is exact.
EXACT = {"/_emulator/snapshots/{name}/file"}
# Files that are the same whatever the world holds.
STATIC = {"/_emulator/docs/{name}", "/_emulator/docs/{folder}/{name}"}
# What an operation cannot be called without, and what ends a stream.
ASKED = {
    "/_emulator/when/firings": "expression=0+9+*+*+*",
    "/_emulator/when/attempts": "retries=3",
    "/_emulator/stream": "from=start&follow=false",
}
# Exact unless redaction is asked for.
JOURNALS = ("/_emulator/deliveries", "/_emulator/stream")
SERVICE = (
    *("logs", "events", "dlq", "schedules", "queues", "topics", "flowControl", f"waiters/{planted.EVENT}"),
    *("workflows/logs", "workflows/dlq"),
)

# Commands that print what is in a world, with what they are asked; `{...}` stands for each id.
SHOWING = {
    "messages": ("messages",),
    "show": ("show", "{messages}"),
    "deliveries": ("deliveries",),
    "explain": ("explain", "{messages}", "{runs}", "{schedules}"),
    "tail": ("tail", "--from-start", "--no-follow"),
    "dead-letters": ("dead-letters",),
    "runs": ("runs", "list"),
    "runs show": ("runs", "show", "{runs}"),
    "redeliver": ("redeliver", "{attempts}"),
    "upcoming": ("upcoming",),
    "schedules": ("schedules",),
    "queues": ("queues",),
    "flow-control": ("flow-control",),
    "groups": ("groups",),
    "refused": ("refused",),
    "worlds": ("worlds", "list"),
    "health": ("health",),
    "clock": ("clock", "show"),
    "destinations": ("destinations",),
    "snapshot": ("snapshot", "list"),
}
# Commands that print nothing of messages.
OTHERS = {
    *("agent", "cancel", "check", "contract", "db", "demo", "dev", "env", "fixtures", "mcp", "notify", "reset"),
    *("publish", "serve", "when"),
}


@pytest.fixture(scope="module")
def world() -> Iterator[Server]:
    with server() as found:
        planted.plant(found)
        yield found


def got(world: Server, path: str) -> bytes:
    headers = {"Authorization": f"Bearer {world.token}"} if path.startswith("/v2/") else {}
    answer = httpx.get(f"{world.url}{path}", headers=headers, timeout=PATIENCE_S, trust_env=False, verify=False)
    assert answer.status_code == 200, f"{path}: {answer.text}"
    return answer.content


def control_paths(world: Server) -> Iterator[str]:
    """Every GET of the control contract, so that one that is added is walked too."""
    known = list(planted.ids(world))
    document = yaml.load(
        resources.path("contracts", "control.openapi.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader
    )
    parameters = document["components"]["parameters"]
    for path, item in document["paths"].items():
        # What has no 200 leads elsewhere.
        if "get" not in item or path in EXACT | STATIC or "200" not in item["get"]["responses"]:
            continue
        listed = [*item.get("parameters", ()), *item["get"].get("parameters", ())]
        names = {(parameters[each["$ref"].rpartition("/")[2]] if "$ref" in each else each)["name"] for each in listed}
        query = [ASKED[path]] if path in ASKED else []
        query += ["redact=true"] if path in JOURNALS else []
        query += ["limit=1000"] if "limit" in names else []
        collection = path.split("/")[2] if path.count("/") > 1 else ""
        ids = [id for kind, id in known if kind == collection] if "{" in path else [""]
        ids = [NAMES[path]] if path in NAMES else ids
        assert ids, f"the walk knows no id for {path}: see planted.ids"
        for id in ids:
            asked = re.sub(r"\{\w+\}", id, path)
            yield f"{asked}?{'&'.join(query)}"
            if "brief" in names:
                yield f"{asked}?{'&'.join((*query, 'brief=true'))}"


@pytest.mark.slow
def test_nothing_that_is_redacted_is_in_any_answer(world: Server) -> None:
    live = control(world, "GET", "/messages", state="live")["messages"]
    messages = [f"messages/{each['message_id']}" for each in live]
    assert messages
    paths = [*control_paths(world), *(f"/v2/{path}" for path in (*SERVICE, *messages))]
    assert [path for path in paths if planted.found(got(world, path))] == []
    assert len(paths) > 60


@pytest.mark.parametrize(
    "path",
    [
        "deliveries",
        "stream?from=start&follow=false",
        "runs?redact=false",
        f"runs/{planted.RUN}?redact=false",
        f"runs/{planted.RUN}/explain?redact=false",
    ],
)
def test_originals_are_there_when_asked_for(world: Server, path: str) -> None:
    assert planted.found(got(world, f"/_emulator/{path}"))


def test_every_command_of_the_shell_is_walked_or_shows_nothing_of_messages() -> None:
    assert isinstance(main, click.Group)
    assert set(main.list_commands(click.Context(main))) == {*(name.partition(" ")[0] for name in SHOWING), *OTHERS}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWING)
def test_nothing_that_is_redacted_is_printed(world: Server, name: str) -> None:
    command = [each for each in SHOWING[name] if not each.startswith("{")]
    wanted = [each[1:-1] for each in SHOWING[name] if each.startswith("{")]
    attempts = [("attempts", str(each["seq"])) for each in control(world, "GET", "/deliveries")["deliveries"]]
    ids = [id for kind, id in (*planted.ids(world), *attempts) if kind in wanted]
    lines = [[*command, id] for id in ids] if wanted else [command]
    full = [["--full"]] if name == "show" else []
    for line in lines:
        for options in ([], ["--json"], *full):
            printed = shell.printed(world, *line, *options)
            assert printed
            assert not planted.found(printed), [*line, *options]


def test_the_shell_prints_originals_when_asked_for(world: Server) -> None:
    [first] = control(world, "GET", "/deliveries", limit="1")["deliveries"]
    assert planted.found(shell.printed(world, "show", first["message_id"], "--originals"))
