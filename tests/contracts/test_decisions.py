"""The register of decisions: complete, cited where it is carried out, and held by tests that exist."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What the service does, and what the emulator adds.
REGISTERS = (ROOT / "contracts" / "decisions.md", ROOT / "contracts" / "own_decisions.md")

NUMBER = re.compile(r"\bD-[0-9]+\b")
HEADING = re.compile(r"^### (?P<number>D-[0-9]{3}) (?P<title>\S.*)$", re.MULTILINE)
CHAPTER = re.compile(r"^## (?P<title>\S.*)$", re.MULTILINE)
TESTS = re.compile(r"`test_[a-z0-9_]+`(, `test_[a-z0-9_]+`)*")
PARTS = ("Question", "Answer", "Reason", "Certainty", "Tests")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One decision: its parts by name, each the rest of its line."""

    number: str
    parts: dict[str, list[str]]
    has_other_lines: bool


def chapters() -> dict[str, list[Entry]]:
    """The decisions of both registers by the titles of their chapters; the list of chapters is left out."""
    found: dict[str, list[Entry]] = {}
    for register in REGISTERS:
        text = register.read_text(encoding="utf-8")
        titles = list(CHAPTER.finditer(text))
        for title, following in zip(titles, [*titles[1:], None], strict=True):
            content = text[title.end() : following.start() if following else len(text)]
            if title["title"] != "Chapters":
                assert title["title"] not in found, "a chapter twice"
                found[title["title"]] = entries(content)
    return found


def entries(content: str) -> list[Entry]:
    """The decisions of one chapter."""
    headings = list(HEADING.finditer(content))
    assert len(headings) == len(re.findall(r"^#+ ", content, re.MULTILINE)), "a heading that is no decision"
    found = []
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        parts: dict[str, list[str]] = {}
        has_other_lines = False
        for line in content[heading.end() : following.start() if following else len(content)].strip().splitlines():
            name, colon, rest = line.partition(": ")
            if colon and name in PARTS:
                parts.setdefault(name, []).append(rest)
            else:
                has_other_lines = True
        found.append(Entry(number=heading["number"], parts=parts, has_other_lines=has_other_lines))
    return found


CHAPTERS = chapters()
ENTRIES = [entry for found in CHAPTERS.values() for entry in found]
NUMBERS = {entry.number for entry in ENTRIES}


def cited_in(paths: list[Path]) -> dict[str, set[str]]:
    """Every number that the files cite, with the files that cite it."""
    found: dict[str, set[str]] = {}
    for path in paths:
        for number in NUMBER.findall(path.read_text(encoding="utf-8")):
            found.setdefault(number, set()).add(str(path.relative_to(ROOT)))
    return found


def sources(folder: str) -> list[Path]:
    # The pytest plugin lies beside the package (D-290).
    beside = [ROOT / "svc_emulator_pytest.py"] if folder == "emulator" else []
    written = (path for path in sorted((ROOT / folder).rglob("*.*")) if path.suffix in (".py", ".js"))
    return [*(path for path in written if path != Path(__file__)), *beside]


@functools.cache
def defined_tests() -> frozenset[str]:
    """The names of all test functions under `tests/`, whichever file defines them."""
    return frozenset(
        node.name
        for path in sources("tests")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and path.name.startswith("test_")
    )


def test_numbers_are_unique_and_sorted_in_each_chapter() -> None:
    assert len(ENTRIES) > 100
    assert len(NUMBERS) == len(ENTRIES)
    for title, found in CHAPTERS.items():
        numbers = [entry.number for entry in found]
        assert numbers == sorted(numbers) != [], title


def test_each_file_lists_its_chapters_with_links() -> None:
    listed = [re.findall(r"^- \[(.+)\]\(#(.+)\)$", each.read_text("utf-8"), re.MULTILINE) for each in REGISTERS]
    assert [title for links in listed for title, _ in links] == list(CHAPTERS)
    for title, anchor in (link for links in listed for link in links):
        assert anchor == re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def test_an_entry_has_every_part_once_and_names_its_certainty_and_tests_that_exist() -> None:
    wrong: list[object] = []
    for entry in ENTRIES:
        if tuple(entry.parts) != PARTS or any(len(lines) != 1 for lines in entry.parts.values()):
            wrong.append((entry.number, "parts", tuple(entry.parts)))
            continue
        [question], [certainty], [tests] = (entry.parts[name] for name in ("Question", "Certainty", "Tests"))
        if entry.has_other_lines or not question.endswith("?"):
            wrong.append((entry.number, "lines that belong to no part, or a question without its mark"))
        if certainty not in ("known", "observed", "chosen"):
            wrong.append((entry.number, certainty))
        if not TESTS.fullmatch(tests):
            wrong.append((entry.number, "a test that is not written as `name`"))
        elif missing := set(tests.strip("`").split("`, `")) - defined_tests():
            wrong.append((entry.number, missing))
    assert wrong == []


def test_every_number_that_is_cited_has_an_entry() -> None:
    others = [path for path in (ROOT / "fixtures").rglob("*") if path.is_file()]
    contracts = [path for path in (ROOT / "contracts").iterdir() if path.suffix in (".yaml", ".md")]
    cited = cited_in([*sources("emulator"), *sources("tests"), *others, *contracts, ROOT / "README.md"])
    assert {number: files for number, files in cited.items() if number not in NUMBERS} == {}


@pytest.mark.parametrize("folder", ["emulator", "tests"])
def test_every_entry_is_cited_in_the_code_and_in_its_tests(folder: str) -> None:
    assert NUMBERS - cited_in(sources(folder)).keys() == set()
