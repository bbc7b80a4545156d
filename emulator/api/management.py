"""A call of the management API: who makes it, and what every handler gets.

Source: interface document, "Management API". No limit on calls is shown, and there is none (D-188).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TypeAlias

from starlette.responses import Response

from emulator.api.endpoint import Answer, Gate, Opener, Route, RoutedRequest
from emulator.core import commands
from emulator.core.commands import AmendAccount, Command, RotateToken, SetPlan
from emulator.core.errors import Unauthenticated
from emulator.core.model.resources import SearchIndex
from emulator.core.record import AccountId, IndexId, Record
from emulator.core.rules.accounts import search_index
from emulator.wire import accounts
from emulator.wire.accounts import account_view
from emulator.wire.dialect import Dialect
from emulator.wire.json_reader import Json
from emulator.wire.parts import RequestParts, basic_credentials, check_accepts_json, check_is_json
from emulator.wire.statistics import index_statistics_view, index_summary_view, queue_statistics_view, throughput_view
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World

CHALLENGE = 'Basic realm="management API", charset="UTF-8"'


class ManagementCall(Record, gc=True):
    """A call by the owner of a world. `owned` is None for an operation that needs no login."""

    request: RoutedRequest
    dialect: Dialect
    owned: World | None

    @property
    def world(self) -> World:
        assert self.owned is not None, "this operation is declared to need no login"
        return self.owned

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

    async def carry_out(self, command: Command[object]) -> Response:
        """Submit a command whose reply is not shown; the answer is what the service gives then (D-167)."""
        await self.world.submit(command)
        return Answer("OK")

    @property
    def period(self) -> str | None:
        """The period of statistics as the query names it, None without one."""
        given = [value for name, value in self.parts.query if name == "period" and value]
        return given[-1] if given else None


class ManagementPolicy(Record):
    """Who may call an operation."""

    needs_login: bool = True


OWNER = ManagementPolicy()
ANYBODY = ManagementPolicy(needs_login=False)

ManagementRoute: TypeAlias = Route[ManagementCall, ManagementPolicy]


def _owned(worlds: Worlds, policy: ManagementPolicy, parts: RequestParts) -> World | None:
    """The world of a request's login, None for an operation that needs none. Raises: Unauthenticated."""
    if not policy.needs_login:
        return None
    given = basic_credentials(parts)
    owned = None if given is None else worlds.by_login(given.username, given.password)
    if owned is None:
        raise Unauthenticated("unable to authenticate: the management API needs a user name and password")
    return owned


def gate(worlds: Worlds, policies: Mapping[str, ManagementPolicy]) -> Gate:
    """What asks for the login of an operation before its body is received (D-812)."""

    def check(parts: RequestParts) -> None:
        _owned(worlds, policies[parts.method], parts)

    return check


def opener(worlds: Worlds, policies: Mapping[str, ManagementPolicy]) -> Opener[ManagementCall]:
    """What makes a call of a request to one path, whose operations have these policies by method."""

    async def open_call(request: RoutedRequest) -> ManagementCall:
        owned = _owned(worlds, policies[request.parts.method], request.parts)
        check_accepts_json(request.parts)
        if owned is not None:
            await owned.current_state()
        return ManagementCall(request=request, dialect=worlds.dialect, owned=owned)

    return open_call


# -- addresses --------------------------------------------------------------------------------
# The addresses from which the service says to deliver; the emulator delivers from this machine.

DELIVERY_ADDRESSES = ("3.125.136.186/32", "18.198.95.233/32")


async def list_addresses(call: ManagementCall) -> Response:
    return Answer(DELIVERY_ADDRESSES)


# -- queue accounts: their records, plans, budgets, credentials and statistics ----------------


async def list_accounts(call: ManagementCall) -> Response:
    return Answer([account_view(owner.account, call.dialect) for owner in call.world.state.accounts.values()])


async def get_own_account(call: ManagementCall) -> Response:
    return Answer(account_view(call.world.account(), call.dialect))


async def get_account(call: ManagementCall) -> Response:
    return Answer(account_view(call.world.find_account(call.account_id), call.dialect))


async def rotate_token(call: ManagementCall) -> Response:
    account = await call.world.submit(RotateToken(account_id=call.account_id))
    return Answer(account_view(account, call.dialect))


async def set_plan(call: ManagementCall) -> Response:
    plan = accounts.read_plan(call.body, call.dialect)
    return await call.carry_out(SetPlan(account_id=call.account_id, plan=plan))


async def set_budget(call: ManagementCall) -> Response:
    budget = accounts.read_new_budget(call.body)
    return await call.carry_out(AmendAccount(account_id=call.account_id, budget=budget))


async def set_production_pack(call: ManagementCall, *, enabled: bool) -> Response:
    return await call.carry_out(AmendAccount(account_id=call.account_id, prod_pack_enabled=enabled))


