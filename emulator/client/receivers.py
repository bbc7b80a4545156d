"""Checking a receiver from a test: the battery of `emulator.conformance` with the keys of a world."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypedDict, cast

import msgspec

from emulator.client.bridges import EventLoop
from emulator.client.errors import is_argument_error
from emulator.client.mounts import Application, Interface
from emulator.client.publishing import content
from emulator.client.session import Session
from emulator.client.values import check_names
from emulator.conformance import battery
from emulator.conformance.effects import Read
from emulator.conformance.profiles import NONE
from emulator.conformance.records import Receiver
from emulator.conformance.reports import ReceiverReport
from emulator.core.model.options import Method
from emulator.wire import dialect
from emulator.wire.urls import read_target

__tracebackhide__ = is_argument_error

# Where an application is mounted that is given itself.
_ORIGIN = "https://receiver.test"


class ReceiverOptions(TypedDict, total=False):
    """What may be said of a receiver that is checked.

    `effect` is a function without arguments, asynchronous or called in a thread, whose result is a
    state to compare: a number, a list or JSON lets effects be counted. `effect_delay` is how long the
    receiver may work after its answer, `timeout` that of each request; both are in seconds of real
    time. `body` or `json`, `headers` and `method` are those of a good delivery, `{}` by POST without
    them. `callbacks` says that the endpoint takes callbacks. `profile` is `qstash-python` or
    `qstash-npm`, whose known tolerances are no failures. `path` and `interface` are for an application.
    """

    effect: Callable[[], object]
    effect_delay: float
    body: bytes | str
    json: Any
    headers: Mapping[str, str]
    method: str
    timeout: float
    callbacks: bool
    profile: str
    path: str
    interface: Interface | str


async def check_receiver(
    session: Session, target: str | Application, loop: EventLoop | None, options: ReceiverOptions
) -> ReceiverReport:
    """Check a URL, or an application that is mounted for the time of the check.

    `loop` is the caller's. Raises as `AsyncEmulator.check_receiver`.
    """
    check_names(options, ReceiverOptions.__annotations__)
    url = target if isinstance(target, str) else f"{_ORIGIN}{_path(options.get('path', '/'))}"
    receiver = _receiver(session, url, options)
    effect = options.get("effect")
    read = None if effect is None else _reading(effect, loop)
    profile = options.get("profile", NONE)
    server, world = session.server, session.world
    if isinstance(target, str):
        mount = server.mount_at(world, url)
        return await battery.check(receiver, mount=mount, effect=read, profile=profile)
    interface = options.get("interface")
    await server.mount(world, _ORIGIN, target, None if interface is None else Interface(interface), loop)
    try:
        mount = server.mount_at(world, url)
        return await battery.check(receiver, mount=mount, effect=read, profile=profile)
    finally:
        await server.unmount(world, _ORIGIN)


def _path(path: str) -> str:
    """Raises: ValueError."""
    if not path.startswith("/"):
        raise ValueError(f"path: expected one that begins with a slash, got {path!r}")
    return path


def _receiver(session: Session, url: str, options: ReceiverOptions) -> Receiver:
    """Raises: TypeError and ValueError naming the option at fault."""
    if read_target(url) is None:
        raise ValueError(f"target: expected a URL such as http://localhost:3000/jobs, got {url!r}")
    names, keys = session.dialect, session.credentials
    body, headers = content(options.get("body"), options.get("json"), options.get("headers"))
    if not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "application/json"
    # A server elsewhere does not tell the user agent of a dialect of its own.
    known = dialect.load(names.name if names.name in dialect.BUILT_IN else "svc")
    try:
        method = Method(options.get("method", Method.POST).upper())
    except ValueError:
        raise ValueError(f"method: expected {', '.join(Method)}, got {options.get('method')!r}") from None
    made = Receiver(
        url=url,
        current_signing_key=keys.current_signing_key,
        next_signing_key=keys.next_signing_key,
        header_prefix=names.header_prefix,
        issuer=names.issuer,
        user_agent=known.user_agent,
        method=method,
        headers=tuple(headers.items()),
        body=b"{}" if body is None else body,
        takes_callbacks=options.get("callbacks", False),
    )
    return msgspec.structs.replace(
        made,
        timeout_ms=_ms("timeout", options.get("timeout", made.timeout_ms / 1000), least=1),
        effect_delay_ms=_ms("effect_delay", options.get("effect_delay", 0.0), least=0),
    )


def _ms(name: str, seconds: float, *, least: int) -> int:
    ms = round(seconds * 1000)
    if not least <= ms <= 3_600_000:
        raise ValueError(f"{name}: expected seconds, an hour at most, got {seconds!r}")
    return ms


def _reading(effect: Callable[[], object], loop: EventLoop | None) -> Read:
    """The function as it is called from the battery: on the caller's loop if it is asynchronous, else in a thread."""

    async def awaited(result: object) -> object:
        return await cast(Awaitable[object], result)

    async def read() -> object:
        # A function's code may block. That of a coroutine function has not begun when it returns.
        is_quick = inspect.iscoroutinefunction(effect)
        result = effect() if is_quick else await asyncio.get_running_loop().run_in_executor(None, effect)
        if not inspect.isawaitable(result):
            return result
        return await (awaited(result) if loop is None else loop.run(lambda: awaited(result)))

    return read
