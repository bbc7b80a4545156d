"""`svc-emulator check` against receivers on loopback, and `db check`: reading a database whole."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from emulator import Emulator
from emulator.cli import main
from emulator.journal.schema import FORMAT
from tests.cli.shell import in_folder, said
from tests.cli.test_serve import get, publish
from tests.harness import emulators
from tests.harness.job_receivers import CURRENT, JOB, NEXT, JobReceiver, served
from tests.harness.processes import serving

KEYS = {"SVC_CURRENT_SIGNING_KEY": CURRENT, "SVC_NEXT_SIGNING_KEY": NEXT}

pytestmark = pytest.mark.slow


def check(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments], env={**KEYS, **variables})


def test_a_right_receiver_passes(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_bytes(JOB)
    with served(JobReceiver()) as url:
        result = check(
            url, "--effect-url", url.replace("/run", "/done"), "--callbacks", "--body", f"@{tmp_path}/job.json"
        )
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "passed      valid                a valid signed delivery"
    assert ": 28 passed (" in result.stdout.splitlines()[-1]


def test_a_failed_check_is_exit_code_1_and_told_in_every_form(tmp_path: Path) -> None:
    file = tmp_path / "report.xml"
    with served(JobReceiver(mistake="ignores exp")) as url:
        result = check(url, "--json", "--junit-xml", str(file))
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    failed = [each for each in report["results"] if each["verdict"] == "failed"]
    assert [(each["id"], each["came"].split(" in ")[0]) for each in failed] == [("expired", "200 OK")]
    [failure] = ElementTree.parse(file).findall("testsuite/testcase/failure")
    assert failure.get("message") == "it was accepted with 200"


def test_a_good_delivery_is_what_the_options_say() -> None:
    with emulators.receiver() as receiver:
        options = (
            "--body",
            "hello",
            "--header",
            "X-Team: a",
            "--header",
            "content-type: text/plain",
            "--method",
            "put",
        )
        assert check(f"{receiver.url}/jobs?a=1", *options).exit_code == 1
        good = [request for request in receiver.at("/jobs?a=1") if request.body == b"hello" and request.method == "PUT"]
    types = {(request.headers["x-team"], request.headers["content-type"]) for request in good}
    assert types == {("a", "text/plain"), ("a", "application/x-www-form-urlencoded")}


def test_a_report_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    with served(JobReceiver()) as url:
        result = check(url, "--junit-xml", str(tmp_path / "missing" / "report.xml"))
    assert result.exit_code == 1
    assert "report.xml cannot be written: No such file or directory" in result.stderr


def test_keys_are_given_or_those_of_the_dialect() -> None:
    upstash = JobReceiver(
        current="sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r",
        following="sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs",
        prefix="upstash-",
        issuer="Upstash",
    )
    with served(upstash) as url:
        assert check(url, "--dialect", "upstash").exit_code == 0
        assert check(url, "--dialect", "upstash", "--current-signing-key", CURRENT).exit_code == 1


def test_a_state_that_cannot_be_read_ends_the_check() -> None:
    with served(JobReceiver()) as url:
        result = check(url, "--effect-url", url)
    assert result.exit_code == 1
    assert f"--effect-url {url} answered 500, expected 2xx" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["localhost:3000"], "expected a URL such as http://localhost:3000/jobs"),
        (["http://127.0.0.1:9", "--header", "no colon"], "--header: expected NAME: VALUE"),
        (["http://127.0.0.1:9", "--body", "@missing.json"], "--body: missing.json cannot be read"),
        (["http://127.0.0.1:9", "--profile", "php"], "'php' is not one of"),
        (["http://127.0.0.1:9", "--dialect", "other"], "unknown dialect 'other'"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], message: str) -> None:
    result = check(*arguments)
    assert (result.exit_code, message in result.stderr) == (2, True), result.output


def test_unknown_keys_are_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["check", "http://127.0.0.1:9"], env=dict.fromkeys(KEYS))
    assert result.exit_code == 2
    assert "SVC_CURRENT_SIGNING_KEY and SVC_NEXT_SIGNING_KEY" in result.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database that has a delivered message, a second world and a snapshot."""
    folder = tmp_path_factory.mktemp("made")
    with Emulator(db=folder / "state.db") as emulator:
        emulator.publish("https://api.example.com/hook")
        assert in_folder(folder, "worlds", "create", "b", "--url", emulator.url).exit_code == 0
        emulator.snapshots.save("s")
    return folder


