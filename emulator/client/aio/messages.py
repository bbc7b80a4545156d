"""The messages of an `AsyncEmulator`, its dead letters, and its workflow runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack, get_args

from emulator.client.aio.link import Part
from emulator.client.arguments import (
    DeadLetterFilters,
    Filters,
    check_choice,
    check_filters,
    filter_query,
    path_of,
)
from emulator.client.control import segment
from emulator.client.errors import EmulatorError, has_to_be_awaited, is_emulator_error, warn_of_dropped
from emulator.client.publishing import MessageOptions, Published, content, option_headers, read_published
from emulator.client.records import RunDeadLetter, RunState, WorkflowRun, read_run
from emulator.client.resources import (
    DeadLetter,
    Message,
    MessageState,
    MessageStatus,
    read,
    state_text,
)

__tracebackhide__ = is_emulator_error

_MESSAGES = "/v2/messages"


@has_to_be_awaited
class AsyncMessages(Part):
    """The messages of the world. Each method raises Refused with status and field.

    >>> async with AsyncEmulator() as emulator:
    ...     message_id = await emulator.publish("https://app.example.com/hook", delay="1h", label="orders")
    ...     cancelled = await emulator.messages.cancel_all(label="orders")
    ...     (cancelled, [message.state for message in await emulator.messages.all(label="orders")])
    (1, ['CANCELED'])
    """

    async def all(
        self,
        *,
        state: MessageState | Sequence[MessageState] | None = None,
        url: str | None = None,
        label: str | None = None,
        queue: str | None = None,
        schedule_id: str | None = None,
    ) -> list[MessageStatus]:
        """The messages of all accounts that fit, and where each stands, the newest last.

        `state` is one of `MessageStatus`, `live` or `ended`, or several; `url` may be a glob. Messages that
        have ended are listed as long as the world's history has them: if some of it was dropped
        (`keep_history`), the list comes with a HistoryWarning.
        """
        check_filters(url=url, label=label, queue=queue, schedule_id=schedule_id)
        states = state_text(state)
        asked = self._link.session.message_statuses(
            state=states, url=url, label=label, queue=queue, schedule=schedule_id
        )
        found, dropped_ms = await self._link.run(asked)
        if dropped_ms is not None and state != "live":
            warn_of_dropped(dropped_ms, "messages")
        return found

    async def get(self, message_id: str) -> Message:
        """One message as the service shows it, until a minute of virtual time after its end."""
        return read(Message, await self._link.messaging("GET", path_of(_MESSAGES, message_id)))

    async def cancel(self, message_id: str) -> None:
        """Cancel one. Raises Refused for one that has ended."""
        await self._link.messaging("DELETE", path_of(_MESSAGES, message_id))

    async def cancel_all(self, **filters: Unpack[Filters]) -> int:
        """Cancel all that fit every filter and have not ended; how many they were."""
        query = filter_query(filters, Filters.__annotations__)
        cancelled: int = (await self._link.messaging("DELETE", _MESSAGES, query=query))["cancelled"]
        return cancelled


_DEAD_LETTERS = "/v2/dlq"
# The largest bulk call.
_PAGE = 100


@has_to_be_awaited
class AsyncDeadLetters(Part):
    """The dead letter queue of the world's built-in account. Each method raises Refused with status and field.

    >>> async with AsyncEmulator() as emulator:
    ...     rule_id = await emulator.destinations.respond("https://app.example.com/*", status=500, times=1)
    ...     message_id = await emulator.publish("https://app.example.com/hook", retries=0)
    ...     [letter] = await emulator.dead_letters.all(status=500)
    ...     again = await emulator.dead_letters.retry(letter.dead_letter_id)
    ...     (len(await emulator.deliveries()), await emulator.dead_letters.all())
    (2, [])
    """

    async def all(self, **filters: Unpack[DeadLetterFilters]) -> list[DeadLetter]:
        """All dead letters that fit every filter, the oldest first. `workflows.dead_letters` has those of runs."""
        query = filter_query(filters, DeadLetterFilters.__annotations__)
        return await self._link.run(self._link.session.dead_letters(query))

    async def get(self, dead_letter_id: str) -> DeadLetter:
        """One dead letter."""
        return read(DeadLetter, await self._link.messaging("GET", path_of(_DEAD_LETTERS, dead_letter_id)))

    async def retry(
        self, dead_letter_id: str, *, headers: Mapping[str, str] | None = None, **options: Unpack[MessageOptions]
    ) -> Published:
        """Publish it again, with options that replace its own; the new message's id."""
        prefix = self._link.session.dialect.header_prefix
        said = option_headers(options, MessageOptions.__annotations__, prefix, headers)
        letter = await self.get(dead_letter_id)
        made = await self._link.messaging("POST", path_of(f"{_DEAD_LETTERS}/retry", dead_letter_id), None, said)
        return read_published(made, letter.url)

    async def retry_all(self, **filters: Unpack[DeadLetterFilters]) -> list[str]:
        """Publish all that fit every filter again; the new messages' ids. Those that fail meanwhile stay."""
        made: list[str] = []
        for ids in await self._ids(**filters):
            query = {"dlqIds": ",".join(ids)}
            answer = await self._link.messaging("POST", f"{_DEAD_LETTERS}/retry", query=query)
            made += [each["messageId"] for each in answer["responses"]]
        return made

    async def delete(self, dead_letter_id: str) -> None:
        """Delete one."""
        await self._link.messaging("DELETE", path_of(_DEAD_LETTERS, dead_letter_id))

    async def delete_all(self, **filters: Unpack[DeadLetterFilters]) -> int:
        """Delete all that fit every filter; how many they were."""
        deleted = 0
        for ids in await self._ids(**filters):
            deleted += (await self._link.messaging("DELETE", _DEAD_LETTERS, body={"dlqIds": ids}))["deleted"]
        return deleted

    async def _ids(self, **filters: Unpack[DeadLetterFilters]) -> list[list[str]]:
        """The ids in as many lists as calls are needed. All are read first: a retry may fail and come back."""
        ids = [letter.dead_letter_id for letter in await self.all(**filters)]
        return [ids[start : start + _PAGE] for start in range(0, len(ids), _PAGE)]


