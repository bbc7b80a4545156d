"""`svc-emulator runs` and `notify`: workflow runs, what became of them, and what can be done with them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import click

from emulator.cli.control import Control, shown
from emulator.cli.listings import ListingGroup, asked, find_run, limit_option, to_option
from emulator.cli.output import (
    CommandFailed,
    Listing,
    Row,
    columns,
    one_line,
    status_of,
    styled_state,
    styled_status,
)
from emulator.core.model.workflows import RunState
from emulator.wire.times import format_duration

# The states by the word that a person types.
_STATES = {state.value.removeprefix("RUN_").lower(): state.value for state in RunState}
_argument = click.argument("run", metavar="ID")


@click.group(cls=ListingGroup, epilog="Example: svc-emulator runs show wfr_onboarding-7")
def runs() -> None:
    """List, show, cancel, resume and restart workflow runs.

    Alone it lists them. ID is a run's id, the end of it (four characters or more), or a URL or label that no other
    run has; of several runs with one id the latest is meant.
    """


def _lasted(run: Row) -> str:
    return "" if run["ended_ms"] is None else format_duration(run["ended_ms"] - run["created_ms"])


_RUNS = Listing(
    "runs",
    "no runs",
    {
        "ID": "id",
        "BEGAN": "created",
        "STATE": lambda row: styled_state(row["state"]),
        "LASTED": _lasted,
        "ENDPOINT": "url",
        "LABELS": lambda row: ", ".join(row["labels"]),
        "RESULT": lambda row: one_line(row["result"] or ""),
    },
    newest_first=True,
)


def _listed(answer: Mapping[str, Any]) -> Iterator[str]:
    yield from _RUNS(answer)
    count = answer["count"]
    if answer["cursor"]:
        # The list says which are shown; this says which there are.
        states = ", ".join(f"{number} {name}" for name, number in count.items() if number)
        yield click.style(f"{sum(count.values())} fit in any state: {states}", dim=True)


@runs.command("list", epilog="Example: svc-emulator runs list --state failed --to 'https://app.example.com/*'")
@to_option("runs")
@click.option("--state", type=click.Choice(list(_STATES)), help="Only runs in this state.")
@click.option("--label", metavar="LABEL", help="Only runs that have this label.")
@click.option("--text", metavar="TEXT", help="Only runs with this in their id, URL or a label, in any case.")
@limit_option
@shown(_listed)
def list_runs(control: Control, /, *, state: str | None, limit: int, **wanted: Any) -> Any:
    """List the workflow runs of all accounts, the newest last."""
    query = asked({**wanted, "state": None if state is None else _STATES[state], "count": "true"})
    return control.entries("runs", "runs", query, limit)


# -- one run ------------------------------------------------------------------------------------


def run_shown(control: Control, run_id: str, *, originals: bool) -> dict[str, Any]:
    """A run with its steps, and the last answers to the call that failed it and to its failure function's."""
    redact = str(not originals).lower()
    run = control.call("GET", f"runs/{quote(run_id, safe='')}", query={"redact": redact})
    calls = {"failure": run["failure"], "failure_function": run["failure_function"]}
    found = {}
    for name, call in calls.items():
        query = {"order": "latestFirst", "limit": "1", "redact": redact}
        if call is not None:
            page = control.call("GET", "deliveries", query={**query, "message_id": call["message_id"]})
            found[name] = next(iter(page["deliveries"]), None)
    return {"run": run, "answers": found}


