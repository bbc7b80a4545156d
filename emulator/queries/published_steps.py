"""Steps of a workflow run as its endpoint publishes them: what a message of the run says of the step it is about.

Source: the workflow reference, 4.2 and 4.9; decision D-385.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping

import msgspec

from emulator.core.model.messages import Message
from emulator.core.model.names import Headers
from emulator.core.model.options import CallType
from emulator.core.record import Record

# What reading JSON raises for what is none, or is nested too deep.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class PublishedStep(Record, rename="camel"):
    """A step as its endpoint published it; what else it holds does not matter here.

    With `target_step` it is the plan of a parallel step, which has no id of its own. `out` is a text; clients
    differ in whether what is absent is null.
    """

    step_name: str
    step_type: str
    step_id: int = 0
    out: str | None = None
    concurrent: int = 1
    target_step: int | None = None
    sleep_for: int | float | str | None = None
    sleep_until: int | float | None = None
    wait_event_id: str | None = None
    timeout: int | float | str | None = None
    wait_timeout: bool | None = None

    @property
    def is_plan(self) -> bool:
        return bool(self.target_step)

    @property
    def number(self) -> int:
        """The id of the step in its run, also of a plan."""
        return self.target_step or self.step_id

    @property
    def is_sleep(self) -> bool:
        return self.sleep_for is not None or self.sleep_until is not None


class CallResponse(Record):
    """What a third party answered to a call step, as the endpoint reported it."""

    status: int
    body: str = ""
    header: Mapping[str, tuple[str, ...]] = {}


def read_step(body: bytes) -> PublishedStep:
    """A published step. What is none has neither name nor type: a run takes any message."""
    try:
        return msgspec.json.decode(body, type=PublishedStep)
    except _UNREADABLE:
        return PublishedStep(step_name="", step_type="", out=body.decode("utf-8", "replace"))


class _ListedStep(Record, rename="camel"):
    """An entry of the list that a workflow endpoint gets; its body in base64."""

    body: str


def step_of(message: Message) -> PublishedStep | None:
    """The step that a message of a run is about; None for the first call, a failure function, and other messages."""
    if message.run is None or message.run.is_init:
        return None
    match message.run.call_type:
        case CallType.STEP:
            try:
                listed = msgspec.json.decode(message.body, type=list[_ListedStep])
                return read_step(b64decode(listed[-1].body))
            except (*_UNREADABLE, ValueError, IndexError):
                return None
        case CallType.TO_CALLBACK:
            return step_of_request(message)
        case CallType.FROM_CALLBACK:
            return _step_of_headers(message.headers)
        case _:
            return None


def step_of_request(message: Message) -> PublishedStep:
    """The call step that a request to a third party belongs to: its callback carries it in forwarded headers."""
    return _step_of_headers(() if message.callback is None else message.callback.options.forwarded)


def _step_of_headers(headers: Headers) -> PublishedStep:
    values = {
        name.lower().rpartition("-workflow-")[2]: value for name, value in headers if "-workflow-" in name.lower()
    }
    return PublishedStep(
        step_name=values.get("stepname", ""),
        step_type=values.get("steptype", "Call"),
        step_id=_number(values.get("stepid", "")),
        concurrent=_number(values.get("concurrent", "")) or 1,
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def response_of(step: PublishedStep) -> CallResponse | None:
    """What came back to a call step, None for another step and for one without a result."""
    if step.step_type != "Call" or step.out is None or step.is_plan:
        return None
    try:
        return msgspec.json.decode(step.out, type=CallResponse)
    except _UNREADABLE:
        return None
