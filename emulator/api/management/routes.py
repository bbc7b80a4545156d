"""The management API: search indexes, queue accounts, and the statistics of both.

Source: interface document, "Management API". The operations beyond its table are not shown there;
they are those that the service's own clients use (D-167). No limit on calls is shown, and there is
none (D-188).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.responses import Response

from emulator.api.endpoint import Answer, Endpoint, Request
from emulator.core import commands
from emulator.core.errors import Unauthenticated
from emulator.core.model import Account, AccountId, IndexId, SearchIndex
from emulator.core.rules.search_indexes import search_index
from emulator.wire.credentials import basic_credentials
from emulator.wire.dialect import Dialect
from emulator.wire.json_fields import Json
from emulator.wire.management import bodies as management_json
from emulator.wire.management.accounts import account_view
from emulator.wire.management.statistics import (
    index_statistics_view,
    index_summary_view,
    queue_statistics_view,
    throughput_view,
)
from emulator.wire.media_types import check_accepts_json, check_is_json
from emulator.wire.parts import RequestParts
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World

CHALLENGE = 'Basic realm="management API", charset="UTF-8"'
# The addresses from which the service says to deliver; the emulator delivers from this machine.
DELIVERY_ADDRESSES = ("3.125.136.186/32", "18.198.95.233/32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A management call of whoever owns a world."""

    request: Request
    dialect: Dialect
    world: World

    @property
    def parts(self) -> RequestParts:
        return self.request.parts

    @property
    def body(self) -> bytes:
        """The body, which is JSON or says nothing of what it is. Raises InvalidInput."""
        check_is_json(self.parts)
        return self.parts.body

    @property
    def index_id(self) -> IndexId:
        return IndexId(self.request.path_parameters["name"])

    @property
    def account_id(self) -> AccountId:
        return AccountId(self.request.path_parameters["name"])

    @property
    def period(self) -> str | None:
        """The period of statistics as the query names it, None without one."""
        given = [value for name, value in self.parts.query if name == "period" and value]
        return given[-1] if given else None


def endpoints(worlds: Worlds) -> dict[str, Endpoint[Call] | Endpoint[Request]]:
    """Every path of the API with its operations, those of queue accounts under the dialect's segment."""
    dialect = worlds.dialect

    async def open_call(request: Request) -> Call:
        given = basic_credentials(request.parts)
        world = None if given is None else worlds.by_login(given.username, given.password)
        if world is None:
            raise Unauthenticated("unable to authenticate: the management API needs a user name and password")
        check_accepts_json(request.parts)
        await world.current_state()
        return Call(request=request, dialect=dialect, world=world)

    async def open_freely(request: Request) -> Request:
        check_accepts_json(request.parts)
        return request

    return {
        f"/v2/{dialect.queue_segment}/ipv4": Endpoint(dialect, open_freely, {"GET": list_addresses}),
        **{
            path.replace("{queue}", dialect.queue_segment): Endpoint(dialect, open_call, handlers, challenge=CHALLENGE)
            for path, handlers in _OPERATIONS.items()
        },
    }


# -- search indexes ---------------------------------------------------------------------------


async def list_search_indexes(call: Call) -> Response:
    return Answer([_index_view(call, index) for index in call.world.state.search_indexes.values()])


async def create_search_index(call: Call) -> Response:
    wanted = management_json.read_new_search_index(call.body)
    command = commands.CreateSearchIndex(
        customer_id=call.world.login[0], name=wanted.name, region=wanted.region, type=wanted.type
    )
    return Answer(_index_view(call, await call.world.submit(command)))


async def get_search_index(call: Call) -> Response:
    return Answer(_index_view(call, search_index(call.world.state, call.index_id)))


async def delete_search_index(call: Call) -> Response:
    await call.world.submit(commands.DeleteSearchIndex(index_id=call.index_id))
    return _done()


async def rename_search_index(call: Call) -> Response:
    name = management_json.read_new_name(call.body)
    await call.world.submit(commands.RenameSearchIndex(index_id=call.index_id, name=name))
    return _done()


async def reset_search_index_password(call: Call) -> Response:
    index = await call.world.submit(commands.ResetSearchIndexPassword(index_id=call.index_id))
    return Answer(_index_view(call, index))


async def transfer_search_index(call: Call) -> Response:
    target = management_json.read_target_account(call.body)
    await call.world.submit(commands.TransferSearchIndex(index_id=call.index_id, target_account=target))
    return _done()


def _index_view(call: Call, index: SearchIndex) -> Json:
    throughput = throughput_view(call.world.statistics.search_throughput(call.world.state, index.id))
    return management_json.search_index_view(index, throughput, call.dialect)


