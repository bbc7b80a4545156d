"""Workflow runs for tests of the core: publishes as a workflow client makes them, and what came of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from emulator.core import commands, message_facts, run_facts
from emulator.core.commands import PublishItem
from emulator.core.model import messages
from emulator.core.model.messages import AttemptOutcome, Message, Phase, PublishedMessage
from emulator.core.model.options import CallType, Destination, DestinationKind, MessageOptions, RunOptions
from emulator.core.model.workflows import Invoker, NotifiedWaiter, TriggeredRun, Waiter, WorkflowRun
from emulator.core.record import MessageId, RunId
from tests.harness.simulations import CALLER_IP, EPOCH_MS, World, answered

FLOW = "https://app.test/flow"
RUN = RunId("wfr_one")
FEATURES = ("LazyFetch", "InitialBody", "WF_DetectTrigger", "WF_TriggerOnConfig")
# The answer of a workflow endpoint.
WORKFLOW = answered(headers=(("Svc-Workflow-Sdk-Version", "1"),))

Act = Callable[["RunWorld"], object]


def part(run_id: RunId = RUN, **changes: Any) -> RunOptions:
    return RunOptions(**{"run_id": run_id, "features": FEATURES, **changes})


def item(url: str = FLOW, body: bytes = b"", invoker: Invoker | None = None, **options: Any) -> PublishItem:
    return PublishItem(
        destination=Destination(kind=DestinationKind.URL, text=url),
        body=body,
        options=MessageOptions(**options),
        caller_ip=CALLER_IP,
        invoker=invoker,
    )


def step(number: int, out: object = None, **more: Any) -> bytes:
    """A step's result as a client publishes it."""
    fields = {"stepId": number, "stepName": f"s{number}", "stepType": "Run", "out": json.dumps(out), "concurrent": 1}
    return json.dumps({**fields, **more}).encode()


