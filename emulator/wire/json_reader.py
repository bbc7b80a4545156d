"""The reader of JSON: of bodies, of fixtures, of every document that somebody sends.

A refusal names the value at fault by its path, written like `respond.status`, `sequence[1].latency`. What is expected
is said in one of two ways: as a type, for bodies of one shape (`decoded`), or value by value, where a document has a
grammar of its own (`Fields`, and the functions that read one value).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import inspect

from emulator.core.errors import InvalidInput, PayloadTooLarge
from emulator.core.language.calendar import check_clock_instant
from emulator.core.language.text import excerpt
from emulator.wire import names
from emulator.wire.names import read_field
from emulator.wire.times import parse_control_duration_ms, read_instant_ms

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = Mapping[str, Json]

# The field that a refusal names when the document as a whole is wrong.
WHOLE = "body"
# The largest integer every JSON reader keeps exact.
MAX_EXACT = 2**53 - 1
# The most bytes of a body that is read as JSON, unless its reader says otherwise, and the most values (D-811).
MAX_BYTES: Final = 8 * 1024**2
MAX_VALUES: Final = 1_000_000
# What is larger is not read again to name the value at fault.
_MOST_EXPLAINED = 100_000
HALF_PAIR = "holds half a surrogate pair, expected Unicode text"


def joined(path: str, key: str) -> str:
    """The path of a key of the object at `path`; the document itself is at the empty path."""
    return f"{path}.{key}" if path else key


# Of a longer one an error names the beginning.
_MAX_KEY = 100


def read_object(value: Json, path: str, known: Sequence[str] | None = None) -> JsonObject:
    """An object, which with `known` holds no other keys. Raises: InvalidInput."""
    if not isinstance(value, Mapping):
        raise InvalidInput(path or WHOLE, f"expected an object, got {kind_of(value)}")
    for key in value:
        if known is not None and key not in known:
            shown = key if len(key) <= _MAX_KEY else f"{key[:_MAX_KEY]}..."
            raise InvalidInput(joined(path, shown), f"unknown, expected one of {', '.join(known)}")
    return value


def read_list(value: Json, path: str) -> Sequence[Json]:
    """A list of anything. Raises: InvalidInput."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidInput(path or WHOLE, f"expected a list, got {kind_of(value)}")
    return value


def read_text(value: Json, path: str) -> str:
    """A text that is not empty. Raises: InvalidInput."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(path, f"expected a string, got {kind_of(value)}")
    return value


def read_integer(value: Json, path: str, minimum: int, maximum: int = MAX_EXACT) -> int:
    """A whole number in a range; `true` and `1.0` are none. Raises: InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(path, f"expected an integer, got {kind_of(value)}")
    if not minimum <= value <= maximum:
        raise InvalidInput(path, f"expected an integer from {minimum} to {maximum}")
    return value


def read_number(value: Json, path: str) -> float:
    """A finite number. Raises: InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(path, f"expected a number, got {kind_of(value)}")
    if isinstance(value, int) and abs(value) > MAX_EXACT:
        raise InvalidInput(path, f"expected a number of at most {MAX_EXACT}")
    if not math.isfinite(value):
        raise InvalidInput(path, "expected a finite number")
    return float(value)


def read_choice(value: Json, path: str, choices: Sequence[str]) -> str:
    """One of a few texts. Raises: InvalidInput."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidInput(path, f"expected one of {', '.join(choices)}")
    return value


def read_duration_ms(value: Json, path: str) -> int:
    """A duration of the control API: `1d2h30m` or milliseconds. Raises: InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        given = repr(value) if isinstance(value, float) else kind_of(value)
        raise InvalidInput(path, f"expected a duration such as 1h30m, or whole milliseconds, got {given}")
    return read_field(path, value, parse_control_duration_ms)


def read_instant(value: Json, path: str) -> int:
    """An instant of the control API: ISO 8601 or milliseconds. Raises: InvalidInput."""
    if not isinstance(value, str | int):
        raise InvalidInput(path, f"expected an ISO 8601 time or whole milliseconds, got {kind_of(value)}")
    return read_field(path, value, read_instant_ms)


def read_clock_instant(value: Json, path: str) -> int:
    """As `read_instant`, of those that a virtual clock can show. Raises: InvalidInput."""
    return read_field(path, read_instant(value, path), check_clock_instant)


def kind_of(value: Json) -> str:
    """The type of a value, as an error names it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    return "an object" if isinstance(value, Mapping) else "a list"


# -- the fields of an object ------------------------------------------------------------------

T = TypeVar("T")
D = TypeVar("D")
E = TypeVar("E", bound=StrEnum)

# Turns a value at a path into something typed. Raises: InvalidInput.
Read = Callable[[Json, str], T]


