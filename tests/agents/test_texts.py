"""What is written for agents: `/llms.txt`, `/llms-full.txt`, and the skill file of `agent setup`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulator import resources
from emulator.agents.skill import EXAMPLES, PLACES, text
from emulator.cli import llms
from emulator.control.pages import REFERENCE, SHORT, full_text
from tests.cli.shell import in_folder
from tests.harness.emulators import InProcess, with_emulator


def test_the_texts_are_those_of_these_commands_and_this_contract() -> None:
    """`python -m emulator.cli.llms` writes them (D-709)."""
    assert resources.path(*SHORT).read_text("utf-8") == llms.short_text()
    assert resources.path(*REFERENCE).read_text("utf-8") == llms.reference_text()
    assert len(llms.short_text().splitlines()) <= 60


@with_emulator()
async def test_a_server_shows_them(emulator: InProcess) -> None:
    short, full = [await emulator.get(path) for path in ("/llms.txt", "/llms-full.txt")]
    assert (short.status, short.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert (short.body.decode(), full.body.decode()) == (llms.short_text(), full_text())
    assert "`POST /_emulator/deliveries/{seq}/redeliver`" in full_text()
    assert (await emulator.get("/llms-full.txt", [("Origin", "https://evil.example")])).status == 403


@pytest.mark.parametrize("client", PLACES)
def test_a_skill_file_is_written_once_and_never_over_another(client: str, tmp_path: Path) -> None:
    """D-711."""
    place = tmp_path / PLACES[client].path
    setup = ("agent", "setup", "--client", client, "--json")

    shown = json.loads(in_folder(tmp_path, *setup, "--dry-run").stdout)["files"]
    assert (shown[0]["done"], shown[0]["content"], place.exists()) == ("would write", text(client), False)
    assert [json.loads(in_folder(tmp_path, *setup).stdout)["files"][0]["done"] for _ in range(2)] == [
        "wrote",
        "unchanged",
    ]
    assert place.read_text("utf-8") == text(client)
    assert len(EXAMPLES) == 10
    place.write_text("mine", "utf-8")
    refused = in_folder(tmp_path, *setup)
    assert (refused.exit_code, place.read_text("utf-8")) == (1, "mine")
    assert "was not written by this command" in refused.stderr


def test_without_a_name_the_agents_of_the_project_are_set_up(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    assert ".cursor" in in_folder(tmp_path, "agent", "setup").stdout
    assert not (tmp_path / ".claude").exists()
