"""`svc-emulator destinations`: the rules that answer in place of destinations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import click

from emulator.cli.control import Control, shown
from emulator.cli.listings import ListingGroup, chosen, find_rule
from emulator.cli.options import Duration
from emulator.cli.output import Listing, WrongUsage, counted
from emulator.core.model.resources import Fault


@click.group(cls=ListingGroup, epilog="Example: svc-emulator destinations add 'https://api.example.com/*' --status 503")
def destinations() -> None:
    """List, add and remove rules that answer for destinations. Alone it lists them."""


def _does(rule: Mapping[str, Any]) -> str:
    """What a rule does, in words."""
    if "fault" in rule:
        return f"fault {rule['fault']}{_late(rule)}"
    if "forward_to" in rule:
        return f"forward to {rule['forward_to']}{_late(rule)}"
    if "sequence" in rule or "respond" in rule:
        answers = rule["sequence"] if "sequence" in rule else [rule["respond"]]
        return ", then ".join(f"answer {each['status']}{_late(each)}" for each in answers)
    return f"answer{_late(rule)}" if "latency" in rule else ""


def _disturbs(rule: Mapping[str, Any]) -> str:
    """What a rule does beside answering, and to how many attempts."""
    found = [_does(rule)]
    for name in ("duplicate", "reorder"):
        if name in rule:
            found.append(name if rule[name] is True else f"{name} {rule[name]}")
    chance = f" (chance {rule['chance']:g})" if "chance" in rule else ""
    return ", ".join(filter(None, found)) + chance


def _late(what: Mapping[str, Any]) -> str:
    latency = what.get("latency")
    if isinstance(latency, Mapping):
        return f" after {latency['min']} to {latency['max']}"
    return "" if latency is None else f" after {latency}"


_RULES = Listing(
    "destinations",
    "no destination rules",
    {
        "ID": "id",
        "METHOD": lambda rule: rule["match"].get("method", "any"),
        "URL": "{match[url]}",
        "DOES": _disturbs,
        "USED": lambda rule: f"{rule['used']} of {rule['times']}" if "times" in rule else str(rule["used"]),
    },
)


@destinations.command("list", epilog="Example: svc-emulator destinations list")
@shown(_RULES)
def list_(control: Control) -> Any:
    """List the rules in their order.

    The first that matches and has attempts left decides.
    """
    return control.call("GET", "destinations")


def _added(rule: Mapping[str, Any]) -> Iterator[str]:
    times = f", {counted(rule['times'], 'time')}" if "times" in rule else ""
    yield f"{rule['id']}: {rule['match'].get('method', 'any method')} {rule['match']['url']}: {_disturbs(rule)}{times}"


@destinations.command(
    epilog="Example: svc-emulator destinations add 'https://api.example.com/*' --status 503 --times 2"
)
@click.argument("destination", metavar="GLOB")
@click.option("--method", metavar="METHOD", help="Only for this method.")
@click.option("--status", type=click.IntRange(200, 599), help="Answer with this status. Default: 200.")
@click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="A header of the answer. Repeatable.")
@click.option("--body", metavar="TEXT", help="The body of the answer.")
@click.option(
    "--fault", type=click.Choice([fault.value for fault in Fault]), help="Fail in this way instead of answering."
)
@click.option("--forward-to", metavar="ORIGIN", help="Send to this server instead, such as http://127.0.0.1:3000.")
@click.option("--latency", type=Duration(), help="Let the answer come so much later, in virtual time.")
@click.option("--chance", type=click.FloatRange(0, 1), help="Meet this share of attempts, drawn from the seed.")
@click.option("--duplicate", is_flag=True, help="Make a delivery again.")
@click.option("--reorder", is_flag=True, help="Let an attempt leave behind others of its instant.")
@click.option("--times", type=click.IntRange(min=1), help="Decide so many attempts and no more. Default: all.")
@shown(_added)
def add(
    control: Control,
    /,
    *,
    destination: str,
    method: str | None,
    headers: tuple[str, ...],
    fault: str | None,
    forward_to: str | None,
    latency: int | None,
    chance: float | None,
    duplicate: bool,
    reorder: bool,
    times: int | None,
    **answer: Any,
) -> Any:
    """Add a rule for URLs like GLOB, behind the others.

    A * in GLOB stands for any characters. The rule answers, unless --fault or --forward-to says otherwise; with
    --duplicate or --reorder and no answer it leaves that to the destination. Sequences of answers are added
    with the control API or in fixtures.
    """
    respond = {name: value for name, value in answer.items() if value is not None}
    if headers:
        respond["headers"] = read_headers(headers)
    if bool(respond) + bool(fault) + bool(forward_to) > 1:
        raise WrongUsage("expected an answer, --fault or --forward-to, and no two of them")
    late = {} if latency is None else {"latency": latency}
    rule: dict[str, object] = {"match": {"url": destination, **({"method": method} if method else {})}}
    if fault:
        rule |= {"fault": fault, **late}
    elif forward_to:
        rule |= {"forward_to": forward_to, **late}
    elif respond or not (duplicate or reorder):
        rule["respond"] = {**respond, **late}
    else:
        rule |= late
    rule |= {name: True for name, is_wanted in (("duplicate", duplicate), ("reorder", reorder)) if is_wanted}
    if chance is not None:
        rule["chance"] = chance
    if times is not None:
        rule["times"] = times
    return control.call("POST", "destinations", rule)


def read_headers(given: tuple[str, ...]) -> dict[str, list[str]]:
    """Headers by their names. Raises WrongUsage for one without a colon."""
    found: dict[str, list[str]] = {}
    for each in given:
        name, colon, value = each.partition(":")
        if not colon or not name.strip():
            raise WrongUsage(f"--header: expected a name and a value such as 'Retry-After: 10', got {each!r}")
        found.setdefault(name.strip(), []).append(value.strip())
    return found


@destinations.command(epilog="Example: svc-emulator destinations remove rule_1")
@chosen("rules", all_help="All of them.")
@shown(lambda answer: [f"{counted(len(answer['removed']), 'destination rule')} removed"])
def remove(control: Control, *, ids: tuple[str, ...]) -> Any:
    """Remove rules.

    ID is that of a rule, the end of it (four characters or more), or its URL.
    """
    if not ids:
        rules = [rule["id"] for rule in control.call("GET", "destinations")["destinations"]]
        control.call("DELETE", "destinations")
        return {"removed": rules}
    rules = list(dict.fromkeys(find_rule(control, each)["id"] for each in ids))
    for rule_id in rules:
        control.call("DELETE", f"destinations/{quote(rule_id)}")
    return {"removed": rules}
