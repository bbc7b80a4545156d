"""Commands about a running server: the options that name it, and calls of its control API."""

from __future__ import annotations

import contextlib
import functools
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, ParamSpec, TypeVar

import click

from emulator.cli.options import Url, ca_option, read_settings, settings_options
from emulator.cli.output import ANOTHER_ADDRESS, START, CommandFailed, WrongUsage, answered, expected_of, progress
from emulator.core.world_setup import DEFAULT
from emulator.server.serving import local_url
from emulator.server.settings import PREFIX, Settings, SettingsError

if TYPE_CHECKING:
    import httpx

    from emulator.client.control import ControlApi

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_URL = "http://127.0.0.1:8080"


class NoServer(CommandFailed):
    """Nothing answers at the address."""

    next_step = START


class BrokenOff(CommandFailed):
    """The connection ended before an answer had come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The control API of the server at `url`, for one of its worlds; `ca` is a file of certificates.

    Every call raises CommandFailed with what the server or the network says: NoServer and BrokenOff if
    there was no answer.
    """

    url: str
    world: str
    token: str | None
    ca: str | None = None

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes | Iterator[bytes] | None = None,
        doing: str = "waiting",
        named: Mapping[str, str] | None = None,
    ) -> Any:
        """The JSON object of an answer, None without one.

        `named` has what the user gave for a field of the call, under the field's name: a refusal names that.
        """
        from emulator.client.control import answer_of

        with self._connected(named) as (api, http), progress(doing):
            request = api.call(method, path, body, query=query).request(http, content=content)
            return api.read(answer_of(http.send(request)))

    def entries(
        self,
        path: str,
        name: str,
        query: Mapping[str, str],
        most: int | None = None,
        *,
        named: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """A list, whole or its first `most` entries, as one answer; see `pages.reading`."""
        from emulator.client import pages

        return pages.read(
            pages.reading(name, query, most), lambda page: self.call("GET", path, query=page, named=named)
        )

    def of_service(
        self,
        method: str,
        path: str,
        account_id: str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The JSON of a call of the service's own API, as the account does it; an object without fields for none."""
        from emulator.client.control import answer_of

        accounts = self.call("GET", "accounts")["accounts"]
        token = next(each["token"] for each in accounts if each["id"] == account_id)
        with self._connected() as (api, http):
            given = {"Authorization": f"Bearer {token}", **(headers or {})}
            request = api.call(method, path, headers=given).request(http, content=content)
            answer = answer_of(http.send(request))
            api.check(answer)
            return answer.json() if answer.body else {}

    def own_account(self) -> str:
        """The id of the world's built-in account."""
        return str(self.call("GET", "credentials")["queue"]["account_id"])

    def download(self, path: str, to: BinaryIO) -> None:
        """Write the file that is there to a stream, piece by piece."""
        with self._connected() as (api, http), progress("exporting"):
            answer = http.send(api.call("GET", path).request(http), stream=True)
            if answer.status_code != 200 or "json" in answer.headers.get("content-type", ""):
                _refuse(api, answer)
            for piece in answer.iter_bytes():
                to.write(piece)

    def lines(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], silent_s: float) -> Iterator[str]:
        """The lines of an event stream as they come, until its connection ends.

        `silent_s` is how long nothing may come before the connection counts as ended.
        """
        import httpx

        from emulator.client.control import TIMEOUT

        timeout = httpx.Timeout(None, connect=TIMEOUT.connect, read=silent_s)
        with self._connected() as (api, http):
            request = api.call("GET", path, query=query, headers=headers).request(http, timeout=timeout)
            answer = http.send(request, stream=True)
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                _refuse(api, answer)
            with contextlib.suppress(httpx.TransportError):
                yield from answer.iter_lines()

    @contextlib.contextmanager
    def _connected(self, named: Mapping[str, str] | None = None) -> Iterator[tuple[ControlApi, httpx.Client]]:
        """The API and a client to send with, which is closed at the end with what it has open.

        A value that the server does not take is wrong usage (D-460).
        """
        import httpx

        from emulator.client.control import ControlApi, trusted
        from emulator.client.errors import EmulatorError, NotAnEmulator, Refused, Unreachable

        api = ControlApi(url=self.url, world=self.world, token=self.token)
        try:
            # To read the authorities that are trusted takes longer than a call, so only a call that needs them does it.
            is_secure = self.url.startswith("https://")
            verify = trusted(self.ca) if self.ca is not None and is_secure else is_secure
            # A proxy of the environment has no way to this machine.
            with httpx.Client(trust_env=False, verify=verify) as http, api.failures():
                yield api, http
        except NotAnEmulator as error:
            text = f"{self.url} is not an emulator: it answered {error.status}, but not as one does"
            raise CommandFailed(text, next=ANOTHER_ADDRESS) from error
        except Unreachable as error:
            raise _no_answer(self.url, error.__cause__) from error
        except Refused as error:
            text, field = str(error), error.field or ""
            if field in (named or {}):
                text = f"{(named or {})[field]}{text.removeprefix(field)}"
            if error.status == 400:
                raise WrongUsage(text) from error
            raise CommandFailed(text, next=error.next) from error
        except EmulatorError as error:
            raise CommandFailed(str(error)) from error


def _refuse(api: ControlApi, answer: httpx.Response) -> None:
    """Raises EmulatorError for an answer of another kind than was asked for."""
    from emulator.client.control import answer_of

    answer.read()
    refused = answer_of(answer)
    api.check(refused)
    raise api.not_an_emulator_error(refused)


def _named_by() -> str:
    """The environment variable that gave the address, if one did: it may have been set in the shell long ago."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source("url")
    is_variable = source is click.core.ParameterSource.ENVIRONMENT
    return f"from the environment variable {PREFIX}URL; " if is_variable else ""


def _no_answer(url: str, error: BaseException | None) -> CommandFailed:
    """Why a call had no answer: TLS on one side only, a certificate that is not trusted, or the network."""
    import httpx

    cause = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    reason = str(error) or type(error).__name__
    match cause:
        case ssl.SSLCertVerificationError():
            reason = cause.verify_message.removesuffix(".")
            text = f"{url}: its certificate is not trusted: {reason} (name its authority with --ca FILE)"
            return CommandFailed(text, next="again with --ca FILE")
        case ssl.SSLError():
            text = f"{url}: does not answer as a server with TLS does ({cause.reason}); is it http://?"
            return CommandFailed(text, next=f"again with --url http://{url.partition('://')[2]}")
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return NoServer(f"no server answers at {url} ({_named_by()}start one with svc-emulator serve)")
        case httpx.RemoteProtocolError() | httpx.ReadError() if url.startswith("http://"):
            reason = str(error) or "the connection broke off"
            text = f"{url}: {reason} (a server with a certificate is https://)"
            return CommandFailed(text, next=f"again with --url https://{url.partition('://')[2]}")
        case httpx.TransportError():
            return BrokenOff(f"{url}: {reason}")
        case _:
            return CommandFailed(f"{url}: {reason}")


def on_server(command: Callable[Concatenate[Control, P], R]) -> Callable[P, R]:
    """Gives a command the options that name a running server, and calls it with that server's control API.

    A Control that is the context's object takes the place of the options.
    """

    @click.option(
        "--url",
        type=Url(),
        envvar=f"{PREFIX}URL",
        show_envvar=True,
        help="Address of the running server. Default: where a server with these settings is, http://127.0.0.1:8080.",
    )
    @click.option(
        "--control-token",
        envvar=f"{PREFIX}CONTROL_TOKEN",
        show_envvar=True,
        metavar="TOKEN",
        help="Bearer token, if the server wants one for control requests.",
    )
    @click.option(
        "--control-token-file",
        envvar=f"{PREFIX}CONTROL_TOKEN_FILE",
        show_envvar=True,
        metavar="FILE",
        help="File that holds the bearer token.",
    )
    @ca_option
    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        given = {
            name: str(kwargs.pop(name, None) or "")
            for name in ("url", "world", "control_token", "control_token_file", "ca")
        }
        control = click.get_current_context().find_object(Control) or find_server(**given)
        # For what is printed of the answer.
        click.get_current_context().params["url"] = control.url
        with expected_of(control.url):
            return command(control, *args, **kwargs)

    return run


@click.command()
@settings_options("host", "port", "tls_cert", "tls_key", "control_token", "control_token_file")
def _described(**values: Any) -> Settings:
    """What variables and emulator.toml say of the server that `serve` starts here."""
    return read_settings(**values)


def find_server(*, url: str, world: str, control_token: str, control_token_file: str, ca: str) -> Control:
    """The server that is named, or else that of the variables and emulator.toml (D-341). Raises WrongUsage.

    A token that was given is used alone, so that one for another server is never sent there.
    """
    with _described.make_context(None, []) as context:
        settings: Settings = context.invoke(_described, **context.params)
    try:
        if control_token or control_token_file:
            token = Settings(control_token=control_token, control_token_file=control_token_file).read_control_token()
        else:
            token = "" if url else settings.read_control_token()
        if not url and settings.port == 0:
            raise SettingsError("port: 0 names no server, say where it is with --url")
        url = url or local_url(settings.scheme, settings.host, settings.port)
    except SettingsError as error:
        raise WrongUsage(str(error)) from error
    return Control(url=url, world=world or DEFAULT, token=token or None, ca=ca or None)


def shown(
    lines: Callable[[Any], Iterable[str]],
) -> Callable[[Callable[Concatenate[Control, P], Any]], Callable[P, Any]]:
    """For a command about one world, whose answer is printed: with `--json` as it is, else as `lines` of it."""
    return lambda command: answered(lines)(on_world(command))


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
