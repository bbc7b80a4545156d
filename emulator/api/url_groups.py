"""URL groups, their endpoints and their default headers."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging import READ, WRITE, MessagingCall, MessagingRoute
from emulator.core.commands import DeleteUrlGroup, RemoveEndpoints, UpsertEndpoints
from emulator.core.rules.resources import url_group
from emulator.wire.messaging import requests, views
from emulator.wire.names import read_group_name


async def list_url_groups(call: MessagingCall) -> Response:
    return Answer([views.url_group(group) for group in call.owner.groups.values()])


async def get_url_group(call: MessagingCall) -> Response:
    return Answer(views.url_group(url_group(call.state, call.account_id, read_group_name(call.name))))


async def delete_url_group(call: MessagingCall) -> Response:
    return await call.carry_out(DeleteUrlGroup(account_id=call.account_id, name=read_group_name(call.name)))


async def set_group_defaults(call: MessagingCall) -> Response:
    """Answers the group's record (D-057)."""
    name = read_group_name(call.name)
    await call.world.submit(
        requests.read_group_defaults(call.parts.body, call.dialect, call.account_id, name, call.log_note)
    )
    return Answer(views.url_group(call.owner.groups[name]))


async def add_endpoints(call: MessagingCall) -> Response:
    name, endpoints = read_group_name(call.name), requests.read_endpoints(call.parts.body)
    return await call.carry_out(UpsertEndpoints(account_id=call.account_id, name=name, endpoints=endpoints))


async def remove_endpoints(call: MessagingCall) -> Response:
    name, selectors = read_group_name(call.name), requests.read_endpoint_selectors(call.parts.body)
    return await call.carry_out(RemoveEndpoints(account_id=call.account_id, name=name, selectors=selectors))


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/topics", list_url_groups, READ),
    MessagingRoute("GET", "/v2/topics/{name}", get_url_group, READ),
    MessagingRoute("DELETE", "/v2/topics/{name}", delete_url_group, WRITE),
    MessagingRoute("PATCH", "/v2/topics/{name}", set_group_defaults, WRITE),
    MessagingRoute("POST", "/v2/topics/{name}/endpoints", add_endpoints, WRITE),
    MessagingRoute("DELETE", "/v2/topics/{name}/endpoints", remove_endpoints, WRITE),
)
