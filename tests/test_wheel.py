"""An installed wheel is complete: the package, its command, the data that lies outside the package, the pytest plugin.

The plugin is tried as users have it: in a strict project, beside the other plugins.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import emulator as package
from emulator import Emulator
from tests.examples.workplaces import missing
from tests.harness.installation import ROOT, Installation, installed

DATA = [path.relative_to(ROOT) for name in ("contracts", "fixtures") for path in sorted((ROOT / name).rglob("*.*"))]

pytestmark = pytest.mark.slow


def test_installed_package_is_imported_from_the_wheel(installation: Installation) -> None:
    printed = installation.run("python", "-c", "import emulator; print(emulator.__file__)")

    assert installation.environment in Path(printed.strip()).parents


def test_installed_package_finds_every_data_file(installation: Installation) -> None:
    script = """
import json, sys
from emulator import resources
print(json.dumps([resources.path(*parts).read_text("utf-8") for parts in json.loads(sys.argv[1])]))
"""
    printed = installation.run("python", "-c", script, json.dumps([path.parts for path in DATA]))

    assert json.loads(printed) == [(ROOT / path).read_text("utf-8") for path in DATA]
    assert Path("fixtures", "dialects", "svc.toml") in DATA


def test_installed_command_tells_its_version(installation: Installation) -> None:
    assert "1.0.0" in installation.run("svc-emulator", "--version")


def test_installed_package_carries_the_book(installation: Installation) -> None:
    """D-746."""
    printed = installation.run("python", "-c", "from emulator import resources; print(resources.path('book'))")
    book = Path(printed.strip())

    pages = sorted(path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("[!l]*.md"))
    assert [page for page in pages if not (book / page).is_file()] == []
    assert (book / "searchindex.js").is_file()


def test_the_tests_of_a_release_find_all_they_need_in_the_wheel(installation: Installation, tmp_path: Path) -> None:
    """The workflow runs them without the package of the checkout. Here they are collected."""
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    found = re.search(r"rm -r emulator\n +python -m pytest (.+)", workflow)
    assert found is not None
    for path in ROOT.iterdir():
        if path.name == "tests":
            shutil.copytree(path, tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        elif path.name != "emulator" and not path.name.startswith("."):
            (tmp_path / path.name).symlink_to(path)
    arguments = ("--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", *shlex.split(found[1]))

    done = installation.attempt("python", "-m", "pytest", *arguments, directory=tmp_path)

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "tests/core/" in done.stdout


# -- the pytest plugin ------------------------------------------------------------------------

PROJECT = """
[tool.pytest.ini_options]
addopts = ["--strict-markers", "--strict-config", "-p", "no:cacheprovider"]
filterwarnings = ["error"]
xfail_strict = true
asyncio_default_fixture_loop_scope = "function"
emulator_epoch = "2026-03-28T12:00:00Z"
"""

TESTS = """
from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from emulator import AsyncEmulator, Emulator


async def remind(request: Request) -> Response:
    return Response(status_code=200 if await request.body() == b"hello" else 400)


app = Starlette(routes=[Route("/remind", remind, methods=["POST"])])


def test_a_day(emulator: Emulator) -> None:
    emulator.mount("https://app.test", app)
    emulator.publish("https://app.test/remind", "hello", headers={"Svc-Delay": "1d"})
    report = emulator.clock.advance("1d")
    assert (report.deliveries, report.succeeded) == (1, 1)
    emulator.verify(url="https://app.test/*", at="2026-03-29T12:00:00Z", status=200, signed_with="current")


def test_the_emulator_is_imported_as_compiled(emulator: Emulator) -> None:
    from emulator.client import session

    assert type(session.__loader__).__name__ == "SourceFileLoader"


@pytest.mark.parametrize("turn", range(4))
def test_worlds_share_nothing(emulator: Emulator, emulator_server: Emulator, turn: int) -> None:
    assert emulator.deliveries() == []
    assert emulator.token != emulator_server.token
    emulator.publish("https://app.example.com/")


class TestAsync:
    @pytest.mark.asyncio
    async def test_on_asyncio(self, async_emulator: AsyncEmulator) -> None:
        await self.day(async_emulator)

    @pytest.mark.anyio
    async def test_on_anyio(self, async_emulator: AsyncEmulator) -> None:
        await self.day(async_emulator)

    async def day(self, emulator: AsyncEmulator) -> None:
        await emulator.mount("https://app.test", app)
        await emulator.publish("https://app.test/remind", "hello", headers={"Svc-Delay": "1d"})
        await emulator.clock.advance("1d")
        await emulator.verify(url="https://app.test/*", at="1d", status=200, signed_with="current")
"""

FAILING = """
def test_wrong(emulator):
    emulator.publish("https://app.example.com/")
    emulator.verify(url="https://app.example.com/", status=500)
