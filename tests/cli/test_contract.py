"""`svc-emulator contract`: printed without a server, and compared with other descriptions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from emulator.cli import main


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["contract", *arguments])


# -- printing ---------------------------------------------------------------------------------


def test_prints_yaml_of_every_api_in_one_document() -> None:
    result = invoke()

    assert result.exit_code == 0
    document = yaml.safe_load(result.stdout)
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
        (("--format", "toml"), "Invalid value for '--format'"),
        (("--dialect", "nope"), "dialect: unknown dialect"),
    ],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], text: str) -> None:
    result = invoke(*arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith("svc-emulator: ")
    assert text in result.stderr
    assert result.stderr.count("\n") == 1


def test_prints_no_anchors_and_reads_back_as_it_was(tmp_path: Path) -> None:
    from emulator import contract_files

    file = tmp_path / "contract.yaml"
    file.write_text(invoke("--api", "messaging").stdout, encoding="utf-8")

    assert contract_files.read(file) == json.loads(invoke("--api", "messaging", "--format", "json").stdout)
    assert "&id0" not in file.read_text(encoding="utf-8")
