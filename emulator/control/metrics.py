"""`/_emulator/metrics`: counters, histograms and gauges in the text format of Prometheus."""

from __future__ import annotations

from starlette.responses import Response

from emulator.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.core.errors import NotInstalled
from emulator.core.world_setup import DEFAULT


async def get_metrics(call: ControlCall) -> Response:
    """The metrics of all worlds together, or of the world that the query names (D-727).

    Raises NotFound, NotInstalled without the library.
    """
    try:
        from emulator.telemetry.metrics import CONTENT_TYPE, exposition
    except ImportError as error:
        raise NotInstalled(f"metrics need prometheus-client (pip install prometheus-client): {error}") from error
    counts = call.options.counts
    picked = call.world if call.names_a_world else None
    worlds = call.worlds.all() if picked is None else (picked,)
    clock = next((world for world in worlds if world is picked or world.id == DEFAULT), None)
    size = sum([await world.journal_bytes() for world in worlds])
    content = exposition(
        worlds,
        clock,
        counts.of_all() if picked is None else counts.of(picked),
        counts.requests() if picked is None else None,
        size,
    )
    return Response(content, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/metrics", get_metrics, WORLD_ONLY),)
