"""How many small faults of the code the quick tests notice: mutmut plants them, one at a time.

`--sample 40` tries so many, of some modules that the seed chooses, with the quickest of the tests. Without it every
mutant of the modules is tried, and a run that was ended is continued. What survives is printed with its change, and can
be seen in `build/mutants` again, with `mutmut show NAME`. `tests/mutants.toml` says which tests are run, and names the
mutants that no test can notice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import chdir
from fnmatch import fnmatchcase
from itertools import chain, zip_longest
from pathlib import Path
from random import SystemRandom
from typing import Any

from mutmut.mutation.file_mutation import mutate_file_contents

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
# mutmut writes into the folder that it runs in.
FOLDER = ROOT / "build" / "mutants"
NEEDED = ("contracts", "docs", "emulator", "examples", "fixtures", "tests", "pyproject.toml", "svc_emulator_pytest.py")
# A mutant whose loop does not end collects facts until its time is over.
MEMORY_BYTES = 4 * 1024**3
MODULES_OF_A_SAMPLE = 8
# The words of mutmut for how a mutant ended that was tried, and which of them say that it was noticed.
NOTICED = ("killed", "timeout", "segfault")
TRIED = (*NOTICED, "survived", "no tests")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as 'emulator.core.rules.*'; all without one")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="the K-th of N parts of the modules")
    parser.add_argument("--sample", type=int, metavar="N", help="try so many mutants only")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6), help="repeats a sample")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many are tried at a time")
    options = parser.parse_args(arguments)
    patterns = options.modules or ["*"]
    named = [name for name in sorted(mutated_modules()) if any(fnmatchcase(name, each) for each in patterns)]
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", options.part)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        parser.error("--part: expected a part such as 1/8")
    paths = {name: mutated_modules()[name] for name in named[int(match[1]) - 1 :: int(match[2])]}
    if not paths:
        parser.error(f"no module that is mutated is named {' or '.join(patterns)}")
    if options.sample is None:
        prepare(list(paths.values()), "tests")
        mutmut("run", "--max-children", str(options.processes))
        return report(results())
    if options.sample < 1:
        parser.error("--sample: expected 1 or more")
    chance = random.Random(options.seed)
    modules = chance.sample(sorted(paths), min(MODULES_OF_A_SAMPLE, len(paths)))
    print(f"seed {options.seed}: {', '.join(modules)}", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    prepare([paths[module] for module in modules], "quick")
    with chdir(FOLDER):  # mutmut reads its settings there.
        chosen = spread([mutants_of(module, paths[module]) for module in modules], options.sample, chance)
    mutmut("run", "--max-children", str(options.processes), *chosen)
    return report({name: status for name, status in results().items() if name in set(chosen)})


def mutated_modules() -> dict[str, Path]:
    """By its dotted name, each module that is mutated."""
    paths = {path for area in SETTINGS["area"] for pattern in area["modules"] for path in ROOT.glob(pattern)}
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths if path.stem != "__init__"}


def mutants_of(module: str, path: Path) -> list[str]:
    return [f"{module}.{name}" for name in mutate_file_contents(str(path), path.read_text("utf-8")).mutant_names]


def spread(groups: Sequence[Sequence[str]], count: int, chance: random.Random) -> list[str]:
    """So many names, about as many of each group."""
    shuffled = [chance.sample(group, len(group)) for group in groups]
    return list(filter(None, chain.from_iterable(zip_longest(*shuffled))))[:count]


def prepare(modules: Sequence[Path], selection: str) -> None:
    """A folder with the code and its tests as they are now, and what mutmut shall do there.

    `selection` is which tests of each area shall be run: all its `tests`, or the `quick` ones.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in NEEDED:
        source, target = ROOT / name, FOLDER / name
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy(source, target)
    paths = [path.relative_to(ROOT) for path in modules]
    areas = [area for area in SETTINGS["area"] if any(path.match(each) for path in paths for each in area["modules"])]
    tests = list(dict.fromkeys(folder for area in areas for folder in area[selection]))
    own = {
        **SETTINGS["mutmut"],
        "source_paths": ["emulator"],
        "only_mutate": [path.as_posix() for path in paths],
        "also_copy": [name for name in NEEDED if name not in ("emulator", "tests", "pyproject.toml")],
        "pytest_add_cli_args_test_selection": tests,
    }
    with (FOLDER / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("\n[tool.mutmut]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in own.items()))


def mutmut(*arguments: str) -> str:
    """What a command of mutmut prints. Ends the program if it fails, as it does if a test fails without a mutant."""
    ended = subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments],
        cwd=FOLDER,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
    )
    if ended.returncode != 0:
        lines = ended.stdout.replace("\r", "\n").splitlines()
        # The others are its progress.
        print("\n".join(line for line in lines if line and not line.startswith(tuple("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"))), file=sys.stderr)
        tests = " ".join(dict.fromkeys(folder for area in SETTINGS["area"] for folder in area["tests"]))
        sys.exit(f"mutmut has failed; if it was a test without a mutant, this shows it: python -m pytest {tests}")
    return ended.stdout


def results() -> dict[str, str]:
    """How each mutant ended, by its name."""
    lines = (line.strip().rpartition(": ") for line in mutmut("results", "--all", "true").splitlines())
    return {name: status for name, _, status in lines if "__mutmut_" in name}


def module_of(name: str) -> str:
    return name.rpartition(".")[0]


def equivalent(change: str, name: str) -> str | None:
    """Why no test can find a mutant, if it is named as one: its function, and the line that it puts in."""
    function = name.rpartition("__mutmut_")[0]
    added = {line[1:].strip() for line in change.splitlines() if line.startswith("+") and not line.startswith("+++")}
    known: Sequence[Mapping[str, Any]] = SETTINGS.get("equivalent", ())
    return next((entry["why"] for entry in known if entry["function"] == function and entry["line"] in added), None)


def report(ends: Mapping[str, str]) -> int:
    """Print what survived, a table of the modules, and the score. A mutant that was not tried is an error."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for name, status in sorted(ends.items()):
        column = status
        if status in ("survived", "no tests"):
            change = mutmut("show", name)
            if (why := equivalent(change, name)) is not None:
                column = "equivalent"
                print(f"equivalent: {name}: {why}")
            else:
                print(change)
        table[module_of(name)][column] += 1
    columns = (*TRIED, "equivalent")
    print(f"{'':44}" + "".join(f"{column:>11}" for column in columns))
    for module, counts in table.items():
        print(f"{module:44}" + "".join(f"{counts[column]:11}" for column in columns))
    total = sum(table.values(), Counter[str]())
    print(f"{'all':44}" + "".join(f"{total[column]:11}" for column in columns))
    noticed = sum(total[column] for column in NOTICED)
    rest = noticed + total["survived"] + total["no tests"]
    print(f"score: {noticed} of {rest} noticed, {100 * noticed / max(rest, 1):.1f} %")
    untried = sum(total.values()) - rest - total["equivalent"]
    if untried or not total["killed"]:
        print(f"{untried} were not tried" if untried else "none was noticed: is anything mutated?", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
