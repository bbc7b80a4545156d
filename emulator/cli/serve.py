"""`svc-emulator serve`: a server until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from emulator import resources
from emulator.cli.options import OptionOfVariables, Port, read_settings, settings_options
from emulator.cli.output import CommandFailed, Format, WrongUsage, failure_of_fixtures, progress, status_text, written
from emulator.server.settings import PREFIX, Settings, SettingsError
from emulator.version import VERSION

if TYPE_CHECKING:
    from emulator.server.bootstrap import Emulation


logger = logging.getLogger(__name__)

Banner = Callable[["Emulation", str, str], Awaitable[str]]
# Also printed by `demo`.
FOR_PUBLIC_CLIENTS = (
    "for the public clients (qstash, @upstash/qstash, @upstash/workflow): svc-emulator dev, or serve --dialect upstash"
)


@click.command(epilog="Example: svc-emulator serve --port 8080 --clock frozen --db ./state.db")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON when ready: url, token, variables.")
@settings_options()
@click.pass_obj
def serve(run: Callable[[Settings], None] | None, /, *, as_json: bool, **values: Any) -> None:
    """Run the server until SIGINT or SIGTERM.

    Prints its address and the variables that clients need, then a line for every delivery on
    standard error. Every option is also an environment variable and a key of emulator.toml; a flag
    precedes the variable, the variable the file. A variable lists several values between commas.
    """
    _start(run, values, _json_banner if as_json else None)


# Which plan each quota is (D-533).
_QUOTAS = {"free": "free", "payg": "payg", "pro": "queue_fixed_1m"}
_DEV_SETTINGS = tuple(
    each.name for each in fields(Settings) if each.name not in ("dialect", "port", "plan", "fixtures")
)


@click.command(epilog="Example: svc-emulator dev -port 8081")
@click.option(
    "-port",
    "--port",
    cls=OptionOfVariables,
    type=Port(),
    default=8080,
    show_default=True,
    envvar=[f"{PREFIX}PORT", "QSTASH_DEV_PORT"],
    show_envvar=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "-quota",
    "--quota",
    cls=OptionOfVariables,
    type=click.Choice(list(_QUOTAS)),
    default="payg",
    show_default=True,
    envvar=["QSTASH_DEV_QUOTA"],
    show_envvar=True,
    help="Plan of the default account, whose limits hold.",
)
@click.option(
    "-log-port",
    "--log-port",
    cls=OptionOfVariables,
    type=Port(),
    default=None,
    envvar=["QSTASH_DEV_LOG_PORT"],
    show_envvar=True,
    help="Taken, and nothing listens there: the inspector has the logs.",
)
@settings_options(*_DEV_SETTINGS)
@click.pass_obj
def dev(
    run: Callable[[Settings], None] | None, /, *, port: int, quota: str, log_port: int | None, **values: Any
) -> None:
    """Serve like the public service's own development server.

    The dialect is upstash, the users are the published ones, and the port is the one where the public
    clients look in their development mode (QSTASH_DEV=true). All other options are those of serve.
    `svc-emulator qstash dev` is the same.
    """
    if log_port is not None:
        # Its clients start without a log server (D-800).
        click.echo(
            f"note: --log-port {log_port}: there is no log server, the logs are in the page /_emulator/inspector",
            err=True,
        )
    _start(run, {**values, "dialect": "upstash", "port": port}, _dev_banner, _fixtures_with(_QUOTAS[quota]))


# So that its image's command line starts this server too (D-800).
@click.group(epilog="Example: svc-emulator qstash dev -port 8081")
def qstash() -> None:
    """The command line of the public service's own program: `qstash dev` is `dev`."""


qstash.add_command(dev)


def _fixtures_with(plan: str) -> Mapping[str, object]:
    """The built-in fixtures, with another plan of the default account."""
    import json

    document: dict[str, Any] = json.loads(resources.path("fixtures", "default.json").read_bytes())
    first, *others = document["accounts"]
    return {**document, "accounts": [{**first, "plan": plan}, *others]}


def _start(
    run: Callable[[Settings], None] | None,
    values: dict[str, Any],
    banner: Banner | None,
    fixtures: Mapping[str, object] | None = None,
) -> None:
    """Run the server with the options of a command; `banner` is printed when it listens."""
    settings = read_settings(**values)
    context = click.get_current_context()
    given = {name for name in values if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT}
    # What is imported and opened at the start never becomes garbage, so collecting then only takes time.
    gc.disable()
    from emulator.fixtures.files import FixturesError
    from emulator.journal.files import UnusableDatabase
    from emulator.server import serving
    from emulator.server.connections import UnusableCertificate

    try:
        if run is not None:
            run(settings)
        else:
            serving.run(lambda: _serve(settings, given, banner, fixtures))
    except SettingsError as error:
        raise WrongUsage(str(error)) from error
    except FixturesError as error:
        raise failure_of_fixtures(error.problems, settings.fixtures) from error
    except serving.CannotListen as error:
        raise CommandFailed(str(error), next="again with another --port or --host") from error
    except (UnusableCertificate, UnusableDatabase) as error:
        is_full = isinstance(error, UnusableDatabase) and error.is_disk_full
        what = "again when there is space on the disk" if is_full else "again with another file, or that one mended"
        raise CommandFailed(str(error), next=what) from error
    except KeyboardInterrupt:
        # Before the server has its own handler, or in a loop without any.
        raise click.exceptions.Exit(0) from None
    finally:
        gc.enable()