@pytest.fixture
def database(made: Path, tmp_path: Path) -> Path:
    """A copy of it in the folder of the test."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "state.db"


def test_whole_database_with_its_worlds_and_snapshots(database: Path, tmp_path: Path) -> None:
    """D-284."""
    done = in_folder(tmp_path, "db", "check", "state.db")

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "state.db: whole: 1 message and 4 entries of history",
        "state.db-worlds/b.db: whole: 0 messages and 0 entries of history",
        "state.db-snapshots/default/s.db: whole: 1 message and 4 entries of history",
    ]


def test_nothing_is_changed_by_a_check_also_after_a_kill(tmp_path: Path) -> None:
    with serving("--db", "state.db", "--clock", "frozen", folder=tmp_path) as server:
        publish(server.url, server.variables["SVC_TOKEN"], "https://api.example.com/hook")
        get(f"{server.url}/_emulator/worlds", body=b'{"id": "b"}')
        get(f"{server.url}/_emulator/snapshots", body=b'{"name": "s"}')
        server.kill()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    done = in_folder(tmp_path, "db", "check", "state.db")

    assert (done.exit_code, done.stderr) == (0, "")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_every_damage_is_a_line_that_says_which_file_and_what(database: Path, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events_of_message'")
    content = bytearray(database.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\x55" * 4096
    database.write_bytes(content)

    done = in_folder(tmp_path, "db", "check", "state.db")

    assert done.exit_code == 1
    first, *others = done.stdout.splitlines()
    assert first.startswith("state.db: damaged: ")
    assert all("damaged" not in line for line in others[-2:])
    assert done.stderr.startswith("svc-emulator: 1 damaged; ")
    assert len(said(done).splitlines()) == 1


def test_another_format_is_one_line_that_says_what_to_do(database: Path, tmp_path: Path) -> None:
    """D-551."""
    content = bytearray(database.read_bytes())
    content[60:64] = (4).to_bytes(4, "big")
    database.write_bytes(content)

    for command in (("db", "check", "state.db"), ("serve", "--db", "state.db", "--port", "0")):
        done = in_folder(tmp_path, *command)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith("svc-emulator: ")
        only = f"state.db: format 4, and this version of svc-emulator reads format {FORMAT} only: open it with"
        assert only in done.stderr
        assert len(said(done).splitlines()) == 1


def test_database_in_use_and_what_is_none(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database")
    with serving("--db", "state.db", folder=tmp_path):
        done = in_folder(tmp_path, "db", "check", "state.db")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("svc-emulator: state.db: in use by another process")
    for name, reason in (("notes.txt", "not a database of svc-emulator"), ("none.db", "no such file")):
        done = in_folder(tmp_path, "db", "check", name)
        assert done.exit_code == 1
        assert done.stderr.startswith(f"svc-emulator: {name}: {reason}")


def test_flipped_bytes_anywhere_are_told_or_mean_nothing(database: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "state.db-worlds")
    shutil.rmtree(tmp_path / "state.db-snapshots")
    content = database.read_bytes()
    for place in range(5000, len(content), len(content) // 8):
        spoilt = bytearray(content)
        spoilt[place] ^= 0x10
        database.write_bytes(spoilt)
        done = in_folder(tmp_path, "db", "check", "state.db")
        assert done.exit_code in (0, 1)
