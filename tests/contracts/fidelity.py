"""Makes `contracts/fidelity.md`: `python -m tests.contracts.fidelity > contracts/fidelity.md`.

Everything in it comes from the contracts and from the register of decisions, so that it cannot
say anything that they do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from emulator import resources
from tests.contracts.documents import APIS, Operation, load, operations

_ENTRY = re.compile(
    r"^### (?P<number>D-\d{3}) (?P<title>.*?)$.*?^Answer: (?P<answer>.*?)^Reason: (?P<reason>.*?)"
    r"^Certainty: (?P<certainty>\w+)$",
    re.MULTILINE | re.DOTALL,
)
_HEAD = """# Fidelity

What users can rely on, operation by operation. Generated from the contracts and from
[decisions.md](decisions.md) and [own_decisions.md](own_decisions.md) by
`python -m tests.contracts.fidelity`; a test keeps it so.

- **exact**: the interface document shows it, and the emulator does what it shows.
- **decided**: the interface document leaves something open. The numbers say what was decided, and how sure that is:
  *known* (documented for the public service), *observed* (seen in its clients or answers), *chosen* (no evidence).

The control API is the emulator's own, so nothing there imitates anything; its decisions are listed as well.
"""


def _registers() -> str:
    """The decisions about the service, and those about the emulator."""
    names = ("decisions.md", "own_decisions.md")
    return "\n".join(resources.path("contracts", name).read_text(encoding="utf-8") for name in names)


def certainties() -> dict[str, str]:
    """How sure each decision is, by its number."""
    text = _registers()
    return {match["number"]: match["certainty"] for match in _ENTRY.finditer(text)}


def _fields_of_the_account() -> Iterator[str]:
    """A row for each field of a queue account whose effect was decided, with the reason."""
    text = _registers()
    decided = {match["number"]: match for match in _ENTRY.finditer(text)}
    fields: dict[str, list[str]] = {}
    for name, schema in load("management")["components"]["schemas"]["Account"]["properties"].items():
        for number in decisions_of(schema):
            fields.setdefault(number, []).append(f"`{name}`")
    for number, names in sorted(fields.items()):
        answer, reason = _one_line(decided[number]["answer"]), _one_line(decided[number]["reason"])
        yield f"| {', '.join(names)} | {answer} | {reason} | {number} ({decided[number]['certainty']}) |"


def decisions_of(value: Any) -> Iterator[str]:
    """Every decision that a part of a contract cites, itself or in what it holds."""
    if isinstance(value, Mapping):
        for key, content in value.items():
            if key == "x-decision":
                yield from [content] if isinstance(content, str) else content
            else:
                yield from decisions_of(content)
    elif isinstance(value, list):
        for content in value:
            yield from decisions_of(content)


def page() -> str:
    """The whole page."""
    lines = [_HEAD]
    sure = certainties()
    for api in APIS:
        lines += [f"## {load(api)['info']['title']}", "", "| operation | standing | decided by |", "|---|---|---|"]
        lines += [_row(operation, sure) for operation in operations(api)]
        lines.append("")
    lines += [
        "## Fields of a queue account",
        "",
        "| fields | what they do here | why | decided by |",
        "|---|---|---|---|",
    ]
    lines += _fields_of_the_account()
    return "\n".join(lines) + "\n"


def _row(operation: Operation, sure: Mapping[str, str]) -> str:
    cited = sorted({*decisions_of(operation.details), *decisions_of(list(operation.parameters))})
    standing = "decided" if cited else "exact"
    by = ", ".join(f"{number} ({sure[number]})" for number in cited)
    return f"| `{operation.method.upper()} {operation.path}` | {standing} | {by} |"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
