"""The variables that a client needs, as text to copy or to read by a program."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.server.bootstrap import Emulation

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]*")


class Format(StrEnum):
    """How the variables are written."""

    SHELL = "shell"
    DOTENV = "dotenv"
    JSON = "json"


def variables_of(emulation: Emulation, url: str) -> dict[str, str]:
    """The variables for the default world of an emulator in this process."""
    credentials = emulation.worlds.get("default").credentials()
    return emulation.dialect.environment.variables(
        url=url,
        token=credentials.token,
        current_signing_key=credentials.current_signing_key,
        next_signing_key=credentials.next_signing_key,
    )


def written(values: Mapping[str, str], form: Format) -> str:
    """The variables as lines for a shell to evaluate, lines of an `.env` file, or a JSON object."""
    match form:
        case Format.SHELL:
            return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())
        case Format.DOTENV:
            return "\n".join(f"{name}={_dotenv_value(value)}" for name, value in values.items())
        case Format.JSON:
            return json.dumps(dict(values), indent=2)


def _dotenv_value(value: str) -> str:
    """Quoted only where it has to be: some readers take quotes for a part of the value."""
    if _PLAIN.fullmatch(value):
        return value
    # Single quotes, because between double ones a reader would expand `$`.
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
