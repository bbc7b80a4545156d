"""What a message or a run redacts is shown nowhere, unless originals are asked for (D-513 to D-516, D-775 to D-779).

The walk finds its surfaces by itself: operations of the contracts, commands of the shell, tools and resources of the
agents' server, keywords of `verify`, lines of the log. One that is new is walked as the others are, or fails here
until it stands in one of the tables below.
"""

from __future__ import annotations

import ast
import io
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import anyio
import click
import pytest
import yaml

from emulator import AsyncEmulator, Emulator, Request, resources
from emulator.agents.reading import Kind
from emulator.agents.tools import TOOLS
from emulator.cli import main
from emulator.client.verify.expectations import Expected
from emulator.server import logs
from emulator.server.logs import DeliveryLog
from tests.agents.clients import Agent, agent
from tests.cli import shell
from tests.harness import planted, processes
from tests.harness.emulators import EPOCH, Server, control, http, server, service
from tests.telemetry.collectors import collector

pytestmark = pytest.mark.slow

# -- what is exact, and why -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Exact:
    """A surface that shows canaries by decision, and which; every other one shows none of `planted.NOWHERE`."""

    path: str
    reason: str
    shows: frozenset[str] = frozenset((planted.ECHO,))
    # By what is redacted.
    where: tuple[str, ...] = (planted.EVERYTHING, planted.ONE_HEADER)


_NO_FIELD = "the interface document has two fields to hide, body and headers: an answer is neither (D-087, D-776)"
_OF_RUN = "what a run's messages were answered is hidden by the same fields, its body by `body` (D-513)"
EXACT = (
    *(Exact(path=path, reason=_NO_FIELD) for path in ("/v2/events", "/v2/logs", "/v2/dlq", "/v2/dlq/{dlqId}")),
    *(
        Exact(path=f"/v2/workflows/{name}", reason=_OF_RUN, where=(planted.ONE_HEADER,))
        for name in ("logs", "events", "dlq", "dlq/{dlqId}")
    ),
    Exact(
        path="/_emulator/snapshots/{name}/file",
        reason="the state of a world, to be restored: it keeps what deliveries are made of",
        shows=planted.CONTENT,
    ),
)


def exact(path: str, fields: str) -> frozenset[str]:
    """The canaries that a surface may show."""
    return frozenset().union(*(each.shows for each in EXACT if each.path == path and fields in each.where))


# Asked for so, the control API shows originals (D-514); so does the Python API.
ORIGINALS = (
    "deliveries",
    "stream?from=start&follow=false",
    "runs?redact=false",
    f"runs/{planted.RUN}?redact=false",
    f"runs/{planted.RUN}/explain?redact=false",
)

# -- the world ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Walked:
    """A planted world, and its log in both forms at the lowest level."""

    server: Server
    fields: str
    text: io.StringIO
    lines: io.StringIO
    templates: set[tuple[str, str]]

    def get(self, path: str) -> bytes:
        read_only = control(self.server, "GET", "/credentials")["queue"]["read_only_token"]
        # It alone is not shown the keys, and who has the other one is the endpoint of a run (D-778).
        token = read_only if path.startswith("/v2/workflows/runs/") else self.server.token
        headers = {"Authorization": f"Bearer {token}"} if path.startswith("/v2/") else {}
        answer = http("GET", f"{self.server.url}{path}", headers=headers)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        return answer.content


def credentials(server: Server) -> list[str]:
    """The tokens, keys and passwords of the world."""
    answer = control(server, "GET", "/credentials")
    names = re.compile("token|key|password")
    values = [
        value for part in (answer["queue"], answer["management"]) for name, value in part.items() if names.search(name)
    ]
    assert len(values) > 3
    return values


