"""A local emulator of an HTTP message-scheduling service, with a clock you control.

>>> from emulator import Emulator
>>> with Emulator(epoch="2026-01-01T00:00:00Z") as emulator:
...     message_id = emulator.publish("https://app.example.com/remind", delay="1d")
...     report = emulator.clock.advance("1d")
...     [delivery] = emulator.deliveries()
...     str(delivery.at)
'2026-01-02 00:00:00+00:00'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.client.aio.emulator import AsyncEmulator
    from emulator.client.arguments import DeadLetterFilters, Duration, EventFilters, Filters, Instant
    from emulator.client.errors import (
        EmulatorError,
        EmulatorWarning,
        HandlerError,
        HistoryNotKept,
        HistoryWarning,
        NotAnEmulator,
        Refused,
        Unreachable,
    )
    from emulator.client.mounts import Answer, Application, Interface
    from emulator.client.publishing import (
        BatchMessage,
        FlowControl,
        MessageOptions,
        Published,
        PublishedMessage,
        PublishOptions,
        ScheduleOptions,
    )
    from emulator.client.receivers import ReceiverOptions
    from emulator.client.records import (
        Chaos,
        Delivery,
        Dialect,
        Request,
        Response,
        RunDeadLetter,
        RunFailure,
        WorkflowRun,
        WorkflowStep,
    )
    from emulator.client.resources import (
        DeadLetter,
        Endpoint,
        Event,
        FlowControlKey,
        Message,
        MessageStatus,
        Queue,
        Schedule,
        UrlGroup,
    )
    from emulator.client.server import Options
    from emulator.client.sync.emulator import Emulator
    from emulator.client.verify.differences import partial
    from emulator.client.verify.expectations import Expected
    from emulator.client.verify.runs import StepExpected
    from emulator.client.when import Attempt, Firing, attempts, when
    from emulator.client.worlds_of_tests import explore
    from emulator.conformance.reports import CheckResult, ReceiverReport, Verdict
    from emulator.core.model.messages import Via
    from emulator.queries.reports import AdvanceReport, ClockStatus, Credentials, Snapshot
    from emulator.worlds.calls import RefusedCall

# Imported when first used: a server needs none of these and has to start fast.
_MODULES = {
    "AdvanceReport": "emulator.queries.reports",
    "Answer": "emulator.client.mounts",
    "Application": "emulator.client.mounts",
    "Attempt": "emulator.client.when",
    "AsyncEmulator": "emulator.client.aio.emulator",
    "BatchMessage": "emulator.client.publishing",
    "Chaos": "emulator.client.records",
    "CheckResult": "emulator.conformance.reports",
    "ClockStatus": "emulator.queries.reports",
    "Credentials": "emulator.queries.reports",
    "DeadLetter": "emulator.client.resources",
    "DeadLetterFilters": "emulator.client.arguments",
    "Delivery": "emulator.client.records",
    "Dialect": "emulator.client.records",
    "Duration": "emulator.client.arguments",
    "Emulator": "emulator.client.sync.emulator",
    "EmulatorError": "emulator.client.errors",
    "EmulatorWarning": "emulator.client.errors",
    "Endpoint": "emulator.client.resources",
    "Event": "emulator.client.resources",
    "EventFilters": "emulator.client.arguments",
    "Expected": "emulator.client.verify.expectations",
    "Filters": "emulator.client.arguments",
    "Firing": "emulator.client.when",
    "FlowControl": "emulator.client.publishing",
    "FlowControlKey": "emulator.client.resources",
    "HandlerError": "emulator.client.errors",
    "HistoryNotKept": "emulator.client.errors",
    "HistoryWarning": "emulator.client.errors",
    "Instant": "emulator.client.arguments",
    "Interface": "emulator.client.mounts",
    "Message": "emulator.client.resources",
    "MessageOptions": "emulator.client.publishing",
    "MessageStatus": "emulator.client.resources",
    "NotAnEmulator": "emulator.client.errors",
    "Options": "emulator.client.server",
    "PublishOptions": "emulator.client.publishing",
    "Published": "emulator.client.publishing",
    "PublishedMessage": "emulator.client.publishing",
    "Queue": "emulator.client.resources",
    "ReceiverOptions": "emulator.client.receivers",
    "ReceiverReport": "emulator.conformance.reports",
    "Refused": "emulator.client.errors",
    "RefusedCall": "emulator.worlds.calls",
    "Request": "emulator.client.records",
    "Response": "emulator.client.records",
    "RunDeadLetter": "emulator.client.records",
    "RunFailure": "emulator.client.records",
    "Schedule": "emulator.client.resources",
    "ScheduleOptions": "emulator.client.publishing",
    "Snapshot": "emulator.queries.reports",
    "StepExpected": "emulator.client.verify.runs",
    "Unreachable": "emulator.client.errors",
    "UrlGroup": "emulator.client.resources",
    "Verdict": "emulator.conformance.reports",
    "Via": "emulator.core.model.messages",
    "WorkflowRun": "emulator.client.records",
    "WorkflowStep": "emulator.client.records",
    "attempts": "emulator.client.when",
    "explore": "emulator.client.worlds_of_tests",
    "partial": "emulator.client.verify.differences",
    "when": "emulator.client.when",
}

__all__ = [
    "AdvanceReport",
    "Answer",
    "Application",
    "AsyncEmulator",
    "Attempt",
    "BatchMessage",
    "Chaos",
    "CheckResult",
    "ClockStatus",
    "Credentials",
    "DeadLetter",
    "DeadLetterFilters",
    "Delivery",
    "Dialect",
    "Duration",
    "Emulator",
    "EmulatorError",
    "EmulatorWarning",
    "Endpoint",
    "Event",
    "EventFilters",
    "Expected",
    "Filters",
    "Firing",
    "FlowControl",
    "FlowControlKey",
    "HandlerError",
    "HistoryNotKept",
    "HistoryWarning",
    "Instant",
    "Interface",
    "Message",
    "MessageOptions",
    "MessageStatus",
    "NotAnEmulator",
    "Options",
    "PublishOptions",
    "Published",
    "PublishedMessage",
    "Queue",
    "ReceiverOptions",
    "ReceiverReport",
    "Refused",
    "RefusedCall",
    "Request",
    "Response",
    "RunDeadLetter",
    "RunFailure",
    "Schedule",
    "ScheduleOptions",
    "Snapshot",
    "StepExpected",
    "Unreachable",
    "UrlGroup",
    "Verdict",
    "Via",
    "WorkflowRun",
    "WorkflowStep",
    "attempts",
    "explore",
    "partial",
    "when",
]


if not TYPE_CHECKING:
    # A type checker sees the imports above, and that there is nothing else.

    def __getattr__(name: str) -> object:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(module), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
