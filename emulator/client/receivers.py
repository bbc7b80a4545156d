"""Checking a receiver from a test: the battery of `emulator.conformance` with the keys of a world."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from emulator.client.arguments import check_choice, check_flag, check_names, check_number, check_text
from emulator.client.errors import is_argument_error
from emulator.client.event_loops import EventLoop, awaited
from emulator.client.mounts import Application, Interface
from emulator.client.publishing import content
from emulator.client.session import Session
from emulator.client.threads import Caller
from emulator.conformance.reports import NONE, PROFILES, Receiver, ReceiverReport
from emulator.core.model.options import Method
from emulator.engine.clock import wall_ms
from emulator.wire import dialect
from emulator.wire.urls import read_target

if TYPE_CHECKING:
    from emulator.conformance.sending import Read

__tracebackhide__ = is_argument_error

# Where an application is mounted that is given itself.
_ORIGIN = "https://receiver.test"


class ReceiverOptions(TypedDict, total=False):
    """What may be said of a receiver that is checked.

    `effect` is a function without arguments, called in the thread that calls `check_receiver`, whose
    result is a state to compare: a number, a list or JSON lets effects be counted. It may be
    asynchronous. `effect_delay` is how long the receiver may work after its answer, `timeout` that of
    each request; both are in seconds of real time. `body` or `json`, `headers` and `method` are those
    of a good delivery, `{}` by POST without them. `callbacks` says that the endpoint takes callbacks.
    `profile` is `qstash-python` or `qstash-npm`, whose known tolerances are no failures. `path` and
    `interface` are for an application.
    """

    effect: Callable[[], object]
    effect_delay: float
    body: bytes | str
    json: Any
    headers: Mapping[str, str]
    method: str
    timeout: float
    callbacks: bool
    profile: Literal["none", "qstash-python", "qstash-npm"]
    path: str
    interface: Interface | Literal["asgi", "wsgi", "function"]


async def check_receiver(
    session: Session, target: str | Application, loop: EventLoop | None, caller: Caller, options: ReceiverOptions
) -> ReceiverReport:
    """Check a URL, or an application that is mounted for the time of the check.

    `loop` is that of `caller`. Raises as `AsyncEmulator.check_receiver`.
    """
    # It imports a library of signatures, which takes a fifth of the whole import.
    from emulator.conformance import battery

    check_names(options, ReceiverOptions.__annotations__)
    url = target if isinstance(target, str) else f"{_ORIGIN}{_path(options.get('path', '/'))}"
    receiver = _receiver(session, url, options)
    effect = options.get("effect")
    if effect is not None and not _takes_nothing(effect):
        raise TypeError(f"effect: expected a function without arguments that returns the state, got {effect!r}")
    profile = options.get("profile", NONE)
    check_choice("profile", profile, PROFILES)
    read = None if effect is None else _reading(effect, loop, caller)
    server, world = session.server, session.world
    check = partial(battery.check, receiver, effect=read, profile=profile, turns=lambda: server.turns_taken)
    if isinstance(target, str):
        mount = server.mount_at(world, url)
        # Another process has the machine's time, also while this one has that of a world.
        return await check(mount=mount, now_ms=wall_ms if mount is None else None)
    await server.mount(world, _ORIGIN, target, options.get("interface"), loop)
    try:
        return await check(mount=server.mount_at(world, url))
    finally:
        await server.unmount(world, _ORIGIN)


def _path(path: str) -> str:
    """Raises: TypeError, ValueError."""
    check_text("path", path)
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
    check_text("method", options.get("method", ""), expected="a method such as POST")
    callbacks = check_flag("callbacks", options.get("callbacks", False))
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
        takes_callbacks=callbacks,
    )
    return msgspec.structs.replace(
        made,
        timeout_ms=_ms("timeout", options.get("timeout", made.timeout_ms / 1000), least=1),
        effect_delay_ms=_ms("effect_delay", options.get("effect_delay", 0.0), least=0),
    )


def _ms(name: str, seconds: float, *, least: int) -> int:
    check_number(name, seconds, float, expected="seconds of real time, such as 1.5")
    ms = round(seconds * 1000) if isfinite(seconds) else -1
    if not least <= ms <= 3_600_000:
        raise ValueError(f"{name}: expected seconds, an hour at most, got {seconds!r}")
    return ms


def _takes_nothing(effect: object) -> bool:
    if not callable(effect):
        return False
    try:
        inspect.signature(effect).bind()
    except TypeError:
        return False
    except ValueError:  # A built-in that does not say what it takes.
        pass
    return True


def _reading(effect: Callable[[], object], loop: EventLoop | None, caller: Caller) -> Read:
    """The function as it is called from the battery: by the caller, and what has to be awaited on their loop.

    A database session or a transaction belongs to the thread that began it.
    """
    # D-575.

    async def read() -> object:
        result = await caller.call(effect)
        if not inspect.isawaitable(result):
            return result
        return await (awaited(result) if loop is None else loop.run(lambda: awaited(result)))

    return read
