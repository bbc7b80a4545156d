"""`svc-emulator worlds` and `svc-emulator reset`: the worlds of a running server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from emulator.cli.clock import status_text
from emulator.cli.control import Control, json_option, on_server, on_world, show_json
from emulator.cli.values import Instant, Rate


@click.group(epilog="Example: svc-emulator worlds create --epoch 2026-01-01")
def worlds() -> None:
    """List, create and delete the worlds of a running server."""


@worlds.command("list", epilog="Example: svc-emulator worlds list")
@json_option
@on_server
def list_(control: Control, *, as_json: bool) -> None:
    """List the worlds with their clocks."""
    answer = control.call("GET", "worlds")
    if as_json:
        show_json(answer)
        return
    width = max(len(world["id"]) for world in answer["worlds"])
    for world in answer["worlds"]:
        click.echo(f"{world['id']:{width}}  {status_text(world['clock'])}  {world['clock']['pending']} pending")


@worlds.command(epilog="Example: svc-emulator worlds create team-a --seed 7 --epoch 2026-01-01T00:00:00Z")
@click.argument("id", required=False)
@click.option("--seed", type=int, help="Seeds every random choice. Default: the server's.")
@click.option("--epoch", type=Instant(), help="First instant of its clock, ISO 8601. Default: now.")
@click.option("--rate", type=Rate(), help="How fast its clock goes. Default: frozen.")
@click.option("--plan", type=click.Choice(("free", "paid")), help="Plan of its account. Default: the server's.")
@json_option
@on_server
def create(control: Control, /, *, as_json: bool, **wanted: Any) -> None:
    """Create a world, named ID or by the server. Its clock is frozen unless --rate says otherwise."""
    body = {name: value for name, value in wanted.items() if value is not None}
    world = control.call("POST", "worlds", body)
    if as_json:
        show_json(world)
        return
    _show_world(world, "created")
    click.echo(f"token: {world['credentials']['queue']['token']}")
    click.echo(f"variables: svc-emulator env --url {control.url} --world {world['id']}")


@worlds.command(epilog="Example: svc-emulator worlds delete team-a")
@click.argument("id")
@on_server
def delete(control: Control, *, id: str) -> None:
    """Delete the world ID with everything in it."""
    from urllib.parse import quote

    control.call("DELETE", f"worlds/{quote(id, safe='')}")
    click.echo(f"world {id} deleted")


@click.command(epilog="Example: svc-emulator reset --world team-a")
@json_option
@on_world
def reset(control: Control, *, as_json: bool) -> None:
    """Make a world again as it was created: same credentials, same seed."""
    world = control.call("POST", "reset")
    if as_json:
        show_json(world)
    else:
        _show_world(world, "reset")


def _show_world(world: Mapping[str, Any], done: str) -> None:
    click.echo(f"world {world['id']} {done}: clock {status_text(world['clock'])}")
