"""The control client, and the generator of the blocking API."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import emulator
from emulator.client.control import ControlApi, HttpAnswer, answer_of, segment, trusted
from emulator.client.errors import EmulatorError, NotAnEmulator, Refused, Unreachable

# -- the control API over HTTP: how requests are built, and what responses mean --------------------


API = ControlApi(url="http://127.0.0.1:1", world="mine", token="secret")


def request(path: str, **given: str) -> httpx.Request:
    with httpx.Client() as http:
        return API.call("POST", path, {"by": 1}, query={"a": "b"}, headers=given).request(http)


def test_a_control_call_names_its_world_and_others_carry_no_control_token() -> None:
    found = request("clock/advance")

    assert str(found.url) == "http://127.0.0.1:1/_emulator/clock/advance?world=mine&a=b"
    assert (found.headers["Authorization"], found.content) == ("Bearer secret", b'{"by": 1}')
    found = request("/v2/publish/https://app.test/a?b=c", Authorization="Bearer token")
    assert (found.url.path, found.headers["Authorization"]) == ("/v2/publish/https://app.test/a", "Bearer token")
    assert "Authorization" not in request("/v2/dlq").headers


@pytest.mark.parametrize("path", ["health", "worlds", "worlds/mine"])
def test_a_call_about_the_server_names_no_world(path: str) -> None:
    assert str(request(path).url) == f"http://127.0.0.1:1/_emulator/{path}?a=b"


def response(status: int, text: str) -> HttpAnswer:
    return answer_of(httpx.Response(status, text=text, request=request("clock")))


def test_a_refusal_has_the_text_and_the_field_of_the_server() -> None:
    with pytest.raises(Refused, match=r"^no such instant$") as refused:
        API.read(response(400, '{"error": "no such instant", "field": "to"}'))

    assert (refused.value.status, refused.value.field) == (400, "to")


@pytest.mark.parametrize(
    ("status", "text"), [(200, "<html>"), (200, ""), (200, "[]"), (404, "<html>"), (500, "[]"), (302, "{}")]
)
def test_what_no_emulator_answers_is_another_program(status: int, text: str) -> None:
    with pytest.raises(NotAnEmulator, match=f"is no emulator: it answered {status} to /_emulator/clock") as error:
        API.read(response(status, text))

    assert error.value.status == status


def test_an_answer_without_content_is_none() -> None:
    assert API.read(response(204, "")) is None
    assert API.read(response(200, '{"now_ms": 1}')) == {"now_ms": 1}


def test_failures_of_the_network_keep_their_cause() -> None:
    with (
        pytest.raises(Unreachable, match=r"no emulator answers at http://127.0.0.1:1: refused") as error,
        API.failures(),
    ):
        raise (cause := httpx.ConnectError("refused"))

    assert error.value.__cause__ is cause


def test_a_file_without_certificates_is_trusted_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "prose.pem").write_text("nothing")

    with pytest.raises(EmulatorError, match=r"prose.pem: holds no certificate in PEM form"):
        trusted(str(tmp_path / "prose.pem"))
    with pytest.raises(EmulatorError, match="x: cannot be read: No such file"):
        trusted(str(tmp_path / "x"))


def test_a_name_is_one_segment_of_a_path() -> None:
    assert segment("a/b?c") == "a%2Fb%3Fc"


def test_every_control_call_carries_the_token_that_its_worlds_maker_chose() -> None:
    """A load balancer sends them by it to the server that has the world (D-433)."""
    with httpx.Client() as http:
        for token, world_token, expected in (
            (None, None, (None, None)),
            ("secret", None, ("Bearer secret", None)),
            (None, "of-the-world", ("Bearer of-the-world", None)),
            ("secret", "of-the-world", ("Bearer of-the-world", "secret")),
        ):
            api = ControlApi(url="http://127.0.0.1", world="w", token=token, world_token=world_token)
            for path in ("worlds", "clock"):
                headers = api.call("POST", path).request(http).headers
                assert (headers.get("Authorization"), headers.get("Emulator-Control-Token")) == expected


# -- the blocking Python API is made from the asynchronous one, by the build or at the first import in a checkout ---


PACKAGE = Path(emulator.__file__).parent


MODULES = {path.name for path in (PACKAGE / "client" / "aio").glob("[!_]*.py")}


WHERE = "import emulator.client.sync.emulator as made; print(made.__file__)"


def contents(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in directory.iterdir()}


@pytest.fixture
def generate() -> Any:
    """The module that makes it, which a wheel has no use for."""
    return pytest.importorskip("emulator.client.generate")


def test_every_module_of_the_blocking_api_is_made_and_awaits_nothing(tmp_path: Path, generate: Any) -> None:
    generate.make(tmp_path)

    made = contents(tmp_path)
    assert made.keys() == MODULES
    assert len(MODULES) > 5
    for text in made.values():
        code = text.replace("`AsyncEmulator`", "")
        assert not [word for word in ("await ", "async ", "Async", "client.aio") if word in code.partition("\n")[2]]
    assert "an emulator for tests that do not await." in made["emulator.py"]
    assert "goes with `AsyncEmulator`" in made["emulator.py"]


def test_what_is_up_to_date_is_left_alone_and_what_is_not_is_made_again(tmp_path: Path, generate: Any) -> None:
    generate.make(tmp_path)
    made = contents(tmp_path)
    (tmp_path / "clock.py").write_text("# Made from ../aio/clock.py by ../generate.py (0000).\n")
    (tmp_path / "link.py").unlink()
    (tmp_path / "awaiting.py").touch()
    before = (tmp_path / "emulator.py").stat()

    generate.make(tmp_path)

    assert contents(tmp_path) == made
    assert (tmp_path / "emulator.py").stat().st_ino == before.st_ino


def test_many_processes_may_make_it_at_once(tmp_path: Path, generate: Any) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(generate.make, [tmp_path] * 32))

    assert contents(tmp_path).keys() == MODULES


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package that was never built."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "emulator", ignore=ignored)
    for name in MODULES:
        (tmp_path / "emulator" / "client" / "sync" / name).unlink()
    return tmp_path


def start(checkout: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-B", "-c", WHERE],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "TMPDIR": str(checkout)},
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )


@pytest.mark.slow
def test_a_checkout_that_was_never_built_can_be_imported_by_many_processes_at_once(checkout: Path) -> None:
    found = {process.communicate(timeout=60)[0].strip() for process in [start(checkout) for _ in range(3)]}

    sync = checkout / "emulator" / "client" / "sync"
    assert found == {str(sync / "emulator.py")}
    assert contents(sync).keys() == {"__init__.py", *MODULES}


@pytest.mark.slow
def test_a_checkout_that_cannot_be_written_to_is_left_as_it_is(checkout: Path) -> None:
    sync = checkout / "emulator" / "client" / "sync"
    # A directory in the place of a module keeps even root from writing it.
    (sync / "emulator.py").mkdir()
    (sync / "emulator.py" / "x").touch()

    with start(checkout) as process:
        [found] = process.communicate(timeout=60)[0].split()

    assert Path(found).parent.parent == checkout
    assert not Path(found).exists()
