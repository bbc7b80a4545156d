"""Fixtures in files: YAML or JSON, with the file, the line and the field in every error.

The YAML parser takes ten milliseconds to import, so the built-in fixtures have a twin in JSON that
every start reads instead; a test keeps the two equal (D-171).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from emulator import data_files
from emulator.core.excerpts import excerpt
from emulator.origins import Origin, first_state
from emulator.wire.dialect import Dialect
from emulator.wire.fixture_json import Fixtures, InvalidFixtures, read_fixtures
from emulator.wire.json_fields import Json, joined

if TYPE_CHECKING:
    from yaml import MappingNode, Node

# More than any document needs, and few enough that aliases of aliases cannot fill the memory.
_MAX_VALUES = 100_000
_MAX_DEPTH = 100


class FixturesError(Exception):
    """A fixtures file cannot be used. The text is one line, about the first thing that is wrong.

    `problems` has a line for each: `file:line: field: reason`.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems[0])
        self.problems = tuple(problems)


@lru_cache(maxsize=8)
def built_in(dialect: Dialect) -> Fixtures:
    """What a world starts with where no file was given. Read once per process."""
    return read_fixtures(msgspec.json.decode(data_files.path("fixtures", "default.json").read_bytes()), dialect)


def load(path: Path, dialect: Dialect, origin: Origin) -> Fixtures:
    """The fixtures of a file, after a try whether a world can be made of them. Raises: FixturesError."""
    document = _Document(path)
    try:
        fixtures = read_fixtures(document.content, dialect)
        first_state(origin, fixtures)
    except InvalidFixtures as invalid:
        raise document.error(invalid) from None
    return fixtures


def read(content: Mapping[str, object], dialect: Dialect, origin: Origin) -> Fixtures:
    """The fixtures of a document that came without a file. Raises: FixturesError."""
    try:
        fixtures = read_fixtures(cast(Json, content), dialect)
        first_state(origin, fixtures)
    except InvalidFixtures as invalid:
        raise FixturesError([f"fixtures: {problem.text}" for problem in invalid.problems]) from None
    return fixtures


class _Document:
    """A file as parsed: its content, and the line of every value by its path. Raises: FixturesError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise FixturesError([f"{path}: cannot be read: {error.strerror or error}"]) from None
        except UnicodeDecodeError:
            raise FixturesError([f"{path}: is not a UTF-8 text file"]) from None
        self._lines: dict[str, int] = {"": 1}
        self.content = self._parse(text)

    def error(self, invalid: InvalidFixtures) -> FixturesError:
        """What is wrong with the document, line by line of the file."""
        problems = sorted((self._line_of(problem.field), problem.text) for problem in invalid.problems)
        return FixturesError([f"{self._path}:{line}: {' '.join(text.split())}" for line, text in problems])

    def _line_of(self, field: str) -> int:
        """The line of a value, or of the nearest one around it that is written in the file."""
        while field not in self._lines:
            field = field[: max(field.rfind("."), field.rfind("["), 0)]
        return self._lines[field]

    def _parse(self, text: str) -> Json:
        if self._path.suffix.lower() == ".json":
            return self._parse_json(text)
        root = self._compose(text)
        return None if root is None else _Values(self._path, self._lines).value(root, "")

    def _parse_json(self, text: str) -> Json:
        """JSON by its own rules; the YAML parser, which reads JSON too, only says where things are."""
        try:
            content: Json = json.loads(text)
        except json.JSONDecodeError as error:
            raise FixturesError([f"{self._path}:{error.lineno}: is not JSON: {error.msg}"]) from None
        except RecursionError:
            raise FixturesError([f"{self._path}: is not JSON: too many nested values"]) from None
        except ValueError:
            # Python reads no integer of thousands of digits, and says so in words of its own.
            raise FixturesError([f"{self._path}: is not JSON: a number has too many digits"]) from None
        # YAML allows no tab between values, and JSON none within one.
        root = self._compose(text.replace("\t", " "))
        if root is not None:
            _Values(self._path, self._lines).value(root, "")
        return content

    def _compose(self, text: str) -> Node | None:
        import yaml

        loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
        try:
            # Composing recurses in C, where too deep a document would end the process.
            depth = 0
            for event in yaml.parse(text, Loader=loader):
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > _MAX_DEPTH:
                    line = 1 if event.start_mark is None else event.start_mark.line + 1
                    raise FixturesError([f"{self._path}:{line}: document: too many nested values"])
            return yaml.compose(text, Loader=loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            # What is missing at the end is missing in the last line, not behind it.
            line = 1 if mark is None else min(mark.line, text.count("\n")) + 1
            raise FixturesError([f"{self._path}:{line}: is not YAML: {error.problem or error.context}"]) from None
        except yaml.YAMLError as error:
            raise FixturesError([f"{self._path}: is not YAML: {' '.join(str(error).split())}"]) from None


class _Values:
    """Turns YAML nodes into JSON values and notes the line of each."""

    def __init__(self, path: Path, lines: dict[str, int]) -> None:
        from yaml.constructor import SafeConstructor

        self._path = path
        self._lines = lines
        self._constructor = SafeConstructor()
        self._open: list[Node] = []
        self._count = 0

    def value(self, node: Node, path: str) -> Json:
        from yaml import MappingNode, ScalarNode

        self._lines[path] = node.start_mark.line + 1
        self._count += 1
        if node in self._open or self._count > _MAX_VALUES:
            raise self._error(node, path, "contains itself" if node in self._open else "is too large")
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        self._open.append(node)
        try:
            if isinstance(node, MappingNode):
                return dict(self._entries(node, path))
            if node.tag != "tag:yaml.org,2002:seq":
                raise self._error(node, path, f"has the tag {excerpt(node.tag)}, expected none")
            return [self.value(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
        finally:
            self._open.pop()

    def _entries(self, node: MappingNode, path: str) -> Iterator[tuple[str, Json]]:
        from yaml import YAMLError

        if node.tag != "tag:yaml.org,2002:map":
            raise self._error(node, path, f"has the tag {excerpt(node.tag)}, expected none")
        own = {id(key) for key, _ in node.value}
        try:
            # Puts what `<<` refers to in front of the node's own keys, which win.
            self._constructor.flatten_mapping(node)
        except YAMLError as error:
            raise self._error(node, path, getattr(error, "problem", None) or "is not a mapping") from None
        seen: set[str] = set()
        for key, value in node.value:
            name = key.value
            if not isinstance(name, str) or not name:
                raise self._error(key, path, "expected a text as a key")
            if id(key) in own:
                if name in seen:
                    raise self._error(key, joined(path, name), "is given twice")
                seen.add(name)
            content = self.value(value, joined(path, name))
            self._lines[joined(path, name)] = key.start_mark.line + 1
            yield name, content

    def _scalar(self, node: Node, path: str) -> Json:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind in ("str", "timestamp", "value", "merge"):
            # A date is the text it was written as.
            return str(node.value)
        if kind not in ("null", "bool", "int", "float"):
            raise self._error(node, path, f"has the tag {excerpt(node.tag)}, expected none")
        try:
            content: Json = self._constructor.construct_object(node)
        except ValueError:
            raise self._error(node, path, f"expected a value of the kind {kind}, got {excerpt(node.value)}") from None
        return content

    def _error(self, node: Node, path: str, reason: str) -> FixturesError:
        return FixturesError([f"{self._path}:{node.start_mark.line + 1}: {path or 'document'}: {reason}"])
