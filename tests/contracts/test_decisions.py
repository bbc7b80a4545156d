"""The register of decisions: complete, cited where it is carried out, and held by tests that exist."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REGISTER = ROOT / "contracts" / "decisions.md"

NUMBER = re.compile(r"\bD-[0-9]+\b")
HEADING = re.compile(r"^## (?P<number>D-[0-9]{3}) (?P<title>\S.*)$", re.MULTILINE)
TESTS = re.compile(r"`test_[a-z0-9_]+`(, `test_[a-z0-9_]+`)*")
PARTS = ("Question", "Answer", "Reason", "Certainty", "Tests")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One decision: its parts by name, each the rest of its line."""

    number: str
    parts: dict[str, list[str]]
    has_other_lines: bool


def entries() -> list[Entry]:
    text = REGISTER.read_text(encoding="utf-8")
    headings = list(HEADING.finditer(text))
    assert len(headings) == len(re.findall(r"^#+ ", text, re.MULTILINE)) - 1, "a heading that is no decision"
    found = []
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        parts: dict[str, list[str]] = {}
        has_other_lines = False
        for line in text[heading.end() : following.start() if following else len(text)].strip().splitlines():
            name, colon, rest = line.partition(": ")
            if colon and name in PARTS:
                parts.setdefault(name, []).append(rest)
            else:
                has_other_lines = True
        found.append(Entry(number=heading["number"], parts=parts, has_other_lines=has_other_lines))
    return found


ENTRIES = entries()
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
    return [*(path for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__)), *beside]


@functools.cache
def defined_tests() -> frozenset[str]:
    """The names of all test functions under `tests/`, whichever file defines them."""
    return frozenset(
        node.name
        for path in sources("tests")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and path.name.startswith("test_")
    )


def test_numbers_are_unique_and_sorted() -> None:
    numbers = [entry.number for entry in ENTRIES]
    assert len(numbers) > 100
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.number)
def test_an_entry_has_every_part_once_and_names_its_certainty_and_tests_that_exist(entry: Entry) -> None:
    assert tuple(entry.parts) == PARTS
    assert all(len(lines) == 1 for lines in entry.parts.values())
    assert not entry.has_other_lines
    assert entry.parts["Certainty"][0] in ("known", "observed", "chosen")
    assert entry.parts["Question"][0].endswith("?")
    [tests] = entry.parts["Tests"]
    assert TESTS.fullmatch(tests), "a test that is not written as `name`"
    assert set(tests.strip("`").split("`, `")) - defined_tests() == set()


def test_every_number_that_is_cited_has_an_entry() -> None:
    others = [path for path in (ROOT / "fixtures").rglob("*") if path.is_file()]
    contracts = [path for path in (ROOT / "contracts").iterdir() if path.suffix in (".yaml", ".md")]
    cited = cited_in([*sources("emulator"), *sources("tests"), *others, *contracts, ROOT / "README.md"])
    assert {number: files for number, files in cited.items() if number not in NUMBERS} == {}


@pytest.mark.parametrize("folder", ["emulator", "tests"])
def test_every_entry_is_cited_in_the_code_and_in_its_tests(folder: str) -> None:
    assert NUMBERS - cited_in(sources(folder)).keys() == set()
