"""`AsyncEmulator`: an emulator for tests on asyncio or trio.

`blocking.py` is made from this file, so that the two faces cannot differ: `python -m tests.client.faces`.
"""

from __future__ import annotations

import json as jsons
import ssl
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, Unpack

import httpx

from emulator.client.bridges import Door, home, wait
from emulator.client.errors import EmulatorError
from emulator.client.expectations import Expected, expectation
from emulator.client.mounts import Application, Interface
from emulator.client.records import Delivery, Dialect, moment
from emulator.client.server import Options
from emulator.client.session import Birth, Connected, NewWorld, Running, Session, Shared, Started
from emulator.client.values import Duration, Instant, duration, instant
from emulator.client.verifying import difference
from emulator.client.waiting import Awaited, wait_for
from emulator.core.reports import AdvanceReport, ClockStatus, Credentials, Snapshot

T = TypeVar("T")

Fault = Literal["refused", "timeout", "reset", "dns", "tls"]


class AsyncEmulator:
    """An emulator and one of its worlds: publish to it, move its clock, see what was delivered.

        >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
        ...     message_id = await emulator.publish("https://app.example.com/hook", json={"user": 7})
        ...     [delivery] = await emulator.deliveries()
        ...     (delivery.url, delivery.json(), delivery.response.status)
        ('https://app.example.com/hook', {'user': 7}, 200)

    It is a server of its own in this process, on a port that the system chooses, kept in memory,
    its clock frozen; the options are those of `svc-emulator serve`. Nothing leaves the machine
    unless `external` or `allow_host` says so. It ends with its `with` block, or by `close`.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        """Nothing is started yet. Raises TypeError for an option that does not exist."""
        self._birth: Birth = Started(options)
        self._session: Session | None = None
        self.clock = AsyncClock(self)
        self.destinations = AsyncDestinations(self)
        self.snapshots = AsyncSnapshots(self)

    # -- beginning and end ------------------------------------------------------------------

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        control_token: str | None = None,
        world: str = "default",
        verify: ssl.SSLContext | bool = True,
    ) -> AsyncEmulator:
        """A world of a server that runs already, such as a CI service container. Enter it to use it.

        `verify` is what the certificate of an https server is held against, as in httpx.
        """
        return cls._born(Connected(url, control_token, world, verify))

    @classmethod
    def sharing(cls, other: Running) -> AsyncEmulator:
        """The same world as a running emulator of either kind has. It needs no `with`, and ends with that one."""
        shared = cls._born(Shared(other._here()))
        shared._session = other._here()
        return shared

    def new_world(
        self,
        *,
        id: str | None = None,
        seed: int | None = None,
        epoch: Instant | None = None,
        rate: float | None = None,
        fixtures: Mapping[str, Any] | None = None,
        plan: str | None = None,
    ) -> AsyncEmulator:
        """Another world of the same server, made when it is entered and deleted when it is left.

        It shares nothing with this one. Its clock is frozen unless `rate` says otherwise; what is not
        given is the server's to choose.
        """
        wanted = {
            "id": id,
            "seed": seed,
            "epoch": None if epoch is None else instant(epoch),
            "rate": rate,
            "fixtures": fixtures,
            "plan": plan,
        }
        return self._born(NewWorld(self._here(), _given(wanted)))

    @classmethod
    def _born(cls, birth: Birth) -> AsyncEmulator:
        born = cls()
        born._birth = birth
        return born

    async def start(self) -> AsyncEmulator:
        """Start the server, connect to it or make the world, as entering the `with` block does.

        Raises EmulatorError for options that cannot be used, Unreachable if nothing answers.
        """
        if self._session is not None:
            raise EmulatorError("this emulator is running already")
        self._session = await wait(self._birth.begin())
        return self

    async def close(self) -> None:
        """End the server, the connection or the world, whichever began here. Again, it does nothing."""
        session, self._session = self._session, None
        if session is not None:
            await wait(self._birth.end(session))
            session.server.background.join()

    async def __aenter__(self) -> AsyncEmulator:
        return self if self._session is not None else await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- what a client needs ----------------------------------------------------------------

    @property
    def url(self) -> str:
        """The base URL of the messaging and management APIs."""
        return self._here().server.url

    @property
    def world(self) -> str:
        """The id of the world, `default` for the one a server begins with."""
        return self._here().world

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
        return self._here().credentials

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that the service's clients read: URL, token, signing keys.

        >>> async with AsyncEmulator(dialect="upstash") as emulator:
        ...     sorted(emulator.env)
        ['QSTASH_CURRENT_SIGNING_KEY', 'QSTASH_NEXT_SIGNING_KEY', 'QSTASH_TOKEN', 'QSTASH_URL']
        """
        return self._here().env

    @property
    def dialect(self) -> Dialect:
        """The names on the wire: the prefix of headers, the issuer of signatures."""
        return self._here().dialect

    @property
    def asgi(self) -> Door:
        """The application itself, for `httpx.ASGITransport` and test clients, on any event loop.

        Raises EmulatorError for a server in another process.
        """
        return self._here().server.door()

    # -- destinations in this process -------------------------------------------------------

    async def mount(self, origin: str, application: Application, *, interface: Interface | str | None = None) -> None:
        """Let an application answer every delivery to an origin, without a socket.

            >>> async with AsyncEmulator() as emulator:
            ...     await emulator.mount("https://app.test", lambda request: 503)
            ...     message_id = await emulator.publish("https://app.test/hook", headers={"Svc-Retries": "0"})
            ...     [delivery] = await emulator.deliveries()
            ...     (delivery.response.status, delivery.via.value)
            (503, 'mount')

        It is an ASGI application, a WSGI application, or a function of one `Request` that returns
        nothing (200), a status, a body, something to send as JSON, or a `Response`; `interface`
        says which where the number of arguments does not. The request carries every header and
        the signature. An exception is logged and answered with 500. It stays until `unmount` or
        the end of the world, also over a `reset`.

        An ASGI application or an asynchronous function runs on the caller's event loop, and its
        start-up and shutdown are the caller's affair.

        Raises EmulatorError for a server in another process, ValueError and TypeError for what is
        no origin or no application.
        """
        session, kind = self._here(), None if interface is None else Interface(interface)
        await self._do(session.server.mount(session.world, origin, application, kind, home()))

    async def unmount(self, origin: str) -> None:
        """Undo `mount`. An origin without a mount is no error."""
        session = self._here()
        await self._do(session.server.unmount(session.world, origin))

    # -- publishing -------------------------------------------------------------------------

    async def publish(
        self,
        destination: str,
        body: bytes | str | None = None,
        *,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Publish to a URL as a client of the service does; the message's id.

        `headers` are the service's own, such as `Svc-Delay` (under the dialect's prefix), and
        `Svc-Forward-...`. In a frozen world a message without delay has been delivered when this
        returns, unless its destination takes longer than a second.

        Raises Refused with what the service says.
        """
        [message_id] = await self._publish(destination, body, json, headers)
        return message_id

    async def publish_to_group(
        self,
        group: str,
        body: bytes | str | None = None,
        *,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Publish to a URL group; a message's id for each of its endpoints. See `publish`."""
        return await self._publish(group, body, json, headers)

    async def _publish(
        self, destination: str, body: bytes | str | None, json: Any, headers: Mapping[str, str] | None
    ) -> list[str]:
        return await self._do(self._here().publish(destination, *_content(body, json, headers)))

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
        return await self._do(self._here().call(method, path, *_content(body, json, headers)))

    # -- what was delivered -----------------------------------------------------------------

    async def deliveries(
        self,
        url: str | None = None,
        *,
        message_id: str | None = None,
        outcome: Literal["succeeded", "failed"] | None = None,
    ) -> list[Delivery]:
        """Every attempt so far that fits, the newest last; `url` may be a glob such as `https://app.test/*`."""
        return await self._do(self._here().deliveries(url=url, message_id=message_id, outcome=outcome))

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
        found = await self._do(wait_for(self._here(), awaited, timeout))
        if isinstance(found, str):
            raise AssertionError(found)
        return found

    async def verify(self, **expected: Unpack[Expected]) -> None:
        """Hold the messages of the world against an expectation: at least one of them has to meet all of it.

            >>> async with AsyncEmulator() as emulator:
            ...     rule_id = await emulator.destinations.sequence("https://app.test/*", [503, 200])
            ...     message_id = await emulator.publish(
            ...         "https://app.test/hook", json={"user": 7}, headers={"Svc-Retry-Delay": "10000"}
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

        `url` is exact or a glob; `message_id`, `method` and `body` are exact; `times` is how many
        messages have to be so, 0 for none. `attempts` is how many were made, and `at` when each
        began: durations since the message was made, or instants. `status` is that of the last
        attempt, or a list for each, None for no response; `outcome` and `headers` are the last
        attempt's. `body_json` may hold `unittest.mock.ANY` and the like. A header is a text, a
        compiled pattern to be found in it, or None if it must not be there. `signed_with` is the
        account's `"current"` or `"next"` signing key.

        Raises AssertionError that shows the nearest message, what differs and the timeline around
        it, and TypeError and ValueError that name a keyword that cannot be meant.
        """
        __tracebackhide__ = True  # A failed test shows its own line.
        text = await self._do(difference(self._here(), expectation(**expected)))
        if text is not None:
            raise AssertionError(text)

    async def clear_deliveries(self) -> None:
        """Empty the delivery journal; nothing else is forgotten."""
        await self._do(self._here().clear_deliveries())

    async def timeline(self) -> str:
        """What was delivered so far, and what is still to come, as a table to read."""
        return await self._do(self._here().timeline())

    # -- looking ahead and back -------------------------------------------------------------

    async def upcoming(self, until: Instant | None = None) -> dict[str, Any]:
        """All due work to come, in order, without doing it: the answer of `GET /_emulator/upcoming`."""
        answer: dict[str, Any] = await self._do(self._here().upcoming(until))
        return answer

    async def explain(self, message_id: str) -> dict[str, Any]:
        """Why a message is where it is: the answer of `GET /_emulator/messages/{id}/explain`. Raises Refused."""
        answer: dict[str, Any] = await self._do(self._here().explain(message_id))
        return answer

    async def trace(self) -> str:
        """The canonical trace of the world, one JSON line per event and attempt, closed by its SHA-256."""
        return await self._do(self._here().trace())

    # -- the world as a whole ---------------------------------------------------------------

    async def accounts(self) -> list[dict[str, Any]]:
        """The queue accounts of the world as the management API shows them; the first is the built-in one."""
        return await self._do(self._here().accounts())

    async def change_account(self, account_id: str | None = None, **changes: Any) -> dict[str, Any]:
        """Change fields of an account's record, such as `max_requests_per_day_hard=2`; the record afterwards.

        Without an id it is the built-in account. Raises Refused naming an unknown or ill-typed field.
        """
        return await self._do(self._here().change_account(account_id, changes))

    async def reset(self, fixtures: Mapping[str, Any] | None = None) -> None:
        """Make the world as it was created, with other fixtures if any are given. Raises Refused."""
        await self._do(self._here().reset(fixtures))

    # -- how it is done ---------------------------------------------------------------------

    def _here(self) -> Session:
        if self._session is None:
            raise EmulatorError("this emulator is not running: use it in a with block, or call start()")
        return self._session

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out work where the emulator lives."""
        return await wait(self._here().server.background.submit(work))


class AsyncClock:
    """The world's virtual clock."""

    def __init__(self, emulator: AsyncEmulator) -> None:
        self._emulator = emulator

    async def now(self) -> datetime:
        """The virtual instant it is, in UTC."""
        return moment((await self.status()).now_ms)

    async def status(self) -> ClockStatus:
        """Where the clock stands, how fast it goes, what is due next (epoch ms) and how much is pending."""
        return await self._emulator._do(self._emulator._here().clock())

    async def advance(self, by: Duration, *, max_deliveries: int | None = None) -> AdvanceReport:
        """Move the clock by `1d2h30m`, milliseconds or a timedelta, doing all due work on the way in order.

            >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
            ...     message_id = await emulator.publish("https://app.example.com", headers={"Svc-Delay": "1h"})
            ...     (await emulator.clock.advance("1d")).deliveries
            1

        Returns when nothing is in flight; `max_deliveries` stops it early. Raises Refused during
        another advance.
        """
        return await self._emulator._do(self._emulator._here().advance(by, None, max_deliveries))

    async def advance_to(self, to: Instant, *, max_deliveries: int | None = None) -> AdvanceReport:
        """Move the clock to an instant: ISO 8601, epoch ms, or a datetime. See `advance`."""
        return await self._emulator._do(self._emulator._here().advance(None, to, max_deliveries))

    async def next(self) -> AdvanceReport:
        """Jump to the next instant at which something is due, and do it."""
        return await self._emulator._do(self._emulator._here().next())

    async def drain(self, horizon: Duration | None = None) -> AdvanceReport:
        """Run until nothing is due but future schedule firings, at most for the horizon of 30 days."""
        return await self._emulator._do(self._emulator._here().drain(horizon))

    async def set(self, now: Instant) -> ClockStatus:
        """Set the clock: forward does the work on the way, back is refused once anything has happened."""
        return await self._emulator._do(self._emulator._here().set_clock(now=now))

    async def rate(self, rate: float) -> ClockStatus:
        """Let time pass by itself: 1 is real time, 60 a virtual minute a second, 0 freezes it."""
        return await self._emulator._do(self._emulator._here().set_clock(rate=rate))