# -- queue accounts ---------------------------------------------------------------------------


async def list_accounts(call: Call) -> Response:
    return Answer([account_view(book.account, call.dialect) for book in call.world.state.accounts.values()])


async def get_own_account(call: Call) -> Response:
    return _account(call, call.world.account())


async def get_account(call: Call) -> Response:
    return _account(call, call.world.find_account(call.account_id))


async def rotate_token(call: Call) -> Response:
    return _account(call, await call.world.submit(commands.RotateToken(account_id=call.account_id)))


async def set_plan(call: Call) -> Response:
    plan = management_json.read_plan(call.body, call.dialect)
    await call.world.submit(commands.SetPlan(account_id=call.account_id, plan=plan))
    return _done()


async def set_budget(call: Call) -> Response:
    budget = management_json.read_budget(call.body)
    await call.world.submit(commands.SetBudget(account_id=call.account_id, budget=budget))
    return _done()


async def enable_production_pack(call: Call) -> Response:
    return await _set_production_pack(call, enabled=True)


async def disable_production_pack(call: Call) -> Response:
    return await _set_production_pack(call, enabled=False)


async def _set_production_pack(call: Call, *, enabled: bool) -> Response:
    await call.world.submit(commands.SetProductionPack(account_id=call.account_id, enabled=enabled))
    return _done()


async def move_to_team(call: Call) -> Response:
    move = management_json.read_team_move(call.body, call.dialect)
    await call.world.submit(commands.MoveToTeam(account_id=move.account_id, team_id=move.team_id))
    return _done()


async def list_addresses(request: Request) -> Response:
    return Answer(list(DELIVERY_ADDRESSES))


def _account(call: Call, account: Account) -> Response:
    return Answer(account_view(account, call.dialect))


def _done() -> Response:
    """What the service answers to a change that has nothing to show (D-167)."""
    return Answer("OK")


# -- statistics -------------------------------------------------------------------------------


async def get_queue_statistics(call: Call) -> Response:
    call.world.find_account(call.account_id)
    found = await call.world.statistics.queue_account(call.world.state, call.account_id, call.period)
    return Answer(queue_statistics_view(found, call.dialect))


async def get_vector_statistics(call: Call) -> Response:
    found = call.world.statistics.vector_index(call.world.state, call.index_id, call.period)
    return Answer(index_statistics_view(found))


async def get_search_statistics(call: Call) -> Response:
    # A search index in the shape of a vector index (D-200).
    found = call.world.statistics.search_index(call.world.state, call.index_id, call.period)
    return Answer(index_statistics_view(found))


async def get_search_summary(call: Call) -> Response:
    return Answer(index_summary_view(call.world.statistics.search_summary(call.world.state)))


async def get_vector_summary(call: Call) -> Response:
    return Answer(index_summary_view(call.world.statistics.vector_summary(call.world.state)))


Handler = Callable[[Call], Awaitable[Response]]

_OPERATIONS: Mapping[str, Mapping[str, Handler]] = {
    "/v2/search": {"GET": list_search_indexes, "POST": create_search_index},
    "/v2/search/stats": {"GET": get_search_summary},
    "/v2/search/{name}": {"GET": get_search_index, "DELETE": delete_search_index},
    "/v2/search/{name}/stats": {"GET": get_search_statistics},
    "/v2/search/{name}/reset-password": {"POST": reset_search_index_password},
    "/v2/search/{name}/transfer": {"POST": transfer_search_index},
    "/v2/search/{name}/rename": {"POST": rename_search_index},
    "/v2/vector/index/stats": {"GET": get_vector_summary},
    "/v2/vector/index/{name}/stats": {"GET": get_vector_statistics},
    "/v2/{queue}/user": {"GET": get_own_account},
    "/v2/{queue}/users": {"GET": list_accounts},
    "/v2/{queue}/user/{name}": {"GET": get_account},
    "/v2/{queue}/stats/{name}": {"GET": get_queue_statistics},
    "/v2/{queue}/rotate-token/{name}": {"POST": rotate_token},
    "/v2/{queue}/set-plan/{name}": {"POST": set_plan},
    "/v2/{queue}/update-budget/{name}": {"PATCH": set_budget},
    "/v2/{queue}/move-to-team": {"POST": move_to_team},
    "/v2/{queue}/enable-prodpack/{name}": {"POST": enable_production_pack},
    "/v2/{queue}/disable-prodpack/{name}": {"POST": disable_production_pack},
}