class RunWorld(World):
    """A world in which a workflow endpoint answers at `FLOW`.

    `acts` says what the endpoint does when it is called with so many steps; it answers 200 as a workflow.
    Others answer 200 alone. `outcomes` replaces answers by URL.
    """

    def __init__(self, acts: dict[int, Act] | None = None, **arguments: Any) -> None:
        super().__init__(answering=self._answer, **arguments)
        self.acts = acts or {}
        self.outcomes: dict[str, Callable[[Message, int], AttemptOutcome]] = {}
        self.calls: list[Message] = []

    def _answer(self, message: Message, number: int) -> AttemptOutcome:
        self.calls.append(message)
        if message.url in self.outcomes:
            return self.outcomes[message.url](message, number)
        if message.url != FLOW:
            return answered()
        act = self.acts.get(len(json.loads(message.body))) if of(message) is CallType.STEP else None
        if act is not None:
            act(self)
        return WORKFLOW

    # -- as a client --------------------------------------------------------------------

    def begin(self, run_id: RunId = RUN, body: bytes = b'{"a":1}', **options: Any) -> PublishedMessage:
        more = options.pop("part", {})
        options.setdefault("workflow", part(run_id, is_init=True, url=FLOW, **more))
        return self.send(item(body=body, **options))

    def add(self, body: bytes, run_id: RunId = RUN, **options: Any) -> PublishedMessage:
        return self.send(item(body=body, workflow=part(run_id), **options))

    def send(self, given: PublishItem) -> PublishedMessage:
        (published,) = self.act(commands.Publish, item=given).accepted.messages
        return published

    def batch(self, *items: PublishItem) -> messages.BatchReply:
        return self.act(commands.PublishBatch, items=items)

    def succeed(self, response: bytes = b'"done"', run_id: RunId = RUN, *, has_existed: bool = False) -> None:
        self.act(commands.FinishRun, run_id=run_id, response=response, has_existed=has_existed)

    def cancel_run(self, run_id: RunId = RUN, *, has_existed: bool = False) -> None:
        self.act(commands.CancelRun, run_id=run_id, has_existed=has_existed)

    def wait(
        self, event_id: str = "ev", *, timeout_ms: int = 20_000, run_id: RunId = RUN, number: int = 1, **options: Any
    ) -> None:
        step = {"stepId": number, "stepName": "w", "stepType": "Wait", "concurrent": 1}
        waiter = Waiter(
            number=0,
            event_id=event_id,
            url=FLOW,
            headers=(("Svc-Workflow-Init", ("false",)),),
            options=MessageOptions(workflow=part(run_id), **options),
            deadline_ms=timeout_ms,
            timeout=f"{timeout_ms // 1000}s",
            timeout_url=FLOW + "/late",
            timeout_headers=(),
            timeout_options=MessageOptions(workflow=part(run_id)),
            step=json.dumps(step).encode(),
        )
        self.act(commands.WaitForEvent, run_id=run_id, waiter=waiter)

    def notify(
        self, event_id: str = "ev", body: bytes = b"hi", run_id: RunId | None = None
    ) -> tuple[NotifiedWaiter, ...]:
        return self.act(commands.Notify, event_id=event_id, body=body, run_id=run_id)

    def trigger(self, *items: PublishItem) -> tuple[TriggeredRun, ...]:
        return self.act(commands.TriggerRuns, items=items)

    # -- looking ------------------------------------------------------------------------

    def run(self, run_id: RunId = RUN) -> WorkflowRun:
        return self.owner.runs[run_id]

    @property
    def endings(self) -> list[tuple[str, str]]:
        """Every end of a run: its id and state."""
        return [(each.run_id, each.state.value) for each in self.all(run_facts.RunEnded)]

    def calls_at(self, url: str = FLOW) -> list[Message]:
        return [message for message in self.calls if message.url == url]

    def times_of_calls(self, url: str = FLOW) -> list[int]:
        """The instants of the attempts at a URL, from the world's beginning."""
        return [at_ms for started, _, at_ms in self.starts() if started == url]

    def failed_run(self) -> commands.FailedRun:
        """The last run that failed, as the journal would have it."""
        failed = self.all(message_facts.MessageFailed)[-1]
        finished = [each for each in self.all(message_facts.AttemptFinished) if each.message_id == failed.message_id]
        began = [each.run for each in self.all(run_facts.RunStarted) if each.run.number == failed.run_number][-1]
        accepted = [each.step for each in self.all(run_facts.StepAccepted) if each.run_number == failed.run_number]
        calls = [
            message_id
            for message_id, message in self.messages.items()
            if of(message) is CallType.FAILURE_CALL
            and message.run is not None
            and message.run.run_number == failed.run_number
        ]
        ends = self.log_of(calls[-1])[-1:] if calls else []
        return commands.FailedRun(
            dead_letter_id=failed.dead_letter_id,
            run=replace(began, steps=(*began.steps, *accepted)),
            message=self.messages[failed.message_id],
            outcome=finished[-1].outcome,
            failure_call=Phase.FAILED if ends == ["FAILED"] else Phase.RETRYING if ends else None,
        )

    def log_of(self, message_id: MessageId) -> list[str]:
        """The event log of a message, with the end of one that was given up."""
        given_up = {each.message_id for each in self.all(message_facts.MessageGivenUp)}
        events = self.events_of(message_id)
        return [*events, "FAILED"] if message_id in given_up else events


def of(message: Message) -> CallType | None:
    """What a message is to its run."""
    return None if message.run is None else message.run.call_type


def steps_in(message: Message) -> list[bytes]:
    """The bodies of the steps that a message delivers."""
    return [base64.b64decode(each["body"]) for each in json.loads(message.body)]


def parent(run_id: RunId) -> Invoker:
    return Invoker(
        run_id=run_id,
        run_created_ms=EPOCH_MS,
        url=FLOW,
        options=MessageOptions(workflow=part(run_id)),
        step=b'{"stepId":1,"stepName":"inv","stepType":"Invoke","concurrent":1}',
    )
