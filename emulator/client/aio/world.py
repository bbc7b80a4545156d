"""`AsyncWorld`: what is done in a world of an emulator, and what is seen there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import httpx

from emulator.client.aio.clock import AsyncClock
from emulator.client.aio.dead_letters import AsyncDeadLetters
from emulator.client.aio.destinations import AsyncDestinations
from emulator.client.aio.link import AsyncLink
from emulator.client.aio.messages import AsyncMessages
from emulator.client.aio.queues import AsyncQueues
from emulator.client.aio.schedules import AsyncSchedules
from emulator.client.aio.snapshots import AsyncSnapshots
from emulator.client.aio.url_groups import AsyncUrlGroups
from emulator.client.aio.workflows import AsyncWorkflows
from emulator.client.bridges import AsgiBridge
from emulator.client.control import segment
from emulator.client.errors import is_error_of_a_call
from emulator.client.publishing import Published, PublishOptions, content, option_headers, queue_of, read_published
from emulator.client.records import Delivery, Dialect
from emulator.client.session import Session
from emulator.client.values import Instant, instant
from emulator.client.verify.expectations import NOTHING, Expected, expectation
from emulator.client.verify.mismatches import difference
from emulator.client.verify.runs import StepExpected, run_difference, run_expectation
from emulator.client.verify.timeline import timeline_of
from emulator.client.verify.trouble import read_refused
from emulator.client.waiting import Awaited, wait_for
from emulator.queries.reports import Credentials
from emulator.wire.control.refused_calls import RefusedCall

__tracebackhide__ = is_error_of_a_call


class AsyncWorld:
    """A world of an emulator: publish to it, move its clock, see what was delivered, hold that against expectations.

    An `AsyncEmulator` is one with a beginning and an end.
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link
        self.clock = AsyncClock(link)
        self.destinations = AsyncDestinations(link)
        self.snapshots = AsyncSnapshots(link)
        self.messages = AsyncMessages(link)
        self.schedules = AsyncSchedules(link)
        self.queues = AsyncQueues(link)
        self.url_groups = AsyncUrlGroups(link)
        self.dead_letters = AsyncDeadLetters(link)
        self.workflows = AsyncWorkflows(link)

    # -- what a client needs ----------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The world as the emulator's own tools use it. Raises EmulatorError before the start and after the end."""
        return self._link.session

    @property
    def url(self) -> str:
        """The base URL of the messaging and management APIs."""
        return self.session.server.url

    @property
    def world(self) -> str:
        """The id of the world, `default` for the one a server begins with."""
        return self.session.world

    @property
    def token(self) -> str:
        """The token of the world's built-in account, by which a messaging call finds this world."""
        return self.credentials.token

    @property
    def credentials(self) -> Credentials:
        """Tokens, signing keys, the management login, and the ids of the sample indexes.

        They are as they were at the start, or after the last `call`, `change_account`, `reset` or
        restored snapshot of this object; what another client changes is not seen.
        """
        return self.session.credentials

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that the service's clients read: URL, token, signing keys.

        >>> async with AsyncEmulator(dialect="upstash") as emulator:
        ...     sorted(emulator.env)
        ['QSTASH_CURRENT_SIGNING_KEY', 'QSTASH_NEXT_SIGNING_KEY', 'QSTASH_TOKEN', 'QSTASH_URL']
        """
        return self.session.env

    @property
    def dialect(self) -> Dialect:
        """The names on the wire: the prefix of headers, the issuer of signatures."""
        return self.session.dialect

    @property
    def asgi(self) -> AsgiBridge:
        """The application itself, for `httpx.ASGITransport` and test clients, on any event loop.

        Raises EmulatorError for a server in another process.
        """
        return self.session.server.asgi()

    # -- publishing -------------------------------------------------------------------------

    async def publish(
        self,
        destination: str,
        body: bytes | str | None = None,
        *,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        **options: Unpack[PublishOptions],
    ) -> Published:
        """Publish to a URL or a URL group as a client of the service does; the message's id, and more.

            >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
            ...     published = await emulator.publish("https://app.example.com", delay="1h", retries=2, label="a")
            ...     report = await emulator.clock.advance("1h")
            ...     [delivery] = await emulator.deliveries(message_id=published)
            ...     (delivery.message_id == published.message_id, published.deduplicated)
            (True, False)

        The options are those of the service (`PublishOptions`): durations are a timedelta, whole
        seconds or `1d2h30m`. What has no keyword goes into `headers`, such as `Svc-Forward-...`.
        With `queue` the message is enqueued there. In a frozen world a message without delay has
        been delivered when this returns, unless its destination takes longer than a second.

        Raises TypeError and ValueError that name a wrong keyword, and Refused with what the service says.
        """
        session = self.session
        queue = queue_of(options)
        said = option_headers(
            {name: value for name, value in options.items() if name != "queue"},
            PublishOptions.__annotations__,
            session.dialect.header_prefix,
            headers,
        )
        path = f"/v2/publish/{destination}" if queue is None else f"/v2/enqueue/{segment(queue)}/{destination}"
        return read_published(await self._link.messaging("POST", path, *content(body, json, said)), destination)

    async def publish_to_group(
        self,
        group: str,
        body: bytes | str | None = None,
        *,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        **options: Unpack[PublishOptions],
    ) -> list[str]:
        """Publish to a URL group; a message's id for each of its endpoints. See `publish`."""
        return list((await self.publish(group, body, json=json, headers=headers, **options)).message_ids)

    async def call(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        *,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Any call of the messaging API with the world's token, such as `("POST", "/v2/keys/rotate")`.

        It is for what a test sets up; the code under test has a client of its own. Raises Refused
        with what the service says.
        """
        response = await self._link.run(self.session.messaging_response(method, path, *content(body, json, headers)))
        if method != "GET":
            await self._link.run(self.session.refresh())
        return response

    # -- what was delivered -----------------------------------------------------------------

    async def deliveries(
        self,
        url: str | None = None,
        *,
        message_id: str | None = None,
        outcome: Literal["succeeded", "failed"] | None = None,
    ) -> list[Delivery]:
        """Every attempt so far that fits, the newest last; `url` may be a glob such as `https://app.test/*`."""
        return await self._link.run(self.session.deliveries(url=url, message_id=message_id, outcome=outcome))

    async def wait_for(
        self,
        url: str | None = None,
        *,
        message_id: str | None = None,
        status: int | None = None,
        outcome: Literal["succeeded", "failed"] | None = None,
        count: int = 1,
        timeout: float = 10.0,
    ) -> list[Delivery]:
        """Wait until so many deliveries that fit have come, those so far included: for a clock that runs.

            >>> async with AsyncEmulator(clock="realtime") as emulator:
            ...     message_id = await emulator.publish("https://app.example.com/hook")
            ...     [delivery] = await emulator.wait_for("https://app.example.com/*", status=200)
            ...     delivery.attempt
            1

        `timeout` is in seconds of real time. Raises AssertionError with the timeline when it is over,
        and EmulatorError if the world ends meanwhile.
        """
        __tracebackhide__ = True  # A failed test shows its own line.
        if count < 1:
            raise ValueError(f"count: expected at least 1, got {count}")
        awaited = Awaited(url=url, message_id=message_id, status=status, outcome=outcome, count=count)
        found = await self._link.run(wait_for(self.session, awaited, timeout))
        if isinstance(found, str):
            raise AssertionError(found)
        return found

    async def verify(self, url: str | None = None, /, **expected: Unpack[Expected]) -> None:
        """Hold the messages of the world against an expectation: at least one of them has to meet all of it.

            >>> async with AsyncEmulator() as emulator:
            ...     rule_id = await emulator.destinations.sequence("https://app.test/*", [503, 200])
            ...     message_id = await emulator.publish(
            ...         "https://app.test/hook", json={"user": 7}, retry_delay="10s"
            ...     )
            ...     report = await emulator.clock.advance("1m")
            ...     await emulator.verify(
            ...         url="https://app.test/*",
            ...         at=["0s", "10s"],
            ...         status=[503, 200],
            ...         body_json={"user": 7},
            ...         headers={"Content-Type": "application/json", "X-Tenant": None},
            ...         signed_with="current",
            ...     )

        `url`, by its keyword or without, is exact or a glob; `message_id`, `method` and `body` are
        exact; `times` is how many messages have to be so, 0 for none. `attempts` is how many were
        made, and `at` when each began: durations since the message was made, or instants. `status` is that of the last
        attempt, or a list for each, None for no response; `outcome` and `headers` are the last
        attempt's. `body_json` may hold `unittest.mock.ANY` and the like. A header is a text, a
        compiled pattern to be found in it, or None if it must not be there. `signed_with` is the
        account's `"current"` or `"next"` signing key.

        Raises AssertionError that shows the nearest message, what differs and the timeline around
        it, and TypeError and ValueError that name a keyword that cannot be meant.
        """
        __tracebackhide__ = True  # A failed test shows its own line.
        if url is not None:
            if "url" in expected:
                raise TypeError(f"url: expected one, got {url!r} and {expected['url']!r}")
            expected["url"] = url
        text = await self._link.run(difference(self.session, expectation(**expected)))
        if text is not None:
            raise AssertionError(text)

    async def verify_run(
        self,
        run_id: str,
        *,
        state: str | None = None,
        result: Any = NOTHING,
        steps: Sequence[StepExpected] | None = None,
    ) -> None:
        """Hold a workflow run against an expectation; of several runs with one id, the latest.

            await emulator.verify_run(
                run_id,
                state="RUN_SUCCESS",
                result={"offer": "half the price"},
                steps=["welcome", {"name": "three days", "ended": "3d"}, {"name": "check", "out": False}],
            )

        `result` is what the run returned. `steps` are all steps that there are so far, in order, those side by
        side by their ids: each by its name, or by a mapping of `name`, `type`, `state`, `out`, and of when it
        began (`at`) and was done (`ended`), as a duration since the run began or an instant. `unittest.mock.ANY`
        and the like may stand for a value.

        Raises AssertionError that shows what differs and the course of the run, Refused for a run that does not
        exist, and TypeError and ValueError that name a keyword that cannot be meant.
        """
        __tracebackhide__ = True  # A failed test shows its own line.
        wanted = run_expectation(state=state, result=result, steps=steps)
        text = await self._link.run(run_difference(self.session, run_id, wanted))
        if text is not None:
            raise AssertionError(text)

    async def clear_deliveries(self) -> None:
        """Empty the delivery journal; nothing else is forgotten."""
        await self._link.control("DELETE", "deliveries")

    async def refused(self) -> list[RefusedCall]:
        """The calls of the messaging and the management API that were refused, the newest last; at most 1000.

        >>> async with AsyncEmulator() as emulator:
        ...     response = httpx.post(f"{emulator.url}/v2/publish/https://app.test", headers={
        ...         "Authorization": emulator.token})
        ...     [call] = await emulator.refused()
        ...     (call.status, call.error, call.hint)
        (401, 'unable to authenticate: invalid token', 'the scheme is missing: expected Authorization: Bearer <token>')
        """
        return read_refused(await self._link.control("GET", "refused", query={"limit": "1000"}))

    async def timeline(self) -> str:
        """What was delivered so far, and what is still to come, as a table to read."""
        return await self._link.run(timeline_of(self.session))

    # -- looking ahead and back -------------------------------------------------------------

    async def upcoming(self, until: Instant | None = None) -> dict[str, Any]:
        """All due work to come, in order, without doing it: the answer of `GET /_emulator/upcoming`."""
        query = {} if until is None else {"until": str(instant(until))}
        answer: dict[str, Any] = await self._link.control("GET", "upcoming", query=query)
        return answer

    async def explain(self, message_id: str) -> dict[str, Any]:
        """Why a message is where it is: the answer of `GET /_emulator/messages/{id}/explain`. Raises Refused."""
        answer: dict[str, Any] = await self._link.run(self.session.explain(message_id))
        return answer

    async def trace(self) -> str:
        """The canonical trace of the world, one JSON line per event and attempt, closed by its SHA-256."""
        return (await self._link.run(self.session.exchange("GET", "trace"))).body.decode()

    # -- the world as a whole ---------------------------------------------------------------

    async def accounts(self) -> list[dict[str, Any]]:
        """The queue accounts of the world as the management API shows them; the first is the built-in one."""
        accounts: list[dict[str, Any]] = (await self._link.control("GET", "accounts"))["accounts"]
        return accounts

    async def change_account(self, account_id: str | None = None, **changes: Any) -> dict[str, Any]:
        """Change fields of an account's record, such as `max_requests_per_day_hard=2`; the record afterwards.

        Without an id it is the built-in account. Raises Refused naming an unknown or ill-typed field.
        """
        path = f"accounts/{segment(account_id or self.credentials.account_id)}"
        account: dict[str, Any] = await self._link.control("PUT", path, changes, refresh=True)
        return account

    async def reset(self, fixtures: Mapping[str, Any] | None = None) -> None:
        """Make the world as it was created, with other fixtures if any are given. Raises Refused.

        The clock stands at the epoch again; in a world that was given none, at the present, and ids are other ones.
        """
        await self._link.control("POST", "reset", {} if fixtures is None else {"fixtures": fixtures}, refresh=True)
