"""The image, as far as it can be shown without an engine: see stand_in.py for what that leaves out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from emulator.server.settings import Settings
from tests.certificates import make_certificate
from tests.container import constraints

pytest.importorskip("dockerfile", reason="the builder's parser has no wheel for this platform")

from tests.container.stand_in import (
    Builder,
    Image,
    Instruction,
    can_be_another_user,
    context_files,
    read_instructions,
    seconds,
)

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "Dockerfile"


@pytest.fixture(scope="module")
def instructions() -> list[Instruction]:
    return read_instructions(DOCKERFILE)


def last_stage(instructions: list[Instruction]) -> list[Instruction]:
    start = max(number for number, instruction in enumerate(instructions) if instruction.name == "FROM")
    return instructions[start:]


# -- what the files say -----------------------------------------------------------------------


def test_every_stage_has_one_base_of_a_given_version(instructions: list[Instruction]) -> None:
    (default,) = [each.values[0] for each in instructions if each.name == "ARG" and each.values[0].startswith("PYTHON")]
    assert re.fullmatch(r"PYTHON=3\.\d+\.\d+-slim-[a-z]+", default)
    assert {each.values[0] for each in instructions if each.name == "FROM"} == {"python:${PYTHON}"}


def test_image_adds_two_layers_to_its_base_and_runs_nothing_to_make_them(instructions: list[Instruction]) -> None:
    layers = [each.name for each in last_stage(instructions) if each.name in ("ADD", "COPY", "RUN")]
    assert layers == ["COPY", "COPY"]


def test_only_inside_a_container_does_it_listen_to_everyone(instructions: list[Instruction]) -> None:
    variables = [value for each in last_stage(instructions) if each.name == "ENV" for value in each.values]
    assert dict(zip(variables[::2], variables[1::2], strict=True))["EMULATOR_HOST"] == "0.0.0.0"
    assert Settings().host == "127.0.0.1"


def test_no_other_file_is_sent_to_the_builder(tmp_path: Path) -> None:
    """A checkout holds more than a commit: state, secrets, environments."""
    wanted = ("constraints.txt", "pyproject.toml", "README.md", "LICENSE", "emulator/a/b.py", "fixtures/x.yaml")
    unwanted = (".env", "state.db", ".git/HEAD", "tests/test_a.py", "emulator/a/__pycache__/b.pyc", "emulator/c.pyc")
    for name in (*wanted, *unwanted):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    shutil.copy(ROOT / ".dockerignore", tmp_path)

    assert context_files(tmp_path) == sorted(wanted)


@pytest.mark.slow
def test_linter_finds_nothing() -> None:
    linter = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert linter is not None
    done = subprocess.run([linter, str(DOCKERFILE)], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (0, "")


# -- versions ---------------------------------------------------------------------------------


def test_every_package_that_is_needed_has_a_version_that_fits_and_no_other_has() -> None:
    pinned, needed = constraints.pinned(), constraints.needed()
    assert sorted(pinned) == sorted(needed), "python -m tests.container.constraints > constraints.txt"
    misfits = {
        name: str(requirement)
        for name, asked in needed.items()
        for requirement in asked
        if not requirement.specifier.contains(pinned[name], prereleases=True)
    }
    assert misfits == {}


@pytest.mark.slow
def test_two_builds_of_the_package_are_the_same_file(tmp_path: Path) -> None:
    digests = set()
    for number, date in enumerate((1_000_000_000, 1_700_000_000)):
        source = tmp_path / str(number)
        for name in context_files(ROOT):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
            os.utime(source / name, (date, date))
        arguments = ("wheel", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--wheel-dir")
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
        subprocess.run(
            [sys.executable, "-m", "pip", *arguments, str(source / "wheels"), str(source)],
            env=environment,
            capture_output=True,
            check=True,
        )
        (wheel,) = (source / "wheels").iterdir()
        digests.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert len(digests) == 1


# -- what it does -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
def test_image_does_what_it_should(instructions: list[Instruction], subtests: pytest.Subtests) -> None:
    """One test, because making the image takes longer than all the rest of it."""
    # Not pytest's own folder, which other users may not enter.
    with tempfile.TemporaryDirectory(prefix="image") as folder:
        Path(folder).chmod(0o755)
        image = Builder(ROOT, Path(folder)).build(instructions)
        for check in (
            it_holds_the_packages_of_the_constraints_and_nothing_that_builds,
            it_is_compiled_without_the_dates_of_its_sources,
            it_runs_becomes_healthy_and_ends_when_it_is_stopped,
            state_in_its_volume_outlives_it,
            its_health_check_goes_by_the_same_variables,
            other_commands_run_in_it_as_well,
        ):
            with subtests.test(check.__name__):
                check(image)


def variables() -> dict[str, str]:
    """What `docker run -e` would give: a port of its own, because all containers here share one network."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return {"EMULATOR_PORT": str(port), "EMULATOR_CLOCK": "frozen", "EMULATOR_EPOCH": "2026-01-01T00:00:00Z"}


