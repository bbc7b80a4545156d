"""The nightly workflow runs every fuzz test: each belongs to one part of it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FUZZED = (
    "tests/contracts/test_fuzz.py",
    "tests/properties/test_core_properties.py",
    "tests/properties/test_parsers.py",
)
WORD = re.compile(r"[A-Za-z_]+")


def collected() -> dict[str, list[str]]:
    """The names of the tests of each file."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *FUZZED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100)
    names: dict[str, list[str]] = {file: [] for file in FUZZED}
    for file, name in re.findall(r"^(tests/[^:]+)::(.+)$", done.stdout, re.MULTILINE):
        names[file].append(name)
    return names


def is_meant(expression: str, name: str) -> bool:
    """Whether pytest's `-k` takes a test: each word stands for `occurs in its name`."""
    found = WORD.sub(lambda word: word[0] if word[0] in ("and", "or", "not") else str(word[0] in name), expression)
    return bool(eval(found))


@pytest.mark.slow
def test_every_fuzz_test_belongs_to_one_part_of_the_nightly_run() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["fuzz"]
    assert any("${{ matrix.part }}" in step.get("run", "") for step in job["steps"])
    names = collected()
    assert all(names.values())
    parts = [shlex.split(part) for part in job["strategy"]["matrix"]["part"]]
    for file, own in names.items():
        expressions = [" ".join(options).removeprefix("-k ") for path, *options in parts if path == file]
        for name in own:
            meant = [expression for expression in expressions if not expression or is_meant(expression, name)]
            assert len(meant) == 1, (file, name, meant)


@pytest.mark.parametrize(
    ("expression", "name", "taken"),
    [
        ("application and messaging", "test_the_application[messaging-a]", True),
        ("application and not messaging", "test_the_application[messaging-a]", False),
        ("application and not messaging", "test_the_application[control-a]", True),
    ],
)
def test_expressions_mean_what_they_mean_to_pytest(expression: str, name: str, taken: bool) -> None:
    assert is_meant(expression, name) is taken
