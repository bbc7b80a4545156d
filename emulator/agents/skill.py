"""The skill file that tells a coding agent how to use the emulator, and where each agent looks for it."""

from __future__ import annotations

from pathlib import Path

from emulator.core.record import Record
from emulator.version import VERSION

# The first line of what was written here, by which it may be written again.
_MARK = "<!-- Written by svc-emulator agent setup; changes below are overwritten by the next one. -->"

LOOP = (
    "`svc-emulator health --wait 30s`, then `svc-emulator clock show` and `messages`: where things stand",
    "`svc-emulator destinations add 'https://api.test/*' --status 503 --times 2`: what third parties answer",
    "publish through the app, or with its client (`svc-emulator env` prints the variables)",
    "`svc-emulator clock advance 1d`, or `--until dead-letters`, `--until 'message ID'`, `--until idle`",
    "`svc-emulator deliveries --json`, or `emulator.verify(...)` in a test: hold it against what should have come",
    "`svc-emulator explain ID`: why it is not so; mend the app, `svc-emulator redeliver ID`, and again",
)

EXIT_CODES = {
    "0": "success",
    "1": "a failure while running, or a check or a condition that is not met",
    "2": "wrong usage: the command as written can never work",
    "130": "interrupted",
}

EXAMPLES = (
    ("A server with a frozen clock", "svc-emulator serve --port 8080 --clock frozen --epoch 2026-01-01T00:00:00Z"),
    ("Its variables for the app", 'eval "$(svc-emulator env)"'),
    ("What a third party answers", "svc-emulator destinations add 'https://api.test/*' --status 503 --times 2"),
    ("A day passes", "svc-emulator clock advance 1d --json"),
    ("Until something dies", "svc-emulator clock advance --until dead-letters --horizon 7d"),
    ("What failed", "svc-emulator deliveries --failed --json"),
    ("Why", "svc-emulator explain https://app.test/hook"),
    ("The mended app gets it again", "svc-emulator redeliver https://app.test/hook"),
    ("Is the receiver right", "svc-emulator check http://127.0.0.1:3000/hook"),
    (
        "A whole test in Python",
        'with Emulator() as emu: emu.publish(URL); emu.clock.advance("1d"); emu.verify(URL, status=200)',
    ),
)


class Place(Record):
    """Where an agent looks, from the folder of the project."""

    path: str
    # Lines that the agent's format wants in front.
    front: str = ""


_DESCRIPTION = "Test code that publishes, schedules or receives messages with svc-emulator and its virtual clock"
_FRONT = f"---\nname: svc-emulator\ndescription: {_DESCRIPTION}\n---\n"
PLACES = {
    "claude": Place(path=".claude/skills/svc-emulator/SKILL.md", front=_FRONT),
    "codex": Place(path=".agents/skills/svc-emulator/SKILL.md", front=_FRONT),
    "cursor": Place(
        path=".cursor/rules/svc-emulator.mdc", front=f"---\ndescription: {_DESCRIPTION}\nalwaysApply: false\n---\n"
    ),
    "gemini": Place(path=".gemini/skills/svc-emulator/SKILL.md", front=_FRONT),
}


def text(client: str) -> str:
    """The file for an agent."""
    loop = "\n".join(f"{number}. {step}" for number, step in enumerate(LOOP, start=1))
    examples = "\n".join(f"{number}. {what}: `{how}`" for number, (what, how) in enumerate(EXAMPLES, start=1))
    codes = "\n".join(f"- {code}: {meaning}" for code, meaning in EXIT_CODES.items())
    return f"""{PLACES[client].front}{_MARK}
# svc-emulator {VERSION}

A local emulator of an HTTP message-scheduling service: publish, delays, retries, cron schedules, queues, callbacks,
dead letters, workflows. Deliveries are real signed HTTP requests. Its clock is virtual: nothing has to be waited for.
A running server answers `GET /llms.txt` with the contents and `/llms-full.txt` with everything.

## The loop

{loop}

## Examples

{examples}

## Exit codes

{codes}

An error says in its last line, after `next:`, what to do. `--json` prints an answer of the control API as it is.
"""


class Setup(Record):
    """What setting an agent up would do: `why_not` says why the file must not be written."""

    client: str
    path: Path
    content: str
    is_same: bool
    why_not: str | None


def plan(client: str, folder: Path) -> Setup:
    """What is to be written for an agent. A file that somebody else wrote stays (D-711)."""
    place, content = folder / PLACES[client].path, text(client)
    why_not, is_same = None, False
    try:
        present = place.read_text("utf-8")
    except FileNotFoundError:
        pass
    except (OSError, UnicodeError) as error:
        why_not = f"{place}: cannot be read: {error}"
    else:
        is_same = present == content
        if _MARK not in present:
            why_not = f"{place}: is there already, and was not written by this command"
    return Setup(client=client, path=place, content=content, is_same=is_same, why_not=why_not)


def write(setup: Setup) -> None:
    """Raises OSError."""
    setup.path.parent.mkdir(parents=True, exist_ok=True)
    setup.path.write_text(setup.content, "utf-8")
