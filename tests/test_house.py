"""The house rules that no linter knows: places of modules, docstrings of packages, private names, patches, words.

import-linter checks the layers, ruff and mypy the rest; see pyproject.toml.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import util
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
EMULATOR = ROOT / "emulator"

# The public names, what finds the data files, and what other tools load.
AT_THE_ROOT = {
    "__init__.py",
    "__main__.py",
    "django.py",
    "py.typed",
    "pytest_plugin.py",
    "resources.py",
    "testcontainers.py",
    "version.py",
}
# Folders of tests that are about no single module.
NO_MIRROR = {
    "benchmarks",
    "book",
    "container",
    "contracts",
    "examples",
    "golden",
    "properties",
    "scenarios",
    "users",
}
# Tests of the project as a whole.
OF_NO_PACKAGE = {
    "test_campaign.py",
    "test_house.py",
    "test_public_names.py",
    "test_wheel.py",
}
# What a package's docstring says of its imports.
IMPORTS = re.compile(r"\bit (may )?imports?\b")

PACKAGES = sorted(path.parent for path in EMULATOR.rglob("__init__.py"))
MODULES = sorted(EMULATOR.rglob("*.py"))
TEST_MODULES = sorted(TESTS.rglob("*.py"))
CAMPAIGN = sorted((ROOT / "campaign").rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


# -- places -----------------------------------------------------------------------------------


def test_root_of_the_package_holds_packages_and_what_other_tools_load() -> None:
    assert {path.name for path in EMULATOR.iterdir() if path.is_file()} == AT_THE_ROOT


@pytest.mark.parametrize("package", [path for path in PACKAGES if path != EMULATOR], ids=name_of)
def test_package_says_in_one_sentence_what_it_is_for_and_may_import(package: Path) -> None:
    docstring = ast.get_docstring(tree_of(package / "__init__.py")) or ""
    purpose, _, _ = docstring.partition("\n\n")
    assert IMPORTS.search(docstring.lower()), docstring
    assert purpose.count(". ") == 0, "more than one sentence"


def test_every_test_module_is_in_the_folder_of_the_package_it_tests() -> None:
    """Tests mirror packages, not files."""

    def has_mirror(path: Path) -> bool:
        return (EMULATOR / path.parts[0].removeprefix("test_")).exists()

    tests = {path.relative_to(TESTS) for path in TEST_MODULES if path.name.startswith("test_")}
    of_no_package = {Path(name) for name in OF_NO_PACKAGE}
    assert of_no_package <= tests
    found = [str(path) for path in tests - of_no_package if path.parts[0] not in NO_MIRROR and not has_mirror(path)]
    assert not found, "\n".join(sorted(found))


# -- private names ----------------------------------------------------------------------------


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def defined_in(tree: ast.Module) -> set[str]:
    """Every name that a module gives to something: a function, a class, a variable, an attribute of `self`."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                names.add(name)
    return names


