"""`svc-emulator mcp` and `agent`: tools and texts for coding agents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from emulator.agents import skill
from emulator.cli.control import Control, on_world
from emulator.cli.output import CommandFailed, answered

if TYPE_CHECKING:
    from emulator.client.aio.emulator import AsyncEmulator


@click.command(epilog="Example: svc-emulator mcp --start")
@click.option("--start", is_flag=True, help="Start a server with a frozen clock for as long as this runs.")
@on_world
def mcp(control: Control, *, start: bool) -> None:
    """Serve twelve tools to an MCP client on stdin and stdout.

    They talk to a running server, or with --start to one of their own. It needs the extra svc-emulator[mcp]. A
    client's configuration names the command `svc-emulator` with the arguments `mcp` and these options.
    """
    try:
        import mcp.server  # noqa: F401
    except ImportError as error:
        raise CommandFailed("the package mcp is missing", next="pip install 'svc-emulator[mcp]'") from error
    from emulator.client.errors import EmulatorError

    try:
        asyncio.run(_serve(control, start=start))
    except EmulatorError as error:
        raise CommandFailed(str(error), next="svc-emulator serve, or svc-emulator mcp --start") from error


async def _serve(control: Control, *, start: bool) -> None:
    from emulator.agents.server import serve
    from emulator.agents.tool import Connection
    from emulator.client.aio.emulator import AsyncEmulator

    emulator: AsyncEmulator
    if start:
        emulator = AsyncEmulator()
    else:
        verify: Any = True
        if control.ca is not None:
            from emulator.client.control import trusted

            verify = trusted(control.ca)
        emulator = AsyncEmulator.connect(control.url, control_token=control.token, world=control.world, verify=verify)
    async with emulator:
        await serve(Connection(emulator))


@click.group(epilog="Example: svc-emulator agent setup --client claude --dry-run")
def agent() -> None:
    """Prepare a project for coding agents."""


def _told(found: Mapping[str, Any]) -> Iterator[str]:
    for each in found["files"]:
        yield f"{each['done']}: {each['path']}"
        if each["content"] is not None:
            yield from each["content"].splitlines()


@agent.command(epilog="Example: svc-emulator agent setup --client cursor --dry-run")
@click.option(
    "--client",
    "clients",
    type=click.Choice(tuple(skill.PLACES)),
    multiple=True,
    help="The agent; may be repeated. Default: those that this project has a folder of, else claude.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing, only show what would be written.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=".",
    help="The project. Default: here.",
)
@answered(_told)
def setup(*, clients: tuple[str, ...], dry_run: bool, folder: Path) -> dict[str, Any]:
    """Write a skill file for coding agents into the project.

    What the emulator is, the loop of working with it, ten examples, exit codes. What was written is shown. A file
    that this command did not write stays as it is, and is reported, with exit code 1.
    """
    chosen = clients or tuple(
        name for name, place in skill.PLACES.items() if (folder / Path(place.path).parts[0]).is_dir()
    )
    plans = [skill.plan(client, folder) for client in chosen or ("claude",)]
    blocked = [each for each in plans if each.why_not is not None]
    if blocked:
        texts = [str(each.why_not) for each in blocked]
        raise CommandFailed(
            *texts, next="move it away, or see what would be written with --dry-run in another --folder"
        )
    done = []
    for each in plans:
        said = "unchanged" if each.is_same else "would write" if dry_run else "wrote"
        if not each.is_same and not dry_run:
            try:
                skill.write(each)
            except OSError as error:
                text = f"{each.path}: cannot be written: {error.strerror}"
                raise CommandFailed(text, next="another --folder") from error
        content = None if each.is_same else each.content
        done.append({"client": each.client, "path": str(each.path), "done": said, "content": content})
    return {"files": done}
