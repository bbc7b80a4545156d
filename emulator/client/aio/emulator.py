"""`AsyncEmulator`: an emulator for tests on asyncio or trio."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn, Unpack

from emulator.client.aio.link import AsyncLink
from emulator.client.aio.world import AsyncWorld
from emulator.client.app_time import followed
from emulator.client.arguments import Instant, given, instant
from emulator.client.errors import HandlerError, Mode, has_to_be_awaited, is_emulator_error, read_mode
from emulator.client.event_loops import caller_loop
from emulator.client.mounts import Application, Interface
from emulator.client.receivers import ReceiverOptions, check_receiver
from emulator.client.server import Options, Plan
from emulator.client.session import Running, connected, fork, new_world, shared, started
from emulator.client.threads import AsyncCaller
from emulator.client.verify.timeline import mismatches_of
from emulator.conformance.reports import ReceiverReport

__tracebackhide__ = is_emulator_error


@has_to_be_awaited
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

    Each start with the same `seed` has the same token and signing keys. Two of them that an application
    must not confuse need a seed each, or are two worlds of one server (`new_world`).

    An AssertionError or an outcome of pytest out of a mounted application fails the test: the call of the emulator
    that waits for the delivery raises it again, or the next call, or the end of the block. So does what no response
    shows: an exception after a whole response below 400, such as of a background task, one of a task that nothing
    awaits, and a shutdown that fails. With `handler_errors="report"` an AssertionError is a response of 500 like every
    other exception, for applications that assert by themselves, and the rest is listed. What ends a thread, such as
    `sys.exit`, is raised again in either case, and so is an attempt to stop or close the event loop of an application,
    or to cancel what others do on it. What only a shutdown raises is a note on an exception that ends the block.

    With `strict=True` the block raises AssertionError at its end if the contract does not know what
    a client sent, such as a misspelt header, unless an exception ends it; `new_world` too.
    """

    # D-337, D-470, D-471.

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
        plan: Plan | None = None,
        token: str | None = None,
        chaos: float | Mapping[str, Any] | None = None,
        keep_history: int | str | None = None,
        handler_errors: Mode | None = None,
        strict: bool | None = None,
    ) -> AsyncEmulator:
        """Another world of the same server, made when it is entered and deleted when it is left.

        It shares nothing with this one. Its clock is frozen unless `rate` says otherwise; what is not
        given is the server's to choose. A `token` of your choice is carried by every call about the
        world, its making included, so that a load balancer can send them all to one server.
        `chaos` from 0 to 1 is how much goes wrong, drawn from the seed. `keep_history` is how much of what has
        happened is kept, as in `Options`; if it is not given, as much as this server keeps, or everything if the
        server is another process. `handler_errors` is as of `Emulator`, without it that of this one.
        On a strict server `strict=False` lets the block end without its question.
        """
        # D-432.
        if keep_history is None and not self.session.server.is_own:
            keep_history = "all"
        wanted = {
            "id": id,
            "seed": seed,
            "epoch": None if epoch is None else instant("epoch", epoch),
            "rate": rate,
            "fixtures": fixtures,
            "plan": plan,
            "token": token,
            "chaos": chaos,
            "keep_history": keep_history,
        }
        mode = None if handler_errors is None else read_mode(handler_errors)
        world = self._linked(AsyncLink(new_world(self.session, given(wanted), mode)))
        world._is_strict = self._is_strict if strict is None else strict
        return world

    def fork(self, *, id: str | None = None, token: str | None = None) -> AsyncEmulator:
        """A second world that continues from where this one is when it is entered; deleted when it is left.

            >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
            ...     message_id = await emulator.publish("https://app.test", delay="1h")
            ...     async with emulator.fork() as other:
            ...         report = await other.clock.advance("1d")
            ...     (report.deliveries, await emulator.deliveries())
            (1, [])

        It has the same state, pending work, history and clock, the signing keys and the mounted
        applications too, and tokens of its own. Neither notices what is done in the other.
        """
        # D-434.
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
        """End the server, the connection or the world, whichever began here. Again, it does nothing.

        Raises what mounted code has raised and no call has (`handler_errors`).
        """
        await self._link.close()

    async def __aenter__(self) -> AsyncEmulator:
        return self if self._link.is_open else await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True  # A failed test shows its own line.
        text = None
        try:
            if self._is_strict and kind is None and self._link.is_open:
                text = await self._link.run(mismatches_of(self.session))
        finally:
            await self._link.close(error)
        if text is not None:
            raise AssertionError(text)

    def __reduce__(self) -> NoReturn:
        """It lives in its process. Raises TypeError."""
        raise TypeError("an emulator stays in its process: hand its url and token to another one")

    def follow_time(self) -> AbstractContextManager[None]:
        """For a `with` block, let `datetime.now()` and `time.time()` of this process be the virtual time.

            >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
            ...     with emulator.follow_time():
            ...         report = await emulator.clock.advance(days=1)
            ...         str(datetime.now(UTC))
            '2026-01-02 00:00:00+00:00'

        They agree in every thread, in mounted applications at each delivery too. `time.monotonic` and `sleep`
        stay as they are. It needs the extra `svc-emulator[time]`.

        Raises ImportError without it, and EmulatorError for a server in another process and while another
        world is followed.
        """
        return followed(self.session)

    # -- destinations in this process -------------------------------------------------------

    @property
    def handler_errors(self) -> Sequence[HandlerError]:
        """The exceptions of mounted applications so far, the newest last, those that calls raised again included.

        >>> async with AsyncEmulator() as emulator:
        ...     await emulator.mount("https://app.test", lambda request: 1 // 0)
        ...     message_id = await emulator.publish("https://app.test/hook", retries=0)
        ...     [failed] = emulator.handler_errors
        ...     (str(failed.error), failed.url, failed.message_id == message_id)
        ('integer division or modulo by zero', 'https://app.test/hook', True)
        """
        return self.session.errors.listed

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
        start-up and shutdown are the caller's affair. The others run in a thread of the emulator's;
        `emulator.django` shares the database connections of the test with them.

        Raises EmulatorError for a server in another process, which says what to do instead, and
        ValueError and TypeError for what is no origin or no application.
        """
        # D-352, D-690.
        session = self.session
        await self._link.run(session.server.mount(session.world, origin, application, interface, caller_loop()))

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
        the keys of this world, at most 37; they are no messages of the world. `ReceiverOptions` says
        what may be given: a `body` that the receiver understands, and an `effect`, without which
        effects and idempotency are not judged. `raise_for_failures()` of the report fails a test.

        Raises TypeError and ValueError that name a wrong option, and what `effect` raises.
        """
        session, loop, caller = self.session, caller_loop(), AsyncCaller()
        return await self._link.run(check_receiver(session, target, loop, caller, options), caller)
