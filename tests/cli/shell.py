"""Commands run against a server of the module, as a person types them."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from emulator.cli import main
from tests.harness import emulators

URL, DOWN = "https://api.example.com/hook", "https://down.example.com/hook"


def invoke(server: emulators.Server, *arguments: str, color: bool = False, **variables: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"EMULATOR_URL": server.url, **variables}, color=color)


def in_folder(folder: Path, *arguments: str) -> Result:
    """A command in a folder of its own, which may make the log its own: `serve` does before it fails."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        with contextlib.chdir(folder):
            result = CliRunner().invoke(main, arguments)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def printed(server: emulators.Server, *arguments: str) -> str:
    result = invoke(server, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def read(server: emulators.Server, *arguments: str) -> Any:
    """What a command prints with `--json`."""
    return json.loads(printed(server, *arguments, "--json"))


def said(failed: Result | subprocess.CompletedProcess[str]) -> str:
    """What a failing command says, without its last line, which says what to do next."""
    lines = failed.stderr.splitlines(keepends=True)
    assert lines[-1].startswith("next: "), failed.stderr
    return "".join(lines[:-1])


def refused(server: emulators.Server, *arguments: str) -> str:
    """What a command says that fails while running."""
    result = invoke(server, *arguments)
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    return said(result)


def service(server: emulators.Server, method: str, path: str, body: object = b"", **headers: str) -> Any:
    """A call of the messaging API; a body that is no bytes is sent as JSON."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return emulators.service(server, method, f"/v2/{path}", given, body)


def publish(server: emulators.Server, url: str, body: object = b"", **headers: str) -> str:
    """Publish to a URL; the message's id."""
    return str(service(server, "POST", f"publish/{url}", body, **headers)["messageId"])


def rule(server: emulators.Server, url: str, **does: object) -> None:
    emulators.control(server, "POST", "/destinations", {"match": {"url": url}, **does})
