"""The pages of the book that are made of the program: `python -m docs.generate` writes them anew.

A test holds them to the program. The book itself is made without it, because nothing can be imported while the package
is built (D-746).
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click
import yaml

import emulator
from emulator import Emulator
from emulator.cli import main as program
from emulator.conformance import checks
from emulator.core import errors
from emulator.core.rules.attempts import TIMEOUT_ERROR
from emulator.delivery import http
from emulator.resources import path
from emulator.server.settings import Settings
from emulator.wire import error_body, parts

FOLDER = Path(__file__).parent / "reference"

# Around what is made, the page is written by hand.
_BEGIN, _END = "<!-- generated -->\n", "<!-- /generated -->\n"


@cache
def pages() -> dict[Path, str]:
    """The text of each page that the program has a part of, by its file."""
    made = {"shell.md": _shell, "python-api.md": _python, "control-api.md": _control, "errors.md": _errors}
    found = {}
    for name, lines in made.items():
        file = FOLDER / name
        before, _, rest = file.read_text("utf-8").partition(_BEGIN)
        found[file] = "".join(
            (before, _BEGIN, "\n", "\n".join(lines()).rstrip(), "\n\n", _END, rest.partition(_END)[2])
        )
    return found


def _row(*cells: str) -> str:
    """A row of a table; text of the program is no markup."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for cell in cells) + " |"


def _table(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|" + "---|" * len(names)


# -- shell ------------------------------------------------------------------------------------

# Options that commands have which ask a server.
_CONNECTION = {"url", "world", "control_token", "control_token_file", "ca"}


def _shell() -> Iterator[str]:
    yield "## Settings"
    yield ""
    yield from settings_table()
    yield ""
    context = click.Context(program, info_name="svc-emulator")
    yield "## Options of a command that asks a server"
    yield ""
    asks = program.get_command(context, "messages")
    assert asks is not None
    yield from _options([each for each in asks.params if isinstance(each, click.Option) and each.name in _CONNECTION])
    yield ""
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command is not None
        yield from _command(command, f"svc-emulator {name}", context)


def settings_table() -> Iterator[str]:
    """Every setting of a server with its default."""
    yield from _table("option", "default", "meaning")
    for entry in fields(Settings):
        shown = "" if entry.default in ("", ()) else f"`{entry.default}`"
        yield _row(f"`--{entry.name.replace('_', '-')}`", shown, str(entry.metadata["help"]))


def _command(command: click.Command, name: str, above: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name.rpartition(" ")[2], parent=above)
    yield f"## {name}" if name.count(" ") == 1 else f"### {name}"
    yield ""
    yield _rendered(command.help or "")
    yield ""
    yield f"`{name} {' '.join(command.collect_usage_pieces(context))}`"
    yield ""
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    is_server = name.split()[1] in ("serve", "dev")
    above_it = {entry.name for entry in fields(Settings)} if is_server else _CONNECTION
    rows = [each for each in options if each.name not in above_it]
    if len(rows) < len(options):
        lead = "the settings above" if is_server else "the options of a command that asks a server"
        yield f"It takes {lead}, and:" if rows else f"It takes {lead}."
        yield ""
    if rows:
        yield from _options(rows)
        yield ""
    if command.epilog:
        yield f"{command.epilog.partition(': ')[0]}: `{command.epilog.partition(': ')[2]}`"
        yield ""
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            assert inner is not None
            yield from _command(inner, f"{name} {each}", context)


def _options(options: Iterable[click.Option]) -> Iterator[str]:
    yield from _table("option", "default", "meaning")
    for option in options:
        default = f"`{option.default}`" if isinstance(option.default, str | int | float) and option.default else ""
        names = (*option.opts, *option.secondary_opts)
        yield _row(", ".join(f"`{each}`" for each in names), default, option.help or "")


# -- Python -----------------------------------------------------------------------------------


def _rendered(text: str) -> str:
    """A docstring as Markdown: its examples are fenced, its names in capitals and angle brackets are no markup."""
    lines: list[str] = []
    is_code = False
    for line in inspect.cleandoc(text.replace("\b", "")).split("\n"):
        begins = line.lstrip().startswith(">>>")
        if begins and not is_code:
            lines.append("```pycon")
            is_code = True
        elif is_code and not line.strip():
            lines.append("```")
            is_code = False
        lines.append(line)
    if is_code:
        lines.append("```")
    found = "\n".join(lines)
    # Examples keep their own indentation below the prompt.
    return re.sub(
        r"```pycon\n(.*?)\n```",
        lambda match: "```pycon\n" + textwrap.dedent(match[1]) + "\n```",
        found,
        flags=re.DOTALL,
    )


def _signature(name: str, found: Any) -> str:
    signature = inspect.signature(found)
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    text = str(signature.replace(parameters=parameters)).replace("'", "")
    # A default that means "not given" has an address.
    return re.sub(r"<object object at 0x\w+>", "...", f"{name}{text}".removesuffix(" -> None"))


def _python() -> Iterator[str]:
    emu = Emulator()
    yield "## Emulator"
    yield ""
    yield _rendered(Emulator.__doc__ or "")
    yield ""
    yield from _methods("emu", Emulator)
    for part in sorted(name for name in vars(emu) if not name.startswith("_")):
        kind = type(getattr(emu, part))
        yield f"## emu.{part}"
        yield ""
        yield _rendered(kind.__doc__ or "")
        yield ""
        yield from _methods(f"emu.{part}", kind)
    yield "## Types and functions"
    yield ""
    for name in emulator.__all__:
        found = getattr(emulator, name)
        if name in ("Emulator", "AsyncEmulator"):
            continue
        yield f"### {name}"
        yield ""
        if inspect.isfunction(found):
            yield f"`{_signature(name, found)}`"
            yield ""
        if (doc := getattr(found, "__doc__", None)) and not doc.startswith(("Represent a", "Optional type")):
            yield _rendered(doc)
            yield ""
        yield from _fields(found)


def _methods(owner: str, kind: type) -> Iterator[str]:
    for name, found in inspect.getmembers(kind):
        if name.startswith("_"):
            continue
        if isinstance(found, property):
            yield f"### {owner}.{name}"
            doc = found.__doc__
        else:
            yield f"### {owner}.{name}()"
            yield ""
            yield f"`{_signature(name, found)}`"
            doc = found.__doc__
        yield ""
        yield _rendered(doc or "")
        yield ""


def _fields(found: Any) -> Iterator[str]:
    """The fields of a record, or the keywords of options."""
    notes = inspect.get_annotations(found) if inspect.isclass(found) else {}
    shown = [(name, _type(note)) for name, note in notes.items() if not name.startswith("_")]
    if shown:
        yield from _table("field", "type")
        for name, note in shown:
            yield _row(f"`{name}`", f"`{note}`")
        yield ""


def _type(note: Any) -> str:
    text = note if isinstance(note, str) else getattr(note, "__forward_arg__", None) or str(note)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)