class AsyncDestinations:
    """The world's destination rules: what is done for a destination instead of, or before, the network.

    `url` is exact or a glob in which `*` matches any characters; `times` is how many attempts a rule
    answers before the next one has its turn; `latency` passes on the virtual clock. Each method
    answers the rule's id, and raises Refused naming what cannot be used.
    """

    def __init__(self, emulator: AsyncEmulator) -> None:
        self._emulator = emulator

    async def respond(
        self,
        url: str,
        status: int = 200,
        *,
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        latency: Duration | None = None,
        method: str | None = None,
        times: int | None = None,
    ) -> str:
        """Answer with a response.

        >>> async with AsyncEmulator() as emulator:
        ...     rule_id = await emulator.destinations.respond("https://api.example.com/*", status=503, times=1)
        ...     message_id = await emulator.publish("https://api.example.com/orders")
        ...     report = await emulator.clock.drain()
        ...     [delivery.response.status for delivery in await emulator.deliveries()]
        [503, 200]
        """
        answer = {"status": status, "headers": headers, "body": body}
        if latency is not None:
            answer["latency"] = duration(latency)
        return await self._add(url, method, times, respond=_given(answer))

    async def sequence(self, url: str, answers: Sequence[int | Mapping[str, Any]], *, method: str | None = None) -> str:
        """Answer with one response after the other, one per attempt; the last repeats. An int is a status."""
        listed = [{"status": answer} if isinstance(answer, int) else dict(answer) for answer in answers]
        return await self._add(url, method, None, sequence=listed)

    async def forward(self, url: str, to: str, *, method: str | None = None, times: int | None = None) -> str:
        """Send to another origin, such as `http://127.0.0.1:3000`: path, query and signature stay."""
        return await self._add(url, method, times, forward_to=to)

    async def fault(
        self,
        url: str,
        fault: Fault,
        *,
        latency: Duration | None = None,
        method: str | None = None,
        times: int | None = None,
    ) -> str:
        """Fail as the network does."""
        rule: dict[str, Any] = {"fault": fault}
        if latency is not None:
            rule["latency"] = duration(latency)
        return await self._add(url, method, times, **rule)

    async def add(self, rule: Mapping[str, Any]) -> str:
        """Add a rule in the control API's JSON."""
        return await self._emulator._do(self._emulator._here().add_rule(rule))

    async def all(self) -> list[dict[str, Any]]:
        """The rules in the control API's JSON, in the order in which they are asked."""
        return await self._emulator._do(self._emulator._here().rules())

    async def remove(self, rule_id: str) -> None:
        """Remove one rule. Raises Refused for an unknown id."""
        await self._emulator._do(self._emulator._here().remove_rule(rule_id))

    async def clear(self) -> None:
        """Remove all rules."""
        await self._emulator._do(self._emulator._here().remove_rules())

    async def _add(self, url: str, method: str | None, times: int | None, **what: Any) -> str:
        rule = {"match": _given({"url": url, "method": method}), "times": times, **what}
        return await self.add(_given(rule))


