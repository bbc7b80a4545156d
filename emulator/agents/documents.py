"""What is written about the emulator, in passages: the handbook, the decisions and the contract of this version."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from emulator import resources
from emulator.contract import files
from emulator.contract.document import Api
from emulator.control.pages import REFERENCE, handbook
from emulator.core.record import Record
from emulator.wire.dialect import SVC

_DECISIONS = ("decisions.md", "own_decisions.md", "fidelity.md")
# A longer section is cut into passages at its empty lines.
_MOST = 1_500


class Passage(Record):
    """A piece of text, and where it is from."""

    title: str
    text: str


def search(query: str, limit: int) -> list[Passage]:
    """The passages that say most about the words of a query, the best first; those with all of them before others."""
    words = re.findall(r"\w+", query)
    found: dict[str, Passage] = {}
    # As few and long words as a title has, they count more there.
    for joined in (" AND ", " OR "):
        asked = joined.join(f'"{word}"' for word in words)
        rows = _index().execute(_SELECT, (asked, limit)) if words else ()
        for title, text in rows:
            found.setdefault(f"{title}\n{text}", Passage(title=title, text=text))
    return list(found.values())[:limit]


_SELECT = "SELECT title, text FROM passages WHERE passages MATCH ? ORDER BY bm25(passages, 4.0, 1.0) LIMIT ?"


@cache
def _index() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.execute("CREATE VIRTUAL TABLE passages USING fts5(title, text, tokenize = 'porter unicode61')")
    rows = ((each.title, each.text) for each in passages())
    connection.executemany("INSERT INTO passages VALUES (?, ?)", rows)
    return connection


def passages() -> Iterator[Passage]:
    """All passages: sections of texts, entries of decisions, operations and schemas of the contract."""
    for path in (*handbook(), resources.path(*REFERENCE)):
        yield from _sections(path)
    for name in _DECISIONS:
        yield from _sections(resources.path("contracts", name))
    for document in files.documents((Api.CONTROL, Api.MESSAGING, Api.MANAGEMENT), SVC).values():
        yield from _operations(document)


def _sections(path: Path) -> Iterator[Passage]:
    text = path.read_text("utf-8")
    for section in re.split(r"^(?=#{1,4} )", text, flags=re.MULTILINE):
        heading, _, body = section.partition("\n")
        title = f"{heading.lstrip('# ')} ({path.name})" if heading.startswith("#") else path.name
        piece = ""
        for paragraph in body.split("\n\n"):
            if piece and len(piece) + len(paragraph) > _MOST:
                yield Passage(title=title, text=piece.strip())
                piece = ""
            piece += f"{paragraph}\n\n"
        if piece.strip():
            yield Passage(title=title, text=piece.strip())


def _operations(document: Mapping[str, object]) -> Iterator[Passage]:
    paths = document["paths"]
    assert isinstance(paths, Mapping)
    for path, operations in paths.items():
        for method, operation in operations.items():
            if isinstance(operation, Mapping) and "summary" in operation:
                names = [each["name"] for each in operation.get("parameters", ()) if "name" in each]
                text = str(operation.get("description", ""))
                text += f"\nParameters: {', '.join(names)}" if names else ""
                yield Passage(title=f"{method.upper()} {path}: {operation['summary']}", text=text.strip())
