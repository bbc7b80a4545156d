"""`AsyncWorld`: what is done in a world of an emulator, and what is seen there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import httpx
import msgspec

from emulator.client.aio.clock import AsyncClock, AsyncSnapshots
from emulator.client.aio.destinations import AsyncDestinations
from emulator.client.aio.link import AsyncLink
from emulator.client.aio.messages import AsyncDeadLetters, AsyncMessages, AsyncWorkflows
from emulator.client.aio.resources import (
    AsyncFlowControlKeys,
    AsyncQueues,
    AsyncSchedules,
    AsyncSigningKeys,
    AsyncUrlGroups,
)
from emulator.client.arguments import (
    EventFilters,
    Instant,
    check_filter,
    check_filters,
    check_number,
    check_text,
    filter_query,
    instant,
    instant_ms,
)
from emulator.client.control import segment
from emulator.client.errors import EmulatorError, has_to_be_awaited, is_error_of_a_call, warn_of_dropped
from emulator.client.event_loops import AsgiBridge
from emulator.client.publishing import (
    BatchMessage,
    Published,
    PublishOptions,
    batch_item,
    content,
    destination_text,
    option_headers,
    queue_of,
    read_batch,
    read_published,
)
from emulator.client.records import Delivery, Dialect, RunState, read_delivery
from emulator.client.resources import Event
from emulator.client.session import Session
from emulator.client.verify.expectations import NOTHING, Expected, expectation, ordered
from emulator.client.verify.matching import signature_headers
from emulator.client.verify.mismatches import difference, order_difference
from emulator.client.verify.runs import StepExpected, run_difference, run_expectation
from emulator.client.verify.timeline import timeline_of
from emulator.client.waiting import AwaitedDeliveries, wait_for
from emulator.queries.reports import Credentials
from emulator.worlds.calls import RefusedCall

__tracebackhide__ = is_error_of_a_call


@has_to_be_awaited
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
        self.flow_control = AsyncFlowControlKeys(link)
        self.signing_keys = AsyncSigningKeys(link)
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

        The options are those of the service (`PublishOptions`): durations are `1d2h30m`
        or a timedelta of whole seconds. What has no keyword goes into `headers`, such as `Svc-Forward-...`.
        With `queue` the message is enqueued there. In a frozen world a message without delay has
        been delivered when this returns, unless its destination takes longer than a second.

        Raises TypeError and ValueError that name a wrong keyword, and Refused with what the service says.
        """
        session = self.session
        destination = destination_text(destination)
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

    async def publish_batch(self, messages: Sequence[BatchMessage]) -> list[Published]:
        """Publish several messages by one call, as a client of the service does; what each of them made.

            >>> async with AsyncEmulator() as emulator:
            ...     published = await emulator.publish_batch([
            ...         {"destination": "https://app.example.com/a", "json": {"user": 7}},
            ...         {"destination": "https://app.example.com/b", "delay": "1h"},
            ...     ])
            ...     [len(published), len(await emulator.deliveries())]
            [2, 1]

        Each has the arguments of `publish`, by name. Raises TypeError and ValueError that name the message and the
        argument before anything is published, and Refused if the service refuses some of them; it has published
        the others then.
        """
        if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
            raise TypeError(f"messages: expected a list of messages, got {messages!r}")
        prefix = self.session.dialect.header_prefix
        items = [batch_item(f"messages[{index}]", message, prefix) for index, message in enumerate(messages)]
        return read_batch(await self._link.messaging("POST", "/v2/batch", body=items), items)

    async def sign(self, url: str, body: bytes | str | None = None, *, json: Any = None) -> dict[str, str]:
        """The headers by which a receiver knows a request as the service's: for requests that a test makes by itself.

            >>> async with AsyncEmulator() as emulator:
            ...     headers = await emulator.sign("https://app.example.com/hook", "hello")
            ...     sorted(headers)
            ['Svc-Signature']

        The signature holds for this URL and these bytes, is made with the current key, and is valid from the
        earlier of the virtual and the real time until five minutes after the later one. `json` is sent as
        `json.dumps` writes it.
        """
        sent, _ = content(body, json, None)
        return await self._link.run(signature_headers(self.session, url, sent or b""))

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
        check_text("path", path)
        if not path.startswith("/"):
            raise ValueError(f"path: expected one that begins with a slash, such as /v2/keys, got {path!r}")
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
        label: str | None = None,
        since: Instant | None = None,
        outcome: Literal["succeeded", "failed"] | None = None,
    ) -> list[Delivery]:
        """Every attempt so far that fits, the newest last; `url` may be a glob such as `https://app.test/*`.

        `since` leaves out those that began before an instant. If history was dropped (`keep_history`) that
        the list would have, it comes with a HistoryWarning.
        """
        filters = check_filters(url=url, message_id=message_id, label=label, outcome=outcome)
        since_ms = None if since is None else instant_ms("since", since)
        filters["since"] = None if since_ms is None else str(since_ms)
        journal = await self._link.run(self.session.journal(**filters))
        if journal.dropped_ms is not None and (since_ms is None or since_ms <= journal.dropped_ms):
            warn_of_dropped(journal.dropped_ms, "deliveries")
        return journal.deliveries

    async def redeliver(self, delivery: Delivery | int | str) -> Delivery:
        """Send an attempt again now, signed anew: a delivery of its own, which changes nothing of the message.

            >>> async with AsyncEmulator() as emulator:
            ...     message_id = await emulator.publish("https://app.example.com/hook")
            ...     again = await emulator.redeliver(message_id)
            ...     (again.attempt, again.redelivery, len(await emulator.deliveries()))
            (1, 1, 2)

        Of a message's id it is the last attempt. No retry, callback or dead letter follows. Raises Refused for an
        attempt that the journal does not hold, and EmulatorError if the answer is not there yet because other
        attempts are in flight.
        """
        seq = delivery.seq if isinstance(delivery, Delivery) else delivery
        if isinstance(seq, str):
            check_filter("delivery", seq)
            query = {"message_id": seq, "order": "latestFirst", "limit": "1", "brief": "true"}
            latest = (await self._link.control("GET", "deliveries", query=query))["deliveries"]
            if not latest:
                raise EmulatorError(f"there is no delivery of {seq} that could be sent again")
            seq = latest[0]["seq"]
        check_number("delivery", seq, expected="a delivery, its number or the id of a message")
        answer = await self._link.control("POST", f"deliveries/{seq}/redeliver", query={"redact": "false"})
        if answer["delivery"] is None:
            raise EmulatorError(f"delivery {seq} was sent again, and its answer is not there yet: see deliveries()")
        return read_delivery(answer["delivery"])

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
        check_number("count", count)
        check_number("timeout", timeout, float, expected="seconds of real time, such as 2.5")
        if status is not None:
            check_number("status", status, expected="a status such as 200")
        if count < 1:
            raise ValueError(f"count: expected at least 1, got {count}")
        awaited = AwaitedDeliveries(url=url, message_id=message_id, status=status, outcome=outcome, count=count)
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
        exact; `label`, `queue` and `schedule_id` are the message's. `times` is how many messages have to be
        so, 0 for none: those that were tried, however often. With `pending`, which says whether a message has
        not ended, and with `attempts=0`, never tried, those that still wait count too. `attempts` is how many were
        made, and `at` when each began: durations since the message was made, or instants. `status` is that of the last
        attempt, or a list for each, None for no response; `outcome` and `headers` are the last
        attempt's. `body_json` may hold `unittest.mock.ANY` and the like, or be `partial({...})`. A header is a text, a
        compiled pattern to be found in it, or None if it must not be there. `signed_with` is the
        account's `"current"` or `"next"` signing key.

        Raises AssertionError that shows the nearest message, what differs and the timeline around
        it, TypeError and ValueError that name a keyword that cannot be meant, and HistoryNotKept where the
        answer depends on history that was dropped (`keep_history`).
        """
        __tracebackhide__ = True  # A failed test shows its own line.
        if url is not None:
            if "url" in expected:
                raise TypeError(f"url: expected one, got {url!r} and {expected['url']!r}")
            expected["url"] = url
        text = await self._link.run(difference(self.session, expectation(**expected)))
        if text is not None:
            raise AssertionError(text)

    async def verify_order(self, deliveries: Sequence[str | Mapping[str, Any]]) -> None:
        """Hold the order of deliveries against an expectation: there are such ones, each after the one before.

            >>> async with AsyncEmulator() as emulator:
            ...     rule_id = await emulator.destinations.sequence("https://app.test/pay", [503, 200])
            ...     message_id = await emulator.publish("https://app.test/pay", retry_delay="10s")
            ...     other_id = await emulator.publish("https://app.test/mail")
            ...     report = await emulator.clock.advance("1m")
            ...     await emulator.verify_order([
            ...         {"url": "https://app.test/pay", "status": 503},
            ...         "https://app.test/mail",
            ...         {"url": "https://app.test/pay", "status": 200},
            ...     ])

        Each is a URL, a message's id, or a mapping of keywords of `verify` that one attempt can meet. Others may
        lie between them. Attempts are in the order in which they began.

        Raises AssertionError with the timeline, and TypeError and ValueError that name what cannot be meant.
        """
        __tracebackhide__ = True  # A failed test shows its own line.
        text = await self._link.run(order_difference(self.session, ordered(deliveries)))
        if text is not None:
            raise AssertionError(text)

    async def verify_run(
        self,
        run_id: str,
        *,
        state: RunState | None = None,
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

    async def events(self, **filters: Unpack[EventFilters]) -> list[Event]:
        """The service's event log, the newest entry last: what became of every message, attempt by attempt.

        >>> async with AsyncEmulator() as emulator:
        ...     message_id = await emulator.publish("https://app.example.com/hook")
        ...     [event.state for event in await emulator.events(message_id=message_id)]
        ['CREATED', 'ACTIVE', 'DELIVERED']
        """
        return await self._event_log("events", filters)

    async def logs(self, **filters: Unpack[EventFilters]) -> list[Event]:
        """The same log by its newer name, as the clients of today ask for it."""
        return await self._event_log("logs", filters)

    async def _event_log(self, name: Literal["events", "logs"], filters: Mapping[str, Any]) -> list[Event]:
        return await self._link.run(self.session.event_log(name, filter_query(filters, EventFilters.__annotations__)))

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
        answer = await self._link.control("GET", "refused", query={"limit": "1000"})
        return msgspec.convert(answer["refused"], list[RefusedCall])

    async def timeline(self) -> str:
        """What was delivered so far, and what is still to come, as a table to read."""
        return await self._link.run(timeline_of(self.session))

    # -- looking ahead and back -------------------------------------------------------------

    async def upcoming(self, until: Instant | None = None) -> dict[str, Any]:
        """All due work to come, in order, without doing it: the answer of `GET /_emulator/upcoming`.

        If that is more than 10,000 entries, it has the first of them, and `truncated` is true.
        """
        query = {"limit": "10000"} | ({} if until is None else {"until": str(instant("until", until))})
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
        path = f"accounts/{segment(self.credentials.account_id if account_id is None else account_id)}"
        account: dict[str, Any] = await self._link.control("PUT", path, changes, refresh=True)
        return account

    async def reset(self, fixtures: Mapping[str, Any] | None = None) -> None:
        """Make the world as it was created, with other fixtures if any are given. Raises Refused.

        The clock stands at the epoch again; in a world that was given none, at the present, and ids are other ones.
        """
        await self._link.control("POST", "reset", {} if fixtures is None else {"fixtures": fixtures}, refresh=True)
