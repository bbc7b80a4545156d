"""Requests about workflow runs, as commands, and what is answered."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from emulator.core.commands import CancelRun, CancelRuns, FinishRun, Notify, PublishItem, TriggerRuns, WaitForEvent
from emulator.core.errors import InvalidInput, InvalidRunMessage, Malformed, Refused
from emulator.core.language.text import by_canonical_name
from emulator.core.model.options import DestinationKind, Redaction
from emulator.core.model.workflows import (
    ListedHeaders,
    NotifiedWaiter,
    RunFilter,
    TriggeredRun,
    Waiter,
    WorkflowRun,
    WorkflowStep,
)
from emulator.core.record import AccountId, RunId
from emulator.core.rules.run_waits import TIMED_OUT
from emulator.core.rules.runs import completed
from emulator.wire import urls
from emulator.wire.dialect import Dialect
from emulator.wire.filters import names_of, query_of
from emulator.wire.json_reader import Json, decoded
from emulator.wire.messaging import requests
from emulator.wire.messaging.option_values import parse_boolean
from emulator.wire.messaging.options import LogNote, RequestKind, read_options
from emulator.wire.messaging.requests import listed, options_of_run, read_publish, step_of
from emulator.wire.names import parse_free_text, read_field
from emulator.wire.parts import RequestParts
from emulator.wire.redaction import Surface, Visibility, joined
from emulator.wire.times import parse_seconds_or_duration_ms

DEFAULT_CANCELED: Final = 100
MAX_CANCELED: Final = 1000

_FILTERS = {
    "run_ids": ("workflowRunIds",),
    "urls": ("workflowUrl",),
    "labels": ("label",),
    "flow_keys": ("flowControlKey",),
    "caller_ips": ("callerIp",),
}
_FILTER_NAMES = names_of(_FILTERS, "workflowUrlExactMatch")


def read_end(
    parts: RequestParts, dialect: Dialect, account_id: AccountId, run_id: RunId, has_existed: bool
) -> FinishRun | CancelRun:
    """The end of one run: its result, with `cancel=false`, or its cancellation. Raises InvalidInput."""
    given = query_of(parts, dialect, ("cancel",))
    if given.one("cancel", parse_boolean) in (None, True):
        return CancelRun(account_id=account_id, run_id=run_id, has_existed=has_existed)
    return FinishRun(account_id=account_id, run_id=run_id, response=parts.body, has_existed=has_existed)


def read_cancellation(parts: RequestParts, dialect: Dialect, account_id: AccountId) -> CancelRuns:
    """A bulk cancellation; with ids all other filters do not count. Raises InvalidInput naming the parameter."""
    given = query_of(parts, dialect, _FILTER_NAMES)
    url_is_exact = given.one("workflowUrlExactMatch", parse_boolean) or False
    wanted = replace(RunFilter(url_is_exact=url_is_exact), **given.lists(_FILTERS), **given.dates())
    count = given.count(maximum=MAX_CANCELED)
    return CancelRuns(
        account_id=account_id,
        wanted=RunFilter(run_ids=wanted.run_ids) if wanted.run_ids else wanted,
        count=len(wanted.run_ids) if wanted.run_ids else count or DEFAULT_CANCELED,
    )


# -- waits and events -------------------------------------------------------------------------


class _Wait(msgspec.Struct):
    url: str
    timeout: str | int
    step: dict[str, msgspec.Raw]
    timeoutUrl: str | None = None  # noqa: N815
    timeoutHeaders: dict[str, str | list[str]] = {}  # noqa: N815


_WAIT = msgspec.json.Decoder(_Wait)


def read_wait(parts: RequestParts, dialect: Dialect, account_id: AccountId, event_id: str) -> WaitForEvent:
    """A step that waits. Raises InvalidInput naming the header or the JSON field (D-364)."""
    options = read_options(parts, dialect, kind=RequestKind.PUBLISH)
    workflow = options.workflow
    if workflow is None:
        raise InvalidInput(dialect.header("workflow-runid"), "expected the id of the run that waits")
    # The headers that are about the message, as the list of waiters shows them.
    own = tuple(pair for pair in parts.headers if pair[0].startswith(dialect.lower_prefix) or pair[0] == "content-type")
    try:
        given = decoded(_WAIT, parts.body)
        timeout = str(given.timeout)
        waiter = Waiter(
            number=0,
            event_id=read_field("eventId", event_id, parse_free_text),
            url=urls.check_url("url", given.url),
            headers=listed(by_canonical_name(own)),
            options=options,
            timeout=timeout,
            deadline_ms=read_field("timeout", timeout, _parse_timeout_ms),
            timeout_url=urls.check_url("timeoutUrl", given.url if given.timeoutUrl is None else given.timeoutUrl),
            timeout_headers=listed(given.timeoutHeaders),
            timeout_options=options_of_run(given.timeoutHeaders, workflow.run_id, dialect),
            step=step_of(given.step),
        )
    except InvalidInput as problem:
        raise InvalidRunMessage(problem.field, problem.reason) from None
    return WaitForEvent(account_id=account_id, run_id=workflow.run_id, waiter=waiter)


def _parse_timeout_ms(text: str) -> int:
    timeout_ms = parse_seconds_or_duration_ms(text)
    if timeout_ms == 0:
        raise Malformed("expected a positive duration")
    return timeout_ms


def read_notification(parts: RequestParts, account_id: AccountId, event_id: str, run_id: str | None) -> Notify:
    """An event, its body as it is."""
    return Notify(
        account_id=account_id,
        event_id=read_field("eventId", event_id, parse_free_text),
        body=parts.body,
        run_id=None if run_id is None else RunId(run_id),
    )


def read_webhook(parts: RequestParts, account_id: AccountId, event_id: str, run_id: str) -> Notify:
    """A call of a webhook as the event that it is: JSON of the whole request."""
    event = {
        "method": parts.method,
        "header": by_canonical_name(parts.headers),
        "body": b64encode(parts.body).decode(),
        "proto": parts.scheme,
        "host": parts.header("host") or "",
        "url": f"{parts.path}?{parts.raw_query}" if parts.has_query else parts.path,
    }
    body = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")
    return Notify(account_id=account_id, event_id=event_id, body=body, run_id=RunId(run_id))


# -- triggers ---------------------------------------------------------------------------------


def read_trigger(
    parts: RequestParts, dialect: Dialect, account_id: AccountId, destination: str, log_note: LogNote
) -> TriggerRuns:
    """One run to start. Raises InvalidInput naming the header."""
    item = read_publish(parts, dialect, destination, kind=RequestKind.TRIGGER, log_note=log_note)
    return TriggerRuns(account_id=account_id, items=(_at_endpoint(item),))


def read_triggers(parts: RequestParts, dialect: Dialect, account_id: AccountId, log_note: LogNote) -> TriggerRuns:
    """Many runs to start; what is wrong with one refuses them all. Raises what is wrong with the first such item."""
    items = []
    for item in requests.read_batch(parts.body, dialect, parts.client_ip, log_note, kind=RequestKind.TRIGGER):
        if isinstance(item, Refused):
            raise item
        items.append(_at_endpoint(item))
    return TriggerRuns(account_id=account_id, items=tuple(items))


def _at_endpoint(item: PublishItem) -> PublishItem:
    """An item whose run is at a URL. Raises InvalidInput, for one that names its run InvalidRunMessage (D-375)."""
    if item.destination.kind is DestinationKind.URL:
        return item
    names_run = item.options.workflow is not None and item.options.workflow.run_id
    problem = InvalidRunMessage if names_run else InvalidInput
    raise problem("destination", "expected a URL: a workflow runs at one endpoint")


# -- the records of workflow runs as JSON -----------------------------------------------------


def steps(run: WorkflowRun) -> Json:
    """The steps of a run, as its endpoint gets them: bodies in base64."""
    return [step_view(step, step.body) for step in run.steps]


def step_view(step: WorkflowStep, body: bytes) -> dict[str, Json]:
    """An entry of the list, with the body that is shown of it."""
    return {"messageId": step.message_id, "body": b64encode(body).decode(), "callType": step.call_type.value}


def waiter(waiter: Waiter, redaction: Redaction | None) -> dict[str, Json]:
    """Who waits for an event; the deadline is a Unix second, rounded up. What its run hides is hidden (D-516)."""
    on_event = Visibility(joined(redaction, waiter.options.redaction), Surface.SERVICE)
    on_timeout = Visibility(joined(redaction, waiter.timeout_options.redaction), Surface.SERVICE)
    return {
        "url": waiter.url,
        "headers": _headers(waiter.headers, on_event),
        "deadline": -(-waiter.deadline_ms // 1000),
        "timeoutUrl": waiter.timeout_url,
        "timeoutBody": b64encode(on_timeout.body(completed(waiter.step, TIMED_OUT))).decode(),
        "timeoutHeaders": _headers(waiter.timeout_headers, on_timeout),
    }


def _headers(headers: ListedHeaders, visibility: Visibility) -> dict[str, Json]:
    """The headers as given; those to be forwarded are redacted by the names that they are delivered with."""
    view: dict[str, Json] = {}
    for name, values in headers:
        _, mark, forwarded = name.lower().partition("-forward-")
        if mark or name.lower() == "content-type":
            delivered = tuple((forwarded or name, value) for value in values)
            values = tuple(value for _, value in visibility.headers(delivered))
        view[name] = list(values)
    return view


def waiters(found: Iterable[tuple[WorkflowRun, Waiter]]) -> Json:
    """All who wait for an event, in the order of waiting."""
    return [waiter(each, run.options.redaction) for run, each in found]


def notified(found: Iterable[NotifiedWaiter]) -> Json:
    """One entry for each waiter that an event resumed, also if the event was for one run (D-369)."""
    return [
        {
            "waiter": waiter(each.waiter, each.redaction),
            "messageId": each.message_id,
            "error": "",
            "workflowRunId": each.run_id,
            "workflowCreatedAt": each.run_created_ms,
        }
        for each in found
    ]


def triggered(run: TriggeredRun) -> dict[str, Json]:
    """A run that was started; `deduplicated` only if its id was active already."""
    view: dict[str, Json] = {"workflowRunId": run.run_id, "workflowCreatedAt": run.created_ms}
    if run.deduplicated:
        view["deduplicated"] = True
    return view


def begun_again(runs: Iterable[TriggeredRun], cursor: str | None) -> Json:
    """The runs that failed ones became; an empty cursor on the last page, as clients expect it here."""
    return {"workflowRuns": [triggered(run) for run in runs], "cursor": cursor or ""}
