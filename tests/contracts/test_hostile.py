"""What refusals say to input that no client means (D-799): nothing in the words of this program's language."""

from __future__ import annotations

import contextlib
import json
import os
from base64 import b64encode
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from emulator.cli import main
from tests.contracts import hostile
from tests.contracts.documents import APIS, Operation, operations
from tests.harness.emulators import InProcess, with_emulator

pytestmark = pytest.mark.slow

# Calls of each operation besides those with a body that is no JSON.
_CALLS = int(os.environ.get("FUZZ_MAX_EXAMPLES", "20"))

Call = tuple[str, list[tuple[str, str]], bytes]


def calls(operation: Operation, random: Random) -> list[Call]:
    json_type = [("Content-Type", "application/json")]
    plain = hostile.path_of(operation, {})
    found: list[Call] = [(target, headers, b"") for target, headers in hostile.targets(operation)]
    found += [(plain, json_type, body) for body in hostile.schema_bodies(operation)]
    return [
        *((plain, json_type if number % 2 else [], body) for number, body in enumerate(hostile.BODIES)),
        *random.sample(found, min(_CALLS, len(found))),
    ]


@pytest.mark.parametrize("api", APIS)
@with_emulator()
async def test_no_refusal_is_in_the_words_of_the_program(emulator: InProcess, api: str) -> None:
    """D-799: of any operation, for hostile paths, queries, headers and bodies."""
    refusals = 0
    for operation in operations(api):
        if operation.path.endswith("/stream"):
            continue
        for target, headers, body in calls(operation, Random(operation.id)):
            own = list(headers)
            if api == "management":
                # They change: a call may make a new key.
                known = (await emulator.control("GET", "/credentials")).json["management"]
                pair = f"{known['username']}:{known['password']}".encode()
                own.append(("Authorization", f"Basic {b64encode(pair).decode()}"))
            token = "" if api == "messaging" else None
            answer = await emulator.call(operation.method.upper(), target, own, body, token=token)
            what = (operation.id, target[:200], headers, body[:200], answer.body[:300])
            assert answer.status < 500, what
            if answer.status >= 400 and answer.body:
                error = json.loads(answer.body)["error"]
                assert hostile.PYTHON.search(error) is None, what
                assert "\n" not in error, what
                refusals += 1
    assert refusals > 5 * len(operations(api))


# -- files that the shell reads, and its arguments ------------------------------------------------

_TOML = ("true", "1", "-1.5", '"x"', '""', "[]", "[1]", "{a=1}", "1979-05-27", "07:32:00", "9" * 400, "9" * 5_000)
_NO_TOML = (b"\xff", b"a = ", b"[[[[", b"=1", b"\x00", b"a = 1\na = 2", b"a = " + b"[" * 20_000)
_SETTINGS = ("host", "port", "clock", "seed", "strict", "allow_host", "epoch", "plan")


def complaint(folder: Path, *arguments: str) -> str:
    """What a command says that cannot begin."""
    with contextlib.chdir(folder):
        result = CliRunner().invoke(main, [*arguments, "--port", "99999999"], env={})
    assert result.exit_code == 2, (arguments, result.output, result.exc_info)
    return result.stderr


@pytest.mark.parametrize("setting", _SETTINGS)
def test_no_refusal_of_a_setting_is_in_the_words_of_the_program(setting: str, tmp_path: Path) -> None:
    """D-799."""
    for value in _TOML:
        (tmp_path / "emulator.toml").write_text(f"{setting} = {value}\n", "utf-8")
        said = complaint(tmp_path, "serve")
        assert hostile.PYTHON.search(said) is None, (value, said)


def test_no_refusal_of_a_file_is_in_the_words_of_the_program(tmp_path: Path) -> None:
    """D-799."""
    for content in _NO_TOML:
        (tmp_path / "emulator.toml").write_bytes(content)
        settings = complaint(tmp_path, "serve")
        (tmp_path / "emulator.toml").unlink()
        (tmp_path / "d.toml").write_bytes(content)
        dialect = complaint(tmp_path, "serve", "--dialect", "d.toml")
        for said in (settings, dialect):
            assert hostile.PYTHON.search(said) is None, (content[:40], said)
    (tmp_path / "emulator.toml").write_text("a = " + "[" * 8_000, "utf-8")
    assert "too many nested values" in complaint(tmp_path, "serve")
    (tmp_path / "emulator.toml").write_text("strict = 07:32:00", "utf-8")
    assert "strict: expected true or false, got 07:32:00" in complaint(tmp_path, "serve")


@pytest.mark.parametrize("body", hostile.BODIES, ids=lambda body: repr(body[:12]))
def test_no_refusal_of_fixtures_is_in_the_words_of_the_program(body: bytes, tmp_path: Path) -> None:
    """D-799."""
    for name in ("f.json", "f.yaml"):
        (tmp_path / name).write_bytes(body)
        result = CliRunner().invoke(main, ["fixtures", "check", str(tmp_path / name)], env={})
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        assert hostile.PYTHON.search(result.output.replace(str(tmp_path), "")) is None, result.output


@pytest.mark.parametrize("url", ["https://[::1", "https://x:99999999/", "http://", "ftp://x", "http://a..b"])
def test_an_address_of_no_server_is_refused(url: str) -> None:
    """D-799."""
    result = CliRunner().invoke(main, ["health", "--url", url], env={})
    assert (result.exit_code, "expected an address such as http://127.0.0.1:8080" in result.stderr) == (2, True)
