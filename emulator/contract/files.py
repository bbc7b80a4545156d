"""Reading and writing OpenAPI documents. The emulator's own are read at their first use: starting needs none."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from emulator import resources
from emulator.contract.dialects import in_dialect, merged, with_server
from emulator.contract.diff import path_keys
from emulator.contract.document import Api, objects, operations, table, text
from emulator.core.errors import InvalidInput, NotAcceptable
from emulator.core.language.text import excerpt
from emulator.core.record import Record
from emulator.version import VERSION
from emulator.wire import dialect as dialects
from emulator.wire.dialect import Dialect
from emulator.wire.json_reader import JsonObject
from emulator.wire.parts import RequestParts, accepted_text, read_accept

# Where the emulator's own documents are.
FOLDER = resources.path("contracts")
# Larger files are refused: no description of an API comes near.
_MAX_BYTES = 32 * 1024 * 1024
_DEEPEST = 200
_MERGE = "tag:yaml.org,2002:merge"
# Of all mappings together. Merges of merges double with each level (D-792).
_MOST_MERGED = 100_000


class UnreadableContract(Exception):
    """A document cannot be used; the text names the file and says why, in one line."""


def documents(apis: tuple[Api, ...], dialect: Dialect, folder: Path = FOLDER) -> dict[Api, JsonObject]:
    """The documents of these APIs in the names of a dialect, each by its API.

    Of several, those whose file is missing are left out. Raises: UnreadableContract.
    """
    files = {api: folder / f"{api}.openapi.yaml" for api in apis}
    found = {api: _document(file, api, dialect) for api, file in files.items() if len(apis) == 1 or file.is_file()}
    if not found:
        raise UnreadableContract(f"{folder}: holds no contract")
    return found


def document(apis: tuple[Api, ...], dialect: Dialect, url: str, folder: Path = FOLDER) -> JsonObject:
    """The contract of these APIs as one document, of the server at `url`. Raises: UnreadableContract."""
    return with_server(_merged(apis, dialect, folder), url)


def written(content: JsonObject, form: DocumentFormat) -> str:
    """A document as text, for people to read."""
    if form is DocumentFormat.JSON:
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    import yaml

    return str(yaml.dump(content, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=110))


def read(path: Path) -> JsonObject:
    """An OpenAPI document of anyone, YAML or JSON. Raises: UnreadableContract."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UnreadableContract(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > _MAX_BYTES:
        raise UnreadableContract(f"{path}: is larger than {_MAX_BYTES} bytes")
    try:
        found = _parsed(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnreadableContract(f"{path}: is not a UTF-8 text file") from None
    except ValueError as error:
        raise UnreadableContract(f"{path}: {error}") from error
    if isinstance(found, Mapping) and "swagger" in found:
        raise UnreadableContract(f"{path}: expected OpenAPI 3, got Swagger {found['swagger']}")
    if not isinstance(found, Mapping) or not isinstance(found.get("openapi"), str):
        raise UnreadableContract(f"{path}: is not an OpenAPI document: it has no field `openapi`")
    if not found["openapi"].startswith("3."):
        raise UnreadableContract(f"{path}: expected OpenAPI 3, got {found['openapi']}")
    if not isinstance(found.get("paths", {}), Mapping):
        raise UnreadableContract(f"{path}: is not an OpenAPI document: `paths` is not an object")
    return found


@functools.lru_cache(maxsize=16)
def _document(file: Path, api: Api, dialect: Dialect) -> JsonObject:
    return in_dialect(_as_written(file), api, dialect)


@functools.lru_cache(maxsize=16)
def _merged(apis: tuple[Api, ...], dialect: Dialect, folder: Path) -> JsonObject:
    return merged(documents(apis, dialect, folder), VERSION)


_as_written = functools.lru_cache(maxsize=16)(read)


def _parsed(content: str) -> Any:
    """YAML or JSON. Raises: ValueError, one line."""
    import yaml

    form = "YAML"
    if content.lstrip()[:1] == "{":
        try:
            return json.loads(content)
        except RecursionError:
            raise ValueError("is nested too deeply") from None
        except ValueError:
            form = "JSON, nor YAML"  # A mapping in YAML may begin with a brace, too.
    try:
        _check_depth(content)
        return yaml.load(content, Loader=_loader())
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or " ".join(str(error).split())
        raise ValueError(f"{'' if mark is None else f'line {mark.line + 1}: '}is not {form}: {reason}") from None


def _check_depth(content: str) -> None:
    """Refuse deep nesting, which overflows the stack of the parser in C. Raises: ValueError."""
    import yaml

    depth = 0
    for event in yaml.parse(content, Loader=_loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise ValueError("is nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


@functools.cache
def _loader() -> Any:
    """A safe loader that reads what JSON can hold: dates and times stay texts, and so do keys such as 200."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time
        _merged = 0

        def flatten_mapping(self, node: Any) -> None:
            for key, value in node.value:
                if key.tag == _MERGE:
                    for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                        self._count_merged(source)
            super().flatten_mapping(node)

        def _count_merged(self, source: Any) -> None:
            """Raises: MarkedYAMLError before so much is copied."""
            if isinstance(source, yaml.MappingNode):
                self.flatten_mapping(source)
                self._merged += len(source.value)
                if self._merged > _MOST_MERGED:
                    reason = f"more than {_MOST_MERGED} values by its merges"
                    raise yaml.MarkedYAMLError(problem=reason, problem_mark=source.start_mark)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
            return {str(key): value for key, value in super().construct_mapping(node, deep).items()}

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in entries if tag != "tag:yaml.org,2002:timestamp"]
        for first, entries in Loader.yaml_implicit_resolvers.items()
    }
    return Loader


@functools.cache
def _dumper() -> Any:
    """A dumper that writes texts of several lines as blocks, and no anchors."""
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # chosen at run time
        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return Dumper


# -- what a request for the contract asks for: which APIs, and in which format ----------------

ALL = "all"


class DocumentFormat(enum.StrEnum):
    """How a document is written."""

    YAML = "yaml"
    JSON = "json"


MEDIA_TYPES = {DocumentFormat.YAML: "application/yaml", DocumentFormat.JSON: "application/json"}
# JSON stands for whatever is accepted as well: every YAML reader reads it.
_FORMATS = {
    **dict.fromkeys(
        ("application/json", "application/vnd.oai.openapi+json", "application/openapi+json"), DocumentFormat.JSON
    ),
    **dict.fromkeys(("*/*", "application/*"), DocumentFormat.JSON),
    **dict.fromkeys(("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"), DocumentFormat.YAML),
    **dict.fromkeys(("application/vnd.oai.openapi", "application/openapi+yaml"), DocumentFormat.YAML),
}


class ContractRequest(Record):
    """Which APIs, and in which format."""

    apis: tuple[Api, ...]
    format: DocumentFormat


def read_contract_request(parts: RequestParts) -> ContractRequest:
    """What a request asks for: all APIs as JSON, unless its query or `Accept` says otherwise.

    Raises: InvalidInput naming the parameter; NotAcceptable.
    """
    query = dict(parts.query)
    given = query.get("format", "")
    if given and given not in (*DocumentFormat,):
        raise InvalidInput("format", f"expected yaml or json, got {excerpt(given)}")
    return ContractRequest(
        apis=read_apis(query.get("api", "")), format=DocumentFormat(given) if given else _accepted(parts)
    )


def read_apis(text: str) -> tuple[Api, ...]:
    """The APIs that a text names: one, or all of them. Raises: InvalidInput."""
    if text in ("", ALL):
        return tuple(Api)
    try:
        return (Api(text),)
    except ValueError:
        raise InvalidInput("api", f"expected {', '.join(Api)} or {ALL}, got {excerpt(text)}") from None


def _accepted(parts: RequestParts) -> DocumentFormat:
    """The format that the client prefers, JSON if it does not say. Raises: NotAcceptable."""
    accepted = read_accept(parts)
    if not accepted:
        return DocumentFormat.JSON
    media_type, quality = max(
        ((name, quality) for name, quality in accepted if name in _FORMATS),
        key=lambda entry: entry[1],
        default=("", 0.0),
    )
    if quality <= 0:
        given = excerpt(accepted_text(parts))
        raise NotAcceptable(f"expected a client that accepts application/yaml or application/json, it accepts {given}")
    return _FORMATS[media_type]


# -- in which dialect somebody else's document is written -------------------------------------

# So many header names must agree on a prefix that no dialect has.
_ENOUGH = 3


def dialect_of(document: JsonObject, expected: Dialect) -> Dialect:
    """The dialect whose names fit a document best: the expected one, a built-in one, or one with the document's prefix.

    The expected one, unless another fits better. Raises: UnreadableContract.
    """
    found = _names(document)
    candidates = [expected, *(dialects.load(name) for name in dialects.BUILT_IN)]
    prefix = _prefix_of(document, expected)
    if prefix and prefix.lower() not in {each.lower_prefix for each in candidates}:
        candidates.append(dataclasses.replace(expected, name=prefix.rstrip("-").lower(), header_prefix=prefix))
    return max(candidates, key=lambda each: len(found & _own_names(each)))


def _own_names(dialect: Dialect) -> set[tuple[str, str]]:
    return {name for document in documents(tuple(Api), dialect).values() for name in _names(document)}


def _names(document: JsonObject) -> set[tuple[str, str]]:
    """The paths, parameters and fields of a document. A path is the same whatever its parameters are called."""
    return {
        *(("path", path) for path in path_keys(document)),
        *(("parameter", text(each.get("name")).lower()) for each in _parameters(document)),
        *(("field", name) for each in objects(document) for name in table(each.get("properties"))),
    }


def _parameters(document: JsonObject) -> Iterator[JsonObject]:
    for operation in operations(document):
        yield from operation.parameters()


def _headers(document: JsonObject) -> set[str]:
    return {text(each.get("name")) for each in _parameters(document) if each.get("in") == "header"}


def _prefix_of(document: JsonObject, expected: Dialect) -> str:
    """What most of the document's headers begin with where ours have the dialect's prefix; empty without one."""
    own: Iterable[str] = _headers(documents((Api.MESSAGING,), expected)[Api.MESSAGING])
    ends = {each[len(expected.header_prefix) :].lower() for each in own if each.startswith(expected.header_prefix)}
    prefixes: Counter[str] = Counter()
    for name in _headers(document):
        # The longest end that is known: `Their-Callback-Method` is no `Method`.
        end = max((each for each in ends if name.lower().endswith(f"-{each}")), key=len, default="")
        if end:
            prefixes[name[: -len(end)]] += 1
    ((prefix, count),) = prefixes.most_common(1) or [("", 0)]
    return prefix if count >= _ENOUGH else ""
