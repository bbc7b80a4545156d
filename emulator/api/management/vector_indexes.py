"""The statistics of vector indexes; the indexes themselves are not managed here."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.management.call import OWNER, ManagementCall, ManagementRoute
from emulator.wire.management.statistics import index_statistics_view, index_summary_view


async def get_vector_statistics(call: ManagementCall) -> Response:
    return Answer(index_statistics_view(call.world.statistics.vector_index(call.index_id, call.period)))


async def get_vector_summary(call: ManagementCall) -> Response:
    return Answer(index_summary_view(call.world.statistics.vector_summary()))


ROUTES: tuple[ManagementRoute, ...] = (
    ManagementRoute("GET", "/v2/vector/index/stats", get_vector_summary, OWNER),
    ManagementRoute("GET", "/v2/vector/index/{name}/stats", get_vector_statistics, OWNER),
)
