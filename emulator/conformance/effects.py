"""The state by which effects are judged: what the user says shows them, before and after (D-411)."""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping

import httpx

Read = Callable[[], Awaitable[object]]

_TIMEOUT_S = 10.0

NO_SOURCE = "no effect source was given: --effect-url, or effect= in Python"
RESTLESS = "the state changes by itself: it differed between two readings with no request between them"
BLIND = (
    "the valid delivery changed nothing that the effect source shows: its body may have been delivered before, "
    "or the work comes later (an effect delay waits for it)"
)


class EffectUnreadable(Exception):
    """The state cannot be read; the text says why in one line."""


class Effects:
    """Compares the state before and after; `unjudged` says why nothing can be said of effects, if so."""

    def __init__(self, read: Read | None, delay_ms: int) -> None:
        self._read = read
        self._delay_s = delay_ms / 1000
        self.unjudged: str | None = NO_SOURCE if read is None else None

    async def state(self) -> object:
        """The state when the receiver's work is over; None if effects are not judged.

        It is a copy: a function may return the same list each time. Raises: what the reading raises.
        """
        if self._read is None or self.unjudged is not None:
            return None
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        return copy.deepcopy(await self._read())


def read_url(url: str) -> Read:
    """The body of a URL as the state. The reading raises EffectUnreadable if it is not answered 2xx."""

    # The authorities that the system trusts are read once.
    trusted = ssl.create_default_context()

    async def read() -> object:
        try:
            async with httpx.AsyncClient(verify=trusted, trust_env=False, timeout=_TIMEOUT_S) as client:
                response = await client.get(url)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EffectUnreadable(f"--effect-url {url} cannot be read: {error or type(error).__name__}") from error
        if not response.is_success:
            raise EffectUnreadable(f"--effect-url {url} answered {response.status_code}, expected 2xx")
        return response.content

    return read


def amount(state: object) -> float | None:
    """How much a state holds: a number, the length of a list, the sum over an object; JSON text is read.

    None for a state that nothing can be counted in, such as another text.
    """
    match state:
        case bool() | None:
            return None
        case int() | float():
            return state
        case bytes() | str():
            try:
                return amount(json.loads(state))
            except ValueError:
                return None
        case Mapping():
            amounts = [found for found in map(amount, state.values()) if found is not None]
            return sum(amounts) if amounts else None
        case list() | tuple() | set():
            return len(state)
        case _:
            return None
