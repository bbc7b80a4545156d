"""Types of options and arguments, and the server's settings as options.

A setting is a flag, an environment variable and a key of `emulator.toml`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from emulator.cli.output import WrongUsage
from emulator.core.errors import Malformed
from emulator.server.settings import FILE_NAME, PREFIX, Settings, SettingsError, check_variables, read_file
from emulator.wire.times import number_or_text, parse_control_duration_ms, read_clock_instant_ms, read_epoch_ms
from emulator.wire.urls import read_target

if TYPE_CHECKING:
    from emulator.wire.dialect import Dialect

F = TypeVar("F", bound=Callable[..., object])

_RATES = {"frozen": 0.0, "realtime": 1.0}


class _Text(click.types.StringParamType):
    """A text; one environment variable holds several, separated by commas."""

    envvar_list_splitter = ","

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(super().convert(value, param, ctx)).strip()


class OptionOfVariables(click.Option):
    """An option of several environment variables, the first that is set counts; an error names that one."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        flags = " / ".join(f"'{flag}'" for flag in self.opts)
        assert isinstance(self.envvar, list)
        assert self.name is not None
        if ctx is None or ctx.get_parameter_source(self.name) is not click.core.ParameterSource.ENVIRONMENT:
            return flags
        variable = next(name for name in self.envvar if os.environ.get(name))
        return f"{flags} (env var: '{variable}')"


def settings_options(*names: str) -> Callable[[F], F]:
    """The options of the settings with these names, of all without any, and `--config`.

    A value comes from the flag, the variable, the file or the default, the first that is given.
    """

    def decorate(command: F) -> F:
        for entry in reversed(fields(Settings)):
            if not names or entry.name in names:
                command = _option(entry)(command)
        return _CONFIG(command)

    return decorate


def read_settings(**values: Any) -> Settings:  # by name, of whatever type the field has
    """The settings of a command's options. Raises WrongUsage, also for a variable that no setting has."""
    try:
        check_variables(os.environ)
        return Settings(**values)
    except SettingsError as error:
        raise WrongUsage(str(error)) from error


def read_dialect(name: str) -> Dialect:
    """The dialect of a name or a file. Raises WrongUsage."""
    from emulator.wire import dialect

    try:
        return dialect.load(name)
    except dialect.DialectError as error:
        raise WrongUsage(f"dialect: {error}") from error


def _option(entry: Field[Any]) -> Callable[[F], F]:
    choices = entry.metadata.get("choices")
    is_flag = isinstance(entry.default, bool)
    is_number = isinstance(entry.default, int) and not is_flag
    text = entry.metadata["help"]
    flag = entry.name.replace("_", "-")
    return click.option(
        # A flag must be able to turn off what the file turns on.
        f"--{flag}/--no-{flag}" if is_flag else f"--{flag}",
        entry.name,
        type=click.BOOL if is_flag else click.Choice(choices) if choices else click.INT if is_number else _Text(),
        is_flag=is_flag,
        multiple=isinstance(entry.default, tuple),
        default=entry.default,
        # The help text explains defaults whose value says little.
        show_default="Default:" not in text and entry.default != () and not is_flag,
        envvar=f"{PREFIX}{entry.name.upper()}",
        show_envvar=True,
        metavar=entry.metadata.get("metavar"),
        help=text,
    )


def _read_config(context: click.Context, _: click.Parameter, given: Path | None) -> None:
    path = given or Path(FILE_NAME)
    if given is None and not path.is_file():
        return
    try:
        values = read_file(path)
    except SettingsError as error:
        raise WrongUsage(str(error)) from error
    context.default_map = {**(context.default_map or {}), **values}


_CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar=f"{PREFIX}CONFIG",
    show_envvar=True,
    # Read before the others, because it supplies their defaults.
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    help=f"TOML file of settings. Default: {FILE_NAME} in the current directory, if there is one.",
)


ca_option = click.option(
    "--ca",
    # The second is what other programs of the same shell read.
    envvar=[f"{PREFIX}CA", "SSL_CERT_FILE"],
    show_envvar=True,
    metavar="FILE",
    help="PEM file of the certificate, or its authority's, that an https server is trusted by.",
)


# -- types ------------------------------------------------------------------------------------


if TYPE_CHECKING:
    _IntType = click.ParamType[int]
    _FloatType = click.ParamType[float]
    _StrType = click.ParamType[str]
else:
    # Generic for type checkers alone: not every supported version of click takes the parameter.
    _IntType = _FloatType = _StrType = click.ParamType


class Duration(_IntType):
    """A length of time in milliseconds, given as `1d2h30m`: a number has no unit (D-500)."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_control_duration_ms("0s" if str(value) == "0" else str(value))
        except Malformed as malformed:
            self.fail(malformed.reason, param, ctx)


class Instant(_IntType):
    """A time in epoch milliseconds: ISO 8601, or digits for milliseconds, but none that mean seconds (D-501)."""

    name = "instant"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            given = number_or_text(str(value))
            return read_clock_instant_ms(given if isinstance(given, str) else read_epoch_ms(given))
        except Malformed as malformed:
            self.fail(malformed.reason, param, ctx)


class Rate(_FloatType):
    """How fast a clock goes: a number, `frozen` for 0 or `realtime` for 1."""

    name = "rate"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        if text in _RATES:
            return _RATES[text]
        try:
            rate = float(text)
        except ValueError:
            rate = math.nan
        if not math.isfinite(rate):
            self.fail(f"expected a number, 'frozen' or 'realtime', got {text!r}", param, ctx)
        return rate


class Port(_IntType):
    """A port to listen on; 0 is any."""

    name = "port"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65_535):
            self.fail(f"expected a port from 0 to 65535, got {text[:40]!r}", param, ctx)
        return int(text)


class Url(_StrType):
    """The address of a server, without a slash at its end."""

    name = "url"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text.startswith(("http://", "https://")) or read_target(text) is None:
            hint = f" (did you mean http://{text}?)" if read_target(f"http://{text}") and "://" not in text else ""
            self.fail(f"expected an address such as http://127.0.0.1:8080, got {text!r}{hint}", param, ctx)
        return text.rstrip("/")
