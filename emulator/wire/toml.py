"""TOML that somebody wrote, and its values as an error names them."""

from __future__ import annotations

import tomllib
from datetime import date, time
from typing import Any

from emulator.core.errors import Malformed
from emulator.core.language.text import MAX_SHOWN, excerpt

_LONGEST_NUMBER = 40


def parse_toml(text: str) -> dict[str, Any]:
    """The table of a document. Raises Malformed."""
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