"""


EVERY_METHOD = (ROOT / "tests" / "users" / "every_method.py").read_text("utf-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("project")
    (directory / "pyproject.toml").write_text(PROJECT)
    (directory / "test_app.py").write_text(TESTS)
    (directory / "test_failing.py").write_text(FAILING)
    (directory / "test_every_method.py").write_text(EVERY_METHOD)
    return directory


def run_tests(
    installation: Installation, project: Path, *arguments: str, file: str = "test_app.py"
) -> subprocess.CompletedProcess[str]:
    return installation.attempt("python", "-m", "pytest", file, *arguments, directory=project)


@pytest.mark.parametrize(
    "arguments",
    [
        # What they use is every public method, and does what its types say.
        pytest.param(["test_every_method.py", "-p", "no:xdist"], id="one process"),
        # A module that is named beside its registration is no second plugin.
        pytest.param(["-n", "2", "-p", "emulator.pytest_plugin"], id="xdist"),
    ],
)
def test_a_projects_tests_pass(installation: Installation, project: Path, arguments: list[str]) -> None:
    completed = run_tests(installation, project, "-rA", *arguments)

    assert completed.returncode == 0, completed.stdout + completed.stderr
    # Of anyio's there are two, on asyncio and trio.
    assert len(re.findall(r"PASSED test_app\.py::", completed.stdout)) == 9
    assert ("PASSED test_every_method.py::" in completed.stdout) == ("test_every_method.py" in arguments)


def test_a_failing_test_tells_what_happened(installation: Installation, project: Path) -> None:
    completed = run_tests(installation, project, file="test_failing.py")

    assert completed.returncode == 1, completed.stdout + completed.stderr
    assert "E       AssertionError: Expected a message to https://app.example.com/, answered 500; the nearest" in (
        completed.stdout
    )
    assert completed.stdout.count("1 attempt of 1 message; the clock is at ") == 1
    assert "- svc-emulator timeline -" in completed.stdout
    # The test's own line is the last that is shown of the way to the failure.
    assert "test_failing.py:4: AssertionError" in completed.stdout


def test_the_plugin_can_be_left_out(installation: Installation, project: Path) -> None:
    (project / "bare.ini").write_text("[pytest]")

    with_it, without = (
        run_tests(installation, project, "-c", "bare.ini", "--fixtures", *arguments, file="test_failing.py")
        for arguments in ((), ("-p", "no:svc-emulator"))
    )

    assert "emulator_server [session scope]" in with_it.stdout
    assert "emulator" not in without.stdout


@pytest.mark.parametrize("file", ["emulator.py", "emulator/__init__.py"], ids=["module", "package"])
def test_a_projects_own_emulator_turns_the_plugin_off_with_one_warning(
    installation: Installation, tmp_path: Path, file: str
) -> None:
    """Its warnings are errors, and it uses nothing of ours (D-290)."""
    (tmp_path / "pyproject.toml").write_text(PROJECT.replace('emulator_epoch = "2026-03-28T12:00:00Z"\n', ""))
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("CPU = 6502")
    (tmp_path / "test_own.py").write_text("from emulator import CPU\n\ndef test_it(): assert CPU == 6502\n")

    completed = installation.attempt("python", "-m", "pytest", directory=tmp_path)

    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "1 passed, 1 warning in " in completed.stdout
    assert "the pytest plugin of svc-emulator is off, because `import emulator` means another module here: " in (
        completed.stdout
    )
    assert str(tmp_path / file) in completed.stdout


def test_a_fixture_of_the_plugin_says_why_it_is_off(installation: Installation, tmp_path: Path) -> None:
    (tmp_path / "emulator.py").write_text("")
    (tmp_path / "test_own.py").write_text("def test_it(emulator): pass\n")

    completed = installation.attempt("python", "-m", "pytest", "-p", "no:cacheprovider", directory=tmp_path)

    assert completed.returncode == 1, completed.stdout + completed.stderr
    assert "\nthe pytest plugin of svc-emulator is off, because " in completed.stdout
    assert "Traceback" not in completed.stdout


def test_a_test_beside_its_own_emulator_imports_that_one(installation: Installation, tmp_path: Path) -> None:
    """Its folder is put in front of ours only when the test is collected, with nothing of ours imported before."""
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "emulator.py").write_text("CPU = 6502")
    (tmp_path / "unit" / "test_own.py").write_text("from emulator import CPU\n\ndef test_it(): assert CPU == 6502\n")

    completed = installation.attempt("python", "-m", "pytest", "-p", "no:asyncio", directory=tmp_path)

    assert "1 passed in " in completed.stdout, completed.stdout + completed.stderr


def test_those_tests_use_every_public_method() -> None:
    parts = [Emulator, *(type(part) for name, part in vars(Emulator()).items() if not name.startswith("_"))]
    names = {name for part in parts for name in dir(part) if not name.startswith("_")}
    unused = {name for name in names if not re.search(rf"\.{name}\b", EVERY_METHOD)}
    assert unused == set()
    assert {"clock", "dead_letters"} < vars(Emulator()).keys()
    assert not [name for name in package.__all__ if not re.search(rf"\b{name}\b", EVERY_METHOD)]


def test_a_projects_tests_pass_a_strict_type_check(installation: Installation, project: Path) -> None:
    files = ("test_app.py", "test_every_method.py")
    completed = installation.attempt("python", "-m", "mypy", "--strict", *files, directory=project)

    assert completed.returncode == 0, completed.stdout + completed.stderr


@pytest.mark.skipif(missing("node"), reason="needs Node.js")
def test_a_projects_tests_pass_pyright(installation: Installation, project: Path) -> None:
    (project / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "include": ["test_every_method.py"]}')
    python = str(installed("scripts", installation.environment) / "python")
    completed = installation.attempt("python", "-m", "pyright", "--pythonpath", python, directory=project)

    assert completed.returncode == 0, completed.stdout + completed.stderr
