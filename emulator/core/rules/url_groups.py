"""URL groups: their endpoints and their default headers."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core.commands import DeleteUrlGroup, RemoveEndpoints, SetGroupDefaults, UpsertEndpoints
from emulator.core.decision import Decision, account_state
from emulator.core.errors import InvalidInput, LimitReached, NotFound
from emulator.core.facts import UrlGroupDeleted, UrlGroupWritten
from emulator.core.model.names import AccountId, GroupName
from emulator.core.model.options import DestinationKind, MessageOptions
from emulator.core.model.resources import Endpoint, UrlGroup
from emulator.core.rules import limits
from emulator.core.state_view import AccountView, StateView


def upsert_endpoints(state: StateView, command: UpsertEndpoints) -> Decision[None]:
    """Add endpoints and update those already there; a new name makes a new group."""
    owner = account_state(state, command.account_id)
    limits.check_account_is_active(owner.account)
    group = owner.groups.get(command.name)
    if group is None:
        limits.check_count("maxTopics", len(owner.groups), owner.account.max_topics)
        group = _new_group(command.account_id, command.name, state.now_ms)
    endpoints = _with(group.endpoints, command.endpoints)
    limit = owner.account.max_endpoints_per_topic
    if len(endpoints) > limit:
        raise LimitReached(f"quota maxEndpointsPerTopic exceeded, current limit: {limit}")
    yield UrlGroupWritten(group=replace(group, endpoints=endpoints, updated_ms=state.now_ms))


def _with(endpoints: tuple[Endpoint, ...], added: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """An endpoint replaces the one of its name, or, when either has no name, the one of its URL (D-036)."""
    result = list(endpoints)
    for endpoint in added:
        index = _index_of(result, endpoint)
        if index is None:
            result.append(endpoint)
        else:
            result[index] = Endpoint(url=endpoint.url, name=endpoint.name or result[index].name)
    return tuple(result)


def _index_of(endpoints: list[Endpoint], wanted: Endpoint) -> int | None:
    for index, present in enumerate(endpoints):
        if wanted.name is not None and present.name == wanted.name:
            return index
    for index, present in enumerate(endpoints):
        if present.url == wanted.url and (present.name is None or wanted.name is None):
            return index
    return None


def remove_endpoints(state: StateView, command: RemoveEndpoints) -> Decision[None]:
    """Remove endpoints by name or URL; the group goes with its last one."""
    group = url_group(state, command.account_id, command.name)
    remaining = group.endpoints
    for selector in command.selectors:
        kept = tuple(
            endpoint
            for endpoint in remaining
            if not (
                (selector.name is None or endpoint.name == selector.name)
                and (selector.url is None or endpoint.url == selector.url)
            )
        )
        if len(kept) == len(remaining):
            wanted = selector.name if selector.name is not None else selector.url
            raise NotFound(f"endpoint {wanted} not found in topic {command.name}")
        remaining = kept
    if remaining:
        yield UrlGroupWritten(group=replace(group, endpoints=remaining, updated_ms=state.now_ms))
    else:
        _check_has_no_schedule(account_state(state, command.account_id), command.name, "endpoints")
        yield UrlGroupDeleted(account_id=command.account_id, name=command.name)


def delete_url_group(state: StateView, command: DeleteUrlGroup) -> Decision[None]:
    """Delete a group, also one that is not there; refused while a schedule publishes to it (D-035)."""
    owner = account_state(state, command.account_id)
    _check_has_no_schedule(owner, command.name, "url_group_name")
    if command.name in owner.groups:
        yield UrlGroupDeleted(account_id=command.account_id, name=command.name)


def _check_has_no_schedule(owner: AccountView, name: GroupName, field: str) -> None:
    """A group stays while a schedule publishes to it (D-035). Raises InvalidInput naming the field."""
    for schedule_id, progress in owner.schedules.items():
        destination = progress.schedule.destination
        if destination.kind is DestinationKind.GROUP and destination.text == name:
            raise InvalidInput(field, f"schedule {schedule_id} publishes to topic {name}, delete it first")


def set_group_defaults(state: StateView, command: SetGroupDefaults) -> Decision[None]:
    """Replace the default headers of a group that exists."""
    group = url_group(state, command.account_id, command.name)
    limits.check_options(account_state(state, command.account_id).account, command.defaults, state.now_ms)
    yield UrlGroupWritten(
        group=replace(group, headers=command.headers, defaults=command.defaults, updated_ms=state.now_ms)
    )


def url_group(state: StateView, account_id: AccountId, name: GroupName) -> UrlGroup:
    """Raises NotFound for a group that the account does not have."""
    group = account_state(state, account_id).groups.get(name)
    if group is None:
        raise NotFound(f"topic {name} not found")
    return group


def destination_group(owner: AccountView, name: GroupName) -> UrlGroup:
    """The group that a publish or a schedule names as its destination (D-262). Raises NotFound."""
    group = owner.groups.get(name)
    if group is None:
        # A URL without its scheme reads as a name.
        hint = "; a URL begins with http:// or https://" if "." in name else ""
        raise NotFound(f"topic {name} not found{hint}")
    return group


def _new_group(account_id: AccountId, name: GroupName, now_ms: int) -> UrlGroup:
    return UrlGroup(
        name=name,
        account_id=account_id,
        endpoints=(),
        headers=(),
        defaults=MessageOptions(),
        created_ms=now_ms,
        updated_ms=now_ms,
    )
