"""Requests about workflow runs, as commands."""

from __future__ import annotations

from typing import Final

from emulator.core.commands import CancelRun, CancelRuns, FinishRun
from emulator.core.model import AccountId, RunId
from emulator.core.workflows import RunFilter
from emulator.wire.dialect import Dialect
from emulator.wire.messaging.filters import Given
from emulator.wire.messaging.option_values import parse_boolean
from emulator.wire.parts import RequestParts

DEFAULT_CANCELED: Final = 100
MAX_CANCELED: Final = 1000

_FILTERS = frozenset(
    (
        "workflowRunIds",
        "workflowUrl",
        "workflowUrlExactMatch",
        "fromDate",
        "toDate",
        "callerIp",
        "flowControlKey",
        "label",
        "count",
    )
)


def read_end(
    parts: RequestParts, dialect: Dialect, account_id: AccountId, run_id: RunId, has_existed: bool
) -> FinishRun | CancelRun:
    """The end of one run: its result, with `cancel=false`, or its cancellation. Raises InvalidInput."""
    given = Given(parts, dialect, known=frozenset(("cancel",)))
    if given.one("cancel", parse_boolean) in (None, True):
        return CancelRun(account_id=account_id, run_id=run_id, has_existed=has_existed)
    return FinishRun(account_id=account_id, run_id=run_id, response=parts.body, has_existed=has_existed)


def read_cancellation(parts: RequestParts, dialect: Dialect, account_id: AccountId) -> CancelRuns:
    """A bulk cancellation; with ids all other filters do not count. Raises InvalidInput naming the parameter."""
    given = Given(parts, dialect, known=_FILTERS)
    wanted = RunFilter(
        run_ids=given.all("workflowRunIds"),
        url=given.one("workflowUrl", str),
        url_is_exact=given.one("workflowUrlExactMatch", parse_boolean) or False,
        labels=given.all("label"),
        flow_key=given.one("flowControlKey", str),
        caller_ip=given.one("callerIp", str),
        **given.dates(),
    )
    count = given.count(maximum=MAX_CANCELED)
    return CancelRuns(
        account_id=account_id,
        wanted=RunFilter(run_ids=wanted.run_ids) if wanted.run_ids else wanted,
        count=len(wanted.run_ids) if wanted.run_ids else count or DEFAULT_CANCELED,
    )
