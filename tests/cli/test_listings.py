"""Groups that list where no command is named, and what completion offers of them."""

from __future__ import annotations

from click.shell_completion import ShellComplete

from emulator.cli import main


def completed(*arguments: str, incomplete: str = "") -> list[str]:
    completion = ShellComplete(main, {}, "svc-emulator", "_SVC_EMULATOR_COMPLETE")
    return [item.value for item in completion.get_completions(list(arguments), incomplete)]


def test_completion_knows_commands_subcommands_options_and_choices() -> None:
    assert completed(incomplete="dead") == ["dead-letters"]
    assert completed("dead-letters") == ["delete", "list", "retry"]
    assert completed("messages", incomplete="--sta") == ["--state"]
    assert completed("destinations", "add", "x", "--fault", incomplete="re") == ["refused", "reset"]
