"""`health --wait`: asks until the server is well, and no longer than it was told."""

from __future__ import annotations

import pytest

from emulator.cli.failures import Failure
from emulator.cli.health import ask_until


def test_it_asks_until_the_server_is_well() -> None:
    answers: list[str | Failure] = [Failure("no server"), Failure("not well"), "well"]
    paused: list[float] = []

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Failure):
            raise answer
        return answer

    assert ask_until(ask, 5, clock=lambda: sum(paused), pause=paused.append) == "well"
    assert len(paused) == 2


def test_it_gives_up_with_what_it_was_told_last() -> None:
    paused: list[float] = []

    def ask() -> str:
        raise Failure("no server answers")

    with pytest.raises(Failure, match="no server answers; waited for 5 s"):
        ask_until(ask, 5, clock=lambda: sum(paused), pause=paused.append)
    assert 4.5 < sum(paused) <= 5
