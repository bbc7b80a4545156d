"""The state a world begins with: its built-in account, and what its fixtures say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from emulator import sample_data
from emulator.core import commands
from emulator.core.errors import InvalidInput, Refused
from emulator.core.identifiers import world_key
from emulator.core.management import host_label, new_search_index
from emulator.core.model import (
    Account,
    AccountId,
    DestinationRule,
    Plan,
    SearchIndex,
    SigningKeys,
    TeamMember,
    VectorIndex,
)
from emulator.core.plans import PLAN_OF_TYPE
from emulator.core.simulation import Simulation
from emulator.core.state import State
from emulator.wire.dialect import DialectCredentials
from emulator.wire.fixture_json import (
    AccountFixture,
    Fixtures,
    GroupFixture,
    IndexFixture,
    InvalidFixtures,
    MemberFixture,
    QueueFixture,
    ScheduleFixture,
)

T = TypeVar("T")

# What finds a world, and so must not be the same in two of them.
_UNIQUE_FIELDS = ("token", "read_only_token")
_CALLER_IP = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a world is made of besides its fixtures.

    `secret` is a key that no other world has. `published` are the credentials of the first account
    where clients expect certain ones.
    """

    world_id: str
    seed: int
    epoch_ms: int
    plan: Plan
    secret: bytes
    published: DialectCredentials | None = None

    @property
    def owner(self) -> str:
        """Whose resources these are: the user name of the management API."""
        return f"{self.world_id}@emulator.example"


def first_state(origin: Origin, fixtures: Fixtures) -> State:
    """The state at the world's first instant. The same origin and fixtures give the same state.

    URL groups, queues, schedules and destination rules are made by the ordinary commands, so that
    the limits of their account hold. Raises: InvalidFixtures, with every entry that was refused.
    """
    wanted = fixtures.accounts or (AccountFixture(fields={}),)
    accounts = [_account(origin, number, each) for number, each in enumerate(wanted, start=1)]
    # Everybody is active until all is made: a suspended account may have what it made before.
    state = State(
        # Message ids follow from the seed alone, so that the same seed gives the same trace in any world.
        key=world_key(origin.seed),
        now_ms=origin.epoch_ms,
        accounts=[replace(account, active=True, state="active") for account in accounts],
    )
    for index_fixture in fixtures.search_indexes:
        state.counters.indexes += 1
        index = _search_index(origin, state.counters.indexes, index_fixture)
        state.search_indexes[index.id] = index
    for index_fixture in fixtures.vector_indexes:
        state.counters.indexes += 1
        vector_index = _vector_index(origin, state.counters.indexes, index_fixture)
        state.vector_indexes[vector_index.id] = vector_index
    state.team = tuple(_member(origin, number, each) for number, each in enumerate(fixtures.team, start=1))
    _carry_out(state, fixtures, [account.id for account in accounts])
    for account in accounts:
        state.accounts[account.id].account = account
    return state


def without_secrets(fixtures: Fixtures) -> Fixtures:
    """The fixtures for a further world: the ids and tokens that they fix are the first world's (D-172)."""
    return replace(
        fixtures,
        accounts=tuple(
            replace(
                each,
                id=None,
                fields={name: value for name, value in each.fields.items() if name not in _UNIQUE_FIELDS},
            )
            for each in fixtures.accounts
        ),
        search_indexes=tuple(map(_without_index_secrets, fixtures.search_indexes)),
        vector_indexes=tuple(map(_without_index_secrets, fixtures.vector_indexes)),
    )


def _without_index_secrets(fixture: IndexFixture) -> IndexFixture:
    return replace(
        fixture, id=None, fields={name: value for name, value in fixture.fields.items() if name not in _UNIQUE_FIELDS}
    )


# -- records ----------------------------------------------------------------------------------


def _account(origin: Origin, number: int, fixture: AccountFixture) -> Account:
    is_first = number == 1
    plan = fixture.plan or PLAN_OF_TYPE[origin.plan if is_first else Plan.PAID]
    owner = origin.owner
    if not is_first and not {"customer_id", "created_by"} <= fixture.fields.keys():
        owner = sample_data.email(origin.seed, "account", number)
    account = sample_data.queue_account(
        key=origin.secret,
        number=number,
        plan=plan,
        owner=owner,
        created_ms=_created_ms(origin, "account", number, fixture.age_ms),
    )
    if is_first and origin.published is not None:
        # The dialect's service publishes a local-development account; clients look for it (D-052).
        published = origin.published
        keys = SigningKeys(current=published.current_signing_key, next=published.next_signing_key)
        account = sample_data.with_credentials(account, token=published.token, signing_keys=keys)
    keys = account.signing_keys
    return replace(
        account,
        **{
            "id": fixture.id or account.id,
            "signing_keys": SigningKeys(
                current=fixture.current_signing_key or keys.current, next=fixture.next_signing_key or keys.next
            ),
            **fixture.fields,
        },  # type: ignore[arg-type]  # each field was read as its own type
    )


