"""Writes the schemas of the control API's contract from the records that are its answers.

    python -m emulator.control.schemas            # writes contracts/control.openapi.yaml and client/records.py
    python -m emulator.control.schemas --check    # fails if that would change them

A schema is named like its class. The docstring of the class is its description, and the `#:` comment of a field, behind
it or on the lines before it, that of the field. What else the file says stays as it is: paths and parameters,
what clients give, schemas of plain texts and numbers, and of the others `example` and `oneOf`.

In the Python API a delivery has the fields of its record here, but for what it has in a type of its own.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

import yaml
from msgspec import Meta, UnsetType
from msgspec.structs import fields

from emulator import resources
from emulator.control import routes
from emulator.control.deliveries import Delivery
from emulator.control.records import ChaosDone, View
from emulator.core.model.messages import Phase, Via
from emulator.core.model.resources import Fault
from emulator.core.model.workflows import RunState
from emulator.core.record import AccountId, DeadLetterId, MessageId, RuleId
from emulator.core.rules.retries import RetryReason
from emulator.queries.workflow_runs import StepState

# Types whose schemas are written by hand.
_BY_HAND = {
    AccountId: "AccountId",
    DeadLetterId: "DeadLetterId",
    Fault: "Fault",
    MessageId: "MessageId",
    RuleId: "RuleId",
    Phase: "MessagePhase",
    RetryReason: "DelaySource",
    RunState: "RunState",
    StepState: "StepState",
}
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
# What limits a value, and what limits the length of a list.
_CONSTRAINTS = {
    "ge": ("minimum", "minimum"),
    "le": ("maximum", "maximum"),
    "min_length": ("minLength", "minItems"),
    "max_length": ("maxLength", "maxItems"),
    "pattern": ("pattern", "pattern"),
}

Schema = dict[str, Any]


def schema_of(view: type[View]) -> Schema:
    """The schema of a record: its fields in their order, those that may be `UNSET` not required.

    A record whose `kind` is any text is the base of one record a kind: its schema has the fields of all kinds,
    and says which of them each kind has.
    """
    schema = _schema_of_one(view)
    kinds = _kinds(view)
    if not kinds:
        return schema
    properties = schema["properties"]
    alternatives: list[Schema] = []
    for kind in kinds:
        own = _schema_of_one(kind)
        required = [name for name in own["required"] if name == "kind" or name not in schema["required"]]
        for value in own["properties"]["kind"]["enum"]:
            alternatives.append({"properties": {"kind": {"const": value}}, "required": required})
        for name, field in own["properties"].items():
            properties[name] = _both(field, properties.get(name, field)) if name != "kind" else properties[name]
    properties["kind"] = {
        "type": "string",
        "enum": [each["properties"]["kind"]["const"] for each in alternatives],
        "description": properties["kind"]["description"],
    }
    head = {name: schema.pop(name) for name in ("type", "description", "required")}
    return {**head, "oneOf": alternatives, **schema}


def _kinds(view: type[View]) -> list[type[View]]:
    """The records of the kinds of a base, in their order; none for a record that is no base."""
    if get_type_hints(view).get("kind") is not str:
        return []
    return [kind for each in view.__subclasses__() for kind in (_kinds(each) or [each])]


def _both(field: Schema, other: Schema) -> Schema:
    """The schema of a field that two kinds have; one of them may describe it, and one may have it null."""
    texts = {each["description"] for each in (field, other) if "description" in each}
    plain, other_plain = ({name: each[name] for name in each if name != "description"} for each in (field, other))
    if other_plain == _or_null(plain):
        plain = other_plain
    if plain not in (other_plain, _or_null(other_plain)) or len(texts) > 1:
        raise ValueError(f"two kinds have one field as {field} and as {other}")
    return {**plain, "description": texts.pop()} if texts else plain


def _schema_of_one(view: type[View]) -> Schema:
    hints = get_type_hints(view, include_extras=True)
    texts = _comments(view)
    properties: Schema = {}
    required: list[str] = []
    for field in fields(view):
        hint = hints[field.name]
        described = _of_type(hint)
        text = texts.get(field.name)
        instant = field.name.removesuffix("_ms")
        if text is None and (instant in texts or f"{instant}_" in texts):
            text = "The same in milliseconds."
        properties[field.encode_name] = described if text is None else {**described, "description": text}
        if UnsetType not in get_args(hint):
            required.append(field.encode_name)
    return {
        "type": "object",
        "description": " ".join(inspect.cleandoc(view.__doc__ or "").split()),
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


def _of_type(hint: Any) -> Schema:
    if get_origin(hint) is Annotated:
        kind, meta = get_args(hint)
        assert isinstance(meta, Meta)
        if meta.title:
            return _reference(meta.title)
        inner = _of_type(kind)
        found = {names[inner["type"] == "array"]: getattr(meta, each) for each, names in _CONSTRAINTS.items()}
        return inner | {name: value for name, value in found.items() if value is not None}
    if hint in _BY_HAND:
        return _reference(_BY_HAND[hint])
    if get_origin(hint) in (Union, UnionType):
        (kind,) = (each for each in get_args(hint) if each not in (NoneType, UnsetType))
        return _or_null(_of_type(kind)) if NoneType in get_args(hint) else _of_type(kind)
    if isinstance(hint, NewType):
        return _of_type(hint.__supertype__)
    if get_origin(hint) is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if get_origin(hint) in (tuple, list):
        return {"type": "array", "items": _of_type(get_args(hint)[0])}
    if get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": _of_type(get_args(hint)[1])}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"type": "string", "enum": [each.value for each in hint]}
    if isinstance(hint, type) and issubclass(hint, View):
        return _reference(hint.__name__)
    return {"type": _JSON_TYPES[hint]}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _or_null(schema: Schema) -> Schema:
    if "type" not in schema:
        return {"oneOf": [schema, {"type": "null"}]}
    if "enum" in schema:
        schema = {**schema, "enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]}


def _comments(view: type[View]) -> dict[str, str]:
    """The `#:` comments of the fields, those of the bases included."""
    texts: dict[str, str] = {}
    for base in reversed(view.__mro__):
        if not issubclass(base, View) or base is View:
            continue
        source = textwrap.dedent(inspect.getsource(base))
        lines = source.splitlines()
        for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]  # it is a class
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                _, mark, behind = lines[(node.end_lineno or 0) - 1][node.end_col_offset or 0 :].partition("#:")
                found = [behind.strip()] if mark else []
                above = node.lineno - 2
                while lines[above].strip().startswith("#:"):
                    found.insert(0, lines[above].strip().removeprefix("#:").strip())
                    above -= 1
                if found:
                    texts[node.target.id] = " ".join(found)
    return texts


# -- the file ---------------------------------------------------------------------------------


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key, and writes names of fields in one line."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


class _InLine(list[str]):
    """A list as `[a, b]`."""


_Dumper.add_representer(
    _InLine, lambda dumper, names: dumper.represent_sequence("tag:yaml.org,2002:seq", names, flow_style=True)
)


def _views(base: type[View] = View) -> Iterator[type[View]]:
    """The records of all answers. To import the routes has imported the modules that declare them."""
    for view in base.__subclasses__():
        if view.__module__.startswith(routes.__name__.rpartition(".")[0]):
            yield view
            yield from _views(view)


def written(contract: str) -> str:
    """The text of a contract with the schemas that have the name of a record.

    The `example` of each stays, and a `oneOf` that says which of its fields exclude each other.

    Raises ValueError for a schema that is referred to and not there: the file needs one of whatever content.
    """
    for view in _views():
        block = re.compile(rf"^    {view.__name__}:\n(?:      .*\n|\n(?=      ))*", re.MULTILINE)
        head, mark, schemas = contract.partition("\n  schemas:\n")
        found = block.search(schemas)
        if found is None:
            continue  # It is a kind of a base, or an answer that is described where its operation is.
        text = _yaml(view)
        for name in ("oneOf", "example"):
            by_hand = re.search(rf"^      {name}:(?:.*\n)(?:       .*\n)*", found.group(), re.MULTILINE)
            if by_hand and f"\n      {name}:\n" not in f"\n{text}":
                text += by_hand.group()
        for name in re.findall(r"#/components/schemas/(\w+)", text):
            if f"\n    {name}:\n" not in contract:
                raise ValueError(f"{view.__name__} refers to a schema {name}, which the contract has not")
        contract = head + mark + schemas[: found.start()] + text + schemas[found.end() :]
    return contract


def _yaml(view: type[View]) -> str:
    schema = schema_of(view)
    for each in (schema, *schema.get("oneOf", ())):
        each["required"] = _InLine(each["required"])
    text = yaml.dump({view.__name__: schema}, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
    return textwrap.indent(text, "    ")


# -- the Python API ---------------------------------------------------------------------------

# In Python they have a type of their own: datetimes are made of the milliseconds, contents are bytes.
_OWN_TYPES = frozenset(("at", "headers", "body", "body_base64", "response"))
_PYTHON_NAMES = {Via: "Via", ChaosDone: "Chaos"}
_FIELDS = re.compile(r"(?<=`python -m emulator\.control\.schemas` writes them\.\n)(?:    \w.*\n)+")


def with_python_fields(module: str) -> str:
    """The text of `client/records.py` with the fields of a `Delivery`; what may be null or absent has a default."""
    hints = get_type_hints(Delivery, include_extras=True)
    lines = [f"    {name}: {_python(hint)}\n" for name, hint in hints.items() if name not in _OWN_TYPES]
    return _FIELDS.sub("".join(lines), module)


def _python(hint: Any) -> str:
    """The annotation of a field in Python, and its default."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    (kind,) = (each for each in kinds if each not in (NoneType, UnsetType))
    while get_origin(kind) is Annotated or isinstance(kind, NewType):
        kind = kind.__supertype__ if isinstance(kind, NewType) else get_args(kind)[0]
    if get_origin(kind) is tuple:
        return f"tuple[{_python(get_args(kind)[0])}, ...] = ()"
    name = _PYTHON_NAMES.get(kind, "str" if issubclass(kind, Enum) else kind.__name__)
    return name if len(kinds) == 1 else f"{name} | None = None"


def main(arguments: list[str]) -> int:
    """Write both files, or with `--check` tell whether they are fresh."""
    contract = Path(str(resources.path("contracts", "control.openapi.yaml")))
    module = Path(__file__).parent.parent / "client" / "records.py"
    is_fresh = True
    for path, write in ((contract, written), (module, with_python_fields)):
        before = path.read_text("utf-8")
        after = write(before)
        is_fresh &= before == after
        if arguments != ["--check"]:
            path.write_text(after, "utf-8")
    return int(arguments == ["--check"] and not is_fresh)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
