"""The messages of an `AsyncEmulator`, its dead letters, and its workflow runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack, get_args

from emulator.client.aio.link import AsyncLink
from emulator.client.arguments import (
    DeadLetterFilters,
    Filters,
    check_choice,
    check_filter,
    filter_query,
    path_of,
)
from emulator.client.control import segment
from emulator.client.errors import has_to_be_awaited, is_emulator_error, warn_of_dropped
from emulator.client.publishing import MessageOptions, Published, option_headers, read_published
from emulator.client.records import RunDeadLetter, RunState, WorkflowRun, read_run
from emulator.client.resources import (
    DeadLetter,
    Message,
    MessageState,
    MessageStatus,
    read_dead_letter,
    read_message,
    state_text,
)

__tracebackhide__ = is_emulator_error

_MESSAGES = "/v2/messages"


def _checked(**filters: str | None) -> dict[str, str | None]:
    """Filters of a list as they were given. Raises TypeError and ValueError that name the one to blame."""
    for name, value in filters.items():
        if value is not None:
            check_filter(name, value)
    return filters


@has_to_be_awaited
class AsyncMessages:
    """The messages of the world. Each method raises Refused with status and field.

    >>> async with AsyncEmulator() as emulator:
    ...     message_id = await emulator.publish("https://app.example.com/hook", delay="1h", label="orders")
    ...     cancelled = await emulator.messages.cancel_all(label="orders")
    ...     (cancelled, [message.state for message in await emulator.messages.all(label="orders")])
    (1, ['CANCELED'])
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

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
        _checked(url=url, label=label, queue=queue, schedule_id=schedule_id)
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
        return read_message(await self._link.messaging("GET", path_of(_MESSAGES, message_id)))

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
class AsyncDeadLetters:
    """The dead letter queue of the world's built-in account. Each method raises Refused with status and field.

    >>> async with AsyncEmulator() as emulator:
    ...     rule_id = await emulator.destinations.respond("https://app.example.com/*", status=500, times=1)
    ...     message_id = await emulator.publish("https://app.example.com/hook", retries=0)
    ...     [letter] = await emulator.dead_letters.all(status=500)
    ...     again = await emulator.dead_letters.retry(letter.dead_letter_id)
    ...     (len(await emulator.deliveries()), await emulator.dead_letters.all())
    (2, [])
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    async def all(self, **filters: Unpack[DeadLetterFilters]) -> list[DeadLetter]:
        """All dead letters that fit every filter, the oldest first. `workflows.dead_letters` has those of runs."""
        query = filter_query(filters, DeadLetterFilters.__annotations__)
        return await self._link.run(self._link.session.dead_letters(query))

    async def get(self, dead_letter_id: str) -> DeadLetter:
        """One dead letter."""
        return read_dead_letter(await self._link.messaging("GET", path_of(_DEAD_LETTERS, dead_letter_id)))

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


@has_to_be_awaited
class AsyncWorkflows:
    """What has become of workflows: their runs, with steps, state and result.

        >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
        ...     answer = await emulator.call("POST", "/v2/trigger/https://app.example.com/onboarding", json={"user": 7})
        ...     [run] = await emulator.workflows.runs()
        ...     (run.url, run.payload)
        ('https://app.example.com/onboarding', '{"user": 7}')

    Each method raises Refused with what the server says.
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

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
        filters = _checked(url=url, label=label, text=text)
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
        return await self._link.run(self._link.session.run_dead_letters(**_checked(url=url, label=label, text=text)))

    async def explain(self, run_id: str) -> dict[str, Any]:
        """Why a run is where it is: the answer of `GET /_emulator/runs/{id}/explain`."""
        answer: dict[str, Any] = await self._link.control("GET", f"runs/{segment(run_id)}/explain")
        return answer
