"""`svc-emulator check` against receivers on loopback."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from emulator.cli import main
from tests.harness import emulators
from tests.harness.job_receivers import CURRENT, JOB, NEXT, JobReceiver, served

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
    assert ": 26 passed (" in result.stdout.splitlines()[-1]


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
    assert {(request.headers["x-team"], request.headers["content-type"]) for request in good} == {("a", "text/plain")}


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
