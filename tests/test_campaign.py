"""The command that plays the campaign, and the nightly workflow that runs all of it. No part is played here."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from campaign.__main__ import main
from campaign.parts import PARTS
from campaign.playing import play
from campaign.programs import ROOT
from campaign.rounds import Part, Report, Round

REPEAT = "python -m campaign made-up --seed 5 --size 9"


def played(deed: Callable[[Round], None], *rounds: int) -> Report:
    report = Report(REPEAT)
    play(Part(what="made up", play=deed), "made-up", 5, rounds, report)
    return report


def test_the_nightly_workflow_plays_every_part() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["campaign"]
    assert [each["part"] for each in job["strategy"]["matrix"]["include"]] == list(PARTS)
    commands = [re.sub(r"\s+", " ", step.get("run", "")) for step in job["steps"]]
    wanted = "-m campaign ${{ matrix.part }} --seed ${{ github.run_number }} --size ${{ matrix.size }}"
    assert any(wanted in command for command in commands)


def test_a_finding_is_printed_with_the_command_that_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    report = played(lambda round: round.report.found("something", "is wrong"), 3, 4)
    assert report.findings == {"something": 2}
    assert f"again: {REPEAT} --round 3\n" in capsys.readouterr().out


def test_a_round_that_breaks_off_is_a_finding_and_the_next_one_is_played() -> None:
    def break_off(round: Round) -> None:
        round.report.count("begun")
        raise OSError("a cable was pulled")

    report = played(break_off, 0, 1)
    assert report.counts == {"begun": 2}
    assert report.findings == {"the round broke off: OSError": 2}


def test_a_round_played_alone_makes_the_same_random_choices() -> None:
    chosen: list[tuple[int, float]] = []

    def choose(round: Round) -> None:
        chosen.append((round.number, round.random.random()))

    played(choose, 0, 1, 2)
    played(choose, 1)
    assert chosen[3] == chosen[1]
    assert len(set(chosen)) == 3


def test_the_folder_of_a_round_is_gone_after_it() -> None:
    folders: list[Path] = []
    played(lambda round: folders.append(round.folder), 0)
    assert not folders[0].exists()


@pytest.mark.parametrize(
    ("arguments", "said"), [(["nonsense"], "no such part: nonsense"), (["kills", "--size", "0"], "--size")]
)
def test_wrong_usage_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err