class Fields:
    """The fields of the object at `path`, which with `known` has no others. Raises: InvalidInput."""

    def __init__(self, value: Json, path: str, known: Sequence[str] | None = None) -> None:
        self.given = read_object(value, path, known)
        self.path = path

    def __contains__(self, key: str) -> bool:
        return key in self.given

    def at(self, key: str) -> str:
        """The path of a field."""
        return joined(self.path, key)

    def get(self, key: str, read: Read[T], default: D) -> T | D:
        """A field that may be missing."""
        return read(self.given[key], self.at(key)) if key in self.given else default

    def need(self, key: str, read: Read[T], missing: str = "is missing") -> T:
        """A field that must be there; `missing` is the reason of the refusal otherwise."""
        if key not in self.given:
            raise InvalidInput(self.at(key), missing)
        return read(self.given[key], self.at(key))


# -- what a field may hold --------------------------------------------------------------------


def integer(minimum: int, maximum: int = MAX_EXACT) -> Read[int]:
    """A whole number; both ends included."""
    return lambda value, path: read_integer(value, path, minimum, maximum)


def one_of(choices: type[E]) -> Read[E]:
    """A value of the enumeration."""
    return lambda value, path: choices(read_choice(value, path, tuple(choices)))


def parsed(parse: Callable[[str], str], kind: Callable[[str], T]) -> Read[T]:
    """A text that follows a grammar; `parse` raises Malformed for any other."""
    return lambda value, path: kind(read_field(path, read_text(value, path), parse))


def boolean(value: Json, path: str) -> bool:
    """`true` or `false`, and nothing that stands for one. Raises: InvalidInput."""
    if not isinstance(value, bool):
        raise InvalidInput(path, f"expected true or false, got {kind_of(value)}")
    return value


def encoded_text(value: Json, path: str) -> bytes:
    """A text, which may be empty, in UTF-8."""
    if not isinstance(value, str):
        raise InvalidInput(path, f"expected a string, got {kind_of(value)}")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(path, HALF_PAIR) from None


# -- bodies -----------------------------------------------------------------------------------

_ANY: msgspec.json.Decoder[Json] = msgspec.json.Decoder()


def read_json(body: bytes) -> Json:
    """A body of any shape.

    Raises: InvalidInput naming the body, or the value in it that no reader can take; PayloadTooLarge.
    """
    check_size(body, MAX_BYTES)
    return _decode(_ANY, body)


def decoded(decoder: msgspec.json.Decoder[T], body: bytes, most_bytes: int | None = MAX_BYTES) -> T:
    """A body as the decoder's type (D-077), with as many bytes at most.

    Raises: InvalidInput naming the wrong value by its path; PayloadTooLarge.

    The decoder says only in prose what is wrong. So what it refuses is read again without a type, and held
    against the type here.
    """
    check_size(body, most_bytes)
    try:
        return _decode(decoder, body)
    except msgspec.ValidationError as error:
        if not _is_explained(body):
            raise InvalidInput(WHOLE, mismatch_text(error)) from None
        fault = _fault(_decode(_ANY, body), inspect.type_info(decoder.type), "")
        raise fault or InvalidInput(WHOLE, "expected JSON of another shape") from None


# A text, whether it ends or not, or what stands before a value but the first.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[,\[{]', re.DOTALL)
_QUOTE = ord('"')


def check_size(body: bytes, most_bytes: int | None = None) -> None:
    """Refuse JSON that is too large to be read, before anything is made of it. Raises: PayloadTooLarge."""
    if most_bytes is not None and len(body) > most_bytes:
        raise PayloadTooLarge(f"{WHOLE}: expected at most {most_bytes} bytes of JSON, got {len(body)}")
    if _has_more_values(body, MAX_VALUES):
        raise PayloadTooLarge(f"{WHOLE}: expected JSON of at most {MAX_VALUES} values")


def _has_more_values(body: bytes, most: int) -> bool:
    """Whether JSON has more values, also if it is wrong; what stands in texts does not count."""
    if len(body) <= most or sum(map(body.count, (b",", b"[", b"{"))) < most:
        return False
    values = texts = 0
    for token in _TOKEN.finditer(body):
        if body[token.start()] == _QUOTE:
            texts += 1
        else:
            values += 1
        # A text is a value, or the name of one.
        if values >= most or texts > 2 * most:
            return True
    return False


def _is_explained(body: bytes) -> bool:
    return len(body) <= MAX_BYTES and not _has_more_values(body, _MOST_EXPLAINED)


