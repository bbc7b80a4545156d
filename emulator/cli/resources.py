"""`svc-emulator schedules`, `queues`, `flow-control`, `groups` and `dead-letters`: what an account has."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import click

from emulator.cli import listings
from emulator.cli.control import Control, shown
from emulator.cli.listings import ListingGroup, asked, find_schedule
from emulator.cli.options import Duration
from emulator.cli.output import CommandFailed, Listing, Row, WrongUsage, counted, end_of, one_line
from emulator.wire.times import format_duration

_argument = click.argument("schedule", metavar="ID")


@click.group(cls=ListingGroup, epilog="Example: svc-emulator schedules pause daily-report")
def schedules() -> None:
    """List, pause, resume and delete schedules. Alone it lists them."""


def _last(schedule: Mapping[str, Any]) -> str:
    if schedule["last"] is None:
        return "not yet"
    if schedule["error"]:
        return f"{schedule['last']} {click.style(schedule['error'], fg='red')}"
    states = ", ".join(dict.fromkeys(schedule["last_messages"].values())) or "deduplicated"
    return f"{schedule['last']} {states.lower().replace('_', ' ')}"


_SCHEDULES = Listing(
    "schedules",
    "no schedules",
    {
        "ID": "schedule_id",
        "CRON": "cron",
        "DESTINATION": "destination",
        "NEXT": lambda row: click.style("paused", fg="yellow") if row["paused"] else row["next"],
        "LAST": _last,
    },
)


def _schedule_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    yield from _SCHEDULES(answer)
    for each in answer["schedules"]:
        if each["firings"]:
            yield ""
            yield f"{each['schedule_id']} ({each['time_zone']}):"
            yield from (f"  {listings.firing_line(firing, each['time_zone'])}" for firing in each["firings"])


@schedules.command("list", epilog="Example: svc-emulator schedules list --firings 10")
@click.option("--firings", type=click.IntRange(0, 100), help="Also the next so many firings of each, in its zone.")
@shown(_schedule_lines)
def list_schedules(control: Control, *, firings: int | None) -> Any:
    """List the schedules with their last and next firings."""
    return control.call("GET", "schedules", query={"firings": str(firings)} if firings else None)


def _changed(schedule: Mapping[str, Any]) -> Iterator[str]:
    then = "is paused" if schedule["paused"] else f"fires next at {schedule['next']}"
    yield f"schedule {schedule['schedule_id']} to {schedule['destination']} {then}"


@schedules.command(epilog="Example: svc-emulator schedules pause daily-report")
@_argument
@shown(_changed)
def pause(control: Control, *, schedule: str) -> Any:
    """Pause the schedule ID: it does not fire before it is resumed."""
    return _act(control, schedule, "PATCH", "/pause")


@schedules.command(epilog="Example: svc-emulator schedules resume daily-report")
@_argument
@shown(_changed)
def resume(control: Control, *, schedule: str) -> Any:
    """Resume the schedule ID. What it would have fired meanwhile is not made up for."""
    return _act(control, schedule, "PATCH", "/resume")


@schedules.command("delete", epilog="Example: svc-emulator schedules delete daily-report")
@_argument
@shown(lambda each: [f"schedule {each['schedule_id']} to {each['destination']} deleted"])
def delete_schedule(control: Control, *, schedule: str) -> Any:
    """Delete the schedule ID. Messages that it has made are still delivered."""
    return _act(control, schedule, "DELETE", "")


def _act(control: Control, text: str, method: str, action: str) -> Any:
    """Call an operation of the schedule that is meant; its entry afterwards, or as it was if it is gone."""
    found = find_schedule(control, text)
    ids = found["account_id"], found["schedule_id"]
    control.of_service(method, f"/v2/schedules/{quote(ids[1])}{action}", ids[0])
    after = control.call("GET", "schedules")["schedules"]
    return next((each for each in after if (each["account_id"], each["schedule_id"]) == ids), found)


def _waiting(row: Mapping[str, Any]) -> str:
    if not row["waiting"]:
        return "nobody"
    first = " ".join(end_of(message_id) for message_id in row["next_in_line"][:3])
    return f"{row['waiting']}: {first}{' ...' if row['waiting'] > 3 else ''}"


def _state(row: Mapping[str, Any]) -> str:
    return click.style("paused", fg="yellow") if row["paused"] else "runs"


_QUEUES = Listing(
    "queues",
    "no queues",
    {
        "NAME": "name",
        "STATE": _state,
        "SLOTS": lambda row: f"{len(row['holders'])}/{row['parallelism']}",
        "LAG": "lag",
        "WAITING": _waiting,
    },
)


@click.group(cls=ListingGroup, epilog="Example: svc-emulator queues pause billing")
def queues() -> None:
    """List, pause, resume and set queues. Alone it lists them."""


@queues.command("list", epilog="Example: svc-emulator queues list --json")
@shown(_QUEUES)
def list_queues(control: Control) -> Any:
    """List the queues: paused or not, messages, who waits.

    All accounts' queues, with the slots that are taken and the messages that have not ended.
    """
    return control.call("GET", "queues")


class _Kind(NamedTuple):
    """What has a name, waits and can be paused."""

    noun: str
    # Its list in the shell and in the control API, where its entries are in that, and what its name is called.
    path: str
    rows: str
    field: str
    # The path of its operations.
    operations: str


_QUEUE = _Kind("queue", "queues", "queues", "name", "/v2/queues")
_KEY = _Kind("flow control key", "flow-control", "keys", "key", "/v2/flowControl")


def _find(control: Control, kind: _Kind, name: str) -> Row | None:
    """The entry of what has this name, None without one. Raises CommandFailed if several accounts have one."""
    rows: list[Row] = [row for row in control.call("GET", kind.path)[kind.rows] if row[kind.field] == name]
    if len(rows) > 1:
        accounts = ", ".join(sorted(row["account_id"] for row in rows))
        raise CommandFailed(f"several accounts have {name!r}: {accounts}", next="svc-emulator env")
    return next(iter(rows), None)


def _act_on(control: Control, kind: _Kind, name: str, operation: str, *, is_made: bool = False) -> Any:
    """Call an operation of what has this name, which `is_made` if there is none (D-760); its entry afterwards."""
    found = _find(control, kind, name)
    if found is None and not is_made:
        raise CommandFailed(f"{kind.noun} {name} not found", next=f"svc-emulator {kind.path} list")
    account_id = control.own_account() if found is None else found["account_id"]
    control.of_service("POST", f"{kind.operations}/{quote(name, safe='')}/{operation}", account_id)
    return _find(control, kind, name)


def _queue_now(row: Row) -> Iterator[str]:
    state = "is paused" if row["paused"] else "runs"
    yield f"queue {row['name']} {state}, {counted(row['parallelism'], 'slot')}, {counted(row['lag'], 'message')}"


@queues.command("pause", epilog="Example: svc-emulator queues pause billing")
@click.argument("name")
@shown(_queue_now)
def pause_queue(control: Control, *, name: str) -> Any:
    """Pause the queue NAME.

    It takes messages, and delivers none before it is resumed.
    """
    return _act_on(control, _QUEUE, name, "pause")


@queues.command("resume", epilog="Example: svc-emulator queues resume billing")
@click.argument("name")
@shown(_queue_now)
def resume_queue(control: Control, *, name: str) -> Any:
    """Resume the queue NAME with its earliest message."""
    return _act_on(control, _QUEUE, name, "resume")


@queues.command("set", epilog="Example: svc-emulator queues set billing --parallelism 2")
@click.argument("name")
@click.option(
    "--parallelism",
    type=click.INT,
    help="How many of its messages may be under way at once. Default: as it is, 1 for a new one.",
)
@click.option("--paused/--running", default=None, help="Pause or resume it as well. Default: as it is.")
@shown(_queue_now)
def set_queue(control: Control, *, name: str, parallelism: int | None, paused: bool | None) -> Any:
    """Set the queue NAME, which is made if there is none."""
    before = _find(control, _QUEUE, name) or {"account_id": control.own_account(), "parallelism": 1, "paused": False}
    wanted = {
        "queueName": name,
        "parallelism": before["parallelism"] if parallelism is None else parallelism,
        "paused": before["paused"] if paused is None else paused,
    }
    content, headers = json.dumps(wanted).encode(), {"Content-Type": "application/json"}
    control.of_service("POST", _QUEUE.operations, before["account_id"], content=content, headers=headers)
    return _find(control, _QUEUE, name)


def _parallelism(key: Mapping[str, Any]) -> str:
    if key["parallelism"] is None:
        return str(key["active"])
    return f"{key['active']}/{key['parallelism']}{' pinned' if key['pinned_parallelism'] else ''}"


def _rate(key: Mapping[str, Any]) -> str:
    if key["rate"] is None:
        return ""
    per = f"{key['rate_count']}/{key['rate']} per {format_duration(key['period_ms'])}"
    return per + (" pinned" if key["pinned_rate"] else "")


_KEYS = Listing(
    "keys",
    "no flow control keys",
    {
        "KEY": "key",
        "STATE": _state,
        "PARALLELISM": _parallelism,
        "RATE": _rate,
        "LAG": "lag",
        "WAITING": _waiting,
    },
)


def _key_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    yield from _KEYS(answer)
    for each in answer["global"]:
        if each["active"] or each["waiting"]:
            taken = f"{each['active']} of {each['parallelism']} attempts under way, {each['waiting']} wait"
            yield f"account {each['account_id']}: {taken}"


@click.group("flow-control", cls=ListingGroup, epilog="Example: svc-emulator flow-control pin user-7 --rate 1")
def flow_control() -> None:
    """List, pause, resume, pin and reset flow control keys. Alone it lists them."""


@flow_control.command("list", epilog="Example: svc-emulator flow-control list")
@shown(_key_lines)
def list_keys(control: Control) -> Any:
    """List the flow control keys: limits, use, who waits."""
    return control.call("GET", "flow-control")


def _key_now(row: Row) -> Iterator[str]:
    state = "is paused" if row["paused"] else "runs"
    limits = f"parallelism {_parallelism(row)}, rate {_rate(row) or 'without a limit'}"
    yield f"key {row['key']} {state}, {limits}, {counted(row['waiting'], 'message')} waiting"


@flow_control.command("pause", epilog="Example: svc-emulator flow-control pause user-7")
@click.argument("key")
@shown(_key_now)
def pause_key(control: Control, *, key: str) -> Any:
    """Pause KEY: its messages wait.

    A key that is not there is made.
    """
    return _act_on(control, _KEY, key, "pause", is_made=True)


@flow_control.command("resume", epilog="Example: svc-emulator flow-control resume user-7")
@click.argument("key")
@shown(_key_now)
def resume_key(control: Control, *, key: str) -> Any:
    """Resume KEY."""
    return _act_on(control, _KEY, key, "resume")


@flow_control.command("pin", epilog="Example: svc-emulator flow-control pin user-7 --rate 1 --period 1d")
@click.argument("key")
@click.option("--parallelism", type=click.INT, help="How many of its attempts may be under way at once.")
@click.option("--rate", type=click.INT, help="How many of its attempts may begin in a period.")
@click.option("--period", type=Duration(), help="The period of the rate, such as 1m, in whole seconds.")
@shown(_key_now)
def pin_key(control: Control, /, *, key: str, period: int | None, **limits: int | None) -> Any:
    """Pin limits of KEY, which win over those of messages.

    A key that is not there is made.
    """
    if period is not None:
        if period % 1000:
            raise WrongUsage("--period: expected whole seconds")
        limits["period"] = period // 1000
    given = {name: str(value) for name, value in limits.items() if value is not None}
    if not given:
        raise WrongUsage("expected at least one of --parallelism, --rate and --period")
    return _act_on(control, _KEY, key, f"pin?{urlencode(given)}", is_made=True)


@flow_control.command("unpin", epilog="Example: svc-emulator flow-control unpin user-7")
@click.argument("key")
@shown(_key_now)
def unpin_key(control: Control, *, key: str) -> Any:
    """Let messages set the limits of KEY again.

    They stay as they are until one does.
    """
    return _act_on(control, _KEY, key, "unpin?parallelism=true&rate=true")


@flow_control.command("reset", epilog="Example: svc-emulator flow-control reset user-7")
@click.argument("key")
@shown(_key_now)
def reset_key(control: Control, *, key: str) -> Any:
    """Count the attempts of KEY from 0 again.

    Those under way and those of this period.
    """
    return _act_on(control, _KEY, key, "reset")


_ENDPOINTS = Listing("endpoints", "no URL groups", {"NAME": "group", "ENDPOINT": "name", "URL": "url"})


def _group_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        {"group": "" if number else group["name"], "name": endpoint["name"] or "", "url": endpoint["url"]}
        for group in answer["url_groups"]
        for number, endpoint in enumerate(group["endpoints"] or [{"name": None, "url": "no endpoints"}])
    ]
    return _ENDPOINTS({"endpoints": rows})


@click.command(epilog="Example: svc-emulator groups")
@shown(_group_lines)
def groups(control: Control) -> Any:
    """List the URL groups of all accounts with their endpoints."""
    return control.call("GET", "url-groups")


@click.group("dead-letters", cls=ListingGroup, epilog="Example: svc-emulator dead-letters retry EPibtvEg")
def dead_letters() -> None:
    """List, retry and delete what has failed for good. Alone it lists them.

    That are messages, and workflow runs, which `runs resume` and `runs restart` begin again.
    """


def _why_dead(row: Row) -> str:
    """How the last attempt went; of a run, which call failed, and what its endpoint said."""
    said = f": {one_line(row['excerpt'])}" if row["excerpt"] else ""
    return f"{row['where']} {row['last_result']}{said}" if row["kind"] == "run" else str(row["last_result"])


_DEAD_LETTERS = Listing(
    "dead_letters",
    "no dead letters",
    {
        "ID": "dead_letter_id",
        "FAILED": "failed",
        "OF": lambda row: f"{row['kind']} {row.get('workflow_run_id') or end_of(row['message_id'])}",
        "DESTINATION": "url",
        "LAST": _why_dead,
    },
    newest_first=True,
)


@dead_letters.command("list", epilog="Example: svc-emulator dead-letters list --label nightly")
@click.option("--kind", type=click.Choice(["message", "run"]), help="Only messages, or only workflow runs.")
@listings.to_option("messages")
@listings.label_option
@listings.limit_option
@shown(_DEAD_LETTERS)
def list_dead_letters(control: Control, /, *, limit: int, **wanted: Any) -> Any:
    """List the dead letters of all accounts, the newest last."""
    return control.entries("dead-letters", "dead_letters", asked(wanted), limit)


_chosen = listings.chosen("dead letters", all_help="All that there are now.")


def _retried(answer: Mapping[str, Any]) -> Iterator[str]:
    for each in answer["retried"]:
        yield f"dead letter {each['dead_letter_id']} is published again as {each['message_id']}"
    if not answer["retried"]:
        yield "no dead letters"


@dead_letters.command(epilog="Example: svc-emulator dead-letters retry --all")
@_chosen
@shown(_retried)
def retry(control: Control, *, ids: tuple[str, ...]) -> Any:
    """Publish dead letters again, each as a new message.

    ID is that of the dead letter or of its message, the end of either, or a URL or label that no other has. --all
    leaves those of workflow runs: `runs resume` and `runs restart` begin a run again.
    """
    letters = _resolve(control, ids, kind="message")
    for letter in letters:
        if letter["kind"] == "run":
            run = letter["workflow_run_id"]
            again = f"svc-emulator runs resume {shlex.quote(run)}, or runs restart"
            raise CommandFailed(f"{letter['dead_letter_id']} is of run {run}", next=again)
    retried = []
    for letter in letters:
        made = control.of_service("POST", f"/v2/dlq/retry/{quote(letter['dead_letter_id'])}", letter["account_id"])
        retried.append({"dead_letter_id": letter["dead_letter_id"], "message_id": made["messageId"]})
    return {"retried": retried}


@dead_letters.command(epilog="Example: svc-emulator dead-letters delete EPibtvEg")
@_chosen
@shown(lambda answer: [f"{counted(len(answer['deleted']), 'dead letter')} deleted"])
def delete(control: Control, *, ids: tuple[str, ...]) -> Any:
    """Delete dead letters, also those of workflow runs.

    ID is as for `retry`, or that of a run.
    """
    letters = _resolve(control, ids)
    for letter in letters:
        queue = "/v2/workflows/dlq" if letter["kind"] == "run" else "/v2/dlq"
        control.of_service("DELETE", f"{queue}/{quote(letter['dead_letter_id'])}", letter["account_id"])
    return {"deleted": [letter["dead_letter_id"] for letter in letters]}


def _resolve(control: Control, ids: Sequence[str], **wanted: str) -> Sequence[Row]:
    """The dead letters that were named, without ids all that are wanted, the oldest first. Raises CommandFailed."""
    if ids:
        found = (listings.find_dead_letter(control, each) for each in ids)
        return list({letter["dead_letter_id"]: letter for letter in found}.values())
    letters: list[Row] = control.entries("dead-letters", "dead_letters", wanted)["dead_letters"]
    return letters[::-1]
