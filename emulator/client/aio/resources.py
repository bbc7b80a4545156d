"""What an `AsyncEmulator` keeps for its account: schedules, queues, URL groups, flow control keys, signing keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from emulator.client.aio.link import Part
from emulator.client.arguments import check_text, given, path_of
from emulator.client.errors import has_to_be_awaited, is_error_of_a_call
from emulator.client.publishing import (
    ScheduleOptions,
    Wait,
    content,
    destination_text,
    option_headers,
    whole_number,
    whole_seconds,
)
from emulator.client.resources import (
    Endpoint,
    FlowControlKey,
    Queue,
    Schedule,
    UrlGroup,
    read,
)

__tracebackhide__ = is_error_of_a_call

_SCHEDULES = "/v2/schedules"


@has_to_be_awaited
class AsyncSchedules(Part):
    """The schedules of the world's built-in account. Each method raises Refused with status and field.

    >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
    ...     daily = await emulator.schedules.create("https://app.example.com/report", "0 9 * * *", retries=1)
    ...     await emulator.schedules.pause(daily.schedule_id)
    ...     [paused.paused for paused in await emulator.schedules.all()]
    [True]
    """

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
        destination = destination_text(destination)
        check_text("cron", cron, expected='a cron expression such as "0 9 * * *"')
        if schedule_id is not None:
            check_text("schedule_id", schedule_id)
        prefix = self._link.session.dialect.header_prefix
        said = option_headers(options, ScheduleOptions.__annotations__, prefix, headers)
        said[f"{prefix}Cron"] = cron
        if schedule_id is not None:
            said[f"{prefix}Schedule-Id"] = schedule_id
        made = await self._link.messaging("POST", f"{_SCHEDULES}/{destination}", *content(body, json, said))
        return await self.get(made["scheduleId"])

    async def all(self) -> list[Schedule]:
        """All schedules."""
        return [read(Schedule, each) for each in await self._link.messaging("GET", _SCHEDULES)]

    async def get(self, schedule_id: str) -> Schedule:
        """One schedule."""
        return read(Schedule, await self._link.messaging("GET", path_of(_SCHEDULES, schedule_id)))

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


_QUEUES = "/v2/queues"


@has_to_be_awaited
class AsyncQueues(Part):
    """The queues of the world's built-in account. Each method raises Refused with status and field.

    >>> async with AsyncEmulator() as emulator:
    ...     queue = await emulator.queues.upsert("mail", parallelism=2, paused=True)
    ...     message_id = await emulator.publish("https://app.example.com", queue="mail")
    ...     (queue.parallelism, (await emulator.queues.get("mail")).lag)
    (2, 1)
    """

    async def upsert(self, name: str, *, parallelism: int | None = None, paused: bool | None = None) -> Queue:
        """Create a queue, of parallelism 1 unless said otherwise, or change what is given of one that exists."""
        wanted = given({"queueName": name, "parallelism": parallelism, "paused": paused})
        await self._link.messaging("POST", _QUEUES, body=wanted)
        return await self.get(name)

    async def all(self) -> list[Queue]:
        """All queues."""
        return [read(Queue, each) for each in await self._link.messaging("GET", _QUEUES)]

    async def get(self, name: str) -> Queue:
        """One queue."""
        return read(Queue, await self._link.messaging("GET", path_of(_QUEUES, name)))

    async def pause(self, name: str) -> None:
        """Pause it: it takes messages, and delivers none."""
        await self._link.messaging("POST", path_of(_QUEUES, name, "pause"))

    async def resume(self, name: str) -> None:
        """Resume it."""
        await self._link.messaging("POST", path_of(_QUEUES, name, "resume"))

    async def delete(self, name: str) -> None:
        """Delete it, and drop its messages. One that does not exist is no error."""
        await self._link.messaging("DELETE", path_of(_QUEUES, name))


_GROUPS = "/v2/topics"


@has_to_be_awaited
class AsyncUrlGroups(Part):
    """The URL groups of the world's built-in account. Each method raises Refused with status and field.

    >>> async with AsyncEmulator() as emulator:
    ...     group = await emulator.url_groups.upsert("news", ["https://a.example.com", "https://b.example.com"])
    ...     published = await emulator.publish("news", "hello")
    ...     (len(group.endpoints), [message.url for message in published.messages])
    (2, ['https://a.example.com', 'https://b.example.com'])
    """

    async def upsert(self, name: str, endpoints: Sequence[str | Endpoint]) -> UrlGroup:
        """Add endpoints, each a URL or an `Endpoint` with a name; the group is created if there is none."""
        if isinstance(endpoints, str):
            raise TypeError(f"endpoints: expected several, got {endpoints!r}; is [{endpoints!r}] meant?")
        for index, each in enumerate(endpoints):
            if not isinstance(each, str | Endpoint):
                raise TypeError(f"endpoints[{index}]: expected a URL or an emulator.Endpoint(url, name), got {each!r}")
        listed = [Endpoint(each) if isinstance(each, str) else each for each in endpoints]
        wanted = [given({"url": each.url, "name": each.name}) for each in listed]
        await self._link.messaging("POST", path_of(_GROUPS, name, "endpoints"), body={"endpoints": wanted})
        return await self.get(name)

    async def remove(self, name: str, *, url: str | None = None, endpoint: str | None = None) -> None:
        """Remove the endpoint with a URL or a name. The group ends with its last one."""
        if url is None and endpoint is None:
            raise TypeError("expected which endpoint: url= or endpoint=, its name")
        wanted = given({"url": url, "name": endpoint})
        await self._link.messaging("DELETE", path_of(_GROUPS, name, "endpoints"), body={"endpoints": [wanted]})

    async def set_headers(self, name: str, headers: Mapping[str, str]) -> UrlGroup:
        """Set the default headers of what is published to it, such as `Svc-Retries`."""
        if not isinstance(headers, Mapping):
            raise TypeError(f"headers: expected a mapping such as {{'Svc-Retries': '1'}}, got {headers!r}")
        changed = {"headers": dict(headers)}
        return read(UrlGroup, await self._link.messaging("PATCH", path_of(_GROUPS, name), body=changed))

    async def all(self) -> list[UrlGroup]:
        """All URL groups."""
        return [read(UrlGroup, each) for each in await self._link.messaging("GET", _GROUPS)]

    async def get(self, name: str) -> UrlGroup:
        """One URL group."""
        return read(UrlGroup, await self._link.messaging("GET", path_of(_GROUPS, name)))

    async def delete(self, name: str) -> None:
        """Delete it. One that does not exist is no error."""
        await self._link.messaging("DELETE", path_of(_GROUPS, name))


_KEYS = "/v2/flowControl"


@has_to_be_awaited
class AsyncFlowControlKeys(Part):
    """The flow control keys of the world's built-in account. Each method raises Refused with status and field.

    >>> async with AsyncEmulator() as emulator:
    ...     await emulator.flow_control.pin("api", parallelism=1)
    ...     await emulator.flow_control.pause("api")
    ...     message_id = await emulator.publish("https://app.example.com", flow_control={"key": "api"})
    ...     key = await emulator.flow_control.get("api")
    ...     (key.waiting, key.paused, key.parallelism, key.pinned_parallelism)
    (1, True, 1, True)
    """

    async def all(self, search: str | None = None) -> list[FlowControlKey]:
        """All keys, or those that have this text in them."""
        found = await self._link.messaging("GET", _KEYS, query=given({"search": search}))
        return [read(FlowControlKey, each) for each in found]

    async def get(self, key: str) -> FlowControlKey:
        """One key."""
        return read(FlowControlKey, await self._link.messaging("GET", path_of(_KEYS, key)))

    async def pause(self, key: str) -> None:
        """Pause it: its messages wait."""
        await self._link.messaging("POST", path_of(_KEYS, key, "pause"))

    async def resume(self, key: str) -> None:
        """Resume it."""
        await self._link.messaging("POST", path_of(_KEYS, key, "resume"))

    async def pin(
        self, key: str, *, parallelism: int | None = None, rate: int | None = None, period: Wait | None = None
    ) -> None:
        """Set limits that messages do not change; `period`, a second without it, belongs to `rate`."""
        if parallelism is None and rate is None and period is None:
            raise TypeError("expected at least one of parallelism, rate and period")
        counts = given({"parallelism": parallelism, "rate": rate})
        limits = {name: whole_number(name, value) for name, value in counts.items()}
        if period is not None:
            limits["period"] = whole_seconds("period", period)
        await self._link.messaging("POST", path_of(_KEYS, key, "pin"), query=limits)

    async def unpin(self, key: str, *, parallelism: bool = True, rate: bool = True) -> None:
        """Let messages change the limits again: both, or the one whose other is False."""
        wanted = {"parallelism": str(parallelism).lower(), "rate": str(rate).lower()}
        await self._link.messaging("POST", path_of(_KEYS, key, "unpin"), query=wanted)

    async def reset(self, key: str) -> None:
        """Start the period of its rate again, and forget its attempts under way."""
        await self._link.messaging("POST", path_of(_KEYS, key, "reset"))


@has_to_be_awaited
class AsyncSigningKeys(Part):
    """The keys with which receivers verify: deliveries are signed with the current one, and the next one follows it.

    >>> async with AsyncEmulator() as emulator:
    ...     following = emulator.signing_keys.next
    ...     await emulator.signing_keys.rotate()
    ...     emulator.signing_keys.current == following
    True
    """

    @property
    def current(self) -> str:
        """The key that signs; as of the last call that may have changed it, like `credentials`."""
        return self._link.session.credentials.current_signing_key

    @property
    def next(self) -> str:
        """The key that will sign after the next `rotate`."""
        return self._link.session.credentials.next_signing_key

    async def rotate(self) -> None:
        """Let the next key sign from now on, and make a new next one."""
        await self._link.messaging("POST", "/v2/keys/rotate")
        await self._link.run(self._link.session.refresh())
