"""Every setting of the server, its default, and why it is that.

`serve` makes one option of each field; the same name in capitals after `EMULATOR_` is its
environment variable, and in `emulator.toml` its key. Nothing else reads the environment, but for the variables
`OTEL_*`, which are those of OpenTelemetry, and `QSTASH_DEV_*`, which are options of `dev`.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path
from typing import TypeVar

from emulator.core.errors import Malformed
from emulator.core.language.text import near
from emulator.core.world_setup import KEEP_ALL, Keep
from emulator.wire import toml
from emulator.wire.times import parse_control_duration_ms, parse_keep
from emulator.wire.urls import canonical_host, read_target

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

PREFIX = "EMULATOR_"
FILE_NAME = "emulator.toml"

# The largest integer every JSON reader keeps exact; the control API takes no larger seed either.
_EXACT = 2**53 - 1
# About 50,000 deliveries, and 100 MB.
_KEPT_IN_MEMORY = 200_000
_MEMORY = ":memory:"
_HOUR_MS = 3_600_000


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
    db: str = _setting(_MEMORY, "SQLite file to keep state in; ':memory:' keeps none.", metavar="FILE")
    fresh: bool = _setting(
        False, "Start over: throw away what the database holds, all worlds of it. Its snapshots stay."
    )
    keep_history: str = _setting(
        "",
        "How much of what has happened is kept: a number of its newest entries (about four a delivery), an age in "
        "virtual time such as 30d, both with a comma between, or 'all'. Default: 200000 in memory, all in a file.",
        metavar="COUNT|AGE",
    )
    clock: str = _setting(
        "realtime", "'realtime', 'frozen', or a rate: 60 is one virtual minute a second.", metavar="CLOCK"
    )
    epoch: str = _setting("", "First instant of the virtual clock, ISO 8601. Default: now.", metavar="INSTANT")
    seed: int = _setting(
        0,
        "Seeds every random choice: tokens, keys, statistics, and with the epoch the ids of messages.",
        least=-_EXACT,
        most=_EXACT,
    )
    chaos: str = _setting(
        "0",
        "How much goes wrong, from 0 to 1: the share of attempts that fail, are late, out of order or made twice, "
        "drawn from the seed.",
        metavar="LEVEL",
    )
    fixtures: str = _setting(
        "",
        "YAML or JSON file of accounts, indexes, URL groups, queues, schedules and destination rules. "
        "Default: built in.",
        metavar="FILE",
    )
    dialect: str = _setting("svc", "Names on the wire: 'svc', 'upstash', or a TOML file.", metavar="NAME|FILE")
    foreign_options: str = _setting(
        "refuse",
        "Options of another built-in dialect, such as Upstash-Delay where the dialect is svc: 'refuse' answers 400, "
        "'ignore' lets them pass without effect.",
        choices=("refuse", "ignore"),
    )
    region: str = _setting(
        "plan",
        "Region of the built-in account, which every delivery names; 'plan' is that of its plan.",
        choices=("plan", "eu-central-1", "us-east-1"),
    )
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
        "Attempts under way at once: per destination in a running clock, in all in a frozen one. "
        "Default: 64, and 1 during a clock advance or for mounted applications.",
        least=0,
        most=10_000,
    )
    max_attempts_per_instant: int = _setting(
        1_000,
        "Hold a destination that publishes to itself more than so many times in a row at one instant, or within a "
        "second where time passes by itself; everything else continues.",
        least=1,
        most=10**9,
    )
    settle: str = _setting(
        "15s",
        "How long of real time a call about the clock waits for the next of the deliveries under way.",
        metavar="DURATION",
    )
    mount_timeout: str = _setting(
        "30s",
        "Real time that an application in the server's own process may take for a delivery: one that a Python "
        "program mounts.",
        metavar="DURATION",
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
    control_token_file: str = _setting(
        "", "File that holds the control token, which no list of processes shows then. Default: none.", metavar="FILE"
    )
    allow_control_host: tuple[str, ...] = _setting(
        (), "Further host name under which all APIs may be called, the control API too. Repeatable.", metavar="HOST"
    )
    public_host: tuple[str, ...] = _setting(
        (),
        "Further host name under which the messaging and management APIs may be called, such as a tunnel's. "
        "Repeatable.",
        metavar="HOST",
    )
    allow_origin: tuple[str, ...] = _setting(
        (),
        "Origin of web pages that may call the messaging API, such as https://example.com. Repeatable.",
        metavar="ORIGIN",
    )
    trust_proxy: tuple[str, ...] = _setting(
        (), "Address or network of a proxy whose X-Forwarded-For is believed. Repeatable.", metavar="ADDRESS"
    )
    inspector: str = _setting(
        "on",
        "The web page at /_emulator/inspector: 'read-only' lets it change nothing, 'off' serves none.",
        choices=("on", "read-only", "off"),
    )
    trace: str = _setting(
        "off",
        "'inject' adds a traceparent header to deliveries and callbacks where none was forwarded, so that the spans of "
        "an app join those of its caller.",
        choices=("off", "inject"),
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
        for entry in fields(self):
            value, kind = getattr(self, entry.name), type(entry.default)
            fits = all(isinstance(each, str) for each in value) if kind is tuple else isinstance(value, kind)
            if not fits and "choices" not in entry.metadata:
                expected = "texts" if kind is tuple else _EXPECTED[kind]
                raise SettingsError(f"{entry.name}: expected {expected}, got {value!r}")
        # Each raises for a value that is none.
        _ = self.rate, self.chaos_level, self.settle_s, self.kept, self.control_hosts, self.public_hosts
        _ = self.origins, self.proxies, self.mount_timeout_s
        for entry in fields(self):
            value, limits = getattr(self, entry.name), entry.metadata
            if "least" in limits and not limits["least"] <= value <= limits["most"]:
                raise SettingsError(
                    f"{entry.name}: expected a number from {limits['least']} to {limits['most']}, got {value}"
                )
            if isinstance(entry.default, str) and entry.default and value == "":
                raise SettingsError(f"{entry.name}: expected a value such as {entry.default}, got an empty text")
            if isinstance(value, str) and "\0" in value:
                raise SettingsError(f"{entry.name}: expected a text without NUL characters, got {value!r}")
            if "choices" in limits and value not in limits["choices"]:
                raise SettingsError(f"{entry.name}: expected one of {', '.join(limits['choices'])}, got {value!r}")

        for name in ("allow_host", "allow_control_host"):
            for host in getattr(self, name):
                _check_host(name, host)

    @property
    def rate(self) -> float:
        """How fast virtual time passes: 0 is frozen, 1 real time. Raises SettingsError."""
        if self.clock in ("frozen", "realtime"):
            return 0.0 if self.clock == "frozen" else 1.0
        return _number("clock", self.clock, 1_000_000, "'realtime', 'frozen' or a rate from 0 to 1000000")

    @property
    def chaos_level(self) -> float:
        """How much goes wrong, from 0 to 1 (D-423). Raises SettingsError."""
        return _number("chaos", self.chaos, 1, "a number from 0 (nothing) to 1")

    @property
    def settle_s(self) -> float:
        """How long a move of the clock waits for deliveries under way, seconds of real time. Raises SettingsError."""
        return _real_time_s("settle", self.settle)

    @property
    def mount_timeout_s(self) -> float:
        """How long a mounted application may take, seconds of real time. Raises SettingsError."""
        return _real_time_s("mount_timeout", self.mount_timeout)

    def read_control_token(self) -> str:
        """The token that control requests must carry, empty if none is needed. Raises SettingsError."""
        if not self.control_token_file:
            return self.control_token
        if self.control_token:
            raise SettingsError("control_token_file: expected no control_token beside it")
        return read_token_file(self.control_token_file)

    @property
    def control_hosts(self) -> tuple[str, ...]:
        """The host names under which all APIs are served, in one spelling. Raises SettingsError."""
        return tuple(_host("allow_control_host", each) for each in self.allow_control_host)

    @property
    def public_hosts(self) -> tuple[str, ...]:
        """The host names under which all but the control API is served, in one spelling. Raises SettingsError."""
        return tuple(_host("public_host", each) for each in self.public_host)

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins of pages that may call the messaging API, in one spelling. Raises SettingsError."""
        return tuple(_origin(each) for each in self.allow_origin)

    @property
    def proxies(self) -> tuple[Network, ...]:
        """The networks of trusted proxies. Raises SettingsError."""
        return tuple(_network(each) for each in self.trust_proxy)

    @property
    def kept(self) -> Keep:
        """How much of history is kept. Raises SettingsError."""
        if not self.keep_history:
            # A file may be kept for what it holds; memory is all there is.
            return Keep(entries=_KEPT_IN_MEMORY) if self.db == _MEMORY else KEEP_ALL
        try:
            return parse_keep(self.keep_history)
        except Malformed as malformed:
            raise SettingsError(f"keep_history: {malformed.reason}") from malformed

    @property
    def scheme(self) -> str:
        """How clients call the server: `http`, or `https` with a certificate. Raises SettingsError for half of one."""
        if bool(self.tls_cert) != bool(self.tls_key):
            given, missing = ("tls_cert", "tls_key") if self.tls_cert else ("tls_key", "tls_cert")
            raise SettingsError(f"{given}: expected {missing} beside it, a certificate and its key go together")
        return "https" if self.tls_cert else "http"