class _Templates(logging.Handler):
    """Notes which lines of the program's text were logged."""

    def __init__(self, templates: set[tuple[str, str]]) -> None:
        super().__init__()
        self._templates = templates

    def emit(self, record: logging.LogRecord) -> None:
        file = Path(record.pathname)
        if file.is_relative_to(processes.ROOT):
            self._templates.add((file.relative_to(processes.ROOT).as_posix(), str(record.msg)))


@contextmanager
def logged(templates: set[tuple[str, str]]) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """What goes to the log, as text and as JSON; `templates` gets the lines of the program."""
    text, lines = io.StringIO(), io.StringIO()
    handlers: list[logging.Handler] = [_Templates(templates)]
    for log_format, stream in (("text", text), ("json", lines)):
        handlers.append(logging.StreamHandler(stream))
        handlers[-1].setFormatter(logs.formatter(log_format, is_coloured=False))
    logger = logging.getLogger("emulator")
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.handlers += handlers
    try:
        yield text, lines
    finally:
        logger.setLevel(level)
        for each in handlers:
            logger.removeHandler(each)


@pytest.fixture(scope="module", params=[planted.EVERYTHING, planted.ONE_HEADER])
def world(request: pytest.FixtureRequest) -> Iterator[Walked]:
    templates: set[tuple[str, str]] = set()
    with logged(templates) as (text, lines), server(observers=(DeliveryLog(),)) as started:
        planted.plant(started, request.param)
        yield Walked(server=started, fields=request.param, text=text, lines=lines, templates=templates)


def leaks(texts: Mapping[str, str | bytes]) -> dict[str, set[str]]:
    """What is redacted, by what shows it."""
    canaries = {name: planted.canaries(text) for name, text in texts.items()}
    return {name: each for name, each in canaries.items() if each}


def all_ids(world: Walked) -> list[tuple[str, str]]:
    """What has an id in the world, with the attempts by their numbers."""
    attempts = control(world.server, "GET", "/deliveries", limit="1000")["deliveries"]
    return [*planted.ids(world.server), *(("attempts", str(each["seq"])) for each in attempts)]


# -- the APIs: every GET of the contracts ---------------------------------------------------------

# Of a path's parameters that are no ids of things in the world.
NAMES = {"/_emulator/inspector/{name}": "main.js", "/_emulator/inspector/views/{name}": "runs.js"}
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
# Of the messaging API: what each parameter of a path is, in the planted world.
OF_SERVICE: Mapping[str, Callable[[Server], list[str]]] = {
    "messageId": lambda server: live_messages(server),
    "workflowRunId": lambda _: [planted.WAITING_RUN],
    "eventId": lambda _: [planted.EVENT],
    "destination": lambda _: [planted.SCHEDULE],
    "url_group_name": lambda _: [planted.GROUP],
    "queueName": lambda _: [planted.QUEUE],
    "flowControlKey": lambda _: [planted.FLOW_KEY],
}  # fmt: skip


def live_messages(server: Server) -> list[str]:
    """Those that the messaging API still reads."""
    return [each["message_id"] for each in control(server, "GET", "/messages", state="live")["messages"]]


NO_READS = {"/v2/workflows/hooks/{userId}/{workflowRunId}/{eventId}": "a webhook: the call is an event"}


