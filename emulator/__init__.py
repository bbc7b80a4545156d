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
    from emulator.client.errors import EmulatorError, NotAnEmulator, Refused, Unreachable
    from emulator.client.exploring import explore
    from emulator.client.filters import DeadLetterFilters, Filters
    from emulator.client.meanings import Attempt, Firing, attempts, when
    from emulator.client.mounts import Answer, Application, Interface
    from emulator.client.publishing import (
        FlowControl,
        MessageOptions,
        Published,
        PublishedMessage,
        PublishOptions,
        ScheduleOptions,
    )
    from emulator.client.receivers import ReceiverOptions
    from emulator.client.records import Chaos, Delivery, Dialect, Request, Response
    from emulator.client.resources import DeadLetter, Endpoint, Message, MessageStatus, Queue, Schedule, UrlGroup
    from emulator.client.server import Options
    from emulator.client.sync.emulator import Emulator
    from emulator.client.values import Duration, Instant
    from emulator.client.verify.expectations import Expected
    from emulator.client.verify.runs import StepExpected
    from emulator.client.workflow_records import WorkflowRun, WorkflowStep
    from emulator.conformance.records import CheckResult, Verdict
    from emulator.conformance.reports import ReceiverReport
    from emulator.core.model.answers import Via
    from emulator.queries.reports import AdvanceReport, ClockStatus, Credentials, Snapshot
    from emulator.wire.control.refused_calls import RefusedCall

# Imported when first used: a server needs none of these and has to start fast.
_MODULES = {
    "AdvanceReport": "emulator.queries.reports",
    "Answer": "emulator.client.mounts",
    "Application": "emulator.client.mounts",
    "Attempt": "emulator.client.meanings",
    "AsyncEmulator": "emulator.client.aio.emulator",
    "Chaos": "emulator.client.records",
    "CheckResult": "emulator.conformance.records",
    "ClockStatus": "emulator.queries.reports",
    "Credentials": "emulator.queries.reports",
    "DeadLetter": "emulator.client.resources",
    "DeadLetterFilters": "emulator.client.filters",
    "Delivery": "emulator.client.records",
    "Dialect": "emulator.client.records",
    "Duration": "emulator.client.values",
    "Emulator": "emulator.client.sync.emulator",
    "EmulatorError": "emulator.client.errors",
    "Endpoint": "emulator.client.resources",
    "Expected": "emulator.client.verify.expectations",
    "Filters": "emulator.client.filters",
    "Firing": "emulator.client.meanings",
    "FlowControl": "emulator.client.publishing",
    "Instant": "emulator.client.values",
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
    "RefusedCall": "emulator.wire.control.refused_calls",
    "Request": "emulator.client.records",
    "Response": "emulator.client.records",
    "Schedule": "emulator.client.resources",
    "ScheduleOptions": "emulator.client.publishing",
    "Snapshot": "emulator.queries.reports",
    "StepExpected": "emulator.client.verify.runs",
    "Unreachable": "emulator.client.errors",
    "UrlGroup": "emulator.client.resources",
    "Verdict": "emulator.conformance.records",
    "Via": "emulator.core.model.answers",
    "WorkflowRun": "emulator.client.workflow_records",
    "WorkflowStep": "emulator.client.workflow_records",
    "attempts": "emulator.client.meanings",
    "explore": "emulator.client.exploring",
    "when": "emulator.client.meanings",
}

__all__ = [
    "AdvanceReport",
    "Answer",
    "Application",
    "AsyncEmulator",
    "Attempt",
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
    "Endpoint",
    "Expected",
    "Filters",
    "Firing",
    "FlowControl",
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
