"""Everything the rules can refuse, one class each.

A refusal happens before the first fact of a command, so refusing never leaves a half-made
change behind. `wire/error_body.py` holds the one table that turns these into HTTP statuses.
"""

from __future__ import annotations

from dataclasses import dataclass


class Refused(Exception):
    """The command was refused and nothing has changed."""

    @property
    def text(self) -> str:
        return str(self)


class Malformed(Exception):
    """A text does not follow its grammar; a caller that knows the field's name turns it into InvalidInput."""

    @property
    def reason(self) -> str:
        return str(self)


@dataclass(eq=False)
class InvalidInput(Refused):
    """A header, parameter or body field has a value the service does not accept.

    `field` is the name as the client would write it; `reason` says what was expected.
    """

    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


class OverLimit(InvalidInput):
    """A value that the service would accept from an account of a larger plan."""


class InvalidRunMessage(InvalidInput):
    """A message of a workflow run has a value that the service does not accept.

    Not reported like other wrong values: the client takes a 400 for the end of the run and says nothing.
    """


class RunOver(Refused):
    """The message belongs to a workflow run that has ended, or never began."""


class NotFound(Refused):
    """Nothing with that identifier exists (any more) in this account.

    `kind` is what was looked for: `message`, `workflow run`. `more` ends the text.
    """

    def __init__(self, kind: str, name: str, more: str = "") -> None:
        super().__init__(f"{kind} {name} not found{more}")
        self.kind = kind


class NotInstalled(Refused):
    """A part that the answer is made with is not there."""


class Unauthenticated(Refused):
    """No credentials, or credentials of no account."""


class Forbidden(Refused):
    """The credentials are good, and do not permit this. `remedy` says what does, where something can."""

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy


class NotAcceptable(Refused):
    """The client wants an answer in a form that there is none of."""


class Conflict(Refused):
    """The request contradicts what is going on at the moment."""


class PayloadTooLarge(Refused):
    """The body exceeds the message size of the account's plan."""


class NoRoom(Refused):
    """Too many bodies are being received at once; a moment later there may be room."""


class LimitReached(Refused):
    """The account already has as many things of this kind as its plan allows."""


class QuotaExceeded(Refused):
    """Too many requests in a period.

    `limit` and `remaining` count requests, `reset_s` is the Unix second at which the period
    ends, and `daily` tells the day's quota from the burst limit of a second.
    """

    def __init__(self, text: str, *, limit: int, remaining: int, reset_s: int, daily: bool) -> None:
        super().__init__(text)
        self.limit = limit
        self.remaining = remaining
        self.reset_s = reset_s
        self.daily = daily


class InsufficientStorage(Refused):
    """There is no room on the disk for what was to be kept; nothing has changed."""


class WorldBroken(Exception):
    """The world has stopped, because state and journal could differ, or it could not be opened.

    A rule failed after its first fact, or the journal could not be written.
    """

    def __init__(self, text: str, *, is_disk_full: bool = False) -> None:
        super().__init__(text)
        self.is_disk_full = is_disk_full


class UnreadableRow(Exception):
    """A row of a world's history is none that the emulator has written; `what` names table, row and column.

    The world itself keeps working, and so do its other readers.
    """

    def __init__(self, file: str, what: str) -> None:
        super().__init__(f"damaged: {what} (in {file})")
        self.what = what


class Damaged(Exception):
    """What was read of a world's history is not what was written; `what` says so without the file's name.

    The world itself keeps working.
    """

    def __init__(self, file: str, what: str) -> None:
        super().__init__(f"{file} is damaged: {what}; `svc-emulator db check {file}` tells all that is")
        self.what = what
