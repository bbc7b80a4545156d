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
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, ParamSpec, TextIO, TypeVar

import click

from emulator.cli.failures import Failure
from emulator.cli.trust import refuse_tls_problem, trusted
from emulator.cli.values import Url
from emulator.server.settings import PREFIX

if TYPE_CHECKING:
    import httpx

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_URL = "http://127.0.0.1:8080"
# A call that takes longer than this shows that it still runs.
_PATIENCE_S = 2.0
_CONNECT_S = 5.0


class NoServer(Failure):
    """Nothing answers at the address."""


class BrokenOff(Failure):
    """The connection ended before an answer had come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The control API of the server at `url`, for one of its worlds."""

    url: str
    world: str
    token: str | None
    ca: str | None = None

    def client(self) -> httpx.Client:
        """A client for any call; the caller closes it. Raises Failure."""
        import httpx

        # A proxy of the environment has no way to this machine; an advance may take as long as it likes.
        timeout = httpx.Timeout(None, connect=_CONNECT_S)
        return httpx.Client(trust_env=False, timeout=timeout, verify=trusted(self.ca, self.url))

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        doing: str = "",
    ) -> Any:
        """The JSON object of an answer, None without one. Raises Failure with what the server or the network says."""
        url, parameters = f"{self.url}/_emulator/{path}", {"world": self.world, **(query or {})}
        with self._telling_failures(), self.client() as client, progress(doing or "waiting"):
            answer = client.request(method, url, params=parameters, json=body, headers=self._headers())
        return self._content(answer.status_code, answer.content)

    def upload(self, path: str, content: bytes, *, doing: str) -> Any:
        """Put a file there; the JSON object of the answer. Raises Failure as `call` does."""
        with self._telling_failures(), self.client() as client, progress(doing):
            answer = client.put(
                f"{self.url}/_emulator/{path}",
                params={"world": self.world},
                content=content,
                headers={**self._headers(), "Content-Type": "application/octet-stream"},
            )
        return self._content(answer.status_code, answer.content)

    def download(self, path: str, to: BinaryIO) -> None:
        """Write the file that is there to a stream, piece by piece. Raises Failure as `call` does."""
        url, query = f"{self.url}/_emulator/{path}", {"world": self.world}
        with (
            self._telling_failures(),
            self.client() as client,
            client.stream("GET", url, params=query, headers=self._headers()) as answer,
        ):
            if answer.status_code != 200 or "json" in answer.headers.get("content-type", ""):
                self._content(answer.status_code, answer.read())
                raise Failure(self._stranger(answer.status_code))
            for piece in answer.iter_bytes():
                to.write(piece)

    def lines(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], silent_s: float) -> Iterator[str]:
        """The lines of an answer that may never end, as they come, until its connection does.

        `silent_s` is how long nothing may come before the connection counts as ended. Raises
        Failure: NoServer and BrokenOff if there was no answer, others with what the server says.
        """
        import httpx

        with self.client() as client, contextlib.ExitStack() as opened:
            with self._telling_failures():
                answer = opened.enter_context(
                    client.stream(
                        "GET",
                        f"{self.url}/_emulator/{path}",
                        params={"world": self.world, **query},
                        headers={**self._headers(), **headers},
                        timeout=httpx.Timeout(None, connect=_CONNECT_S, read=silent_s),
                    )
                )
                if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                    self._content(answer.status_code, answer.read())
                    raise Failure(self._stranger(answer.status_code))
            with contextlib.suppress(httpx.TransportError):
                yield from answer.iter_lines()

    def _headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    @contextlib.contextmanager
    def _telling_failures(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            refuse_tls_problem(error, self.url)
            raise NoServer(f"no server answers at {self.url} (start one with svc-emulator serve)") from error
        except httpx.HTTPError as error:
            refuse_tls_problem(error, self.url)
            kind = BrokenOff if isinstance(error, httpx.TransportError) else Failure
            raise kind(f"{self.url}: {str(error) or type(error).__name__}") from error
        except httpx.InvalidURL as error:
            raise Failure(f"{self.url}: {error}") from error

    def _stranger(self, status: int) -> str:
        return f"{self.url} is not an emulator: it answered {status}, but not as one does"

    def _content(self, status: int, content: bytes) -> Any:
        if status == 204:
            return None
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or (status >= 300 and "error" not in answer):
            raise Failure(self._stranger(status))
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
    @click.option(
        "--ca",
        # The second is what other programs of the same shell go by.
        envvar=[f"{PREFIX}CA", "SSL_CERT_FILE"],
        show_envvar=True,
        metavar="FILE",
        help="PEM file of the certificate, or its authority's, that an https server is trusted by.",
    )
    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        url, world, token, ca = (kwargs.pop(name, None) for name in ("url", "world", "control_token", "ca"))
        control = Control(
            url=str(url),
            world=str(world or "default"),
            token=str(token) if token else None,
            ca=str(ca) if ca else None,
        )
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
