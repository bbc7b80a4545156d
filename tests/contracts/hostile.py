"""Input that no client means, for every operation of the contracts, and what its refusals must not say.

What is refused in the words of the program's own language says nothing to a client: a name of a class, the text of an
exception, the way in which Python writes a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from tests.contracts.documents import Operation, load, resolved

PYTHON = re.compile(
    r"[A-Za-z]+(?:Error|Exception)\b|Error\(|<class|<function|<built-in|Traceback|recursion|object at 0x|NoneType"
    r"|\bNone\b|\bTrue\b|\bFalse\b|\b(?:dict|str|tuple|bytearray|NamedTuple|dataclass)\b|\bb'|\bb\"|msgspec|orjson|yaml\."
    r"|codec can't|codec'|unhashable|subscriptable|iterable|positional argument|keyword argument|__\w+__|\.py\b"
    r"|invalid literal|base 10|\bnan\b|\binf\b|struct\.|sqlite3|Decimal\(|datetime\.|enum '|is not a valid [A-Z]"
)

DEEP = b"[" * 20_000 + b"]" * 20_000
BODIES: tuple[bytes, ...] = (
    b"",
    b" ",
    b"{",
    b"]",
    b"nul",
    b"null",
    b"true",
    b"0",
    b"-",
    b"1e999",
    b"-1e999",
    b"9" * 5_000,
    b"NaN",
    b"[Infinity]",
    b'"',
    b'"text"',
    b"[]",
    b"{}",
    b"[[]]",
    b"[null]",
    b"[1]",
    b'["x"]',
    b"[{}]",
    b'{"":{}}',
    b'{"a":1,"a":2}',
    b"\xff\xfe",
    b'"\xff"',
    b'{"\xff":1}',
    b'"\\ud800"',
    b'{"\\ud800":1}',
    b'"\\u0000"',
    b"\x00",
    b"\x1f\x8b\x08\x00",
    b"SQLite format 3\x00" + b"\x00" * 84,
    DEEP,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b"--boundary\r\n",
    b"<xml/>",
)

VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    -0.0,
    1e308,
    10**30,
    2**63,
    "",
    " ",
    "\x00",
    "x" * 9_000,
    "{}",
    "%s%n{0}",
    "\U0001f600",
    "'",
    '"',
    "../../etc/passwd",
    "Not-a-Number",
    "Infinity",
    "1e999",
    "--1",
    "9" * 400,
    "0x10",
    "١٢",
    "(" * 5_000,
    "1" + "+1" * 5_000,
    "pow(9, pow(9, pow(9, 9)))",
    "1 / 0",
    "sqrt(0 - 1)",
    "* * * * * * *",
    "CRON_TZ=Nowhere * * * * *",
    "60 24 32 13 8",
    "2026-13-45T99:99:99Z",
    "0000-00-00",
    "99999999999999999999s",
    "1d-1h",
    "http://",
    "https://[::1",
    "https://x:99999999/",
    "msg_\x7f",
    [],
    {},
    [None],
    [[]],
    ["x", 1],
    {"": None},
    {"a": {"b": [1]}},
    [{"a": 1}] * 3,
)

TEXTS: tuple[str, ...] = tuple(value for value in VALUES if isinstance(value, str))


def schema_bodies(operation: Operation) -> Iterator[bytes]:
    """The JSON that the contract describes, one value of it hostile at a time."""
    document = load(operation.api)
    content = resolved(document, operation.details.get("requestBody", {})).get("content", {})
    for media_type, part in content.items():
        if media_type != "application/json":
            continue
        schema = part.get("schema", {})
        base = example(document, schema)
        for path in places(base):
            for value in VALUES:
                yield json.dumps(changed(base, path, value)).encode()
        if isinstance(base, dict):
            yield json.dumps({**base, "unknown": None}).encode()


def example(document: Mapping[str, Any], schema: Any, depth: int = 0) -> Any:
    """A value with every field that the schema names; what it holds does not have to be valid."""
    schema = resolved(document, schema)
    for several in ("allOf", "oneOf", "anyOf"):
        if several in schema:
            parts = [example(document, each, depth) for each in schema[several]]
            objects = [each for each in parts if isinstance(each, dict)]
            return {key: value for each in objects for key, value in each.items()} if objects else parts[0]
    if "properties" in schema and depth < 6:
        return {name: example(document, each, depth + 1) for name, each in schema["properties"].items()}
    if "items" in schema and depth < 6:
        return [example(document, schema["items"], depth + 1)]
    for name in ("const", "default", "example"):
        if name in schema:
            return schema[name]
    if schema.get("examples"):
        return schema["examples"][0]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    return {"integer": 1, "number": 1, "boolean": True, "object": {}, "array": []}.get(str(kind), "x")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a value."""
    yield path
    if isinstance(value, dict):
        for key, held in value.items():
            yield from places(held, (*path, key))
    elif isinstance(value, list):
        for number, held in enumerate(value):
            yield from places(held, (*path, number))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A value with another one at a path."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(copy[path[0]], path[1:], new)
    return copy


def targets(operation: Operation) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The target and the headers of calls with one hostile parameter each."""
    names = [(each["in"], str(each["name"])) for each in operation.parameters]
    plain = path_of(operation, {})
    yield plain, []
    for place, name in names:
        for text in TEXTS:
            short = text[:2_000]
            if place == "path":
                yield path_of(operation, {name: quote(short, safe="")}), []
            elif place == "query":
                yield f"{plain}?{quote(name, safe='')}={quote(short, safe='')}", []
                yield f"{plain}?{quote(name, safe='')}={quote(short, safe='')}&{quote(name, safe='')}=1", []
            elif place == "header":
                value = "".join(each for each in short if each not in "\x00\r\n\x7f")
                yield plain, [(name.replace("*", "X-Fuzz"), value)]
    yield f"{plain}?%FF=%FE", []


def path_of(operation: Operation, values: Mapping[str, str]) -> str:
    """The path with its parameters."""
    usual = {"destination": "https://one.example.com/orders", "world": "default"}
    return re.sub(r"\{([^}]+)\}", lambda found: values.get(found[1]) or usual.get(found[1], "x"), operation.path)