def _decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Raises: ValidationError for JSON of another shape, InvalidInput for what is no JSON."""
    if not body or body.isspace():
        raise InvalidInput(WHOLE, "expected JSON, got an empty body")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        if decoder is not _ANY:
            raise
        _refuse_unreadable(body)
        raise InvalidInput(WHOLE, "expected JSON: a number is out of range") from None
    except msgspec.DecodeError as error:
        _refuse_unreadable(body)
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


_HALF_PAIR = re.compile("[\ud800-\udfff]")


def _refuse_unreadable(body: bytes) -> None:
    """Refuse a text that names half a surrogate pair, and a number that is too large, by their paths.

    Decoders say at which byte such a value is, or not even that. Raises: InvalidInput.
    """
    if not _is_explained(body):
        return
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    waiting: list[tuple[Json, str]] = [(value, "")]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, str):
            if _HALF_PAIR.search(value):
                raise InvalidInput(path or WHOLE, HALF_PAIR)
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidInput(path or WHOLE, "the number is out of range")
        elif isinstance(value, Mapping):
            for key, held in value.items():
                if _HALF_PAIR.search(key):
                    raise InvalidInput(path or WHOLE, "expected names of Unicode text, one holds half a surrogate pair")
                waiting.append((held, joined(path, key)))
        elif isinstance(value, list | tuple):
            waiting += ((held, f"{path}[{number}]") for number, held in enumerate(value))


_IN_JSON = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


def mismatch_text(error: msgspec.ValidationError) -> str:
    """What `msgspec` says of a value of another type, in the words of JSON; it begins with the place of the value."""
    # In words that people know who know no Python (D-799).
    reason, _, place = str(error).partition(" - at `$")
    place = place.removesuffix("`").removeprefix(".")
    if missing := re.fullmatch("Object missing required field `(.*)`", reason):
        place, reason = joined(place, missing[1]), "is missing"
    words = re.sub("`([a-z]+)`", lambda found: _IN_JSON.get(found[1], found[1]), reason)
    words = words[:1].lower() + words[1:] if words.startswith("Expected") else words
    return f"{place}: {words}" if place else words


# Each kind as Python has it, and in the words of JSON, which people know who know no Python (D-620).
_KINDS: Final[Mapping[type[inspect.Type], tuple[type | tuple[type, ...], str]]] = {
    inspect.StrType: (str, "a string"),
    inspect.IntType: (int, "an integer"),
    inspect.FloatType: ((int, float), "a number"),
    inspect.BoolType: (bool, "true or false"),
    inspect.ListType: (list, "a list"),
    inspect.DictType: (dict, "an object"),
    inspect.StructType: (dict, "an object"),
    # Null means "not said" wherever it may be given, so it is not named.
    inspect.NoneType: (type(None), ""),
}


def _fault(value: Json, kind: inspect.Type, path: str) -> InvalidInput | None:
    """The first fault of a value that should be of a kind, None if it has none."""
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    fitting = next((each for each in kinds if _is_of(value, each)), None)
    if fitting is None:
        expected = " or ".join(filter(None, dict.fromkeys(_KINDS[type(each)][1] for each in kinds)))
        return InvalidInput(path or WHOLE, f"expected {expected}, got {kind_of(value)}")
    match fitting:
        case inspect.ListType(item_type=item_type) if isinstance(value, list):
            faults: Iterator[InvalidInput | None] = (
                _fault(held, item_type, f"{path}[{number}]") for number, held in enumerate(value)
            )
        case inspect.DictType(value_type=value_type) if isinstance(value, dict):
            faults = (_fault(held, value_type, joined(path, _shown(key))) for key, held in value.items())
        case inspect.StructType() if isinstance(value, dict):
            faults = _faults_of_object(value, fitting, path)
        case _:
            return None
    return next((fault for fault in faults if fault is not None), None)


def _faults_of_object(value: JsonObject, kind: inspect.StructType, path: str) -> Iterator[InvalidInput | None]:
    known = {field.encode_name: field for field in kind.fields}
    for key, held in value.items():
        if key in known:
            yield _fault(held, known[key].type, joined(path, key))
        elif kind.forbid_unknown_fields:
            yield InvalidInput(joined(path, key), "unknown name")
    for name, field in known.items():
        if field.required and name not in value:
            yield InvalidInput(joined(path, name), "is missing")


def _is_of(value: Json, kind: inspect.Type) -> bool:
    if type(kind) not in _KINDS:
        return True
    fits = isinstance(value, _KINDS[type(kind)][0])
    # `true` is an integer in Python alone.
    return fits and (isinstance(kind, inspect.BoolType) or not isinstance(value, bool))


def _shown(key: str) -> str:
    """A key that a client made up, as part of a path."""
    return key if key.isprintable() and len(key) <= names.MAX_LENGTH else excerpt(key)
