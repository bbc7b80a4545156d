"""`svc-emulator contract`: printed without a server, and compared with other descriptions."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from emulator.cli import main
from tests.cli.shell import said
from tests.harness.processes import PATIENCE_S, command, environment, run


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["contract", *arguments])


# -- printing ---------------------------------------------------------------------------------


def test_prints_yaml_of_every_api_in_one_document() -> None:
    result = invoke()

    assert result.exit_code == 0
    document = yaml.load(result.stdout, Loader=yaml.CSafeLoader)
    assert document["openapi"] == "3.1.0"
    assert document["servers"][0]["url"] == "http://127.0.0.1:8080"
    assert "/v2/publish/{destination}" in document["paths"]


def test_prints_one_api_as_json_in_a_dialects_names_for_a_server() -> None:
    result = invoke("--api", "messaging", "--format", "json", "--dialect", "upstash", "--url", "http://emulator:81/")

    document = json.loads(result.stdout)
    assert document["servers"][0]["url"] == "http://emulator:81"
    assert document["components"]["parameters"]["Retries"]["name"] == "Upstash-Retries"
    assert document["components"]["securitySchemes"]["queueToken"]["name"] == "qstash_token"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--api", "queues"), "Invalid value for '--api'"),
        (("diff",), "Missing argument 'OTHER'"),
        (("diff", "x.yaml", "--api", "queues"), "Invalid value for '--api'"),
        (("--api", "control", "diff", "x.yaml"), "--api goes behind diff"),
        (("--format", "toml"), "Invalid value for '--format'"),
        (("--dialect", "nope"), "dialect: unknown dialect"),
    ],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], text: str) -> None:
    result = invoke(*arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith("svc-emulator: ")
    assert text in result.stderr
    assert said(result).count("\n") == 1


@pytest.mark.slow
def test_is_utf_8_in_a_pipe_whatever_the_encoding_of_the_system(tmp_path: Path) -> None:
    """As on Windows, and in containers without a locale."""
    completed = subprocess.run(
        command("contract", "--api", "control"),
        cwd=tmp_path,
        env=environment({"PYTHONIOENCODING": "cp1252"}),
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )

    assert completed.stdout.decode("utf-8") == invoke("--api", "control").stdout


@pytest.mark.slow
def test_a_character_that_the_system_has_no_encoding_for_is_written_as_its_number(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("openapi: 3.1.0\npaths: {}\n", encoding="utf-8")

    completed = run("contract", "diff", "other.yaml", folder=tmp_path, extra={"PYTHONIOENCODING": "cp437"})

    assert (completed.returncode, completed.stderr) == (1, "")
    assert "\\u2014" in completed.stdout


# -- diff -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def text() -> str:
    """Our own messaging contract."""
    return invoke("--api", "messaging").stdout


@pytest.fixture
def messaging(text: str, tmp_path: Path) -> Path:
    """It as somebody else's file."""
    file = tmp_path / "other.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_prints_no_anchors_and_reads_back_as_it_was(text: str, messaging: Path) -> None:
    from emulator.contract import files

    assert files.read(messaging) == json.loads(invoke("--api", "messaging", "--format", "json").stdout)
    assert "&id0" not in text


def changed(file: Path, old: str, new: str) -> str:
    content = file.read_text(encoding="utf-8")
    assert old in content
    file.write_text(content.replace(old, new), encoding="utf-8")
    return str(file)


def test_the_same_contract_has_no_difference(messaging: Path) -> None:
    result = invoke("diff", str(messaging))

    assert (result.exit_code, result.stdout) == (0, "no difference\n")


def test_a_breaking_difference_is_exit_code_1_and_a_plain_table(messaging: Path) -> None:
    result = invoke("diff", changed(messaging, "/v2/batch:", "/v2/batches:"))

    assert result.exit_code == 1
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["operation", "difference", "theirs", "ours", "breaks", "clients", "of"],
        ["POST", "/v2/batch", "operation", "—", "there", "ours"],
        ["POST", "/v2/batches", "operation", "there", "—", "theirs"],
        ["2", "differences,", "2", "breaking"],
    ]


