"""The schedules of an `AsyncEmulator`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from emulator.client.aio.link import AsyncLink
from emulator.client.errors import is_error_of_a_call
from emulator.client.publishing import ScheduleOptions, content, option_headers
from emulator.client.resources import Schedule, read_schedule
from emulator.client.values import path_of

__tracebackhide__ = is_error_of_a_call

_SCHEDULES = "/v2/schedules"


class AsyncSchedules:
    """The schedules of the world's built-in account. Each method raises Refused with status and field.

    >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
    ...     daily = await emulator.schedules.create("https://app.example.com/report", "0 9 * * *", retries=1)
    ...     await emulator.schedules.pause(daily.schedule_id)
    ...     [paused.paused for paused in await emulator.schedules.all()]
    [True]
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    async def create(
        self,
        destination: str,
        cron: str,
        body: bytes | str | None = None,
        *,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        schedule_id: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Create a schedule, or with the id of one that exists, replace that.

        `cron` has five fields, perhaps with `CRON_TZ=Europe/Berlin` before them. The options are those
        of `publish` for each message that it makes; TypeError and ValueError name a wrong one.
        """
        prefix = self._link.session.dialect.header_prefix
        said = option_headers(options, ScheduleOptions.__annotations__, prefix, headers)
        said[f"{prefix}Cron"] = cron
        if schedule_id is not None:
            said[f"{prefix}Schedule-Id"] = schedule_id
        made = await self._link.messaging("POST", f"{_SCHEDULES}/{destination}", *content(body, json, said))
        return await self.get(made["scheduleId"])

    async def all(self) -> list[Schedule]:
        """All schedules."""
        return [read_schedule(each) for each in await self._link.messaging("GET", _SCHEDULES)]

    async def get(self, schedule_id: str) -> Schedule:
        """One schedule."""
        return read_schedule(await self._link.messaging("GET", path_of(_SCHEDULES, schedule_id)))

    async def explain(self, schedule_id: str) -> dict[str, Any]:
        """What came of its last firing, and what would come of the next, as the control API tells it."""
        found: dict[str, Any] = await self._link.control("GET", path_of("schedules", schedule_id, "explain"))
        return found

    async def pause(self, schedule_id: str) -> None:
        """Pause it: firings are skipped, and never caught up."""
        await self._link.messaging("POST", path_of(_SCHEDULES, schedule_id, "pause"))

    async def resume(self, schedule_id: str) -> None:
        """Resume it."""
        await self._link.messaging("POST", path_of(_SCHEDULES, schedule_id, "resume"))

    async def delete(self, schedule_id: str) -> None:
        """Delete it. Its messages stay."""
        await self._link.messaging("DELETE", path_of(_SCHEDULES, schedule_id))
