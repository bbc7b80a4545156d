"""Commands run against a server of the module, as a person types them."""

from __future__ import annotations

import json
from typing import Any

import httpx
from click.testing import CliRunner, Result

from emulator.cli import main
from tests.harness import emulators

URL, DOWN = "https://api.example.com/hook", "https://down.example.com/hook"


def invoke(server: emulators.Server, *arguments: str, color: bool = False, **variables: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"EMULATOR_URL": server.url, **variables}, color=color)


def printed(server: emulators.Server, *arguments: str) -> str:
    result = invoke(server, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def read(server: emulators.Server, *arguments: str) -> Any:
    """What a command prints with `--json`."""
    return json.loads(printed(server, *arguments, "--json"))


def refused(server: emulators.Server, *arguments: str) -> str:
    """What a command says that fails while running."""
    result = invoke(server, *arguments)
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    return result.stderr


def service(server: emulators.Server, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """A call of the messaging API; a body that is no bytes is sent as JSON."""
    given = {"Authorization": f"Bearer {server.token}", **{name.replace("_", "-"): headers[name] for name in headers}}
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    answer = httpx.request(method, f"{server.url}/v2/{path}", headers=given, content=content, trust_env=False)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def publish(server: emulators.Server, url: str, body: bytes = b"", **headers: str) -> str:
    """Publish to a URL; the message's id."""
    return str(service(server, "POST", f"publish/{url}", body, **headers)["messageId"])


def rule(server: emulators.Server, url: str, **does: object) -> None:
    emulators.control(server, "POST", "/destinations", {"match": {"url": url}, **does})
