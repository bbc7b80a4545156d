"""`/_emulator/mismatches`: what strict mode found in the calls of a world's clients."""

from __future__ import annotations

from msgspec.structs import asdict
from starlette.responses import Response

from emulator.api.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer


async def list_mismatches(call: ControlCall) -> Response:
    found = [asdict(each) for each in call.world.mismatches.all()]
    return Answer({"strict": call.options.is_strict, "mismatches": found})


async def clear_mismatches(call: ControlCall) -> Response:
    call.world.mismatches.clear()
    return Answer(status=204)


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/mismatches", list_mismatches, WORLD_ONLY),
    ControlRoute("DELETE", "/_emulator/mismatches", clear_mismatches, WORLD_ONLY),
)