def operations(api: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every path of a contract that can be read, with the names of its parameters and a value that each may have."""
    document = yaml.load(resources.path("contracts", f"{api}.openapi.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)
    parameters = document["components"]["parameters"]
    for path, item in document["paths"].items():
        # What has no 200 leads elsewhere.
        if "get" in item and "200" in item["get"]["responses"]:
            listed = [*item.get("parameters", ()), *item["get"].get("parameters", ())]
            resolved = [parameters[each["$ref"].rpartition("/")[2]] if "$ref" in each else each for each in listed]
            yield path, {each["name"]: next(iter(each["schema"].get("enum", ("",)))) for each in resolved}


def control_paths(world: Walked) -> Iterator[tuple[str, str]]:
    """Every operation that reads, and how it is asked."""
    identified = list(planted.ids(world.server))
    for path, names in operations("control"):
        if path in STATIC or exact(path, world.fields):
            continue
        query = [ASKED[path]] if path in ASKED else []
        query += ["redact=true"] if path in JOURNALS else []
        query += ["limit=1000"] if "limit" in names else []
        collection = path.split("/")[2] if path.count("/") > 1 else ""
        ids = [id for kind, id in identified if kind == collection] if "{" in path else [""]
        ids = [NAMES[path]] if path in NAMES else ids
        assert ids, f"the walk knows no id for {path}: see planted.ids"
        for id in ids:
            target = re.sub(r"\{\w+\}", id, path)
            yield path, f"{target}?{'&'.join(query)}"
            if "brief" in names:
                yield path, f"{target}?{'&'.join((*query, 'brief=true'))}"


def test_no_answer_of_the_control_api_has_what_is_redacted(world: Walked) -> None:
    targets = [path for _, path in control_paths(world)]
    assert len(targets) > 60
    assert leaks({path: world.get(path) for path in targets}) == {}


def test_refused_calls_have_no_credentials(world: Walked) -> None:
    """D-332, D-777: one has a token in a parameter of another name, one a password in a URL."""
    text = world.get("/_emulator/refused")
    assert b"queue_tokn=***" in text
    assert planted.canaries(text, planted.CONTENT | {planted.PASSWORD, planted.KEY}) == set()
    assert [each for each in credentials(world.server) if each.encode() in text] == []


def dead_letters(world: Walked, kind: str) -> list[str]:
    listed = control(world.server, "GET", "/dead-letters", kind=kind)["dead_letters"]
    return [each["dead_letter_id"] for each in listed]


def test_no_answer_of_the_messaging_api_has_what_is_redacted(world: Walked) -> None:
    leaking: dict[str, set[str]] = {}
    read = 0
    for path, names in operations("messaging"):
        if path in NO_READS:
            continue
        for id in _ids_of(world, path):
            # With both, an answer has as much as it ever has.
            query = f"?groupBy={names['groupBy']}" if "groupBy" in names else ""
            for target in {re.sub(r"\{\w+\}", id, path), re.sub(r"\{\w+\}", id, path) + query}:
                text = world.get(target)
                canaries = planted.canaries(text) - exact(path, world.fields)
                read += 1
                if canaries:
                    leaking[target] = canaries
    assert leaking == {}
    assert read > 20


def _ids_of(world: Walked, path: str) -> list[str]:
    parameters = re.findall(r"\{(\w+)\}", path)
    if not parameters:
        return [""]
    if parameters == ["dlqId"]:
        return dead_letters(world, "run" if "workflows" in path else "message")
    assert len(parameters) == 1, path
    assert parameters[0] in OF_SERVICE, f"the walk knows no {parameters[0]} for {path}: see OF_SERVICE"
    ids = OF_SERVICE[parameters[0]](world.server)
    assert ids, path
    return ids


def test_what_is_exact_by_decision_is_so(world: Walked) -> None:
    """An exception that is none any more is taken out of the table."""
    control(world.server, "POST", "/snapshots", {"name": "now"})
    for each in EXACT:
        if world.fields in each.where:
            letter = dead_letters(world, "run" if "workflows" in each.path else "message")[0]
            canaries = planted.canaries(world.get(each.path.replace("{dlqId}", letter).replace("{name}", "now")))
            assert each.shows <= canaries, (each.path, each.reason)


def test_originals_are_there_for_who_asks(world: Walked) -> None:
    """D-514, D-778: runs have no headers, of which alone one is redacted in the other world."""
    is_everything = world.fields == planted.EVERYTHING
    for path in ORIGINALS if is_everything else ORIGINALS[:2]:
        assert planted.SECRET in planted.canaries(world.get(f"/_emulator/{path}")), path
    token = {"Authorization": f"Bearer {world.server.token}"}
    steps = http("GET", f"{world.server.url}/v2/workflows/runs/{planted.WAITING_RUN}", headers=token)
    assert planted.found(steps.content) is is_everything


# -- the shell: every command ---------------------------------------------------------------------

# Commands that print what is in a world, with what they are asked; `{...}` stands for each id.
SHOWING = {
    "messages": (),
    "show": ("{messages}", "{runs}"),
    "deliveries": (),
    "explain": ("{messages}", "{runs}", "{schedules}"),
    "tail": ("--from-start", "--no-follow"),
    "dead-letters list": (),
    "runs list": (),
    "runs show": ("{runs}",),
    "redeliver": ("{attempts}",),
    "upcoming": (),
    "schedules list": (),
    "queues list": (),
    "flow-control list": (),
    "groups": (),
    "refused": (),
    "worlds list": (),
    "health": (),
    "clock show": (),
    "clock advance": ("1s",),
    "destinations list": (),
    "snapshot list": (),
}
_ROW = "a row of a list that is walked, of what it has changed"
_OWN = "what the caller has named, and ids"
_NONE = "nothing of a world's messages"
OTHERS = {
    **dict.fromkeys(("serve", "dev", "demo"), "a server of its own; its log is walked below"),
    **dict.fromkeys(("env", "when", "check", "contract diff", "fixtures check", "db check", "agent setup"), _NONE),
    **dict.fromkeys(("clock drain", "clock next", "clock rate", "clock set", "clock undo"), "as clock advance"),
    **dict.fromkeys(("runs cancel", "runs restart", "runs resume", "runs retry-failure", "cancel"), _ROW),
    **dict.fromkeys(("dead-letters delete", "dead-letters retry"), _OWN),
    **dict.fromkeys(("schedules delete", "schedules pause", "schedules resume"), _ROW),
    **dict.fromkeys(("queues pause", "queues resume", "queues set"), _ROW),
    **dict.fromkeys(tuple(f"flow-control {each}" for each in ("pause", "pin", "reset", "resume", "unpin")), _ROW),
    **dict.fromkeys(("publish", "notify"), "ids, and the summary of an explanation"),
    **dict.fromkeys(("destinations add", "destinations remove"), "rules are what the tester wrote"),
    **dict.fromkeys(("worlds create", "worlds delete", "worlds fork", "reset"), _OWN),
    **dict.fromkeys(tuple(f"snapshot {each}" for each in ("delete", "export", "import", "restore", "save")), _OWN),
    "mcp": "the tools are walked below",
}  # fmt: skip


def commands(command: click.Command, name: str = "") -> Iterator[str]:
    """Every command that is no group, by its words."""
    if not isinstance(command, click.Group):
        yield name
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        inner = command.get_command(context, each)
        assert inner is not None
        yield from commands(inner, f"{name} {each}".strip())


def test_every_command_of_the_shell_is_walked_or_shows_nothing_of_messages() -> None:
    assert set(commands(main)) == {*SHOWING, *OTHERS}
    assert not SHOWING.keys() & OTHERS.keys()


@pytest.mark.parametrize("name", SHOWING)
def test_nothing_that_is_redacted_is_printed(world: Walked, name: str) -> None:
    command = [*name.split(), *(each for each in SHOWING[name] if not each.startswith("{"))]
    kinds = [each[1:-1] for each in SHOWING[name] if each.startswith("{")]
    ids = [id for kind, id in all_ids(world) if kind in kinds]
    lines = [[*command, id] for id in ids] if kinds else [command]
    full = [["--full"]] if name == "show" else []
    for line in lines:
        for options in ([], ["--json"], *full):
            result = shell.invoke(world.server, *line, *options)
            assert result.exit_code == 0, result.output
            assert result.stdout
            assert planted.canaries(result.output) == set(), [*line, *options]


def test_the_shell_prints_originals_when_asked_for(world: Walked) -> None:
    [first] = control(world.server, "GET", "/deliveries", limit="1")["deliveries"]
    printed = shell.printed(world.server, "show", first["message_id"], "--originals")
    assert planted.canaries(printed) == {planted.SECRET, planted.ECHO}


# -- tools of agents, and texts of the Python API -------------------------------------------------

# How each tool is asked; `{...}` stands for each id.
TOOL_CALLS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "status": ({},),
    "world": ({"action": "list"}, {"action": "save", "name": "kept"}),
    "publish": (
        {"to": "https://calm.test/", "body": "calm", "options": {"label": "own", "redact": "body", "retries": 0}},
    ),
    # The retries of the planted world come back within it.
    "advance": ({"by": "2h"}, {"until": "idle"}),
    "find": tuple({"kind": kind, "detail": how, "limit": 99} for kind in get_args(Kind) for how in ("short", "full")),
    "why": ({"id": "{messages}"}, {"id": "{runs}"}, {"id": "{schedules}"}),
    "verify": (
        {"url": "https://*api.test/*", "body_json": {"card": "4111"}},
        {"url": "https://*down.test/*", "body_json": {"card": "4111"}, "status": 200, "attempts": 1, "at": ["1s"]},
        {"run": planted.RUN, "steps": [{"name": "step 1", "out": "4111"}, {"name": "other", "out": {}}]},
    ),
    "rule": ({"action": "list"},),
    "act": ({"action": "redeliver", "ids": ["{messages}"]}, {"action": "redeliver", "ids": ["{attempts}"]}),
    "docs": ({"query": "redaction"},),
}  # fmt: skip
OTHER_TOOLS = {
    "undo": "counts and instants",
    "check_receiver": "sends what the agent gave, and no message of the world",
}
RESOURCES = {
    "emulator://world/{id}/timeline": ("default",),
    "emulator://delivery/{id}": (),
}


def in_agent(world: Walked, ask: Callable[[Agent], Any]) -> Any:
    """What a coroutine with an agent of the world's server returns."""

    async def run() -> Any:
        async with AsyncEmulator.connect(world.server.url) as emulator, agent(emulator) as caller:
            return await ask(caller)

    return anyio.run(run)


def _filled(world: Walked, arguments: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    text = str(arguments)
    kinds = [kind for kind in ("messages", "runs", "schedules", "attempts") if f"{{{kind}}}" in text]
    if not kinds:
        yield arguments
    for kind, id in all_ids(world):
        if kind in kinds:
            yield {
                name: [id] if value == [f"{{{kind}}}"] else id if value == f"{{{kind}}}" else value
                for name, value in arguments.items()
            }


def test_every_tool_and_resource_of_agents_is_walked_or_shows_nothing_of_messages(world: Walked) -> None:
    assert {each.tool for each in TOOLS} == {*TOOL_CALLS, *OTHER_TOOLS}

    async def ask(caller: Agent) -> set[str]:
        templates = (await caller.client.list_resource_templates()).resource_templates
        return {each.uri_template for each in templates}

    assert in_agent(world, ask) == RESOURCES.keys()


def test_no_tool_of_agents_tells_what_is_redacted(world: Walked) -> None:
    calls = [
        (tool, arguments) for tool, each in TOOL_CALLS.items() for call in each for arguments in _filled(world, call)
    ]
    control(world.server, "POST", "/snapshots", {"name": "before"})
    # Those that the calls make come back with it, too.
    repeats = {"status": 500, "body": planted.ECHO, "headers": {"X-Card": planted.ECHO}}
    control(world.server, "POST", "/destinations", {"match": {"url": "https://*down.test/*"}, "respond": repeats})

    async def ask(caller: Agent) -> dict[str, set[str]]:
        leaking = {}
        for tool, arguments in calls:
            text, is_error = await caller.call(tool, **arguments)
            is_unanswered = tool == "act" and "no attempt of it was made yet" in text
            assert not is_error or is_unanswered, (tool, arguments, text)
            assert tool != "verify" or text.startswith("FAILED")
            # Rules are what the tester wrote.
            of_rules = {planted.ECHO} if tool == "rule" or arguments.get("kind") == "rules" else set()
            if canaries := planted.canaries(text) - of_rules:
                leaking[f"{tool} {arguments}"] = canaries
        return leaking

    try:
        assert in_agent(world, ask) == {}
    finally:
        control(world.server, "POST", "/snapshots/before/restore")


def test_no_resource_of_agents_has_what_is_redacted(world: Walked) -> None:
    attempts = all_ids(world)

    async def ask(caller: Agent) -> dict[str, set[str]]:
        leaking = {}
        for template, ids in RESOURCES.items():
            for id in ids or [id for kind, id in attempts if kind == "attempts"]:
                uri = template.replace("{id}", id)
                [content] = (await caller.client.read_resource(uri)).contents
                if canaries := planted.canaries(content.model_dump_json()):
                    leaking[uri] = canaries
        return leaking

    assert in_agent(world, ask) == {}


def test_a_tool_does_not_show_originals_when_asked_for(world: Walked) -> None:
    async def ask(caller: Agent) -> str:
        return await caller.refused("find", kind="deliveries", where={"redact": "false"})

    assert "svc-emulator show ID --originals" in in_agent(world, ask)


# A value of each keyword of `verify` that no message of the planted world has.
WRONG: Mapping[str, Any] = {
    "url": "https://other.test/",
    "message_id": "msg_other",
    "method": "PATCH",
    "label": "other",
    "queue": "other",
    "schedule_id": "other",
    "times": 99,
    "pending": True,
    "attempts": 99,
    "at": ["77s"],
    "status": 299,
    "outcome": "succeeded",
    "body": "other",
    "body_json": {"card": "4111"},
    "headers": {"X-Card": "other"},
    "signed_with": "next",
}


def test_no_text_of_a_failed_check_tells_what_is_redacted(world: Walked) -> None:
    """D-779: these texts go to the logs of CI; what Python computes with is exact."""
    assert WRONG.keys() == Expected.__annotations__.keys()
    texts: dict[str, str] = {}

    def failing(name: str, check: Callable[[], object]) -> None:
        with pytest.raises(AssertionError) as caught:
            check()
        texts[name] = str(caught.value)

    # What would be met otherwise.
    also: Mapping[str, Any] = {"outcome": {"status": 500}, "pending": {"times": 99}}
    with Emulator.connect(world.server.url) as emulator:
        for place in ("https://*api.test/*", "https://*down.test/*", "https://*back.test/*"):
            for keyword, value in WRONG.items():
                expected = {"url": place, keyword: value, **also.get(keyword, {})}
                failing(f"{keyword} at {place}", lambda expected=expected: emulator.verify(**expected))  # type: ignore[misc]  # bound now
        failing("absent header", lambda: emulator.verify(planted.API, headers={"X-Card": None}))
        failing("order", lambda: emulator.verify_order([{"url": planted.API, "body": "other"}, planted.DOWN]))
        failing("result", lambda: emulator.verify_run(planted.RUN, result={"other": 1}))
        steps = [{"name": name, "out": "other"} for name in ("step 1", "call", "wait", "step 4")]
        failing("steps", lambda: emulator.verify_run(planted.RUN, steps=steps))
        texts["timeline"] = emulator.timeline()
        [delivery, *_] = emulator.deliveries(planted.DOWN)
        emulator.verify(planted.DOWN, body=delivery.body, headers={"X-Card": planted.SECRET})
    assert leaks(texts) == {}
    assert planted.SECRET in str(delivery.headers)
    assert "X-Card: differs, and is redacted" in texts["headers at https://*down.test/*"].replace("\n", " ")
    if world.fields == planted.EVERYTHING:
        assert "differs, and is redacted" in texts["body_json at https://*down.test/*"]
        assert "out: differs, and is redacted" in texts["steps"]


def test_what_a_mounted_application_raises_is_hidden_with_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text is the answer, which explanations and the timeline show of other messages (D-336), and spans of none."""

    def charge(request: Request) -> None:
        raise ValueError(f"no card {request.body.decode()}")

    texts = []
    with collector() as spans:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.url)
        with Emulator(epoch=EPOCH) as emulator:
            emulator.mount("https://app.test", charge)
            for redact in (None, "header[X-Card]"):
                published = emulator.publish("https://app.test/", planted.SECRET.encode(), redact=redact, retries=0)
                [message_id] = published.message_ids
                # The timeline of the other message is not looked at.
                texts += [str(emulator.explain(message_id)), emulator.timeline() if redact else ""]
                emulator.clear_deliveries()
    assert [planted.found(each) for each in texts] == [True, False, False, False]
    assert b"mounted there: 26 bytes of text/plain" in b"".join(spans.bodies)
    assert not planted.found(b"".join(spans.bodies))


# -- the log and what other tools keep ------------------------------------------------------------

# How many lines of the log of each file the planted world does not cause, and what they are made of. One more is either
# caused by it or looked at.
_OF_THE_SERVER = "of the server itself: no part of a message reaches it"
_OF_THE_APP = "an exception of the application in the application's own process, whose log it is"
UNSEEN: Mapping[str, tuple[int, str]] = {
    "emulator/api/endpoint.py": (
        3,
        "the path of a call, masked as every line is, the place of a damaged row, and the server's own traceback",
    ),
    "emulator/api/messaging.py": (1, "names of options, and instants"),
    "emulator/api/strict.py": (2, "walked by a test of its own"),
    "emulator/cli/serve.py": (1, _OF_THE_SERVER),
    "emulator/client/asgi.py": (1, _OF_THE_APP),
    "emulator/client/event_loops.py": (1, _OF_THE_SERVER),
    "emulator/client/mounts.py": (3, _OF_THE_APP),
    "emulator/client/server.py": (1, _OF_THE_SERVER),
    "emulator/client/threads.py": (1, _OF_THE_SERVER),
    "emulator/control/stream.py": (2, "the place of a damaged row"),
    "emulator/delivery/http.py": (1, _OF_THE_SERVER),
    "emulator/delivery/mounts.py": (3, "an origin, and the type of an exception"),
    "emulator/delivery/transport.py": (1, "an origin"),
    "emulator/engine/driver.py": (1, "why a world has stopped, and the server's own traceback"),
    "emulator/engine/outbox.py": (1, _OF_THE_SERVER),
    "emulator/journal/snapshots.py": (1, _OF_THE_SERVER),
    "emulator/journal/writer.py": (1, _OF_THE_SERVER),
    "emulator/server/bootstrap.py": (3, _OF_THE_SERVER),
    "emulator/server/logs.py": (1, "why a firing was refused: a quota"),
    "emulator/telemetry/exporting.py": (1, _OF_THE_SERVER),
    "emulator/telemetry/tracing.py": (1, "the server's own traceback"),
    "emulator/worlds/registry.py": (1, _OF_THE_SERVER),
    "emulator/worlds/world.py": (5, "why a world has stopped, an origin that is held, and the server's own traceback"),
    "emulator/worlds/world_clock.py": (1, _OF_THE_SERVER),
}
_LEVELS = ("debug", "info", "warning", "error", "exception", "critical", "log")


def lines_of_the_program() -> Iterator[tuple[str, str]]:
    """Every line that the program can log: its file and its text, or the call where that is no constant."""
    for file in sorted((processes.ROOT / "emulator").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LEVELS):
                continue
            if ast.unparse(node.func.value) not in ("logger", "calls", "_LOG", "logging"):
                continue
            text = node.args[node.func.attr == "log"]
            name = text.value if isinstance(text, ast.Constant) else ast.unparse(text)
            yield file.relative_to(processes.ROOT).as_posix(), str(name)


def test_every_line_of_the_log_is_walked_or_has_nothing_of_messages(world: Walked) -> None:
    unseen = [each for each in lines_of_the_program() if each not in world.templates]
    counts = Counter(file for file, _ in unseen)
    assert counts == {file: count for file, (count, _) in UNSEEN.items()}, "\n".join(map(str, unseen))


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_line_of_the_log_has_content_or_credentials(world: Walked, log_format: str) -> None:
    """D-775, D-777: at the level debug, which logs what every other level does."""
    text = (world.text if log_format == "text" else world.lines).getvalue()
    assert text.count("see svc-emulator show ") > 5
    assert planted.canaries(text, planted.CONTENT | {planted.PASSWORD, planted.KEY}) == set()
    assert [each for each in credentials(world.server) if each in text] == []


def test_what_strict_mode_finds_has_no_values() -> None:
    templates: set[tuple[str, str]] = set()
    with logged(templates) as (text, lines), server(strict=True) as started:
        item = {"destination": planted.API, "body": planted.SECRET, "card": planted.SECRET}
        sent = {"Content-Type": "application/json", "Svc-Card": planted.SECRET}
        service(started, "POST", "/v2/batch", sent, [item])
        mismatches = http("GET", f"{started.url}/_emulator/mismatches").text
    assert ("emulator/api/strict.py", "contract: %s: %s") in templates
    assert "card" in mismatches
    assert planted.canaries(mismatches + text.getvalue() + lines.getvalue(), planted.CONTENT | planted.URL) == set()


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_server_logs_no_content_at_any_level(tmp_path: Path, level: str, log_format: str) -> None:
    """The program as it is started, with what it prints: D-775."""
    options = ("--clock", "frozen", "--epoch", EPOCH, "--log-level", level, "--log-format", log_format)
    with processes.serving(*options, folder=tmp_path) as process:
        url = re.search(r"http://127\.0\.0\.1:\d+", "\n".join(process.banner))
        assert url is not None
        queue = http("GET", f"{url[0]}/_emulator/credentials").json()["queue"]
        started = Server(url=url[0], port=0, token=queue["token"], current_signing_key="", next_signing_key="")
        for rule in ({"status": 500, "body": planted.ECHO}, {"status": 200, "body": planted.ECHO}):
            control(started, "POST", "/destinations", {"match": {"url": "*"}, "respond": rule, "times": 1})
        service(started, "POST", f"/v2/publish/{planted.API}", {"Svc-Retries": "1"}, planted.SECRET.encode())
        service(started, "GET", f"/v2/queues?queue_token={queue['token']}")
        control(started, "POST", "/clock/advance", {"by": "1h"})
        process.kill()
    assert ("api.test" in process.log) is (level in ("debug", "info"))
    canaries = planted.canaries(process.log, planted.CONTENT | {planted.PASSWORD, planted.KEY})
    assert (canaries, queue["token"] in process.log) == (set(), False)


@pytest.mark.parametrize("fields", [planted.EVERYTHING, planted.ONE_HEADER])
def test_spans_have_no_content_and_of_urls_no_values(monkeypatch: pytest.MonkeyPatch, fields: str) -> None:
    """D-777: a collector keeps them."""
    with collector() as spans:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.url)
        with server() as started:
            planted.plant(started, fields)
            tokens = credentials(started)
    assert len(spans.spans) > 20
    sent = b"".join(spans.bodies)
    assert planted.canaries(sent, planted.CONTENT | planted.URL) == set()
    assert b"ref=REDACTED" in sent
    assert [each for each in tokens if each.encode() in sent] == []


def test_metrics_have_no_content_and_of_urls_the_origin(world: Walked) -> None:
    text = world.get("/_emulator/metrics").decode()
    assert 'destination="https://api.test"' in text
    assert planted.canaries(text, planted.CONTENT | planted.URL) == set()
    assert [each for each in credentials(world.server) if each in text] == []