_RUNS = "/v2/workflows/runs"
_RUN_DEAD_LETTERS = "/v2/workflows/dlq"
_NOTIFY = "/v2/notify"


@has_to_be_awaited
class AsyncWorkflows(Part):
    """What has become of workflows: their runs, with steps, state and result, and what can be done with them.

        >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
        ...     answer = await emulator.call("POST", "/v2/trigger/https://app.example.com/onboarding", json={"user": 7})
        ...     [run] = await emulator.workflows.runs()
        ...     (run.url, run.payload)
        ('https://app.example.com/onboarding', '{"user": 7}')

    Each method raises Refused with what the server says. Runs of any account are listed and shown; those of the
    built-in account can be cancelled, resumed, restarted and notified.
    """

    async def runs(
        self,
        url: str | None = None,
        *,
        state: RunState | None = None,
        label: str | None = None,
        text: str | None = None,
    ) -> list[WorkflowRun]:
        """All runs that fit, the newest last, without their steps; `url` may be a glob, `state` is such as RUN_FAILED,
        `text` a part of the id, the URL or a label.

        If some history was dropped (`keep_history`) that may have had runs which ended, the list comes with a
        HistoryWarning.
        """
        if state is not None:
            check_choice("state", state, get_args(RunState))
        filters = check_filters(url=url, label=label, text=text)
        found, dropped_ms = await self._link.run(self._link.session.workflow_runs(state=state, **filters))
        if dropped_ms is not None and state != "RUN_STARTED":
            warn_of_dropped(dropped_ms, "runs")
        return found

    async def run(self, run_id: str, *, number: int | None = None) -> WorkflowRun:
        """A run with its steps; of several with one id the one with this `number`, or the latest."""
        query = {"redact": "false"} | ({} if number is None else {"number": str(number)})
        return read_run(await self._link.control("GET", f"runs/{segment(run_id)}", query=query))

    async def dead_letters(
        self, url: str | None = None, *, label: str | None = None, text: str | None = None
    ) -> list[RunDeadLetter]:
        """The failed runs that nobody has resumed, restarted or deleted, the oldest first, with the call that failed
        each; the filters are those of `runs`.
        """
        filters = check_filters(url=url, label=label, text=text)
        return await self._link.run(self._link.session.run_dead_letters(**filters))

    async def explain(self, run_id: str) -> dict[str, Any]:
        """Why a run is where it is: the answer of `GET /_emulator/runs/{id}/explain`."""
        answer: dict[str, Any] = await self._link.control("GET", f"runs/{segment(run_id)}/explain")
        return answer

    # -- what can be done with a run (D-693) ---------------------------------------------------

    async def cancel(self, run_id: str) -> None:
        """Cancel an active run. Its failure function is not called. Raises EmulatorError for one that has ended."""
        run = await self.run(run_id)
        if run.ended_ms is not None:
            raise EmulatorError(f"run {run_id} has ended: {run.state}")
        await self._link.messaging("DELETE", path_of(_RUNS, run_id))

    async def resume(self, run_id: str) -> str:
        """Resume a failed run from the call that failed: the id of the new run, which has the steps that are done.

            >>> async with AsyncEmulator() as emulator:
            ...     rule_id = await emulator.destinations.respond("https://app.example.com/*", status=500, times=1)
            ...     answer = await emulator.call(
            ...         "POST", "/v2/trigger/https://app.example.com/flow", headers={"Svc-Retries": "0"})
            ...     [failed] = await emulator.workflows.runs(state="RUN_FAILED")
            ...     resumed = await emulator.workflows.resume(failed.id)
            ...     (resumed != failed.id, await emulator.workflows.dead_letters())
            (True, [])

        Raises EmulatorError for a run that has not failed, or was resumed, restarted or deleted already; so do
        `restart` and `retry_failure_function`.
        """
        return await self._again(run_id, "resume")

    async def restart(self, run_id: str) -> str:
        """Restart a failed run from its beginning: the id of the new run, which has the same payload."""
        return await self._again(run_id, "restart")

    async def retry_failure_function(self, run_id: str) -> None:
        """Call the failure function of a run again. Raises EmulatorError unless its last call has failed."""
        await self._again(run_id, "callback")

    async def _again(self, run_id: str, action: Literal["resume", "restart", "callback"]) -> str:
        """Do something with the dead letter of a run; the id of the run that this begins or is about."""
        run = await self._link.control("GET", f"runs/{segment(run_id)}")
        if "resume" not in run["actions"]:
            why = (
                "has been resumed, restarted or deleted already"
                if run["dead_letter_id"]
                else f"has not failed: {run['state']}"
            )
            raise EmulatorError(f"run {run_id} {why}")
        if action == "callback" and "retry-failure" not in run["actions"]:
            raise EmulatorError(f"no failure function of run {run_id} has failed")
        made = await self._link.messaging("POST", path_of(f"{_RUN_DEAD_LETTERS}/{action}", run["dead_letter_id"]))
        begun: str = made["workflowRunId"]
        return begun

    async def notify(
        self, event_id: str, body: bytes | str | None = None, *, json: Any = None, run_id: str | None = None
    ) -> list[str]:
        """Notify the runs that wait for an event, which carries `body` or `json`: the ids of those that continue.

        With `run_id` that run alone is notified: if it does not wait yet, the event is kept for it, and the list is
        empty. Raises EmulatorError for an event that is lost, because no run waits for it or that run has ended.
        """
        path = path_of(_NOTIFY, event_id) if run_id is None else path_of(_NOTIFY, run_id, segment(event_id))
        made = await self._link.messaging("POST", path, *content(body, json, None))
        # D-693.
        if run_id is None and not made:
            raise EmulatorError(f"no run waits for {event_id}: an event without run_id is not kept")
        if run_id is not None and not made and (run := await self.run(run_id)).ended_ms is not None:
            raise EmulatorError(f"run {run_id} has ended: {run.state}; the event {event_id} is not kept for it")
        return [each["workflowRunId"] for each in made]