class AsyncSnapshots:
    """Copies of the whole world: clock, pending work, history, random source.

        >>> async with AsyncEmulator() as emulator:
        ...     message_id = await emulator.publish("https://app.example.com", headers={"Svc-Delay": "1h"})
        ...     snapshot = await emulator.snapshots.save("before")
        ...     once = await emulator.clock.advance("1h")
        ...     await emulator.snapshots.restore("before")
        ...     again = await emulator.clock.advance("1h")
        ...     (snapshot.pending, once.deliveries, again.deliveries)
        (1, 1, 1)

    Names are letters, digits, hyphens, underscores and periods. Each method raises Refused with what
    the server says.
    """

    def __init__(self, emulator: AsyncEmulator) -> None:
        self._emulator = emulator

    async def save(self, name: str) -> Snapshot:
        """Save the world as it is under a new name."""
        return await self._emulator._do(self._emulator._here().save_snapshot(name))

    async def restore(self, name: str) -> None:
        """Make the world what it was. It goes on as the original would have: same ids, same trace."""
        await self._emulator._do(self._emulator._here().restore_snapshot(name))

    async def all(self) -> list[Snapshot]:
        """The world's snapshots."""
        return await self._emulator._do(self._emulator._here().snapshots())

    async def delete(self, name: str) -> None:
        """Delete a snapshot."""
        await self._emulator._do(self._emulator._here().delete_snapshot(name))

    async def export_to(self, file: str | Path, name: str) -> None:
        """Write a snapshot to a SQLite file, which `svc-emulator serve --db` can open as well. Raises OSError."""
        await self._emulator._do(self._emulator._here().export_snapshot(name, Path(file)))

    async def import_from(self, file: str | Path, name: str) -> Snapshot:
        """Take a file in as a snapshot. What is no world's is refused, with nothing changed. Raises OSError."""
        return await self._emulator._do(self._emulator._here().import_snapshot(name, Path(file)))


def _content(
    body: bytes | str | None, json: Any, headers: Mapping[str, str] | None
) -> tuple[bytes | None, dict[str, str]]:
    """A body and the headers with it. Raises TypeError for two bodies."""
    given = dict(headers or {})
    if json is None:
        return body.encode() if isinstance(body, str) else body, given
    if body is not None:
        raise TypeError("expected body or json, got both")
    if not any(name.lower() == "content-type" for name in given):
        given["Content-Type"] = "application/json"
    return jsons.dumps(json).encode(), given


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
