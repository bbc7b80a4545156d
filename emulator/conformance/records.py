"""What is checked, and what a check showed."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from json import dumps

from emulator.core.model.answers import Response
from emulator.core.model.names import Headers
from emulator.core.model.options import Method
from emulator.core.record import Record
from emulator.delivery.http import Failure

# How many bytes of a body a report quotes.
_LONGEST_QUOTE = 200


class Verdict(StrEnum):
    """What a check says. Only `failed` makes a report fail."""

    PASSED = "passed"
    FAILED = "failed"
    TOLERATED = "tolerated"
    NOT_JUDGED = "not judged"


class Receiver(Record):
    """The endpoint to check, and what a good delivery to it is.

    `timeout_ms` is that of each request. `effect_delay_ms` is how long the endpoint's work may go on
    after its answer. `slow_ms` is how long the slow client takes for its body.
    """

    url: str
    current_signing_key: str
    next_signing_key: str
    header_prefix: str
    issuer: str
    user_agent: str
    method: Method = Method.POST
    headers: Headers = (("Content-Type", "application/json"),)
    body: bytes = b"{}"
    timeout_ms: int = 10_000
    effect_delay_ms: int = 0
    slow_ms: int = 1_000
    takes_callbacks: bool = False


class Check(Record):
    """One line of the battery: what is expected, why it matters, and how to mend a receiver that fails."""

    id: str
    title: str
    expected: str
    why: str
    mend: str


class Exchange(Record):
    """One request and what came back; `took_ms` is real time, `is_changed` whether it had an effect, if known."""

    sent: str
    answer: Response | Failure
    took_ms: int
    is_changed: bool | None = None

    @property
    def status(self) -> int | None:
        """The status of the answer, None without one."""
        return None if isinstance(self.answer, Failure) else self.answer.status

    @property
    def is_accepted(self) -> bool:
        """Whether the delivery counts as delivered: the answer is a 2xx."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def came(self) -> str:
        """The answer in a line."""
        if isinstance(self.answer, Failure):
            return f"no answer in {self.took_ms} ms: {self.answer.text}"
        status = self.answer.status
        phrase = f" {HTTPStatus(status).phrase}" if status in HTTPStatus.__members__.values() else ""
        text = self.answer.body[:_LONGEST_QUOTE].decode("utf-8", "replace")
        return f"{status}{phrase} in {self.took_ms} ms{f', {dumps(text)}' if text else ''}"


class CheckResult(Record):
    """What one check showed.

    `note` says what was wrong, why it is not judged, or which tolerance of the profile applies; it is
    empty for a passed check.
    """

    id: str
    title: str
    verdict: Verdict
    sent: str
    expected: str
    came: str
    why: str
    mend: str
    note: str = ""