async def get_queue_statistics(call: ManagementCall) -> Response:
    found = await call.world.statistics.queue_account(call.account_id, call.period)
    workflows = await call.world.statistics.workflows(call.account_id, call.period)
    return Answer(queue_statistics_view(found, workflows, call.dialect))


# -- the teams that queue accounts belong to --------------------------------------------------


async def move_to_team(call: ManagementCall) -> Response:
    return await call.carry_out(accounts.read_team_move(call.body, call.dialect))


# -- search indexes and their statistics ------------------------------------------------------


async def list_search_indexes(call: ManagementCall) -> Response:
    return Answer([_view(call, index) for index in call.world.state.search_indexes.values()])


async def create_search_index(call: ManagementCall) -> Response:
    command = accounts.read_new_search_index(call.body, call.world.login[0])
    return Answer(_view(call, await call.world.submit(command)))


async def get_search_index(call: ManagementCall) -> Response:
    return Answer(_view(call, search_index(call.world.state, call.index_id)))


async def delete_search_index(call: ManagementCall) -> Response:
    return await call.carry_out(commands.DeleteSearchIndex(index_id=call.index_id))


async def rename_search_index(call: ManagementCall) -> Response:
    name = accounts.read_name(call.body, "name")
    return await call.carry_out(commands.ChangeSearchIndex(index_id=call.index_id, name=name))


async def reset_password(call: ManagementCall) -> Response:
    return Answer(_view(call, await call.world.submit(commands.ResetSearchIndexPassword(index_id=call.index_id))))


async def transfer_search_index(call: ManagementCall) -> Response:
    target = accounts.read_name(call.body, "target_account")
    return await call.carry_out(commands.ChangeSearchIndex(index_id=call.index_id, customer_id=target))


async def get_search_statistics(call: ManagementCall) -> Response:
    # In the shape of a vector index (D-200).
    return Answer(index_statistics_view(call.world.statistics.search_index(call.index_id, call.period)))


async def get_search_summary(call: ManagementCall) -> Response:
    return Answer(index_summary_view(call.world.statistics.search_summary()))


def _view(call: ManagementCall, index: SearchIndex) -> Json:
    throughput = throughput_view(call.world.statistics.search_throughput(index.id))
    return accounts.search_index_view(index, throughput, call.dialect)


# -- the statistics of vector indexes; the indexes themselves are not managed here ------------


async def get_vector_statistics(call: ManagementCall) -> Response:
    return Answer(index_statistics_view(call.world.statistics.vector_index(call.index_id, call.period)))


async def get_vector_summary(call: ManagementCall) -> Response:
    return Answer(index_summary_view(call.world.statistics.vector_summary()))


# Those beyond the interface document's table are not shown there; they are those that the service's own clients use
# (D-167).
ROUTES: tuple[ManagementRoute, ...] = (
    ManagementRoute("GET", "/v2/{queue}/ipv4", list_addresses, ANYBODY),
    ManagementRoute("GET", "/v2/search", list_search_indexes, OWNER),
    ManagementRoute("POST", "/v2/search", create_search_index, OWNER),
    ManagementRoute("GET", "/v2/search/stats", get_search_summary, OWNER),
    ManagementRoute("GET", "/v2/search/{name}", get_search_index, OWNER),
    ManagementRoute("DELETE", "/v2/search/{name}", delete_search_index, OWNER),
    ManagementRoute("GET", "/v2/search/{name}/stats", get_search_statistics, OWNER),
    ManagementRoute("POST", "/v2/search/{name}/reset-password", reset_password, OWNER),
    ManagementRoute("POST", "/v2/search/{name}/transfer", transfer_search_index, OWNER),
    ManagementRoute("POST", "/v2/search/{name}/rename", rename_search_index, OWNER),
    ManagementRoute("GET", "/v2/vector/index/stats", get_vector_summary, OWNER),
    ManagementRoute("GET", "/v2/vector/index/{name}/stats", get_vector_statistics, OWNER),
    ManagementRoute("GET", "/v2/{queue}/user", get_own_account, OWNER),
    ManagementRoute("GET", "/v2/{queue}/users", list_accounts, OWNER),
    ManagementRoute("GET", "/v2/{queue}/user/{name}", get_account, OWNER),
    ManagementRoute("GET", "/v2/{queue}/stats/{name}", get_queue_statistics, OWNER),
    ManagementRoute("POST", "/v2/{queue}/rotate-token/{name}", rotate_token, OWNER),
    ManagementRoute("POST", "/v2/{queue}/set-plan/{name}", set_plan, OWNER),
    ManagementRoute("PATCH", "/v2/{queue}/update-budget/{name}", set_budget, OWNER),
    ManagementRoute("POST", "/v2/{queue}/enable-prodpack/{name}", partial(set_production_pack, enabled=True), OWNER),
    ManagementRoute("POST", "/v2/{queue}/disable-prodpack/{name}", partial(set_production_pack, enabled=False), OWNER),
    ManagementRoute("POST", "/v2/{queue}/move-to-team", move_to_team, OWNER),
)
