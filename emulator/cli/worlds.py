"""`svc-emulator worlds` and `svc-emulator reset`: the worlds of a running server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import click

from emulator.cli.clock import status_text
from emulator.cli.control import Control, on_server, on_world
from emulator.cli.options import Instant, Rate
from emulator.cli.output import answered, columns


@click.group(epilog="Example: svc-emulator worlds create --epoch 2026-01-01")
def worlds() -> None:
    """List, create, fork and delete the worlds of a server."""


def _listed(answer: Mapping[str, Any]) -> Iterator[str]:
    clocks = {world["id"]: world["clock"] for world in answer["worlds"]}
    return columns([(id, f"{status_text(clock)}  {clock['pending']} pending") for id, clock in clocks.items()])


def _created(world: Mapping[str, Any]) -> Iterator[str]:
    url = click.get_current_context().params["url"]
    yield f"world {world['id']} created: clock {status_text(world['clock'])}"
    yield f"token: {world['credentials']['queue']['token']}"
    yield f"variables: svc-emulator env --url {url} --world {world['id']}"


def _was_reset(world: Mapping[str, Any]) -> Iterator[str]:
    yield f"world {world['id']} reset: clock {status_text(world['clock'])}"


@worlds.command("list", epilog="Example: svc-emulator worlds list")
@answered(_listed)
@on_server
def list_(control: Control) -> Any:
    """List the worlds with their clocks."""
    return control.call("GET", "worlds")


@worlds.command(epilog="Example: svc-emulator worlds create team-a --seed 7 --epoch 2026-01-01T00:00:00Z")
@click.argument("id", required=False)
@click.option("--seed", type=int, help="Seeds every random choice. Default: the server's.")
@click.option("--epoch", type=Instant(), help="First instant of its clock, ISO 8601. Default: now.")
@click.option("--rate", type=Rate(), help="How fast its clock goes. Default: frozen.")
@click.option("--plan", type=click.Choice(("free", "paid")), help="Plan of its account. Default: the server's.")
@click.option("--token", help="Token of its account, 8 characters or more. Default: one that follows from the seed.")
@click.option("--chaos", type=click.FloatRange(0, 1), help="How much goes wrong, from 0 to 1. Default: the server's.")
@answered(_created)
@on_server
def create(control: Control, /, **wanted: Any) -> Any:
    """Create a world, named ID or by the server. Its clock is frozen unless --rate says otherwise."""
    return control.call("POST", "worlds", {name: value for name, value in wanted.items() if value is not None})


@worlds.command(epilog="Example: svc-emulator worlds fork what-if --world team-a")
@click.argument("id", required=False)
@click.option("--token", help="Token of its account, 8 characters or more. Default: one that follows from the seed.")
@answered(_created)
@on_world
def fork(control: Control, /, **wanted: Any) -> Any:
    """Make a second world that goes on from where --world is.

    It is named ID, or by the server. It has the same state, pending work, history and clock, and tokens of its own.
    """
    given = {name: value for name, value in wanted.items() if value is not None}
    return control.call("POST", f"worlds/{quote(control.world, safe='')}/fork", given)


@worlds.command(epilog="Example: svc-emulator worlds delete team-a")
@click.argument("id")
@on_server
def delete(control: Control, *, id: str) -> None:
    """Delete the world ID with everything in it."""
    control.call("DELETE", f"worlds/{quote(id, safe='')}")
    click.echo(f"world {id} deleted")


@click.command(epilog="Example: svc-emulator reset --world team-a")
@answered(_was_reset)
@on_world
def reset(control: Control) -> Any:
    """Make a world again as it was created.

    Credentials and seed are the same. Its clock stands at its epoch again, or, if none was given, at the present.
    """
    return control.call("POST", "reset")