def become_healthy(image: Image, given: dict[str, str]) -> None:
    """As an engine does: check until it is well, failures meaning nothing while it starts."""
    checks = [(1, "never checked")]
    while checks[-1][0] != 0:
        assert len(checks) < 100, checks[-1]
        checks.append(image.health(given))


def call(given: dict[str, str], path: str, body: object = None, headers: dict[str, str] | None = None) -> Any:
    url = f"http://127.0.0.1:{given['EMULATOR_PORT']}{path}"
    content = None if body is None else json.dumps(body).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, content, headers or {}), timeout=20) as answer:
        return json.load(answer)


def it_holds_the_packages_of_the_constraints_and_nothing_that_builds(image: Image) -> None:
    found = {
        re.sub(r"[-_.]+", "-", path.name.split("-")[0]).lower(): path.name.split("-")[1].removesuffix(".dist")
        for path in (image.root / "usr" / "local").glob("lib/python3*/site-packages/*.dist-info")
    }
    # The base's own.
    for name in ("pip", "setuptools"):
        found.pop(name, None)
    del found["svc-emulator"]
    pinned = dict(constraints.pinned())
    assert pinned.items() >= {name: version.removesuffix(".info") for name, version in found.items()}.items()
    assert "hatchling" not in found
    assert {"starlette", "uvicorn", "hypercorn", "aiohttp"} <= found.keys()


def it_is_compiled_without_the_dates_of_its_sources(image: Image) -> None:
    packages = next((image.root / "usr" / "local").glob("lib/python3*/site-packages"))
    sources = list((packages / "emulator").rglob("*.py"))
    compiled = list((packages / "emulator").rglob("*.pyc"))
    assert len(compiled) == len(sources) > 50
    # PEP 552: 1 is a hash that is not checked.
    assert {path.read_bytes()[4:8] for path in compiled} == {b"\x01\0\0\0"}


def it_runs_becomes_healthy_and_ends_when_it_is_stopped(image: Image) -> None:
    given = variables()
    user, group = image.ids
    assert user != 0
    assert group != 0
    assert image.ports == ["8080"]
    with image.run(given) as process:
        become_healthy(image, given)
        if can_be_another_user():
            status = Path(f"/proc/{process.pid}/status").read_text()
            assert re.findall(r"^[UG]id:\s+(\d+)", status, re.MULTILINE) == [str(user), str(group)]
        assert call(given, "/_emulator/clock")["now"] == "2026-01-01T00:00:00.000Z"
        log = image.stop(process)
    assert (process.returncode, log) == (0, "")
    # Nothing was asked to be kept.
    assert list((image.root / "state").iterdir()) == []


def state_in_its_volume_outlives_it(image: Image) -> None:
    assert image.volumes == ["/state"]
    given = {**variables(), "EMULATOR_DB": "/state/emulator.db"}
    with image.run(given) as process:
        become_healthy(image, given)
        token = call(given, "/_emulator/credentials")["queue"]["token"]
        headers = {"Authorization": f"Bearer {token}", "Svc-Delay": "1d"}
        call(given, "/v2/publish/https://api.example.com/hook", {}, headers)
        image.stop(process)
    assert process.returncode == 0
    with image.run(given) as process:
        become_healthy(image, given)
        assert call(given, "/_emulator/clock/advance", {"by": "1d"})["deliveries"] == 1
        assert call(given, "/_emulator/credentials")["queue"]["token"] == token
        image.stop(process)
    assert process.returncode == 0
    for path in (image.root / "state").iterdir():
        path.unlink()


def its_health_check_goes_by_the_same_variables(image: Image) -> None:
    folder = image.root / "certificate"
    folder.mkdir()
    make_certificate(folder)
    given = {
        **variables(),
        "EMULATOR_SERVER": "hypercorn",
        "EMULATOR_TLS_CERT": "/certificate/cert.pem",
        "EMULATOR_TLS_KEY": "/certificate/key.pem",
        "EMULATOR_CONTROL_TOKEN": "secret",
    }
    with image.run(given) as process:
        become_healthy(image, given)
        code, text = image.health({**given, "EMULATOR_CONTROL_TOKEN": "wrong"})
        assert (code, "answers 401" in text) == (1, True)
        image.stop(process)
    assert process.returncode == 0
    code, text = image.health(given)
    assert (code, "no server answers" in text) == (1, True)


def other_commands_run_in_it_as_well(image: Image) -> None:
    with image.start([*image.entrypoint, "demo"]) as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "verified" in output


def test_an_engine_gives_it_time_to_start_and_asks_soon(instructions: list[Instruction]) -> None:
    (check,) = [each for each in instructions if each.name == "HEALTHCHECK"]
    assert check.values == ("CMD", "svc-emulator", "health")
    assert seconds(check.flags["start-interval"]) <= 1 < seconds(check.flags["start-period"])
