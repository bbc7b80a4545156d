"""The record of a run: a line for every call and its answer, and the lines of every trace."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from tests.golden.client import Answer

# What differs from run to run or from machine to machine, and is nothing the emulator decides.
_VOLATILE_FIELDS = frozenset(("wall_ms", "took_ms", "size_bytes"))
_SIGNATURE = re.compile(r"-signature$", re.IGNORECASE)
_PORT = re.compile(r"\b(127\.0\.0\.1|localhost)(:|%3A)[0-9]{1,5}\b", re.IGNORECASE)
_LIFE = re.compile(r"^id: [0-9a-f]{8}-")
_KEPT_HEADERS = (
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "www-authenticate",
    "svc-emulator-contract",
    "upstash-emulator-contract",
)


class Recording:
    """Lines of text, in the order in which things were done."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, world: str, call: str, answer: Answer) -> None:
        """A call and its answer, whatever is volatile in it left out."""
        entry: dict[str, Any] = {"world": world, "call": _PORT.sub(r"\1\2*", call), "status": answer.status}
        headers = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
        if headers:
            entry["headers"] = headers
        kind = answer.headers.get("content-type", "")
        if kind.startswith("application/json"):
            entry["answer"] = _stable(answer.json)
            self._write(entry)
        else:
            # A trace or a stream: it has lines of its own.
            self._write(entry)
            self.lines += [_without_ports(_stable_line(line)) for line in answer.body.decode().splitlines() if line]

    def _write(self, entry: Mapping[str, Any]) -> None:
        self.lines.append(_without_ports(json.dumps(entry, separators=(",", ":"))))

    def text(self) -> bytes:
        return "".join(f"{line}\n" for line in self.lines).encode("ascii")


def _stable(value: Any) -> Any:
    """An answer without what is volatile in it; the order of its fields is kept."""
    if isinstance(value, dict):
        return {
            name: [_claims(token) for token in item] if _SIGNATURE.search(name) else _stable(item)
            for name, item in value.items()
            if name not in _VOLATILE_FIELDS
        }
    if isinstance(value, list):
        return [_stable(item) for item in value]
    return value


def _claims(token: str) -> Any:
    """What a signature says, without its times, which are those of the machine's clock."""
    if token.startswith("REDACTED:"):
        # The hash of something that differs.
        return "REDACTED:*"
    _, payload, _ = token.split(".")
    claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return {name: value for name, value in claims.items() if name not in ("iat", "exp")}


def _stable_line(line: str) -> str:
    """A line of a trace, which is stable as it is, or of a stream, whose data and ids are not."""
    if line.startswith("data: "):
        return "data: " + json.dumps(_stable(json.loads(line[6:])), separators=(",", ":"))
    return _LIFE.sub("id: *-", line)


def _without_ports(line: str) -> str:
    return _PORT.sub(r"\1\2*", line)


def first_difference(expected: bytes, actual: bytes) -> str:
    """Where two records begin to differ, for people; empty if they do not."""
    call = ""
    pairs = zip_longest(expected.splitlines(), actual.splitlines())
    for number, (before, now) in enumerate(pairs, start=1):
        if before != now:
            return (
                f"line {number} is another one; it follows {call or 'nothing'}\n"
                f"recorded: {_shown(before)}\nnow:      {_shown(now)}\n{_place(before, now)}"
            )
        if before is not None and before.startswith(b'{"world":'):
            call = before.decode()[:160]
    return ""


def _shown(line: bytes | None) -> str:
    return "(the record ends)" if line is None else line.decode()[:2000]


def _place(before: bytes | None, now: bytes | None) -> str:
    """The surroundings of the first differing character, of lines too long to compare by eye."""
    if before is None or now is None:
        return ""
    at = next((index for index, (one, other) in enumerate(zip(before, now, strict=False)) if one != other), 0)
    start = max(0, at - 120)
    return (
        f"from character {at}:\nrecorded: ...{before[start : at + 120].decode()}\n"
        f"now:      ...{now[start : at + 120].decode()}"
    )