def run_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """A run as a person reads it: its state, its steps with their instants, what failed and was answered."""
    run, answers = found["run"], found["answers"]
    yield run["id"]
    yield run["url"]
    yield f"{styled_state(run['state'])}  {run['summary']}"
    for name, value in {
        "labels": ", ".join(run["labels"]),
        "payload": one_line(run["payload"]),
        "result": one_line(run["result"] or ""),
        "invoked by": run["invoked_by"],
        "dead letter": run["dead_letter_id"] if "resume" in run["actions"] else None,
    }.items():
        if value:
            yield f"{name}: {value}"
    rows = [_step(step, is_parallel=group["parallel"]) for group in run["steps"][1:] for step in group["steps"]]
    if rows:
        yield ""
        yield from columns([[click.style(each, bold=True) for each in ("BEGAN", "LASTED", "STATE", "STEP")], *rows])
    if run["failure"] is not None:
        yield ""
        yield click.style(f"{run['failure']['where']} failed (message {run['failure']['message_id']})", bold=True)
        yield from _answer(answers.get("failure"))
    if run["failure_function"] is not None:
        function = run["failure_function"]
        yield ""
        phase = styled_state(function["phase"])
        yield f"{click.style('failure function', bold=True)} {phase} (message {function['message_id']})"
        yield from _answer(answers.get("failure_function"))
    actions = "|".join(each for each in run["actions"] if each != "delete")
    if actions:
        yield ""
        yield f"what can be done: svc-emulator runs {actions} {run['id']}"


_STEP_COLOURS = {"SUCCESS": "green", "FAILED": "red", "RETRY": "yellow", "PROGRESS": "yellow"}


def _step(step: Row, *, is_parallel: bool) -> list[str]:
    state = step["state"].removeprefix("STEP_")
    lasted = "" if step["ended_ms"] is None else format_duration(step["ended_ms"] - step["at_ms"])
    beside = "| " if is_parallel else ""
    out = "" if step["out"] in (None, "null") else f": {one_line(step['out'])}"
    state_text = click.style(state, fg=_STEP_COLOURS.get(state))
    return [step["at"], lasted, state_text, f"{beside}{step['name']} ({step['type']}){out}"]


def _answer(delivery: Row | None) -> Iterator[str]:
    if delivery is None:
        yield "< the attempt is not kept any more"
        return
    response = delivery["response"]
    yield f"< {styled_status(status_of(response), delivery['error'])}"
    if response is None:
        return
    text = response["body"] if response["body"] is not None else "(bytes that are no text: show has them)"
    yield from (f"< {line}" for line in text.split("\n") if text)


@runs.command(epilog="Example: svc-emulator runs show boarding-7")
@_argument
@click.option("--originals", is_flag=True, help="Show what the service's logs hide (Redact-Fields).")
@shown(run_lines)
def show(control: Control, *, run: str, originals: bool) -> Any:
    """Show a run: steps, what it waits for, what failed it.

    `explain` shows the same as a chain of instants, `show` of a message has the requests and answers whole.
    """
    return run_shown(control, find_run(control, run)["id"], originals=originals)


def run_line(run: Row) -> str:
    """A run with its state."""
    return f"run {run['id']} at {run['url']}: {styled_state(run['state'])}"


def _shown(run: Row) -> str:
    """The command that shows a run."""
    return f"svc-emulator runs show {shlex.quote(run['id'])}"


def cancel_run(control: Control, run: Row) -> Any:
    """Cancel an active run as its account would; its entry afterwards. Raises CommandFailed for one that has ended."""
    if run["ended"] is not None:
        raise CommandFailed(f"run {run['id']} has ended: {run['state']} at {run['ended']}", next=_shown(run))
    control.of_service("DELETE", f"/v2/workflows/runs/{quote(run['id'], safe='')}", run["account_id"])
    return find_run(control, run["id"])


@runs.command(epilog="Example: svc-emulator runs cancel wfr_onboarding-7")
@_argument
@shown(lambda run: [run_line(run)])
def cancel(control: Control, *, run: str) -> Any:
    """Cancel the active run ID. Its failure function is not called."""
    return cancel_run(control, find_run(control, run))


def _begun(answer: Row) -> Iterator[str]:
    what = {
        "resume": "continues as run",
        "restart": "begins again as run",
        "callback": "calls its failure function: run",
    }
    yield f"run {answer['failed_run_id']} {what[answer['action']]} {answer['workflow_run_id']}"


