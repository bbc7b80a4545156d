"""The twelve tools through the official client, in memory: what they answer, and how they refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from emulator import AsyncEmulator, resources
from emulator.agents import moving
from emulator.agents.server import tools
from emulator.agents.tool import FULL, SHORT, answer
from emulator.agents.tools import TOOLS
from emulator.client.errors import Refused
from tests.agents.clients import Agent, as_agent
from tests.contracts.hostile import PYTHON

URL = "https://api.test/hook"

# Each argument with its place in the contract: a parameter or a field of the body of an operation, or a field of a
# schema with a period. `world` is everywhere; `kind`, `action` and `detail` choose an operation or its form.
ARGUMENTS: dict[str, dict[str, str]] = {
    "status": {},
    "world": {
        "id": "createWorld id",
        "name": "saveSnapshot name",
        "epoch": "createWorld epoch",
        "seed": "createWorld seed",
        "chaos": "createWorld chaos",
    },
    "publish": {"to": "publishMessage destination", "body": "Delivery.body", "options": "Delivery.headers"},
    "advance": {"by": "advanceClock by", "until": "advanceClock until", "undoable": "advanceClock undoable"},
    "undo": {},
    "find": {"where": "listDeliveries url", "limit": "listDeliveries limit", "cursor": "listDeliveries cursor"},
    "why": {"id": "explainMessage id"},
    "verify": {
        "url": "listDeliveries url",
        "attempts": "BriefDelivery.attempt",
        "at": "Delivery.at",
        "status": "DeliveryResponse.status",
        "body_json": "Delivery.body",
        "run": "getRun id",
        "steps": "Run.steps",
    },
    "rule": {
        "match": "addRule match",
        "respond": "addRule respond",
        "sequence": "addRule sequence",
        "fault": "addRule fault",
        "chance": "addRule chance",
        "times": "addRule times",
        "id": "removeRule id",
    },
    "act": {"ids": "redeliver seq"},
    "check_receiver": {"url": "Delivery.url", "body": "Delivery.body"},
    "docs": {"limit": "listDeliveries limit"},
}
# Of the tools themselves: where the application shows what it did, and what to search for.
OF_TOOLS = {"world", "kind", "action", "detail", "effect_url", "query"}


def test_the_tools_are_twelve_and_their_schemas_short() -> None:
    """At most 12,000 characters in all, as a client gets them; hints say what only reads and what destroys."""
    listed = tools()
    hints = {each.name: each.annotations for each in listed}
    assert [each.name for each in listed] == list(ARGUMENTS)
    assert sum(len(each.model_dump_json(by_alias=True, exclude_none=True)) for each in listed) <= 12_000
    assert {name for name, each in hints.items() if each and each.read_only_hint} == {
        *("status", "find", "why", "verify", "docs")
    }
    assert {name for name, each in hints.items() if each and each.destructive_hint} == {"world", "undo", "rule", "act"}


def test_every_argument_is_one_of_the_contract() -> None:
    operations: dict[str, set[str]] = {}
    schemas: dict[str, Any] = {}
    for api in ("control", "messaging"):
        document = yaml.load(
            resources.path("contracts", f"{api}.openapi.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader
        )
        schemas = {**document["components"]["schemas"], **schemas}
        for path in document["paths"].values():
            for method, operation in path.items():
                if method != "parameters":
                    operations[operation["operationId"]] = _names(document, path, operation)
    for name, schema in schemas.items():
        operations[name] = set(schema.get("properties", ()))
    for tool in TOOLS:
        assert set(tool.__struct_fields__) - OF_TOOLS == set(ARGUMENTS[tool.tool]), tool.tool
        for argument, place in ARGUMENTS[tool.tool].items():
            where, _, name = place.replace(".", " ").partition(" ")
            assert name in operations[where], f"{tool.tool} {argument}: {sorted(operations[where])}"


def _names(document: Any, path: Any, operation: Any) -> set[str]:
    """The parameters of an operation and the fields of its body, however deep."""
    given = [
        _resolved(document, each)["name"] for each in (*path.get("parameters", ()), *operation.get("parameters", ()))
    ]
    return {*given, *_fields(document, operation.get("requestBody", {}), 6)}


def _resolved(document: Any, value: Any) -> Any:
    for part in value["$ref"].split("/")[1:] if "$ref" in value else ():
        document = document[part]
    return document if "$ref" in value else value


def _fields(document: Any, value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and depth:
        found = _resolved(document, value)
        yield from found.get("properties", ()) if isinstance(found.get("properties"), dict) else ()
        for each in found.values():
            yield from _fields(document, each, depth - 1)
    elif isinstance(value, list) and depth:
        for each in value:
            yield from _fields(document, each, depth - 1)


@as_agent
async def test_the_loop(agent: Agent, emulator: AsyncEmulator) -> None:
    """Rule, publish, advance, why, verify, undo, as an agent goes through them."""
    assert "no failed attempts\nnext: publish" in await agent.ask("status")
    await agent.ask(
        "rule", action="add", match={"url": "https://api.test/*"}, sequence=[{"status": 503}, {"status": 200}]
    )
    published = await agent.ask("publish", to=URL, body={"a": 1}, options={"retries": 2, "retry_delay": "10s"})
    assert "first due 2026-01-01T00:00:10.000Z" in published
    moved = await agent.ask("advance", by="1h", undoable=True)
    assert moved.splitlines() == [
        "2026-01-01T00:00:00.000Z -> 2026-01-01T01:00:00.000Z (1h)",
        "1 delivery: 1 succeeded, 0 failed, 1 retry; 0 messages made, 0 firings, 0 dead letters",
        f"1 x {URL} -> 200",
        "next: verify; undo",
    ]
    assert "10000 with retried = 0 is 10000 ms -> 10s" in await agent.ask("why", id=URL)
    line = "emulator.verify('https://api.test/hook', attempts=2, status=[503, 200])"
    assert await agent.ask("verify", url=URL, attempts=2, status=[503, 200]) == (
        f"passed\nas pytest: {line}\nnext: status"
    )
    different = await agent.ask("verify", url=URL, attempts=3)
    assert different.startswith("FAILED\n")
    assert "attempts  expected 3, got 2" in different
    assert "taken back: 1h, to 2026-01-01T00:00:00.000Z, and 1 delivery" in await agent.ask("undo")
    assert len(await emulator.deliveries()) == 1


@as_agent
async def test_status_and_advance_name_a_held_destination(agent: Agent, emulator: AsyncEmulator) -> None:
    """D-787."""

    async def receive(_: object) -> int:
        await emulator.publish(URL)
        return 200

    await emulator.mount("https://api.test", receive)
    await agent.ask("publish", to=URL, options={"delay": "1h"})
    moved = await agent.ask("advance", by="1d")
    status = await agent.ask("status")
    why = "held: https://api.test published to itself more than 1,000 times at this instant, 2026-01-01T01:00:00Z"
    assert f"\n{why}\n" in moved
    assert f"\n{why}\nno failed attempts\n" in status
    [held] = (await emulator.clock.status()).held
    assert held.why == why
    assert f'next: why("{held.message_id[-8:]}"); act("cancel", ["{held.message_id}"])' in status
    assert f"{why}; until this message is deleted" in await agent.ask("why", id=held.message_id)
    await agent.ask("act", action="cancel", ids=[held.message_id])
    assert "held: " not in await agent.ask("status")


@as_agent
async def test_an_advance_says_what_died_and_that_a_condition_was_not_reached(
    agent: Agent, emulator: AsyncEmulator
) -> None:
    await agent.ask("rule", action="add", match={"url": URL}, respond={"status": 500, "body": "no database"})
    await agent.ask("publish", to=URL, options={"retries": 1, "retry_delay": "10s"})
    moved = await agent.ask("advance", until="dead-letters")
    [letter] = await emulator.dead_letters.all()
    assert ", 1 dead letter\n" in moved
    assert ": no database" in moved
    assert moved.endswith(f'; act("retry", ["{letter.dead_letter_id}"])')
    assert "NOT REACHED: deliveries 9: nothing is due" in await agent.ask("advance", until="deliveries 9")
    assert "a rule of yours answers" in await agent.ask("why", id=URL)
    again = await agent.ask("act", action="redeliver", ids=[URL])
    assert "-> 500 no database" in again
    assert "published again" in await agent.ask("act", action="retry", ids=[letter.dead_letter_id])


@as_agent
async def test_worlds_are_made_copied_saved_and_removed(agent: Agent, emulator: AsyncEmulator) -> None:
    made = await agent.ask("world", action="create", id="one", epoch="2026-03-01T00:00:00Z", seed=7)
    assert "its clock is at 2026-03-01T00:00:00Z" in made
    assert "SVC_TOKEN=" in made
    await agent.ask("publish", to=URL, options={"delay": "1h"}, world="one")
    await agent.ask("world", action="fork", id="one", name="two")
    await agent.ask("world", action="save", id="one", name="before")
    await agent.ask("advance", by="2h", world="one")
    await agent.ask("world", action="restore", id="one", name="before")
    listed = (await agent.ask("world", action="list", id="one")).splitlines()
    assert [line.split()[:2] for line in listed[1:3]] == [
        ["one", "2026-03-01T00:00:00.000Z"],
        ["two", "2026-03-01T00:00:00.000Z"],
    ]
    assert listed[3] == "snapshots of one: before"
    await agent.ask("world", action="reset", id="two")
    assert "no messages" in await agent.ask("find", kind="messages", world="two")
    for world in ("one", "two"):
        await agent.ask("world", action="delete", id=world)
    assert await emulator.deliveries() == []


@as_agent
async def test_lists_and_what_acts_on_their_entries(agent: Agent, emulator: AsyncEmulator) -> None:
    await emulator.queues.upsert("mail", parallelism=1)
    schedule = (await emulator.schedules.create("https://cron.test", cron="0 9 * * *")).schedule_id
    await emulator.url_groups.upsert("team", ["https://a.test", "https://b.test"])
    await agent.ask("publish", to=URL, options={"delay": "1h", "label": "late"})
    for kind, said in {
        "messages": "PENDING 0/6 POST",
        "schedules": "0 9 * * * -> https://cron.test 2026-01-01T09:00:00.000Z",
        "queues": "mail parallelism 1, lag 0",
        "groups": "team: https://a.test, https://b.test",
        "upcoming": "delivery https://api.test/hook",
        "deliveries": "no deliveries",
        "dead-letters": "no dead-letters",
        "runs": "no runs",
        "rules": "no rules",
        "refused": "no refused",
    }.items():
        assert said in await agent.ask("find", kind=kind), kind
    found = await agent.ask("find", kind="messages", where={"label": "late"}, detail="full")
    assert json.loads(found.splitlines()[0])["labels"] == ["late"]
    assert "9" in await agent.ask("why", id=schedule)
    paused = await agent.ask("act", action="pause", ids=["queue:mail", f"schedule:{schedule}", "queue:none"])
    assert paused.splitlines()[:3] == [
        "queue:mail: paused",
        f"schedule:{schedule}: paused",
        "queue:none: FAILED: queue none not found (next: find, which lists what there is)",
    ]
    assert "lag 0, paused" in await agent.ask("find", kind="queues")
    assert "canceled msg_" in await agent.ask("act", action="cancel", ids=["late"])
    assert "deleted" in await agent.ask("act", action="delete", ids=["queue:mail"])


# A call, what its refusal says, and what is in its last line, the next step.
REFUSALS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("nothing", {}, "there is no tool 'nothing'", "one of status"),
    ("advance", {"far": "1d"}, "unknown field far", "by, until, undoable, world"),
    ("publish", {"to": 5}, "publish: to: expected a string, got an integer", "to, body, options, world"),
    ("publish", {}, "publish: to: is missing", "to, body, options, world"),
    ("find", {"kind": "messages", "limit": 0}, "find: limit: expected an integer >= 1", "kind, where"),
    ("act", {"action": "redeliver", "ids": "x"}, "act: ids: expected a list, got a string", "action, ids"),
    ("advance", {}, "exactly one of by and until", "advance(by="),
    ("advance", {"by": "soon"}, "by: expected a duration", "advance again with another by"),
    ("status", {"world": "none"}, "world none not found", 'world(action="list")'),
    ("publish", {"to": URL, "options": {"delai": "1h"}}, "did you mean delay?", "again"),
    ("find", {"kind": "deliveries", "where": {"to": "x"}}, "to: unknown", "find again"),
    ("why", {"id": "nobody"}, "no message has an id that ends in 'nobody'", 'find("messages")'),
    ("why", {"id": "msg_1"}, "message msg_1 not found", 'find("messages")'),
    ("world", {"action": "restore", "name": "x"}, "snapshot x not found", 'world(action="list", id='),
    ("act", {"action": "redeliver", "ids": ["99"]}, "99", 'find("deliveries")'),
    ("undo", {}, "there is no advance to take back", "status"),
    ("rule", {"action": "remove"}, "id: missing", 'rule("list")'),
    ("world", {"action": "save"}, "name: missing", "world(action="),
    ("act", {"action": "pause", "ids": ["x"]}, "expected queue:NAME", 'find("queues")'),
    ("verify", {"url": URL, "run": "wfr_1"}, "exactly one of url and run", "verify(url="),
    ("verify", {"url": URL, "at": ["10"]}, "at", "verify again"),
)


@as_agent
async def test_a_refusal_says_how_to_mend_it(agent: Agent, emulator: AsyncEmulator) -> None:
    for tool, arguments, error, next in REFUSALS:
        text = await agent.refused(tool, **arguments)
        assert PYTHON.search(text) is None, text
        last = text.splitlines()[-1]
        assert (error in text, last.startswith("next: "), next in last) == (True, True, True), (tool, text)


@as_agent
async def test_a_receiver_is_checked(agent: Agent, emulator: AsyncEmulator) -> None:
    await emulator.mount("https://app.test", lambda request: 200)
    text = await agent.ask("check_receiver", url="https://app.test/hook", body={"a": 1})
    assert text.startswith("https://app.test/hook: FAILED: ")
    assert "wrong-key: it was accepted with 200" in text
    assert "mend: " in text


@as_agent
async def test_what_is_written_is_found(agent: Agent, emulator: AsyncEmulator) -> None:
    assert "D-015 Retry delay expressions" in await agent.ask("docs", query="retry delay expression", limit=5)
    assert "nothing is said" in await agent.ask("docs", query="xyzzy")


@as_agent
async def test_resources(agent: Agent, emulator: AsyncEmulator) -> None:
    await agent.ask("publish", to=URL)
    listed = [str(each.uri) for each in (await agent.client.list_resources()).resources]
    templates = (await agent.client.list_resource_templates()).resource_templates
    assert listed == ["emulator://handbook", "emulator://contract/messaging"]
    assert [each.uri_template for each in templates] == ["emulator://world/{id}/timeline", "emulator://delivery/{id}"]
    [delivery] = await emulator.deliveries()
    for uri, said in {
        "emulator://handbook": "# svc-emulator",
        "emulator://contract/messaging": "openapi: 3.1",
        "emulator://world/default/timeline": "1 attempt of 1 message",
        f"emulator://delivery/{delivery.seq}": delivery.message_id,
    }.items():
        [content] = (await agent.client.read_resource(uri)).contents
        assert said in getattr(content, "text", ""), uri
    with pytest.raises(Exception, match="there is no resource"):
        await agent.client.read_resource("emulator://delivery/99")


# -- lists in parts -----------------------------------------------------------------------------


async def in_parts(agent: Agent, **arguments: Any) -> list[str]:
    """The lines of `find`, each answer followed by the call that it names."""
    lines: list[str] = []
    while True:
        *part, next = (await agent.ask("find", **arguments)).splitlines()
        assert not any("left out" in line for line in part), part
        lines += part
        call = re.match(r"next: find\(\"[a-z-]+\", (.*)\); ", next)
        if call is None:
            return lines
        named = re.findall(r"(\w+)=(\"[^\"]*\"|\{[^}]*\}|[0-9]+)", call[1])
        arguments = {"kind": arguments["kind"], **{name: json.loads(value) for name, value in named}}


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 7, 50, 1_000])
def test_every_entry_is_shown_once_however_little_an_answer_has_room_for(limit: int) -> None:
    """D-796: the cursor follows the last line that is shown, in lists that come in pages and in those that do not."""

    @as_agent
    async def run(agent: Agent, emulator: AsyncEmulator) -> None:
        for number in range(31):
            url = f"https://app.test/{number:02}/{'x' * 60}"
            await emulator.publish(url, label="many")
            await emulator.publish(f"https://other.test/{number}", delay="1h")
            await emulator.queues.upsert(f"queue-{number:02}", parallelism=1)
            await emulator.schedules.create(f"https://cron.test/{number}", cron="0 9 * * *")
            with pytest.raises(Refused):
                await emulator.call("GET", f"/v2/messages/none-{number}")
        for arguments, count in (
            ({"kind": "deliveries", "where": {"label": "many"}}, 31),
            ({"kind": "messages", "where": {"state": "live"}}, 31),
            ({"kind": "queues"}, 31),
            ({"kind": "schedules"}, 31),
            ({"kind": "refused"}, 31),
            ({"kind": "upcoming"}, 62),
        ):
            lines = await in_parts(agent, limit=limit, **arguments)
            assert len(lines) == count, arguments
            whole = await in_parts(agent, limit=1_000, detail="full", **arguments)
            assert len(whole) == count, arguments
            assert len(set(whole)) == count, arguments

    run()


@as_agent
async def test_an_entry_that_comes_between_two_parts_changes_nothing(agent: Agent, emulator: AsyncEmulator) -> None:
    """D-796: not of lists that have the newest first."""
    for number in range(4):
        await emulator.publish(f"https://app.test/{number}")
        with pytest.raises(Refused):
            await emulator.call("GET", f"/v2/messages/none-{number}")
    lists = (("deliveries", r"app\.test/(\w+)"), ("refused", r"none-(\w+) ->"))
    first = {kind: await agent.ask("find", kind=kind, limit=2) for kind, _ in lists}
    await emulator.publish("https://app.test/late")
    with pytest.raises(Refused):
        await emulator.call("GET", "/v2/messages/none-late")
    for kind, pattern in lists:
        [cursor] = re.findall(r'cursor="([^"]+)"', first[kind])
        second = await agent.ask("find", kind=kind, limit=2, cursor=cursor)
        assert re.findall(pattern, first[kind] + second) == ["3", "2", "1", "0"], kind
    assert "cursor: expected that of an answer" in await agent.refused("find", kind="queues", cursor="x")


def test_an_answer_ends_with_what_to_call_next_however_long_it_is() -> None:
    """D-710."""
    long = answer([f"line {number}" for number in range(1_000)], next=["status"])
    assert len(long) <= SHORT
    assert "more lines left out\nnext: status" in long
    assert len(answer(["x" * 5_000], next=["status"])) <= SHORT


@as_agent
async def test_answers_stay_short_beside_more_messages_than_are_looked_at(
    agent: Agent, emulator: AsyncEmulator
) -> None:
    await agent.ask("rule", action="add", match={"url": "https://down.test/*"}, respond={"status": 503})
    every_minute: dict[str, Any] = {"cron": "* * * * *", "retries": 0}
    for number in range(20):
        host = "down" if number == 0 else "app"
        await emulator.schedules.create(f"https://{host}.test/{number}", **every_minute)
    await emulator.publish("https://app.test/once", delay="1m")
    with patch.object(moving, "_MOST_GROUPED", 1_500):
        moved = await agent.ask("advance", by="2h")
    assert "2401 deliveries: 2281 succeeded, 120 failed" in moved
    assert "\n1 x https://app.test/once -> 200\n" in moved
    assert "(grouped: the first 1500)" in moved
    letter = (await emulator.dead_letters.all(url="https://down.test/0"))[0]
    answers = [
        moved,
        await agent.ask("status"),
        *[await agent.ask("find", kind=kind, limit=1_000) for kind in ("deliveries", "messages", "dead-letters")],
        await agent.ask("why", id=letter.message_id),
        await agent.ask("verify", url="https://nowhere.test"),
    ]
    assert max(map(len, answers)) <= SHORT
    full = await agent.ask("find", kind="deliveries", limit=1_000, detail="full")
    assert SHORT < len(full) <= FULL
