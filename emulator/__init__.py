"""A local emulator of an HTTP message-scheduling service, with a clock you control.

>>> from emulator import Emulator
>>> with Emulator(epoch="2026-01-01T00:00:00Z") as emulator:
...     message_id = emulator.publish("https://app.example.com/remind", headers={"Svc-Delay": "1d"})
...     report = emulator.clock.advance("1d")
...     [delivery] = emulator.deliveries()
...     str(delivery.at)
'2026-01-02 00:00:00+00:00'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.client.aio.emulator import AsyncEmulator
    from emulator.client.errors import EmulatorError, Refused, Unreachable
    from emulator.client.records import Delivery, Request, Response
    from emulator.client.sync.emulator import Emulator

# Imported when first used: a server needs none of these and has to start fast.
_MODULES = {
    "AsyncEmulator": "emulator.client.aio.emulator",
    "Delivery": "emulator.client.records",
    "Emulator": "emulator.client.sync.emulator",
    "EmulatorError": "emulator.client.errors",
    "Refused": "emulator.client.errors",
    "Request": "emulator.client.records",
    "Response": "emulator.client.records",
    "Unreachable": "emulator.client.errors",
}

__all__ = [
    "AsyncEmulator",
    "Delivery",
    "Emulator",
    "EmulatorError",
    "Refused",
    "Request",
    "Response",
    "Unreachable",
]


if not TYPE_CHECKING:
    # A type checker sees the imports above, and that there is nothing else.

    def __getattr__(name: str) -> object:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(module), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
