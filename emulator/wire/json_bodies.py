"""Decoding the JSON bodies of clients: a refusal names the field by its path.

Source: D-077.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from emulator.core.errors import InvalidInput
from emulator.core.language.excerpts import excerpt
from emulator.wire import names
from emulator.wire.json_fields import WHOLE

T = TypeVar("T")


_ANY = msgspec.json.Decoder()
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_FIELD = re.compile(r"Object (?P<fault>missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL)


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """A body as the decoder's type. Raises: InvalidInput naming the JSON field, or the body as a whole."""
    if not body or body.isspace():
        raise InvalidInput(WHOLE, "expected JSON, got an empty body")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _wrong_shape(str(error), body) from None
    except msgspec.DecodeError as error:
        reason = str(error)
        if "(byte" not in reason:
            reason = f"{reason} (byte {len(body)})"
        raise InvalidInput(WHOLE, f"expected JSON: {reason}") from None
    except UnicodeDecodeError as error:
        # Its position counts from the start of one string of the document.
        raise InvalidInput(
            WHOLE, f"expected JSON in UTF-8: {error.reason}, byte {error.object[error.start]:#x}"
        ) from None
    except RecursionError:
        raise InvalidInput(WHOLE, "expected JSON: too many nested values") from None


def _wrong_shape(text: str, body: bytes) -> InvalidInput:
    """The refusal for a document of another shape; its field is the path of the wrong value.

    Raises: InvalidInput for one that cannot be read to its end.
    """
    place = _PLACE.fullmatch(text)
    what, path = (text, "") if place is None else (place["what"], place["path"] or "")
    path = path.removeprefix(".")
    beginning, any_key, rest = path.partition("[...]")
    if any_key:
        name = _key_at_fault(
            _inside(decoded(_ANY, body), beginning), rest, may_be_list="array" in what.partition(",")[0]
        )
        path = f"{beginning}.{name}{rest}"
    named = _FIELD.fullmatch(what)
    if named is not None:
        field = f"{path}.{named['name']}" if path else named["name"]
        return InvalidInput(field, "is missing" if named["fault"].startswith("missing") else "unknown name")
    reason = what[:1].lower() + what[1:].replace("`", "")
    return InvalidInput(path or WHOLE, reason)


_STEP = re.compile(r"\[([0-9]+)\]|\.?([^.\[\]]+)")


def _inside(value: object, path: str) -> object:
    """The value at a path such as `[0].headers`, None where there is none."""
    for index, key in _STEP.findall(path):
        if index:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _key_at_fault(value: object, rest: str, *, may_be_list: bool) -> str:
    """Which key of an object of texts holds something else, which the decoder does not say.

    `rest` is the wrong element's place if the key holds a list: `[1]`.
    """
    for key, held in value.items() if isinstance(value, dict) else ():
        if rest:
            index = int(rest[1:-1])
            is_wrong = isinstance(held, list) and index < len(held) and not isinstance(held[index], str)
        else:
            is_wrong = not isinstance(held, str) and not (may_be_list and isinstance(held, list))
        if is_wrong:
            return key if key.isprintable() and len(key) <= names.MAX_LENGTH else excerpt(key)
    return "..."