def _again(control: Control, text: str, action: str) -> dict[str, Any]:
    """Carry out an action on the dead letter of a failed run. Raises CommandFailed if it has none."""
    run = find_run(control, text)
    actions = control.call("GET", f"runs/{quote(run['id'], safe='')}")["actions"]
    if "resume" not in actions:
        why = (
            "was resumed, restarted or deleted already" if run["dead_letter_id"] else f"has not failed: {run['state']}"
        )
        raise CommandFailed(f"run {run['id']} {why}", next=_shown(run))
    if action == "callback" and "retry-failure" not in actions:
        raise CommandFailed(f"no failure function of run {run['id']} has failed", next=_shown(run))
    path = f"/v2/workflows/dlq/{action}/{quote(run['dead_letter_id'])}"
    made = control.of_service("POST", path, run["account_id"])
    return {"failed_run_id": run["id"], "action": action, "workflow_run_id": made["workflowRunId"]}


@runs.command(epilog="Example: svc-emulator runs resume wfr_onboarding-7")
@_argument
@shown(_begun)
def resume(control: Control, *, run: str) -> Any:
    """Resume the failed run ID from the call that failed.

    That makes a new run, which takes over the steps that are done.
    """
    return _again(control, run, "resume")


@runs.command(epilog="Example: svc-emulator runs restart wfr_onboarding-7")
@_argument
@shown(_begun)
def restart(control: Control, *, run: str) -> Any:
    """Restart the failed run ID from its beginning.

    That makes a new run with the same payload.
    """
    return _again(control, run, "restart")


@runs.command("retry-failure", epilog="Example: svc-emulator runs retry-failure wfr_onboarding-7")
@_argument
@shown(_begun)
def retry_failure(control: Control, *, run: str) -> Any:
    """Call the failure function of run ID again."""
    return _again(control, run, "callback")


# -- events -------------------------------------------------------------------------------------


def _notified(answer: Mapping[str, Any]) -> Iterator[str]:
    for each in answer["notified"]:
        yield f"run {each['workflow_run_id']} continues after {answer['event_id']} (message {each['message_id']})"
    if not answer["notified"]:
        yield f"{answer['event_id']} is kept for run {answer['run_id']} until that waits for it"


@click.command(epilog="Example: svc-emulator notify order-7-paid --body '{\"paid\": true}'")
@click.argument("event_id")
@click.option("--body", default="", metavar="TEXT", help="What the event carries. Default: nothing.")
@click.option("--run", metavar="ID", help="Only this run, which may come to wait for it later. Default: all that wait.")
@shown(_notified)
def notify(control: Control, *, event_id: str, body: str, run: str | None) -> Any:
    """Notify workflow runs of an event that they wait for.

    Without --run it fails if no run waits: the event would be lost. ID of a run as for `runs`.
    """
    event = quote(event_id, safe="")
    if run is not None:
        row = find_run(control, run)
        run = row["id"]
        paths = {row["account_id"]: f"/v2/notify/{quote(run, safe='')}/{event}"}
    else:
        accounts = [each["id"] for each in control.call("GET", "accounts")["accounts"]]
        waiting = [each for each in accounts if control.of_service("GET", f"/v2/waiters/{event}", each)]
        if not waiting:
            text = f"no run waits for {event_id!r}"
            raise CommandFailed(text, next="svc-emulator runs show ID, which says what a run waits for")
        paths = dict.fromkeys(waiting, f"/v2/notify/{event}")
    headers = {"Content-Type": content_type_of(body)}
    made = [
        each
        for account_id, path in paths.items()
        for each in control.of_service("POST", path, account_id, content=body.encode(), headers=headers)
    ]
    notified = [{"workflow_run_id": each["workflowRunId"], "message_id": each["messageId"]} for each in made]
    return {"event_id": event_id, "run_id": run, "notified": notified}


def content_type_of(text: str | bytes) -> str:
    """What a body is sent as, of which nothing else is said: JSON if it is any."""
    try:
        json.loads(text)
    except ValueError:
        return "text/plain; charset=utf-8"
    return "application/json"
