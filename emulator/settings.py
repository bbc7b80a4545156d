"""Every setting of the server, its default, and why it is that.

`serve` makes one option of each field; the same name in capitals after `EMULATOR_` is its
environment variable, and in `emulator.toml` its key. Nothing else reads the environment.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

PREFIX = "EMULATOR_"
FILE_NAME = "emulator.toml"


class SettingsError(Exception):
    """A setting has a value that cannot be used; the text names it."""


def _setting(default: object, text: str, **extra: object) -> object:
    return field(default=default, metadata={"help": text, **extra})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One server's settings, read once at its start."""

    host: str = _setting("127.0.0.1", "Address to listen on. Only this machine can reach the default.")  # type: ignore[assignment]
    port: int = _setting(8080, "Port to listen on; 0 picks a free one and prints it.")  # type: ignore[assignment]
    db: str = _setting(":memory:", "SQLite file to keep state in; ':memory:' keeps none.", metavar="FILE")  # type: ignore[assignment]
    clock: str = _setting(  # type: ignore[assignment]
        "realtime", "'realtime', 'frozen', or a rate: 60 is one virtual minute a second.", metavar="CLOCK"
    )
    epoch: str = _setting("", "First instant of the virtual clock, ISO 8601. Default: now.", metavar="INSTANT")  # type: ignore[assignment]
    seed: int = _setting(0, "Seeds every random choice: ids, tokens, statistics.")  # type: ignore[assignment]
    dialect: str = _setting("svc", "Names on the wire: 'svc', 'upstash', or a TOML file.", metavar="NAME|FILE")  # type: ignore[assignment]
    external: str = _setting(  # type: ignore[assignment]
        "capture",
        "Destinations outside this machine and private networks: 'capture' journals and answers 200, "
        "'fail' is a connection error, 'allow' really sends.",
        choices=("capture", "fail", "allow"),
    )
    allow_host: tuple[str, ...] = _setting(  # type: ignore[assignment]
        (), "Host that may really be contacted although it is external. Repeatable.", metavar="HOST"
    )
    plan: str = _setting("paid", "Plan of the built-in account.", choices=("free", "paid"))  # type: ignore[assignment]
    concurrency: int = _setting(  # type: ignore[assignment]
        0,
        "Attempts under way at once: per destination in a running clock, in all during a clock advance. "
        "Default: 64 and 1.",
    )
    max_attempts_per_instant: int = _setting(  # type: ignore[assignment]
        10_000, "Stops a message that keeps republishing itself without delay."
    )
    server: str = _setting("uvicorn", "HTTP server; hypercorn speaks HTTP/2.", choices=("uvicorn", "hypercorn"))  # type: ignore[assignment]
    control_token: str = _setting(  # type: ignore[assignment]
        "", "Bearer token that every control request must carry. Default: none needed.", metavar="TOKEN"
    )
    allow_control_host: tuple[str, ...] = _setting(  # type: ignore[assignment]
        (), "Further host name under which the control API may be called. Repeatable.", metavar="HOST"
    )
    log_format: str = _setting(
        "text", "'text' lines, coloured on a terminal, or 'json' lines.", choices=("text", "json")
    )  # type: ignore[assignment]
    log_level: str = _setting(  # type: ignore[assignment]
        "info", "How much to log.", choices=("debug", "info", "warning", "error")
    )

    def __post_init__(self) -> None:
        """Check what a type cannot say. Raises SettingsError."""
        self.rate  # noqa: B018  # raises for a clock that is none
        for name, least, most in (
            ("port", 0, 65_535),
            ("concurrency", 0, 10_000),
            ("max_attempts_per_instant", 1, 10**9),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise SettingsError(f"{name}: expected a number from {least} to {most}, got {value}")
        for entry in fields(self):
            choices = entry.metadata.get("choices")
            if choices and getattr(self, entry.name) not in choices:
                raise SettingsError(
                    f"{entry.name}: expected one of {', '.join(choices)}, got {getattr(self, entry.name)!r}"
                )

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


def read_file(path: Path) -> dict[str, object]:
    """The settings of an `emulator.toml`. Raises SettingsError with the file's name and the line or key."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from error
    return _checked(content, str(path))


def _checked(content: Mapping[str, object], source: str) -> dict[str, object]:
    known = {entry.name: entry for entry in fields(Settings)}
    settings: dict[str, object] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in known:
            raise SettingsError(f"{source}: {key}: no such setting; there are {', '.join(sorted(known))}")
        default = known[name].default
        if isinstance(default, tuple):
            is_good = isinstance(value, list) and all(isinstance(each, str) for each in value)
            value = tuple(value) if isinstance(value, list) else value
        elif isinstance(default, int):
            is_good = isinstance(value, int) and not isinstance(value, bool)
        else:
            value = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
            is_good = isinstance(value, str)
        if not is_good:
            raise SettingsError(f"{source}: {key}: expected a {type(default).__name__}, got {value!r}")
        settings[name] = value
    return settings
