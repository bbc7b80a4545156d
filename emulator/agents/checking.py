"""The tools that hold things against expectations, and those that act on them: verify, check_receiver, rule, act."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import httpx
from msgspec import UNSET, Meta, UnsetType

from emulator.agents.tool import (
    Connection,
    Tool,
    ToolFailed,
    World,
    WorldId,
    answer,
    end_of,
    mended,
    one_line,
    result_of,
)
from emulator.client.control import segment
from emulator.client.errors import EmulatorError, Refused
from emulator.conformance.sending import TOO_LONG_A_STATE, read_state

# A longer check answers nobody.
_EFFECT_TIMEOUT_S = 10.0


class Verify(Tool):
    """Hold what was delivered (url) or a workflow run (run) against an expectation. Answers passed, or the nearest with
    what differs and the timeline; and the same check as pytest."""

    tool: ClassVar[str] = "verify"
    reads_only: ClassVar[bool] = True
    url: Annotated[str, Meta(description="Destination, may be a glob")] | UnsetType = UNSET
    attempts: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    at: (
        Annotated[list[str], Meta(description='Of each attempt: "10s" since the publish, or an instant')] | UnsetType
    ) = UNSET
    status: Annotated[int | list[int], Meta(description="Last, or of each attempt")] | UnsetType = UNSET
    body_json: Any | UnsetType = UNSET
    run: Annotated[str, Meta(description="Id of a run")] | UnsetType = UNSET
    steps: Annotated[list[Any], Meta(description="Names of the run's steps in order")] | UnsetType = UNSET
    world: WorldId = "default"

    async def perform(self, connection: Connection) -> str:
        world = await connection.world(self.world)
        of_url = {name: getattr(self, name) for name in ("attempts", "at", "status", "body_json")}
        wanted: dict[str, Any] = {name: value for name, value in of_url.items() if value is not UNSET}
        url, run = self.url or None, self.run or None
        if (url is None) == (run is None):
            raise ToolFailed("expected exactly one of url and run", 'verify(url="https://app.test/hook", status=200)')
        if run is not None and wanted:
            raise ToolFailed(f"{next(iter(wanted))}: expected only with url", "verify(run=ID, steps=[...])")
        if run is None and self.steps is not UNSET:
            raise ToolFailed("steps: expected only with run", "verify(run=ID, steps=[...])")
        try:
            if run is None:
                line = _call("verify", url, wanted)
                await world.emulator.verify(url, **wanted)
            else:
                steps: dict[str, Any] = {} if self.steps is UNSET else {"steps": self.steps}
                line = _call("verify_run", run, steps)
                await world.emulator.verify_run(run, **steps)
        except AssertionError as error:
            text = str(error).splitlines()
            return answer(["FAILED", *text[:30], f"as pytest: {line}"], next=["why(ID)", 'find("deliveries")'])
        return answer(["passed", f"as pytest: {line}"], next=["status"])


def _call(method: str, first: object, wanted: Mapping[str, object]) -> str:
    rest = "".join(f", {name}={value!r}" for name, value in wanted.items())
    return f"emulator.{method}({first!r}{rest})"


class CheckReceiver(Tool):
    """Check whether a receiver is right: at most 37 signed requests, good ones and mistakes. effect_url is a URL whose
    answer shows what the app did, such as a count: without it effects are not judged."""

    tool: ClassVar[str] = "check_receiver"
    url: str
    body: Annotated[Any, Meta(description="A good body, text or JSON")] = None
    effect_url: str = ""
    world: WorldId = "default"

    async def perform(self, connection: Connection) -> str:
        world = await connection.world(self.world)
        options: dict[str, Any] = {}
        if self.body is not None:
            options["body" if isinstance(self.body, str) else "json"] = self.body
        async with httpx.AsyncClient(timeout=_EFFECT_TIMEOUT_S, trust_env=False) as http:
            if self.effect_url:

                async def effect() -> str:
                    state = await read_state(http, self.effect_url)
                    if state is None:
                        text = f"effect_url: {self.effect_url} answered with {TOO_LONG_A_STATE}"
                        raise ToolFailed(text, "give effect_url a URL that shows a count")
                    return state.decode(errors="replace")

                options["effect"] = effect
            try:
                report = await world.emulator.check_receiver(self.url, **options)
            except httpx.HTTPStatusError as error:
                text = f"effect_url: {self.effect_url} answered {error.response.status_code}, expected 2xx"
                raise ToolFailed(text, "give effect_url a URL that the app has, or leave it out") from error
            except httpx.HTTPError as error:
                text = f"effect_url: {self.effect_url} cannot be read: {error or type(error).__name__}"
                raise ToolFailed(text, "start the app, or leave effect_url out") from error
        counts = ", ".join(
            f"{sum(each.verdict is verdict for each in report.results)} {verdict}"
            for verdict in dict.fromkeys(each.verdict for each in report.results)
        )
        lines = [f"{self.url}: {'passed' if report.passed else 'FAILED'}: {counts}"]
        for each in report.failures:
            lines += [f"{each.id}: {each.note}", f"  why: {each.why}", f"  mend: {each.mend}"]
        return answer(lines, next=["publish"] if report.passed else ["mend the app, then check_receiver again"])


class Rule(Tool):
    """Destination rules: what answers a URL instead of the network. add takes match {"url": glob} and one of respond
    {"status", "body", "headers", "latency"}, sequence of such, fault."""

    tool: ClassVar[str] = "rule"
    destroys: ClassVar[bool] = True
    action: Literal["add", "list", "remove", "clear"]
    match: (
        Annotated[dict[str, str], Meta(description='{"url": "https://api.test/*", "method": "POST"}')] | UnsetType
    ) = UNSET
    respond: dict[str, Any] | UnsetType = UNSET
    sequence: Annotated[list[dict[str, Any]], Meta(description="One per attempt, the last repeats")] | UnsetType = UNSET
    fault: Literal["refused", "timeout", "reset", "dns", "tls"] | UnsetType = UNSET
    chance: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    times: Annotated[int, Meta(ge=1, description="Attempts it decides")] | UnsetType = UNSET
    id: Annotated[str, Meta(description="remove")] | UnsetType = UNSET
    world: WorldId = "default"

    async def perform(self, connection: Connection) -> str:
        world = await connection.world(self.world)
        names = ("match", "respond", "sequence", "fault", "chance", "times")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not UNSET}
        if self.action != "add" and given:
            raise ToolFailed(f"{next(iter(given))}: expected only with add", 'rule("add", match={"url": URL}, ...)')
        if (self.action == "remove") == (self.id is UNSET):
            wrong = "missing, expected the rule to remove" if self.id is UNSET else "expected only with remove"
            raise ToolFailed(f"id: {wrong}", 'rule("list")')
        match self.action:
            case "add":
                made = await world.control("POST", "destinations", given)
                return answer(
                    [f"added {made['id']}: {json.dumps(given)}"], next=["publish", f'rule("remove", id="{made["id"]}")']
                )
            case "remove":
                await world.control("DELETE", f"destinations/{segment(str(self.id))}")
                return answer([f"removed {self.id}"], next=['rule("list")'])
            case "clear":
                await world.control("DELETE", "destinations")
                return answer(["removed all rules"], next=["status"])
            case "list":
                rules = (await world.control("GET", "destinations"))["destinations"]
                return answer([json.dumps(each) for each in rules] or ["no rules"], next=['rule("add", ...)'])


class Act(Tool):
    """Act on things by id. cancel: messages. retry, delete: dead letters. redeliver: deliveries by number, or messages
    (the last attempt). pause, resume, delete: queue:NAME, schedule:ID, flow:KEY (no delete)."""

    tool: ClassVar[str] = "act"
    destroys: ClassVar[bool] = True
    action: Literal["cancel", "retry", "redeliver", "pause", "resume", "delete"]
    ids: Annotated[list[str], Meta(min_length=1, max_length=50)]
    world: WorldId = "default"

    async def perform(self, connection: Connection) -> str:
        world = await connection.world(self.world)
        lines: list[str] = []
        steps: list[str] = []
        for each in self.ids:
            try:
                lines.append(f"{each}: {await self._one(world, each)}")
            except (EmulatorError, ToolFailed) as error:
                step = mended(error, self.tool) if isinstance(error, Refused) else getattr(error, "next", "status")
                steps.append(step)
                lines.append(f"{each}: FAILED: {error} (next: {step})")
        if len(steps) == len(self.ids):
            raise ToolFailed("\n".join(lines), "; ".join(dict.fromkeys(steps)))
        return answer(lines, next=["status", "verify"])

    async def _one(self, world: World, given: str) -> str:
        match self.action:
            case "cancel":
                message_id = await world.find_message(given)
                await world.emulator.messages.cancel(message_id)
                return f"canceled {message_id}"
            case "redeliver":
                return await _redeliver(world, given)
            case "retry":
                made = await world.emulator.dead_letters.retry(given)
                return f"published again as {made}"
            case "delete" if ":" not in given:
                await world.emulator.dead_letters.delete(given)
                return "deleted the dead letter"
            case action:
                return await _manage(world, action, given)


async def _redeliver(world: World, given: str) -> str:
    seq = given
    if not given.isdecimal():
        query = {"message_id": await world.find_message(given), "order": "latestFirst", "limit": 1, "brief": "true"}
        latest = (await world.control("GET", "deliveries", **query))["deliveries"]
        if not latest:
            raise ToolFailed("no attempt of it was made yet", "advance")
        seq = str(latest[0]["seq"])
    made = (await world.control("POST", f"deliveries/{seq}/redeliver"))["delivery"]
    if made is None:
        return "sent again; its answer is not there yet"
    body = made["response"]["body"] if made["response"] else ""
    made_of = f"delivery {made['seq']} of {end_of(made['message_id'])}"
    return f"sent again as {made_of} -> {result_of(made)} {one_line(body or '', 300)}"


async def _manage(world: World, action: str, given: str) -> str:
    kind, _, name = given.partition(":")
    emulator = world.emulator
    things: Mapping[str, Any] = {
        "queue": emulator.queues,
        "schedule": emulator.schedules,
        "flow": emulator.flow_control,
    }
    if kind not in things or not name or (kind == "flow" and action == "delete"):
        expected = "queue:NAME or schedule:ID" if action == "delete" else "queue:NAME, schedule:ID or flow:KEY"
        raise ToolFailed(f"expected {expected} to {action}, got {given!r}", 'find("queues") or find("schedules")')
    await getattr(things[kind], action)(name)
    return f"{action}d"