async def _serve(
    settings: Settings, given: Collection[str], banner: Banner | None, fixtures: Mapping[str, object] | None
) -> None:
    from emulator.server import bootstrap, logs, serving
    from emulator.server.connections import read_certificate

    stop = asyncio.Event()
    serving.stop_on_signals(stop)
    logs.configure(settings.log_format, settings.log_level)
    scheme = settings.scheme
    certificate = read_certificate(settings.tls_cert, settings.tls_key) if scheme == "https" else None
    listener = serving.listen(settings.host, settings.port)
    with contextlib.closing(listener):
        with progress(f"opening {settings.db}"):
            emulation = await bootstrap.start(settings, fixtures, given=given)
        try:
            emulation.worlds.observers.append(logs.DeliveryLog(emulation.worlds.all()))
            logs.stamp(emulation.worlds)
            url, bound = serving.url_of(listener, scheme=scheme), listener.getsockname()[0]
            show = banner or (_json_banner if settings.log_format == "json" else _banner)
            click.echo(await show(emulation, url, bound))
            gc.enable()
            gc.freeze()
            await serving.serve(
                emulation.app,
                listener,
                server=settings.server,
                stop=stop,
                certificate=certificate,
                worlds=emulation.worlds,
            )
        finally:
            # What is there now goes with the process.
            gc.disable()
            _tell_what_was_cut_off(await emulation.close(), keeps_state=emulation.worlds.keeps_state)
    if failures := emulation.worlds.failures:
        raise CommandFailed(
            "; ".join(f"the world {world_id} had stopped: {text}" for world_id, text in failures.items()),
            next="svc-emulator db check FILE looks at a database, and svc-emulator serve starts with it again",
        )


def _tell_what_was_cut_off(attempts: int, *, keeps_state: bool) -> None:
    if attempts:
        rest = "made again at the next start" if keeps_state else "lost with the state, which was in memory"
        logger.warning(
            "%s under way and cut off: %s %s",
            "1 attempt was" if attempts == 1 else f"{attempts} attempts were",
            "it is" if attempts == 1 else "they are",
            rest,
        )


async def _dev_banner(emulation: Emulation, url: str, bound: str) -> str:
    # The npm client waits for "running at" if it has started this program by itself (D-665).
    return f"development server is running at {url}\n{await _banner(emulation, url, bound)}"


async def _json_banner(emulation: Emulation, url: str, bound: str) -> str:
    """The same as one line of JSON, in the form of the log's lines."""
    import json

    from msgspec import to_builtins

    from emulator.control.clock import clock_view
    from emulator.engine.clock import wall_ms
    from emulator.wire.times import iso
    from emulator.worlds.setup import DEFAULT

    world = emulation.worlds.get(DEFAULT)
    username, password = world.login
    clock, wall = to_builtins(clock_view(await world.clock.status())), wall_ms()
    line = {
        "wall": iso(wall),
        "wall_ms": wall,
        "at": clock["now"],
        "at_ms": clock["now_ms"],
        "level": "info",
        "logger": __name__,
        "message": f"svc-emulator {VERSION} listens on {url}",
        "version": VERSION,
        "url": url,
        "token": world.credentials().token,
        "bound": bound,
        "variables": emulation.variables(url),
        "management": {"username": username, "password": password},
        "control": f"{url}/_emulator",
        "clock": clock,
        "db": emulation.settings.db,
    }
    return json.dumps(line)


async def _banner(emulation: Emulation, url: str, bound: str) -> str:
    """Where the server is, the variables to copy, and the virtual time."""
    from msgspec import to_builtins

    from emulator.control.clock import clock_view
    from emulator.journal.database import MEMORY
    from emulator.server.serving import local_host
    from emulator.worlds.setup import DEFAULT

    elsewhere = []
    if local_host(bound) != bound:
        # The URL is for this machine alone: `bound` is no single address.
        address = urlsplit(url)
        by_name = f"from elsewhere {address.scheme}://NAME:{address.port}, by its name or address"
        elsewhere.append(f"and on every other address of this machine ({bound}); {by_name}")
    world = emulation.worlds.get(DEFAULT)
    username, password = world.login
    clock = to_builtins(clock_view(await world.clock.status()))
    db = emulation.settings.db
    state = "in memory, gone at the end (keep it with --db FILE)" if db == MEMORY else db
    return "\n".join(
        (
            f"svc-emulator {VERSION} listens on {url}",
            *elsewhere,
            "",
            written(emulation.variables(url), Format.DOTENV),
            "",
            *([] if emulation.dialect.name == "upstash" else [FOR_PUBLIC_CLIENTS]),
            f"management login: {username} {password}",
            f"control API: {url}/_emulator",
            *([] if emulation.settings.inspector == "off" else [f"inspector: {url}/_emulator/inspector"]),
            f"clock: {status_text(clock)}",
            f"state: {state}",
            "",
        )
    )