# -- control API ------------------------------------------------------------------------------


def _control() -> Iterator[str]:
    document = yaml.load(path("contracts", "control.openapi.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)
    parameters = document["components"]["parameters"]
    tags: dict[str, list[tuple[str, str, Any]]] = {each["name"]: [] for each in document["tags"]}
    for route, item in document["paths"].items():
        for method in ("get", "post", "put", "delete"):
            if method in item:
                operation = item[method]
                shared = item.get("parameters", [])
                tags[operation["tags"][0]].append(
                    (
                        f"{method.upper()} {route}",
                        route,
                        {**operation, "all": [*shared, *operation.get("parameters", [])]},
                    )
                )
    for tag in document["tags"]:
        yield f"## {tag['name']}"
        yield ""
        yield str(tag.get("description", "")).strip()
        yield ""
        for name, _, operation in tags[tag["name"]]:
            yield f"### {name}"
            yield ""
            yield f"{operation['summary'].rstrip('.')}. {_plain(operation.get('description', ''))}".strip()
            yield ""
            given = [
                parameters[each["$ref"].rpartition("/")[2]] if "$ref" in each else each for each in operation["all"]
            ]
            if given:
                yield from _table("parameter", "in", "meaning")
                for each in given:
                    yield _row(f"`{each['name']}`", each["in"], _plain(each.get("description", "")))
                yield ""


def _plain(text: str) -> str:
    """A description of the contract; its links lead to places of that document."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).strip()


# -- errors -----------------------------------------------------------------------------------

# What to do about a refusal, by its class.
REMEDIES: dict[type[errors.Refused], str] = {
    errors.InvalidInput: (
        "Mend the field that `field` names; the text says what was expected. `svc-emulator serve --strict` finds "
        "what a client gets wrong without being refused."
    ),
    errors.RunOver: "The run has ended or never began: look at it with `svc-emulator explain RUN_ID`.",
    errors.Unauthenticated: (
        "`svc-emulator env` prints the credentials; `svc-emulator refused` says which one was sent instead."
    ),
    errors.Forbidden: (
        "Use the account's token instead of the read-only one; for a web page see `--allow-origin`, for another "
        "host name `--public-host` and `--allow-control-host`."
    ),
    errors.NotFound: (
        "The id is of another world or account, or the thing has expired: `svc-emulator refused` says so if one of"
        " the other worlds has it."
    ),
    errors.NotInstalled: "Install what the text names, beside the program.",
    errors.NotAcceptable: "Ask for JSON, or one of the types that the text lists.",
    errors.Conflict: "Look at what the text names, and call again when it has ended.",
    errors.LimitReached: ("Delete some, or give the account another plan (`--plan`, `PUT /_emulator/accounts/{id}`)."),
    errors.OverLimit: "Stay within the plan, or give the account another one.",
    errors.InvalidRunMessage: "Mend the value; the workflow client retries the step.",
    errors.PayloadTooLarge: "Send less, or give the account another plan.",
    errors.NoRoom: "Call again a moment later, with fewer long bodies at a time.",
    errors.QuotaExceeded: (
        "Wait until the `...-Reset` header's second of virtual time, or change the account's quota. A frozen clock"
        " has to be moved."
    ),
    errors.InsufficientStorage: "Make room on the disk; nothing has changed.",
}
# What to do about an attempt that got no response, by the text in `error`.
FAILURES: dict[str, str] = {
    http.REFUSED: (
        "Nobody listens at that address and port. In a container, `localhost` is the container itself: use the "
        "service's name or `host.docker.internal`."
    ),
    http.RESET: "The receiver closed the connection while it was in use: look into its log.",
    http.TLS_FAILED: "The receiver's certificate is not trusted here, or it speaks plain http on this port.",
    http.DISCONNECTED: (
        "The receiver closed the connection without an answer, as a server does whose handler crashes."
    ),
    http.CUT_SHORT: "The receiver ended before its response was whole.",
    http.INVALID_RESPONSE: "What answered speaks no HTTP, or not correctly.",
    http.INVALID_REQUEST: "A forwarded header or the URL has characters that HTTP does not allow.",
    http.TOO_LARGE: "The response is larger than 100 MiB.",
    http.NO_ROOM: "Many large responses at once: lower `--concurrency`.",
    http.UNREACHABLE: "No route leads to that host from here.",
    http.CONNECTION_FAILED: (
        "The connection failed in a way that no other text says; the log has the system's own words."
    ),
    parts.TAKES_NO_DELIVERIES: (
        "The message goes to `/_emulator` of a server in this process, which no message drives. Call it from a test, a"
        " program or the shell. Through a proxy, a mount or another emulator, the same text is the body of a 403."
    ),
    http.name_not_known("HOST"): "The name does not resolve here: a typing error, or a name of another network.",
    TIMEOUT_ERROR: "No answer within the message's timeout. On a breakpoint, give the message a longer one.",
}


# As RFC 9110 calls them, and Python from 3.13 on.
_RENAMED = {413: "Content Too Large", 422: "Unprocessable Content"}


def _errors() -> Iterator[str]:
    yield "## Refused calls"
    yield ""
    yield from _table("status", "reason", "what to do")
    statuses = error_body._STATUSES
    for kind, status in sorted(statuses.items(), key=lambda item: (item[1], item[0].__name__)):
        reason = inspect.cleandoc(kind.__doc__ or "").partition("\n")[0]
        phrase = _RENAMED.get(status) or HTTPStatus(status).phrase
        yield _row(f"{status} {phrase}", f"`{kind.__name__}`: {reason}", REMEDIES[kind])
    yield ""
    yield "## Attempts without a response"
    yield ""
    yield from _table("error", "what to do")
    for text, remedy in FAILURES.items():
        yield _row(f"`{text}`", remedy)
    yield ""
    yield "## Checks of a receiver"
    yield ""
    yield from _table("check", "expected", "why", "how to mend it")
    for check in checks._ALL:
        yield _row(f"`{check.id}`: {check.title}", check.expected, check.why, check.mend)


def main() -> None:
    for file, text in pages().items():
        file.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
