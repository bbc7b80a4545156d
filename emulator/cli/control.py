"""The control API of a running server, from the shell."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TextIO, TypeVar

import click

from emulator.cli.failures import Failure
from emulator.cli.values import Url
from emulator.settings import PREFIX

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_URL = "http://127.0.0.1:8080"
# A call that takes longer than this shows that it still runs.
_PATIENCE_S = 2.0
_CONNECT_S = 5.0


class NoServer(Failure):
    """Nothing answers at the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The control API of the server at `url`, for one of its worlds."""

    url: str
    world: str
    token: str | None

    def call(self, method: str, path: str, body: Mapping[str, object] | None = None, *, doing: str = "") -> Any:
        """The JSON object of an answer, None without one. Raises Failure with what the server or the network says."""
        import httpx

        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        try:
            # A proxy of the environment has no way to this machine; an advance may take as long as it likes.
            with (
                httpx.Client(trust_env=False, timeout=httpx.Timeout(None, connect=_CONNECT_S)) as client,
                progress(doing or "waiting"),
            ):
                answer = client.request(
                    method, f"{self.url}/_emulator/{path}", params={"world": self.world}, json=body, headers=headers
                )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NoServer(f"no server answers at {self.url} (start one with svc-emulator serve)") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Failure(f"{self.url}: {error or type(error).__name__}") from error
        return self._content(answer.status_code, answer.content)

    def _content(self, status: int, content: bytes) -> Any:
        if status == 204:
            return None
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or (status >= 300 and "error" not in answer):
            raise Failure(f"{self.url} is not an emulator: it answered {status}, but not as one does")
        if status >= 300:
            raise Failure(str(answer["error"]))
        return answer


def on_server(command: Callable[Concatenate[Control, P], R]) -> Callable[P, R]:
    """Gives a command the options that name a running server, and hands it that server's control API."""

    @click.option(
        "--url",
        type=Url(),
        default=DEFAULT_URL,
        show_default=True,
        envvar=f"{PREFIX}URL",
        show_envvar=True,
        help="Address of the running server.",
    )
    @click.option(
        "--control-token",
        envvar=f"{PREFIX}CONTROL_TOKEN",
        show_envvar=True,
        metavar="TOKEN",
        help="Bearer token, if the server wants one for control requests.",
    )
    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        url, world, token = (kwargs.pop(name, None) for name in ("url", "world", "control_token"))
        control = Control(url=str(url), world=str(world or "default"), token=str(token) if token else None)
        try:
            return command(control, *args, **kwargs)
        except KeyError as missing:
            raise Failure(f"{control.url} is another program or version: its answer has no {missing}") from missing

    return run


def on_world(command: Callable[Concatenate[Control, P], R]) -> Callable[P, R]:
    """The same for a command about one world, which an option names."""
    return click.option(
        "--world",
        default="default",
        show_default=True,
        envvar=f"{PREFIX}WORLD",
        show_envvar=True,
        metavar="ID",
        help="The world that the command is about.",
    )(on_server(command))


json_option = click.option("--json", "as_json", is_flag=True, help="Print the server's answer as it is.")


def show_json(answer: object) -> None:
    """Print an answer of the server for a program to read."""
    click.echo(json.dumps(answer, indent=2))


@contextlib.contextmanager
def progress(doing: str, stream: TextIO | None = None, after_s: float = _PATIENCE_S) -> Iterator[None]:
    """On a terminal, a turning sign with the time that has passed, once it has become long."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield
        return
    done = threading.Event()
    began = time.monotonic()

    def turn() -> None:
        if done.wait(after_s):
            return
        for sign in itertools.cycle("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"):
            stream.write(f"\r{sign} {doing} for {time.monotonic() - began:.0f} s\x1b[K")
            stream.flush()
            if done.wait(0.1):
                break
        stream.write("\r\x1b[K")
        stream.flush()

    turning = threading.Thread(target=turn, daemon=True)
    turning.start()
    try:
        yield
    finally:
        done.set()
        turning.join()
