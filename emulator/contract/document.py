"""The OpenAPI documents as data: finding, following and rebuilding what stands in them.

Nothing here reads a file, see `emulator/contract/files.py`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from emulator.core.record import Record
from emulator.wire.json_reader import Json, JsonObject

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

# The kind and the name of a component, such as `("schemas", "Error")`.
Component = tuple[str, str]

_COMPONENTS = "#/components/"


class Api(enum.StrEnum):
    """The three APIs, each with a document of its own."""

    MESSAGING = "messaging"
    MANAGEMENT = "management"
    CONTROL = "control"


# -- values -----------------------------------------------------------------------------------


def table(value: Json) -> JsonObject:
    """The value if it is an object, an empty one otherwise."""
    return value if isinstance(value, Mapping) else {}


def items(value: Json) -> Sequence[Json]:
    """The value if it is a list, an empty one otherwise."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def text(value: Json) -> str:
    """The value if it is a text, an empty one otherwise."""
    return value if isinstance(value, str) else ""


def texts(value: Json) -> tuple[str, ...]:
    """One text or a list of texts, as in `type`, as a tuple; anything else in it becomes an empty text."""
    return (value,) if isinstance(value, str) else tuple(text(each) for each in items(value))


def objects(value: Json) -> Iterator[JsonObject]:
    """Every object in a value, from the outside in."""
    if isinstance(value, Mapping):
        yield value
        for each in value.values():
            yield from objects(each)
    else:
        for each in items(value):
            yield from objects(each)


def rebuilt(value: Json, change: Callable[[JsonObject], JsonObject]) -> Json:
    """The value with every object in it changed, from the inside out."""
    if isinstance(value, Mapping):
        return change({key: rebuilt(each, change) for key, each in value.items()})
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [rebuilt(each, change) for each in value]
    return value


# -- documents --------------------------------------------------------------------------------


def resolved(document: JsonObject, value: Json) -> JsonObject:
    """The object that a value is or refers to within the document; empty if there is none."""
    found = table(value)
    for _ in range(32):
        reference = found.get("$ref")
        if not isinstance(reference, str):
            return found
        # What stands beside a reference adds to what it refers to (OpenAPI 3.1).
        beside = {key: each for key, each in found.items() if key != "$ref"}
        found = {**_at(document, reference), **beside}
    return {}


def _at(document: JsonObject, reference: str) -> JsonObject:
    """The object at a JSON pointer such as `#/components/schemas/Error`; empty if there is none."""
    if not reference.startswith("#/"):
        return {}
    found: Json = document
    for piece in reference[2:].split("/"):
        key = piece.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(key)
        else:
            each = items(found)
            found = each[int(key)] if key.isdigit() and int(key) < len(each) else None
    return table(found)


class Operation(Record):
    """One operation of a document; `content` is what the document says of it."""

    document: JsonObject
    path: str
    method: str  # in capitals
    content: JsonObject

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def id(self) -> str:
        return text(self.content.get("operationId"))

    def resolved(self, value: Json) -> JsonObject:
        """The object that a value is or refers to within the document; empty if there is none."""
        return resolved(self.document, value)

    def parameters(self) -> tuple[JsonObject, ...]:
        """The parameters, those of the path among them, each as it is after following references."""
        item = self.resolved(table(self.document.get("paths")).get(self.path))
        given = map(self.resolved, (*items(item.get("parameters")), *items(self.content.get("parameters"))))
        return tuple({(text(each.get("in")), text(each.get("name"))): each for each in given}.values())


def operations(document: JsonObject) -> Iterator[Operation]:
    """Every operation."""
    for path, entry in table(document.get("paths")).items():
        item = resolved(document, entry)
        for method in METHODS:
            if isinstance(item.get(method), Mapping):
                yield Operation(document=document, path=path, method=method.upper(), content=table(item[method]))


def example_of(holder: JsonObject) -> Json:
    """The example of a parameter or of a body, the first if it has several; None without one."""
    if holder.get("example") is not None:
        return holder["example"]
    return next((table(each).get("value") for each in table(holder.get("examples")).values()), None)


# -- components -------------------------------------------------------------------------------


