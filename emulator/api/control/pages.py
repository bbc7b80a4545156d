"""`/` and `/_emulator`: where a browser is sent, because somebody who opens them asks what runs here."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import PAGE, ControlCall, ControlRoute
from emulator.api.control.options import Inspector
from emulator.api.endpoint import Answer, no_operation
from emulator.wire.media_types import prefers_html

_INSPECTOR = "/_emulator/inspector"
_REFERENCE = "/_emulator/reference"


async def show_page(call: ControlCall) -> Response:
    """A page for a browser, and for any other client what it is told of a path without an operation (D-294, D-320)."""
    if not prefers_html(call.parts):
        return no_operation(call.parts.path)
    page = _REFERENCE if call.options.inspector is Inspector.OFF else _INSPECTOR
    return Answer(status=307, headers=(("Location", page), ("Vary", "Accept")))


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/", show_page, PAGE),
    ControlRoute("GET", "/_emulator", show_page, PAGE),
)