# Variables that are no settings of a server: of the commands about one that runs, of the tests, and of the examples.
OTHER_VARIABLES = {
    "URL": "the address of the running server, for commands and for the pytest plugin",
    "WORLD": "the world that commands are about",
    "CA": "the certificate that commands trust an https server by",
    "CONFIG": "the file of settings",
    "IMAGE": "the image that the examples for CI services start; the program does not read it",
}
# What container engines set for a service that is called `emulator`.
_OF_CONTAINERS = re.compile(r"NAME|ENV_.*|SERVICE_(HOST|PORT)(_.*)?|PORT_[0-9]+_.*")


def check_variables(environment: Mapping[str, str]) -> None:
    """Refuses `EMULATOR_` variables that nothing reads, as `read_file` does keys (D-341). Raises SettingsError."""
    settings = [entry.name.upper() for entry in fields(Settings)]
    for name in sorted(environment):
        own = name.removeprefix(PREFIX)
        if own in (name, *settings, *OTHER_VARIABLES) or _OF_CONTAINERS.fullmatch(own):
            continue
        meant = [f" (did you mean {PREFIX}{each}?)" for each in near(own, (*settings, *OTHER_VARIABLES))]
        raise SettingsError(f"{name}: no such setting{''.join(meant)}; it is a variable of the environment")


