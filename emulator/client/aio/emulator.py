"""`AsyncEmulator`: an emulator for tests on asyncio or trio."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NoReturn, Unpack

from emulator.client.aio.link import AsyncLink
from emulator.client.aio.world import AsyncWorld
from emulator.client.bridges import caller_loop
from emulator.client.errors import is_emulator_error
from emulator.client.mounts import Application, Interface
from emulator.client.receivers import ReceiverOptions, check_receiver
from emulator.client.server import Options
from emulator.client.session import Running, connected, fork, new_world, shared, started
from emulator.client.values import Instant, given, instant
from emulator.client.verify.trouble import mismatches_of
from emulator.conformance.reports import ReceiverReport

__tracebackhide__ = is_emulator_error


class AsyncEmulator(AsyncWorld):
    """An emulator and one of its worlds: publish to it, move its clock, see what was delivered.

        >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
        ...     message_id = await emulator.publish("https://app.example.com/hook", json={"user": 7})
        ...     [delivery] = await emulator.deliveries()
        ...     (delivery.url, delivery.json(), delivery.response.status)
        ('https://app.example.com/hook', {'user': 7}, 200)

    It is a server of its own in this process, on a port that the system chooses, kept in memory,
    its clock frozen; the options are those of `svc-emulator serve`. Nothing leaves the machine
    unless `external` or `allow_host` says so. It ends with its `with` block, or by `close`.

    With `strict=True` the block raises AssertionError at its end if the contract does not know what
    a client sent, such as a misspelt header, unless an exception ends it; `new_world` too (D-337).
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        """Nothing is started yet. Raises TypeError for an option that does not exist."""
        super().__init__(AsyncLink(started(options)))
        self._is_strict = options.get("strict", False)

    @classmethod
    def _linked(cls, link: AsyncLink) -> AsyncEmulator:
        emulator = cls()
        AsyncWorld.__init__(emulator, link)
        return emulator

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
        return cls._linked(AsyncLink(connected(url, control_token, world, verify)))

    @classmethod
    def sharing(cls, other: Running) -> AsyncEmulator:
        """The same world as a running emulator of either kind has. It needs no `with`, and ends with that one."""
        session = other.session
        return cls._linked(AsyncLink(shared(session), session))

    def new_world(
        self,
        *,
        id: str | None = None,
        seed: int | None = None,
        epoch: Instant | None = None,
        rate: float | None = None,
        fixtures: Mapping[str, Any] | None = None,
        plan: str | None = None,
        token: str | None = None,
        chaos: float | Mapping[str, Any] | None = None,
    ) -> AsyncEmulator:
        """Another world of the same server, made when it is entered and deleted when it is left.

        It shares nothing with this one. Its clock is frozen unless `rate` says otherwise; what is not
        given is the server's to choose. A `token` of your choice is carried by every call about the
        world, its making included, so that a load balancer can send them all to one server (D-432).
        `chaos` from 0 to 1 is how much goes wrong, drawn from the seed.
        """
        wanted = {
            "id": id,
            "seed": seed,
            "epoch": None if epoch is None else instant(epoch),
            "rate": rate,
            "fixtures": fixtures,
            "plan": plan,
            "token": token,
            "chaos": chaos,
        }
        world = self._linked(AsyncLink(new_world(self.session, given(wanted))))
        world._is_strict = self._is_strict
        return world

    def fork(self, *, id: str | None = None, token: str | None = None) -> AsyncEmulator:
        """A second world that goes on from where this one is when it is entered; deleted when it is left (D-434).

            >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
            ...     message_id = await emulator.publish("https://app.test", delay="1h")
            ...     async with emulator.fork() as other:
            ...         report = await other.clock.advance("1d")
            ...     (report.deliveries, await emulator.deliveries())
            (1, [])

        It has the same state, pending work, history and clock, the signing keys and the mounted
        applications too, and tokens of its own. Neither notices what is done in the other.
        """
        world = self._linked(AsyncLink(fork(self.session, given({"id": id, "token": token}))))
        world._is_strict = self._is_strict
        return world

    async def start(self) -> AsyncEmulator:
        """Start the server, connect to it or make the world, as entering the `with` block does.

        Raises EmulatorError for options that cannot be used, Unreachable if nothing answers.
        """
        await self._link.open()
        return self

    async def close(self) -> None:
        """End the server, the connection or the world, whichever began here. Again, it does nothing."""
        await self._link.close()

    async def __aenter__(self) -> AsyncEmulator:
        return self if self._link.is_open else await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True  # A failed test shows its own line.
        is_asked = self._is_strict and kind is None and self._link.is_open
        text = await self._link.run(mismatches_of(self.session)) if is_asked else None
        await self.close()
        if text is not None:
            raise AssertionError(text)

    def __reduce__(self) -> NoReturn:
        """It lives in its process. Raises TypeError."""
        raise TypeError("an emulator stays in its process: hand its url and token to another one")

    # -- destinations in this process -------------------------------------------------------

    async def mount(self, origin: str, application: Application, *, interface: Interface | str | None = None) -> None:
        """Let an application answer every delivery to an origin, without a socket.

            >>> async with AsyncEmulator() as emulator:
            ...     await emulator.mount("https://app.test", lambda request: 503)
            ...     message_id = await emulator.publish("https://app.test/hook", retries=0)
            ...     [delivery] = await emulator.deliveries()
            ...     (delivery.response.status, delivery.via.value)
            (503, 'mount')

        It is an ASGI application, a WSGI application, or a function of one `Request` that returns
        nothing (200), a status, a body, something to send as JSON, or a `Response`; `interface`
        says which where the number of arguments does not. The request carries every header and
        the signature. An exception is logged and answered with 500. It stays until `unmount` or
        the end of the world, also over a `reset`.

        An ASGI application or an asynchronous function runs on the caller's event loop, and its
        start-up and shutdown are the caller's affair. The others run in a thread of their own;
        `emulator.django` lends them the database connections of the test (D-352).

        Raises EmulatorError for a server in another process, which says what to do instead, and
        ValueError and TypeError for what is no origin or no application.
        """
        session, kind = self.session, None if interface is None else Interface(interface)
        await self._link.run(session.server.mount(session.world, origin, application, kind, caller_loop()))

    async def unmount(self, origin: str) -> None:
        """Undo `mount`. An origin without a mount is no error."""
        session = self.session
        await self._link.run(session.server.unmount(session.world, origin))

    # -- receivers ---------------------------------------------------------------------------

    async def check_receiver(self, target: str | Application, **options: Unpack[ReceiverOptions]) -> ReceiverReport:
        """Find out whether a receiver is right: signatures, rotation, duplicates, bodies, methods, time.

            >>> async with AsyncEmulator() as emulator:
            ...     report = await emulator.check_receiver(lambda request: 200)
            ...     (report.passed, report["valid"].verdict.value, report["wrong-key"].note)
            (False, 'passed', 'it was accepted with 200')

        `target` is a URL, where the application mounted for its origin answers if there is one, or an
        application, which answers for the time of the check. What is sent are deliveries signed with
        the keys of this world, at most 31; they are no messages of the world. `ReceiverOptions` says
        what may be given: a `body` that the receiver understands, and an `effect`, without which
        effects and idempotency are not judged. `raise_for_failures()` of the report fails a test.

        Raises TypeError and ValueError that name a wrong option, and what `effect` raises.
        """
        session, loop = self.session, caller_loop()
        return await self._link.run(check_receiver(session, target, loop, options))
