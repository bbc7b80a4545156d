"""Writes what `/llms.txt` and `/llms-full.txt` show: the commands from their own help, and the control API's calls.

python -m emulator.cli.llms            # writes docs/llms.txt and docs/llms-reference.md
python -m emulator.cli.llms --check    # fails if that would change them
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click

from emulator import resources
from emulator.agents.skill import EXIT_CODES, LOOP
from emulator.agents.tools import TOOLS
from emulator.cli import SECTIONS, main
from emulator.contract import files
from emulator.control.pages import REFERENCE, SHORT

_CONTENTS = """\
# svc-emulator

> A local emulator of an HTTP message-scheduling service (publish, delays, retries, schedules, queues, URL groups,
> callbacks, dead letters, workflows) with a virtual clock that you move. Deliveries are real, signed HTTP requests.

## The loop

{loop}

## Commands

`svc-emulator COMMAND --help` explains one with an example; `--json` prints the control API's answer as it is.

{commands}

## Exit codes

{codes}

## More

- [/llms-full.txt](/llms-full.txt): the handbook, every command and option, every call of the control API
- [/_emulator/contract](/_emulator/contract): the OpenAPI contract; `?api=messaging`, `management` or `control`
- [/_emulator/reference](/_emulator/reference): the same as a page
- `svc-emulator agent setup`: writes a skill file for this project; `svc-emulator mcp`: the tools for MCP clients
"""


def short_text() -> str:
    """The contents: at most 60 lines."""
    commands = "\n".join(
        f"- {heading}: {', '.join(f'`{name}`' for name in names)}" for heading, names in SECTIONS.items()
    )
    codes = "\n".join(f"- {code}: {meaning}" for code, meaning in EXIT_CODES.items())
    loop = "\n".join(f"{number}. {step}" for number, step in enumerate(LOOP, start=1))
    return _CONTENTS.format(loop=loop, commands=commands, codes=codes)


def reference_text() -> str:
    """Every command with its options, the JSON of its answer, the control API, the tools for MCP clients."""
    context = click.Context(main, info_name="svc-emulator")
    tools = [
        f"- `{tool.tool}({', '.join(tool.__struct_fields__)})`: {' '.join((tool.__doc__ or '').split())}"
        for tool in TOOLS
    ]
    parts = [
        _FRONT,
        "# Commands\n",
        *_commands(main, context),
        _JSON,
        "# Control API\n",
        *_operations(),
        "# Tools for MCP clients\n",
        *tools,
        "",
    ]
    return "\n".join(parts)


# The book's tests want to know why no snippet of a page is run.
_FRONT = '---\nuntested: "It is made from the commands and the contract."\n---\n'
_JSON = """\
# JSON

`--json` prints one JSON document on standard output: the answer of the control API as its contract describes it
(`/_emulator/contract?api=control`), and nothing else; messages for people go to standard error. `tail --json` prints
one document a line. Fields are added, never renamed or removed; what has no value is null. An error is not JSON: it is
lines on standard error, the last of which begins with `next:`, and an exit code that is not 0. With `CLAUDECODE`,
`CURSOR_AGENT`, `GEMINI_CLI`, `AI_AGENT` or any `CODEX_...` variable set nothing is coloured, asked or animated.
"""


def _commands(command: click.Command, context: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _commands(found, click.Context(found, info_name=name, parent=context))
        return
    yield f"## {context.command_path}\n"
    yield f"{' '.join((command.help or '').split())}\n"
    yield f"`{' '.join(command.get_usage(context).removeprefix('Usage: ').split())}`\n"
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None and parameter.name not in _OF_ALL:
            yield f"- `{record[0]}`: {' '.join(record[1].split())}"
    yield f"\n{command.epilog}\n" if command.epilog else ""


# What every command about a server has.
_OF_ALL = ("url", "control_token", "control_token_file", "ca", "world", "as_json", "help")


def _operations() -> Iterator[str]:
    document = files.read(resources.path("contracts", "control.openapi.yaml"))
    paths: Mapping[str, Any] = document["paths"]  # type: ignore[assignment] # as the contract's tests show
    for path, operations in paths.items():
        for method, operation in operations.items():
            if method == "parameters":
                continue
            query = [each["name"] for each in operation.get("parameters", ()) if each.get("in") == "query"]
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            body = list(content.get("schema", {}).get("properties", ()))
            given = [f"query {', '.join(query)}" if query else "", f"body {', '.join(body)}" if body else ""]
            taken = "; ".join(each for each in given if each)
            yield f"- `{method.upper()} {path}`: {operation['summary']}{f' ({taken})' if taken else ''}"
    yield ""


def _main(arguments: list[str]) -> int:
    stale = False
    for place, text in ((SHORT, short_text()), (REFERENCE, reference_text())):
        path = resources.path(*place)
        if not path.exists() or path.read_text("utf-8") != text:
            stale = True
            if "--check" not in arguments:
                path.write_text(text, "utf-8")
    return int(stale and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
