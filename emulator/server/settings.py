"""Every setting of the server, its default, and why it is that.

`serve` makes one option of each field; the same name in capitals after `EMULATOR_` is its
environment variable, and in `emulator.toml` its key. Nothing else reads the environment.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path
from typing import TypeVar

PREFIX = "EMULATOR_"
FILE_NAME = "emulator.toml"

# The largest integer every JSON reader keeps exact; the control API takes no larger seed either.
_EXACT = 2**53 - 1


class SettingsError(Exception):
    """A setting has a value that cannot be used; the text names it."""


_T = TypeVar("_T")


def _setting(default: _T, text: str, **extra: object) -> _T:
    return field(default=default, metadata={"help": text, **extra})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One server's settings, read once at its start."""

    host: str = _setting("127.0.0.1", "Address to listen on. Only this machine can reach the default.")
    port: int = _setting(8080, "Port to listen on; 0 picks a free one and prints it.", least=0, most=65_535)
    db: str = _setting(":memory:", "SQLite file to keep state in; ':memory:' keeps none.", metavar="FILE")
    clock: str = _setting(
        "realtime", "'realtime', 'frozen', or a rate: 60 is one virtual minute a second.", metavar="CLOCK"
    )
    epoch: str = _setting("", "First instant of the virtual clock, ISO 8601. Default: now.", metavar="INSTANT")
    seed: int = _setting(0, "Seeds every random choice: ids, tokens, statistics.", least=-_EXACT, most=_EXACT)
    fixtures: str = _setting(
        "",
        "YAML or JSON file of accounts, indexes, URL groups, queues, schedules and destination rules. "
        "Default: built in.",
        metavar="FILE",
    )
    dialect: str = _setting("svc", "Names on the wire: 'svc', 'upstash', or a TOML file.", metavar="NAME|FILE")
    external: str = _setting(
        "capture",
        "Destinations outside this machine and private networks: 'capture' journals and answers 200, "
        "'fail' is a connection error, 'allow' really sends.",
        choices=("capture", "fail", "allow"),
    )
    allow_host: tuple[str, ...] = _setting(
        (), "Host that may really be contacted although it is external. Repeatable.", metavar="HOST"
    )
    llm_url: str = _setting(
        "",
        "OpenAI-compatible server that answers chat completions and messages to api/llm. Default: canned completions.",
        metavar="URL",
    )
    plan: str = _setting("paid", "Plan of the built-in account.", choices=("free", "paid"))
    concurrency: int = _setting(
        0,
        "Attempts under way at once: per destination in a running clock, in all during a clock advance. "
        "Default: 64 and 1.",
        least=0,
        most=10_000,
    )
    max_attempts_per_instant: int = _setting(
        10_000, "Stops a message that keeps republishing itself without delay.", least=1, most=10**9
    )
    server: str = _setting("uvicorn", "HTTP server; hypercorn speaks HTTP/2.", choices=("uvicorn", "hypercorn"))
    tls_cert: str = _setting(
        "",
        "PEM file of a certificate, with its chain: the server then speaks https only. Default: plain http.",
        metavar="FILE",
    )
    tls_key: str = _setting("", "PEM file of the certificate's private key. Default: none.", metavar="FILE")
    control_token: str = _setting(
        "", "Bearer token that every control request must carry. Default: none needed.", metavar="TOKEN"
    )
    allow_control_host: tuple[str, ...] = _setting(
        (), "Further host name under which the control API may be called. Repeatable.", metavar="HOST"
    )
    strict: bool = _setting(
        False, "Hold every request and answer against the contract; log what does not match, and say it in a header."
    )
    log_format: str = _setting(
        "text", "'text' lines, coloured on a terminal, or 'json' lines.", choices=("text", "json")
    )
    log_level: str = _setting("info", "How much to log.", choices=("debug", "info", "warning", "error"))

    def __post_init__(self) -> None:
        """Check ranges, choices and types. Raises SettingsError."""
        self.rate  # noqa: B018  # raises for a clock that is none
        for entry in fields(self):
            value, limits = getattr(self, entry.name), entry.metadata
            if "least" in limits and not isinstance(value, int):
                raise SettingsError(f"{entry.name}: expected a whole number, got {value!r}")
            if "least" in limits and not limits["least"] <= value <= limits["most"]:
                raise SettingsError(
                    f"{entry.name}: expected a number from {limits['least']} to {limits['most']}, got {value}"
                )
            if isinstance(entry.default, bool) and not isinstance(value, bool):
                raise SettingsError(f"{entry.name}: expected true or false, got {value!r}")
            if "choices" in limits and value not in limits["choices"]:
                raise SettingsError(f"{entry.name}: expected one of {', '.join(limits['choices'])}, got {value!r}")

    @property
    def rate(self) -> float:
        """How fast virtual time passes: 0 is frozen, 1 real time. Raises SettingsError."""
        if self.clock in ("frozen", "realtime"):
            return 0.0 if self.clock == "frozen" else 1.0
        try:
            rate = float(self.clock)
        except ValueError:
            rate = math.nan
        if not 0 <= rate <= 1_000_000:
            raise SettingsError(f"clock: expected 'realtime', 'frozen' or a rate from 0 to 1000000, got {self.clock!r}")
        return rate

    @property
    def scheme(self) -> str:
        """How clients call the server: `http`, or `https` with a certificate. Raises SettingsError for half of one."""
        if bool(self.tls_cert) != bool(self.tls_key):
            given, missing = ("tls_cert", "tls_key") if self.tls_cert else ("tls_key", "tls_cert")
            raise SettingsError(f"{given}: expected {missing} beside it, a certificate and its key go together")
        return "https" if self.tls_cert else "http"


def read_file(path: Path) -> dict[str, object]:
    """The settings in an `emulator.toml`. Raises SettingsError with the file's name and the line or key."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not a UTF-8 text file") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from error
    known = {entry.name: entry for entry in fields(Settings)}
    given: dict[str, object] = {}
    for key, value in content.items():
        entry = known.get(key.replace("-", "_"))
        if entry is None:
            raise SettingsError(f"{path}: {key}: no such setting; there are {', '.join(known)}")
        try:
            given[entry.name] = _value(value, entry.default)
            Settings(**{entry.name: given[entry.name]})  # type: ignore[arg-type]  # of the type just made sure of
        except SettingsError as error:
            # What Settings refuses begins with the name already.
            raise SettingsError(f"{path}: {key}: {str(error).removeprefix(f'{entry.name}: ')}") from None
    return given


_EXPECTED = {tuple: "a list of texts", bool: "true or false", int: "a whole number", str: "a text"}


def _value(value: object, default: object) -> object:
    """A value of TOML as the type of the setting's default. Raises SettingsError without the key."""
    kind = type(default)
    if type(value) is kind:
        return value
    if kind is tuple and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    # A clock's rate and an epoch have types of their own in TOML.
    if kind is str and type(value) in (int, float):
        return str(value)
    if kind is str and isinstance(value, date):
        return value.isoformat()
    raise SettingsError(f"expected {_EXPECTED[kind]}, got {value!r}")