def components(document: JsonObject) -> dict[Component, Json]:
    """Every component of a document."""
    return {
        (kind, name): each
        for kind, entries in table(document.get("components")).items()
        for name, each in table(entries).items()
    }


def by_kind(found: Mapping[Component, Json]) -> JsonObject:
    """Components as a document holds them."""
    kinds: dict[str, dict[str, Json]] = {}
    for (kind, name), each in found.items():
        kinds.setdefault(kind, {})[name] = each
    return kinds


def references(value: Json) -> Iterator[Component]:
    """The components that a value refers to itself."""
    for each in objects(value):
        component = referred(each.get("$ref"))
        if component is not None:
            yield component


def referred(reference: Json) -> Component | None:
    """The component that a reference names, None if it is no reference to a component."""
    if not isinstance(reference, str) or not reference.startswith(_COMPONENTS):
        return None
    kind, _, name = reference.removeprefix(_COMPONENTS).partition("/")
    return kind, name


def reference_to(kind: str, name: str) -> str:
    """The reference to a component."""
    return f"{_COMPONENTS}{kind}/{name}"


# -- the operations of the contract, ready to be compared with requests -----------------------


class RequestOperation(Operation):
    """One operation: the headers and query parameters that it reads, each by its name (headers in lower case)."""

    api: Api
    pattern: re.Pattern[str]
    headers: Mapping[str, JsonObject]
    query: Mapping[str, JsonObject]
    takes_any_query: bool

    @property
    def fixed_words(self) -> int:
        """How many segments of the path are no parameters."""
        return sum(not segment.startswith("{") for segment in self.path.split("/"))


class Match(Record):
    """What a request means: its API and operation, None if there is none, and the methods that its path has."""

    api: Api
    operation: RequestOperation | None
    methods: tuple[str, ...]


def named(among: Mapping[str, JsonObject], name: str) -> JsonObject | None:
    """The parameter of a name, or else the parameter for all names with its beginning; None without one."""
    if name in among:
        return among[name]
    wildcards = [each for each in among if each.endswith("*") and name.startswith(each[:-1])]
    return among[max(wildcards, key=len)] if wildcards else None


def operations_of(api: Api, content: JsonObject) -> list[RequestOperation]:
    """The operations of a document."""
    return [_ready(api, each) for each in operations(content)]


def _ready(api: Api, operation: Operation) -> RequestOperation:
    found: dict[str, dict[str, JsonObject]] = {"header": {}, "query": {}, "path": {}}
    for parameter in operation.parameters():
        name, place = text(parameter.get("name")), text(parameter.get("in"))
        found.get(place, {})[name.lower() if place == "header" else name] = parameter
        if place == "header" and (twin := text(parameter.get("x-query-name"))):
            found["query"][twin] = parameter
    return RequestOperation(
        api=api,
        document=operation.document,
        path=operation.path,
        method=operation.method,
        content=operation.content,
        pattern=_pattern(operation.path, found["path"]),
        headers=found["header"],
        query=found["query"],
        takes_any_query=any(each.get("x-raw-path") is True for each in found["path"].values()),
    )


def _pattern(path: str, in_path: Mapping[str, JsonObject]) -> re.Pattern[str]:
    """What a raw path of the operation looks like: fixed words in any case, perhaps a slash at the end (D-003)."""

    def segment(parameter: JsonObject) -> str:
        return ".+" if parameter.get("x-raw-path") is True or parameter.get("x-slashes") is True else "[^/]+"

    pieces = re.split(r"\{([^}]*)\}", path)
    pattern = "".join(
        segment(in_path.get(piece, {})) if number % 2 else re.escape(piece) for number, piece in enumerate(pieces)
    )
    if path.endswith("}") and in_path.get(pieces[-2], {}).get("x-raw-path") is True:
        # Without a destination, or a queue before it, the operation is still meant (D-310).
        before = len(pieces) // 2 - 1
        pattern = re.escape(pieces[0].removesuffix("/")) + "(?:/[^/]*" * before + "(?:/.*)?" + ")?" * before
    return re.compile(f"{pattern}/?", re.IGNORECASE | re.DOTALL)
