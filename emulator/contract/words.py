"""How a mismatch is described: in the words of the contract, and never with a value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from emulator.contract.document import items, table, text, texts
from emulator.core.language.headers import canonical_name
from emulator.core.language.spelling import near
from emulator.wire.json_fields import WHOLE, Json, JsonObject, joined, kind_of

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_LONGEST = 120


def described(error: ValidationError, place: str = "") -> Iterator[str]:
    """What is wrong, each with the path of the value at fault; `place` is the path of what was validated."""
    path = place
    for key in error.path:
        path = f"{path}[{key}]" if isinstance(key, int) else joined(path, key)
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    known = table(schema.get("properties"))
    description = _first_words(text(schema.get("description")))
    instance, rule = cast(Json, error.instance), cast(Json, error.validator_value)
    at = shown(path or WHOLE)
    match error.validator:
        case "additionalProperties" if isinstance(instance, Mapping) and not isinstance(rule, Mapping):
            for name in instance:
                if name not in known:
                    yield f"{shown(joined(path, name))}: unknown field{meant(name, known)}"
        case "required" if isinstance(instance, Mapping):
            for needed in items(rule):
                if isinstance(needed, str) and needed not in instance:
                    yield f"{joined(path, needed)}: missing"
        case "type":
            yield f"{at}: expected {' or '.join(texts(rule))}, got {kind_of(instance)}"
        case "enum":
            choices = ", ".join(json.dumps(each) for each in items(rule))
            yield f"{at}: expected one of {choices}"
        case "oneOf" | "anyOf" if error.context:
            # The alternative with the fewest mismatches is most likely the one that was meant.
            branches: dict[object, list[ValidationError]] = {}
            for each in error.context:
                branches.setdefault(each.schema_path[0], []).append(each)
            nearest = min(branches.values(), key=_distance)
            if description and not any(_is_of_fields(each) for each in nearest):
                yield f"{at}: expected {description}"
                return
            for each in nearest:
                yield from described(each, path)
        case _ if description:
            yield f"{at}: expected {description}"
        case _:
            words = f" {rule}" if isinstance(rule, int | float | str) else ""
            yield f"{at}: not as the contract says ({error.validator}{words})"


def _is_of_fields(error: ValidationError) -> bool:
    """Whether it is about a part of an object or list, which says more than the description of the whole."""
    return bool(error.path) or error.validator in ("additionalProperties", "required")


def _first_words(description: str) -> str:
    """The first sentence of a description, to be read behind `expected`; nothing of one that would be too long."""
    sentence = " ".join(description.split()).partition(". ")[0].removesuffix(".")
    if len(sentence) > _LONGEST:
        return ""
    is_word = sentence[:1].isupper() and sentence[1:2].islower()
    return sentence[:1].lower() + sentence[1:] if is_word else sentence


def _distance(errors: list[ValidationError]) -> tuple[int, int]:
    """How far an alternative is from the value: one of another type is far, however little else is wrong."""
    return sum(each.validator == "type" and not each.path for each in errors), len(errors)


def meant(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was meant, nothing if none is like it."""
    close = near(name, (each for each in known if not each.endswith("*")))
    return f", did you mean {close[0]}?" if close else ""


def spelt(parameter: JsonObject, lower_name: str) -> str:
    """The name of a parameter as a client writes it."""
    name = text(parameter.get("name"))
    return canonical_name(lower_name) if name.endswith("*") else name


def shown(name: str) -> str:
    """A name of the client's own, which may be long."""
    return name if len(name) <= 80 else f"{name[:80]}…"