def _search_index(origin: Origin, number: int, fixture: IndexFixture) -> SearchIndex:
    index = new_search_index(
        origin.secret,
        scope=origin.world_id,
        number=number,
        customer_id=origin.owner,
        name=fixture.name or sample_data.thing(origin.seed, "search index", number),
        region=fixture.region,
        type_=fixture.type,
        creation_time=_created_ms(origin, "index", number, fixture.age_ms) // 1000,
    )
    if fixture.id is not None:
        index = replace(index, id=fixture.id, endpoint=host_label(fixture.id, fixture.region))
    return replace(index, **fixture.fields)  # type: ignore[arg-type]  # each field was read as its own type


def _vector_index(origin: Origin, number: int, fixture: IndexFixture) -> VectorIndex:
    index = VectorIndex(
        id=fixture.id or sample_data.vector_index_id(origin.secret, number),
        profile_number=number,
        customer_id=origin.owner,
        name=fixture.name or sample_data.thing(origin.seed, "vector index", number),
        type=fixture.type,
        region=fixture.region,
        creation_time=_created_ms(origin, "index", number, fixture.age_ms) // 1000,
    )
    return replace(index, **fixture.fields)  # type: ignore[arg-type]  # each field was read as its own type


def _member(origin: Origin, number: int, fixture: MemberFixture) -> TeamMember:
    return TeamMember(
        name=fixture.name or sample_data.person(origin.seed, "member", number),
        email=fixture.email or sample_data.email(origin.seed, "member", number),
        role=fixture.role,
    )


def _created_ms(origin: Origin, kind: str, number: int, age_ms: int | None) -> int:
    age_ms = sample_data.age_ms(origin.secret, kind, number) if age_ms is None else age_ms
    return max(0, origin.epoch_ms - age_ms)


# -- what commands make -----------------------------------------------------------------------


def _carry_out(state: State, fixtures: Fixtures, accounts: Sequence[AccountId]) -> None:
    simulation = Simulation(state)
    problems: list[InvalidInput] = []

    def make_each(key: str, entries: Sequence[T], make: Callable[[Simulation, Sequence[AccountId], T], None]) -> None:
        for number, entry in enumerate(entries):
            try:
                make(simulation, accounts, entry)
            except Refused as refused:
                problems.append(InvalidInput(f"{key}[{number}]", refused.text))

    make_each("queues", fixtures.queues, _make_queue)
    make_each("url_groups", fixtures.url_groups, _make_group)
    make_each("schedules", fixtures.schedules, _make_schedule)
    make_each("destinations", fixtures.rules, _add_rule)
    if problems:
        raise InvalidFixtures(problems)


def _make_queue(simulation: Simulation, accounts: Sequence[AccountId], queue: QueueFixture) -> None:
    simulation.handle(
        commands.UpsertQueue(
            account_id=accounts[queue.account], name=queue.name, parallelism=queue.parallelism, paused=queue.paused
        )
    )


def _make_group(simulation: Simulation, accounts: Sequence[AccountId], group: GroupFixture) -> None:
    account_id = accounts[group.account]
    simulation.handle(commands.UpsertEndpoints(account_id=account_id, name=group.name, endpoints=group.endpoints))
    if group.headers:
        simulation.handle(
            commands.SetGroupDefaults(
                account_id=account_id, name=group.name, headers=group.headers, defaults=group.defaults
            )
        )


def _make_schedule(simulation: Simulation, accounts: Sequence[AccountId], schedule: ScheduleFixture) -> None:
    account_id = accounts[schedule.account]
    write = commands.WriteSchedule(
        account_id=account_id,
        schedule_id=schedule.schedule_id,
        cron=schedule.cron,
        destination=schedule.destination,
        body=schedule.body,
        options=schedule.options,
        caller_ip=_CALLER_IP,
    )
    schedule_id = simulation.handle(write).reply
    if schedule.paused:
        simulation.handle(commands.SetSchedulePaused(account_id=account_id, schedule_id=schedule_id, paused=True))


def _add_rule(simulation: Simulation, _: Sequence[AccountId], rule: DestinationRule) -> None:
    simulation.handle(commands.AddRule(rule=rule))