def reached(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the text of each private name of another module."""
    own = defined_in(tree)
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=module, names=names):
                for each in names:
                    if is_private(each.name):
                        yield node.lineno, f"from {module} import {each.name}"
            case (
                ast.Attribute(value=ast.Name(id="self" | "cls"))
                | ast.Attribute(value=ast.Call(func=ast.Name(id="super")))
            ):
                pass
            case ast.Attribute(attr=name) if is_private(name) and name not in own:
                yield node.lineno, ast.unparse(node)


@pytest.mark.slow
def test_no_module_reaches_the_private_names_of_another() -> None:
    found = [f"{name_of(path)}:{line}: {text}" for path in MODULES for line, text in reached(tree_of(path))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("from emulator.core.state import _apply", 1),
        ("other._secret", 1),
        ("self._emulator._do(x)", 1),
        ("self._own = super()._theirs", 0),
        ("def _own(): ...\nother._own", 0),
        ("other.__dict__", 0),
    ],
)
def test_private_names_are_found(code: str, count: int) -> None:
    assert len(list(reached(ast.parse(code)))) == count


# -- patches ----------------------------------------------------------------------------------

# What is given to change something for a while, in the calls of `pytest.MonkeyPatch`.
PATCHES = {"setattr", "delattr", "setitem", "delitem"}
# Tables that belong to the process, and have no other way in.
TABLES = {"os.environ", "sys.modules"}
# What begins the run, what sees every answer of it through whatever client, and what makes processes of a fork.
INSTRUMENTS = {TESTS / "conftest.py", TESTS / "contracts" / "answers.py", TESTS / "harness" / "forks.py"}


def imported_by(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for, as a dotted path."""
    names = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                for each in aliases:
                    first = each.name.partition(".")[0]
                    names[each.asname or first] = each.name if each.asname else first
            case ast.ImportFrom(module=str(module), names=aliases):
                names.update({each.asname or each.name: f"{module}.{each.name}" for each in aliases})
    return names


@cache
def is_shared(path: str) -> bool:
    """Whether a dotted path is a module, or something of ours that all tests of the process see."""
    if path.partition(".")[0] in ("emulator", "tests"):
        return True
    try:
        return util.find_spec(path) is not None
    except ModuleNotFoundError:
        return False


def patches(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the text of each change of a module, or of a class or table of one."""
    imported = imported_by(tree)

    def stands_for_shared(target: ast.expr) -> bool:
        if any(isinstance(part, ast.Call) for part in ast.walk(target)):
            return False  # What a function returns is asked for, as a logger is.
        text = ast.unparse(target)
        path = imported.get(text.partition(".")[0])
        return path is not None and text not in TABLES and is_shared(path)

    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[target, *_]) if name in PATCHES:
                if isinstance(target, ast.Constant) or stands_for_shared(target):
                    yield node.lineno, ast.unparse(node)
            case ast.Assign(targets=targets):
                if any(isinstance(each, ast.Attribute) and stands_for_shared(each.value) for each in targets):
                    yield node.lineno, ast.unparse(node)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                if any(each.name in ("mock", "unittest.mock") for each in aliases):
                    yield node.lineno, ast.unparse(node)


@pytest.mark.slow
def test_no_test_patches_a_global_of_a_module() -> None:
    tests = [path for path in TEST_MODULES if path not in INSTRUMENTS]
    found = [f"{name_of(path)}:{line}: {text}" for path in tests for line, text in patches(tree_of(path))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("from emulator.engine import driver\npatch.setattr(driver, 'SETTLE_S', 1)", 1),
        ("from emulator.journal.store import Store\npatch.setattr(Store, 'begin', f)", 1),
        ("from emulator.journal.store import Store\nStore.begin = f", 1),
        ("patch.setattr('emulator.journal.history.STEP', 1)", 1),
        ("import os\npatch.setattr(os, 'replace', f)", 1),
        ("from unittest import mock", 1),
        ("import sys\npatch.setitem(sys.modules, 'x', None)", 0),
        ("patch.setenv('NAME', 'x')", 0),
        ("world = make()\npatch.setattr(world.store, 'commit', f)", 0),
    ],
)
def test_patches_are_found(code: str, count: int) -> None:
    assert len(list(patches(ast.parse(code)))) == count


# -- words ------------------------------------------------------------------------------------

# Phrases that a reader stumbles over, as regular expressions, and what to write instead.
PHRASES = {
    "ha(s|ve) come to": "the present value, the result",
    "come to then": "the present instant",
    "tells? of": "shows, logs, lists",
    "told of": "reported, logged, listed",
    "(is|are) told": "gets, is sent, is notified",
    "which a test misses": "a test fails without it",
    "for nobody": "ignored",
    "in vain": "ignored, without effect",
    "as ever": "as usual, the default",
    "in hand": "keeps",
    "on its way": "in flight",
    "what lived": "the live messages",
    "goe?s? on": "continues",
    "by then": "at the instant, by its name",
    "brings?": "carries, sets",
    "len(ds?|t)": "shares",
    "strangers?": "an unknown caller",
    "errands?": "a job",
    "doors?": "a port",
    "the one that": "the noun",
    "whoever": "the caller, the client, the user",
}
# Comments and docstrings may wrap within a phrase.
GAP = r"(?:\s|#)+"
PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b".replace(" ", GAP), re.IGNORECASE)


def phrases(text: str) -> Iterator[tuple[int, str]]:
    """The line and the words of each phrase to avoid."""
    for found in PHRASE.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, re.sub(GAP, " ", found[0])


def test_no_module_has_a_phrase_that_a_reader_stumbles_over() -> None:
    modules = [path for path in (*MODULES, *TEST_MODULES, *CAMPAIGN) if path != Path(__file__)]
    found = [f"{name_of(path)}:{line}: {text}" for path in modules for line, text in phrases(path.read_text("utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# What history\n    # has come\n    # to.", [(2, "has come to")]),
        ("It is sent to Whoever asks.", [(1, "Whoever")]),
        ("# As everybody does, in hands; indoors.", []),
        ("", []),
    ],
)
def test_phrases_are_found(text: str, expected: list[tuple[int, str]]) -> None:
    assert list(phrases(text)) == expected


def test_the_files_that_contributors_are_sent_to_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text))
    assert len(named) > 30
    assert [each for each in sorted(named) if not any((ROOT / top / each).is_file() for top in ("", "emulator"))] == []


# -- mutants ------------------------------------------------------------------------------------


def test_the_mutants_that_no_test_can_notice_are_of_functions_that_exist() -> None:
    """Named as mutmut does: `x_` before a function, a class and its method between `ǁ`."""
    entries = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text("utf-8"))["equivalent"]
    for entry in entries:
        module, _, name = entry["function"].rpartition(".x")
        code = (ROOT / (module.replace(".", "/") + ".py")).read_text("utf-8")
        for part in (name[1:] if name.startswith("_") else name.strip("ǁ")).split("ǁ"):
            assert re.search(rf"^ *(async def|def|class) {part}\b", code, re.MULTILINE), entry["function"]
        assert entry["line"].strip() == entry["line"]
        assert entry["why"]
