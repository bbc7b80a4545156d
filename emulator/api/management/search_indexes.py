"""Search indexes and their statistics."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.management.call import OWNER, ManagementCall, ManagementRoute
from emulator.core import commands
from emulator.core.model.accounts import SearchIndex
from emulator.core.rules.search_indexes import search_index
from emulator.wire.json_fields import Json
from emulator.wire.management import bodies
from emulator.wire.management.statistics import index_statistics_view, index_summary_view, throughput_view


async def list_search_indexes(call: ManagementCall) -> Response:
    return Answer([_view(call, index) for index in call.world.state.search_indexes.values()])


async def create_search_index(call: ManagementCall) -> Response:
    command = bodies.read_new_search_index(call.body, call.world.login[0])
    return Answer(_view(call, await call.world.submit(command)))


async def get_search_index(call: ManagementCall) -> Response:
    return Answer(_view(call, search_index(call.world.state, call.index_id)))


async def delete_search_index(call: ManagementCall) -> Response:
    return await call.carry_out(commands.DeleteSearchIndex(index_id=call.index_id))


async def rename_search_index(call: ManagementCall) -> Response:
    name = bodies.read_new_name(call.body)
    return await call.carry_out(commands.RenameSearchIndex(index_id=call.index_id, name=name))


async def reset_password(call: ManagementCall) -> Response:
    return Answer(_view(call, await call.world.submit(commands.ResetSearchIndexPassword(index_id=call.index_id))))


async def transfer_search_index(call: ManagementCall) -> Response:
    target = bodies.read_target_account(call.body)
    return await call.carry_out(commands.TransferSearchIndex(index_id=call.index_id, target_account=target))


async def get_search_statistics(call: ManagementCall) -> Response:
    # In the shape of a vector index (D-200).
    return Answer(index_statistics_view(call.world.statistics.search_index(call.index_id, call.period)))


async def get_search_summary(call: ManagementCall) -> Response:
    return Answer(index_summary_view(call.world.statistics.search_summary()))


def _view(call: ManagementCall, index: SearchIndex) -> Json:
    throughput = throughput_view(call.world.statistics.search_throughput(index.id))
    return bodies.search_index_view(index, throughput, call.dialect)


ROUTES: tuple[ManagementRoute, ...] = (
    ManagementRoute("GET", "/v2/search", list_search_indexes, OWNER),
    ManagementRoute("POST", "/v2/search", create_search_index, OWNER),
    ManagementRoute("GET", "/v2/search/stats", get_search_summary, OWNER),
    ManagementRoute("GET", "/v2/search/{name}", get_search_index, OWNER),
    ManagementRoute("DELETE", "/v2/search/{name}", delete_search_index, OWNER),
    ManagementRoute("GET", "/v2/search/{name}/stats", get_search_statistics, OWNER),
    ManagementRoute("POST", "/v2/search/{name}/reset-password", reset_password, OWNER),
    ManagementRoute("POST", "/v2/search/{name}/transfer", transfer_search_index, OWNER),
    ManagementRoute("POST", "/v2/search/{name}/rename", rename_search_index, OWNER),
)
