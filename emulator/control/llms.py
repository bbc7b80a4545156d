"""`/llms.txt` and `/llms-full.txt`: what a coding agent reads about this emulator, first in short, then as a whole.

The files in `docs/` are made by `python -m emulator.cli.llms`, from the commands and the contract. The handbook is
the beginning of the second.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.responses import PlainTextResponse, Response

from emulator import resources
from emulator.control.call import ControlCall, ControlPolicy, ControlRoute

SHORT = ("docs", "llms.txt")
REFERENCE = ("docs", "llms-reference.md")
# What a user reads; the how-tos, in the folder of that name, follow.
_HANDBOOK = ("start.md", "tutorial.md", "concepts.md", "symptoms.md", "coming-from.md")

# D-709.
_READ = ControlPolicy(needs_token=False)


def short_text() -> str:
    """The contents, at most 60 lines."""
    return resources.path(*SHORT).read_text("utf-8")


def handbook() -> tuple[Path, ...]:
    """The pages of the handbook."""
    return (
        *(resources.path("docs", name) for name in _HANDBOOK),
        *sorted(resources.path("docs", "howto").glob("*.md")),
    )


def full_text() -> str:
    """The handbook, all commands, and all calls of the control API."""
    pages = (*handbook(), resources.path(*REFERENCE))
    return "\n".join(["# svc-emulator\n", *(_without_front(path.read_text("utf-8")) for path in pages)])


def _without_front(page: str) -> str:
    """A page without the settings at its beginning."""
    return page.split("\n---\n", 1)[-1] if page.startswith("---\n") else page


async def get_short(call: ControlCall) -> Response:
    return PlainTextResponse(await asyncio.to_thread(short_text))


async def get_full(call: ControlCall) -> Response:
    return PlainTextResponse(await asyncio.to_thread(full_text))


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/llms.txt", get_short, _READ),
    ControlRoute("GET", "/llms-full.txt", get_full, _READ),
)