def _number(setting: str, text: str, most: int, expected: str) -> float:
    """A number from 0 to `most`. Raises SettingsError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= most:
        raise SettingsError(f"{setting}: expected {expected}, got {text!r}")
    return number


def _real_time_s(setting: str, text: str) -> float:
    """A time of the machine's clock in seconds. Raises SettingsError."""
    try:
        ms = parse_control_duration_ms(text)
    except Malformed:
        ms = 0
    if not 1 <= ms <= _HOUR_MS:
        hint = f"; did you mean {text}s?" if text.isascii() and text.isdigit() and int(text[:9]) else ""
        raise SettingsError(f"{setting}: expected a time such as 30s, an hour at most, got {text!r}{hint}")
    return ms / 1000


# A line of a request has no place for more.
_MAX_TOKEN_BYTES = 16 * 1024


def read_token_file(name: str) -> str:
    """The control token in a file, without the white space around it. Raises SettingsError."""
    try:
        with Path(name).open("rb") as file:
            content = file.read(_MAX_TOKEN_BYTES + 1)
        token = content.decode("utf-8").strip()
    except OSError as error:
        raise SettingsError(f"control_token_file: {name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"control_token_file: {name} is not a UTF-8 text file") from error
    if len(content) > _MAX_TOKEN_BYTES:
        raise SettingsError(f"control_token_file: {name} is larger than {_MAX_TOKEN_BYTES // 1024} KiB")
    if not token or len(token.split()) > 1 or not token.isprintable():
        # An empty token would be none at all.
        raise SettingsError(f"control_token_file: expected one word in {name}")
    return token


def _host(setting: str, text: str) -> str:
    """A host name as `Host` headers are compared with. Raises SettingsError."""
    host = canonical_host(text)
    if host is None:
        raise SettingsError(
            f"{setting}: expected a host name such as example.com, without scheme and port, got {text!r}"
        )
    return host


def _origin(text: str) -> str:
    """An origin in one spelling. Raises SettingsError."""
    target = read_target(text)
    if target is None or target.credentials or target.request_target != "/" or text[-1:] in "?#" or "*" in text:
        raise SettingsError(f"allow_origin: expected the origin of a page, such as https://example.com, got {text!r}")
    return target.origin


def _network(text: str) -> Network:
    """The network that an address or network names. Raises SettingsError."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise SettingsError(
            f"trust_proxy: expected an IP address or network such as 10.0.0.0/8, got {text!r}"
        ) from None


def _check_host(name: str, text: str) -> None:
    """Refuse what can match no host, with the host that was meant if there is one. Raises SettingsError."""
    host = text.removeprefix("*.") if name == "allow_host" else text
    if canonical_host(host) is not None:
        return
    target = read_target(text) or read_target(f"http://{text}")
    hint = "" if target is None else f" (did you mean {target.host}?)"
    also = ", or *.example.com for every name below one" if name == "allow_host" else ""
    raise SettingsError(f"{name}: expected a host name or an address such as api.example.com{also}, got {text!r}{hint}")


def read_file(path: Path) -> dict[str, object]:
    """The settings in an `emulator.toml`. Raises SettingsError with the file's name and the line or key."""
    try:
        text, content = toml.read_file(path)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not a UTF-8 text file") from error
    except Malformed as error:
        raise SettingsError(f"{path}: {error}") from error
    known = {entry.name: entry for entry in fields(Settings)}
    given: dict[str, object] = {}
    for key, value in content.items():
        entry = known.get(key.replace("-", "_"))
        if entry is None:
            close = near(key.replace("-", "_"), known)
            hint = f" (did you mean {close[0]}?)" if close else f"; there are {', '.join(known)}"
            raise SettingsError(f"{path}{_line_of(key, text)}: {key}: no such setting{hint}")
        try:
            given[entry.name] = _value(value, entry.default)
            Settings(**{entry.name: given[entry.name]})  # type: ignore[arg-type]  # of the type just made sure of
        except SettingsError as error:
            # What Settings refuses begins with the name already.
            raise SettingsError(f"{path}: {key}: {str(error).removeprefix(f'{entry.name}: ')}") from None
    return given


def _line_of(key: str, text: str) -> str:
    """Where a key stands in a TOML file, as `:3`; nothing where it is written in another way."""
    spelled = re.compile(rf"\s*\[*[\s\"']*{re.escape(key)}\b")
    return next((f":{at}" for at, line in enumerate(text.splitlines(), 1) if spelled.match(line)), "")


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
    raise SettingsError(f"expected {_EXPECTED[kind]}, got {toml.shown(value)}")