def test_what_operations_share_stands_once(messaging: Path) -> None:
    result = invoke("diff", changed(messaging, "name: Svc-Label\n", "name: Svc-Labels\n"), "--clients", "theirs")

    assert "POST /v2/publish/{destination} and 10 more  header parameter Svc-Labels" in result.stdout


def test_a_difference_that_breaks_nobody_is_exit_code_0(messaging: Path) -> None:
    content = yaml.load(messaging.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    content["components"]["schemas"]["Message"]["properties"]["extra"] = {"type": "string"}
    messaging.write_text(json.dumps(content), encoding="utf-8")

    result = invoke("diff", str(messaging))

    assert result.exit_code == 0
    assert "response 200 field extra" in result.stdout
    assert result.stdout.endswith(", 0 breaking\n")


def test_whose_clients_count_can_be_chosen(messaging: Path) -> None:
    content = yaml.load(messaging.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    del content["paths"]["/v2/batch"]
    messaging.write_text(json.dumps(content), encoding="utf-8")

    assert [invoke("diff", str(messaging), "--clients", name).exit_code for name in ("theirs", "ours", "both")] == [
        0,
        1,
        1,
    ]


def test_differences_as_json(messaging: Path) -> None:
    result = invoke("diff", changed(messaging, "/v2/batch:", "/v2/batches:"), "--json")

    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert (answer["apis"], answer["breaking"]) == (["messaging"], 2)
    assert answer["differences"][0] == {
        "operation": "POST /v2/batch",
        "what": "operation",
        "theirs": "—",
        "ours": "there",
        "breaks": ["ours"],
        "breaking": True,
    }


def test_a_file_in_a_dialects_names_is_compared_in_them(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text(invoke("--format", "json", "--dialect", "upstash").stdout, encoding="utf-8")

    assert invoke("diff", str(file), "--dialect", "upstash").exit_code == 0
    found = invoke("diff", str(file))
    other = invoke("diff", str(file), "--dialect", "svc")

    assert (found.exit_code, found.stdout) == (0, "no difference\n")
    assert found.stderr == (
        f"svc-emulator: {file} has the names of the dialect upstash (Upstash-*) and is compared in them\n"
    )
    assert other.exit_code == 1
    assert other.stderr == (
        f"svc-emulator: {file} has the names of the dialect upstash (Upstash-*) and is compared in those of svc, "
        "as --dialect says\n"
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(None, "cannot be read: No such file or directory", id="missing"),
        pytest.param(b"\xff\xfe", "is not a UTF-8 text file", id="bytes"),
        pytest.param(b"a: [1\n", "line 2: is not YAML", id="yaml"),
        pytest.param(b"[1, 2]", "is not an OpenAPI document", id="list"),
        pytest.param(b"", "is not an OpenAPI document", id="empty"),
        pytest.param(b"name: x", "is not an OpenAPI document", id="something-else"),
        pytest.param(b"swagger: '2.0'", "expected OpenAPI 3, got Swagger 2.0", id="swagger"),
        pytest.param(b"openapi: '4.0.0'", "expected OpenAPI 3, got 4.0.0", id="later"),
        pytest.param(b"openapi: 3.1.0\npaths: []", "`paths` is not an object", id="paths"),
        pytest.param(b"[" * 100_000, "", id="deep"),
        pytest.param(b"{" + b'"a":{' * 100_000, "", id="deep-json"),
        pytest.param(b"openapi: !!python/object:os.system {}", "is not YAML", id="tag"),
        pytest.param(b"a: &a [*a]", "", id="circle"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_exit_code_2(
    content: bytes | None, text: str, tmp_path: Path
) -> None:
    file = tmp_path / "other.yaml"
    if content is not None:
        file.write_bytes(content)

    result = invoke("diff", str(file))

    assert result.exit_code == 2
    assert result.stderr.startswith(f"svc-emulator: {file}: ")
    assert text in result.stderr
    assert said(result).count("\n") == 1
