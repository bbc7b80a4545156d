"""TOML files that somebody wrote, settings and dialects, and their values as an error names them."""

from __future__ import annotations

import tomllib
from datetime import date, time
from pathlib import Path
from typing import Any

from emulator.core.errors import Malformed
from emulator.core.language.text import MAX_SHOWN, excerpt

_LONGEST_NUMBER = 40
# Ten times as much as the largest has. The time that the library takes grows with the square of the parts of a key,
# which stands in one line (D-792).
_MAX_BYTES = 64 * 1024
_MAX_LINE = 8 * 1024


def read_file(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a file, and its table. Raises OSError, UnicodeDecodeError and Malformed."""
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise Malformed(f"larger than {_MAX_BYTES // 1024} KiB")
    text = content.decode("utf-8").replace("\r\n", "\n")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _MAX_LINE:
            raise Malformed(f"line {number} is longer than {_MAX_LINE // 1024} KiB")
    return text, _parse(text)


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Malformed(str(error)) from None
    except RecursionError:
        raise Malformed("too many nested values") from None
    except ValueError:
        # Python reads no integer of thousands of digits.
        raise Malformed("a number has too many digits") from None


def shown(value: object) -> str:
    """A value in the words of TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return excerpt(value)
        case float():
            return str(value)
        case int():
            # One of thousands of digits cannot be written out.
            return str(value) if value.bit_length() < 4 * _LONGEST_NUMBER else "a number of many digits"
        case date() | time():
            return value.isoformat()
        case list():
            text = f"[{', '.join(map(shown, value[:_LONGEST_NUMBER]))}]"
            return text if len(text) <= MAX_SHOWN else "an array"
        case _:
            return "a table"
