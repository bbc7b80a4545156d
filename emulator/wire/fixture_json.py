"""A fixtures document: what a world holds before anybody has used it.

The same document is a YAML or JSON file and a JSON value of the control API. It is read strictly:
what is wrong is refused with the path of the value at fault, unknown keys are wrong, and one
reading finds what is wrong in every entry (D-170).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from emulator.core import cron
from emulator.core.errors import InvalidInput, Malformed, Unsupported
from emulator.core.excerpts import excerpt
from emulator.core.model import (
    AccountId,
    Destination,
    DestinationRule,
    Endpoint,
    GroupName,
    IndexId,
    IndexType,
    MessageOptions,
    Plan,
    QueueName,
    ScheduleId,
    TeamRole,
)
from emulator.core.plans import PLAN_OF_TYPE, TERMS, PlanName
from emulator.wire import account_json, destinations, names
from emulator.wire.dialect import Dialect
from emulator.wire.json_bodies import MAX_PARALLELISM
from emulator.wire.json_fields import (
    WHOLE,
    Json,
    JsonObject,
    joined,
    kind_of,
    read_choice,
    read_duration_ms,
    read_integer,
    read_list,
    read_object,
    read_text,
)
from emulator.wire.message_options import RequestKind, read_listed_options
from emulator.wire.rule_json import read_rule

T = TypeVar("T")

SEARCH_REGIONS = ("eu-west-1", "us-central1")
VECTOR_REGIONS = ("eu-west-1", "us-central1", "us-east-1")
KEYS = (
    "accounts",
    "search_indexes",
    "vector_indexes",
    "team",
    "url_groups",
    "queues",
    "schedules",
    "destinations",
)
# What a fixture calls the plans: `paid` is the plan a paid account is on where none is named.
_PLANS = {name.value: name for name in PlanName} | {Plan.PAID.value: PLAN_OF_TYPE[Plan.PAID]}
_MAX_TEXT = 1024


class InvalidFixtures(Exception):
    """A fixtures document cannot be used; `problems` names every value at fault."""

    def __init__(self, problems: Sequence[InvalidInput]) -> None:
        super().__init__(problems[0].text)
        self.problems = tuple(problems)


# -- what a document says; None is "not said" ---------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountFixture:
    """A queue account. `fields` are values of its record by the document's names."""

    plan: PlanName | None = None
    age_ms: int | None = None
    id: AccountId | None = None
    current_signing_key: str | None = None
    next_signing_key: str | None = None
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFixture:
    """A search or vector index. `fields` are the other values of its record."""

    id: IndexId | None
    name: str | None
    type: IndexType
    region: str
    age_ms: int | None
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFixture:
    name: str | None
    email: str | None
    role: TeamRole


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFixture:
    """A URL group of the account at position `account`, counted from 0."""

    account: int
    name: GroupName
    endpoints: tuple[Endpoint, ...]
    headers: tuple[tuple[str, tuple[str, ...]], ...]
    defaults: MessageOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFixture:
    account: int
    name: QueueName
    parallelism: int | None
    paused: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFixture:
    account: int
    schedule_id: ScheduleId | None
    cron: str
    destination: Destination
    body: bytes
    options: MessageOptions
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixtures:
    """A document as read. Its first account is the built-in one of the world."""

    accounts: tuple[AccountFixture, ...] = ()
    search_indexes: tuple[IndexFixture, ...] = ()
    vector_indexes: tuple[IndexFixture, ...] = ()
    team: tuple[MemberFixture, ...] = ()
    url_groups: tuple[GroupFixture, ...] = ()
    queues: tuple[QueueFixture, ...] = ()
    schedules: tuple[ScheduleFixture, ...] = ()
    rules: tuple[DestinationRule, ...] = ()


def read_fixtures(value: Json, dialect: Dialect) -> Fixtures:
    """A fixtures document; null is an empty one. Raises: InvalidFixtures."""
    return _Reader(dialect).read({} if value is None else value)


class _Reader:
    """Reads one document and remembers what is wrong with it, at most one thing in each entry."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._problems: list[InvalidInput] = []
        # The customer_id of each account, where one is given; the built-in account is there in any case.
        self._owners: list[str | None] = []
        self._taken: dict[tuple[str, object], str] = {}

    def read(self, value: Json) -> Fixtures:
        try:
            given = read_object(value, "", KEYS)
        except InvalidInput as problem:
            raise InvalidFixtures([problem]) from None
        fixtures = Fixtures(
            accounts=self._entries(given, "accounts", self._account),
            search_indexes=self._entries(given, "search_indexes", self._search_index),
            vector_indexes=self._entries(given, "vector_indexes", self._vector_index),
            team=self._entries(given, "team", self._member),
            queues=self._entries(given, "queues", self._queue),
            url_groups=self._entries(given, "url_groups", self._group),
            schedules=self._entries(given, "schedules", self._schedule),
            rules=self._entries(given, "destinations", self._rule),
        )
        if self._problems:
            raise InvalidFixtures(self._problems)
        return fixtures

    def _entries(self, given: JsonObject, key: str, read: Callable[[Json, str], T]) -> tuple[T, ...]:
        entries: list[T] = []
        try:
            items = read_list(given[key], key) if given.get(key) is not None else ()
        except InvalidInput as problem:
            self._problems.append(problem)
            return ()
        for index, item in enumerate(items):
            try:
                entries.append(read(item, f"{key}[{index}]"))
            except InvalidInput as problem:
                self._problems.append(problem)
        return tuple(entries)

    # -- accounts, indexes, team ----------------------------------------------------------------

    def _account(self, value: Json, path: str) -> AccountFixture:
        customer = value.get("customer_id") if isinstance(value, Mapping) else None
        self._owners.append(customer if isinstance(customer, str) else None)
        own_keys = ("plan", "age", "id", "current_signing_key", "next_signing_key")
        given = _known_fields(value, path, (*own_keys, *account_json.account_fields(self._dialect)))
        fields = account_json.read_account_fields(given, path, self._dialect)
        plan: PlanName | None = None
        if "plan" in given:
            plan = _PLANS[read_choice(given["plan"], joined(path, "plan"), tuple(_PLANS))]
        kind = fields.pop("type", None)
        if isinstance(kind, Plan):
            plan = plan or PLAN_OF_TYPE[kind]
            if TERMS[plan].type is not kind:
                raise InvalidInput(joined(path, "type"), f"expected {TERMS[plan].type}, the type of the plan {plan}")
        self._check_age(given, path)
        account_id = AccountId(self._name(given["id"], joined(path, "id"))) if "id" in given else None
        for name in ("token", "read_only_token"):
            if name in fields:
                self._take("token", fields[name], joined(path, name))
        if account_id is not None:
            self._take("account", account_id, joined(path, "id"))
        if "customer_id" in fields:
            self._take("customer", fields["customer_id"], joined(path, "customer_id"))
        return AccountFixture(
            plan=plan,
            age_ms=self._age(given, path),
            id=account_id,
            current_signing_key=self._secret(given, path, "current_signing_key"),
            next_signing_key=self._secret(given, path, "next_signing_key"),
            fields=fields,
        )

    def _search_index(self, value: Json, path: str) -> IndexFixture:
        readers = {**_SEARCH_READERS, self._dialect.wire_name("integration_email"): _any_text}
        names_of = {name: name for name in _SEARCH_READERS}
        names_of[self._dialect.wire_name("integration_email")] = "integration_email"
        given = read_object(value, path, ("id", "name", "type", "region", "age", *readers))
        fields = {names_of[key]: readers[key](given[key], joined(path, key)) for key in given if key in readers}
        for name in ("token", "read_only_token"):
            if name in fields:
                self._take("index token", fields[name], joined(path, name))
        return self._index(given, path, SEARCH_REGIONS, fields)

    def _vector_index(self, value: Json, path: str) -> IndexFixture:
        given = read_object(value, path, ("id", "name", "type", "region", "age", *_VECTOR_READERS))
        fields = {key: _VECTOR_READERS[key](given[key], joined(path, key)) for key in given if key in _VECTOR_READERS}
        return self._index(given, path, VECTOR_REGIONS, fields)

    def _index(
        self, given: JsonObject, path: str, regions: tuple[str, ...], fields: Mapping[str, object]
    ) -> IndexFixture:
        index_type, region = IndexType.PAYG, regions[0]
        if "type" in given:
            index_type = IndexType(read_choice(given["type"], joined(path, "type"), tuple(IndexType)))
        if "region" in given:
            region = read_choice(given["region"], joined(path, "region"), regions)
        self._check_age(given, path)
        index_id = IndexId(self._name(given["id"], joined(path, "id"))) if "id" in given else None
        if index_id is not None:
            self._take("index", index_id, joined(path, "id"))
        return IndexFixture(
            id=index_id,
            name=_label(given["name"], joined(path, "name")) if "name" in given else None,
            type=index_type,
            region=region,
            age_ms=self._age(given, path),
            fields=fields,
        )

    def _member(self, value: Json, path: str) -> MemberFixture:
        given = read_object(value, path, ("name", "email", "role"))
        role = TeamRole.DEV
        if "role" in given:
            role = TeamRole(read_choice(given["role"], joined(path, "role"), tuple(TeamRole)))
        email: str | None = None
        if "email" in given:
            at = joined(path, "email")
            email = _label(given["email"], at)
            if "@" not in email[1:-1]:
                raise InvalidInput(at, f"expected an email address, got {excerpt(email)}")
            self._take("member", email, at)
        return MemberFixture(
            name=_label(given["name"], joined(path, "name")) if "name" in given else None, email=email, role=role
        )

    # -- what belongs to an account -------------------------------------------------------------

    def _queue(self, value: Json, path: str) -> QueueFixture:
        given = read_object(value, path, ("account", "name", "parallelism", "paused"))
        account = self._owner(given, path)
        name = QueueName(self._name(_required(given, path, "name"), joined(path, "name")))
        self._take(f"queue of {account}", name, joined(path, "name"))
        parallelism: int | None = None
        if "parallelism" in given:
            parallelism = read_integer(given["parallelism"], joined(path, "parallelism"), 1, MAX_PARALLELISM)
        return QueueFixture(account=account, name=name, parallelism=parallelism, paused=_flag(given, path, "paused"))

    def _group(self, value: Json, path: str) -> GroupFixture:
        given = read_object(value, path, ("account", "name", "endpoints", "headers"))
        account = self._owner(given, path)
        name = GroupName(self._name(_required(given, path, "name"), joined(path, "name")))
        self._take(f"group of {account}", name, joined(path, "name"))
        at = joined(path, "endpoints")
        items = read_list(_required(given, path, "endpoints"), at)
        if not items:
            raise InvalidInput(at, "expected at least one endpoint")
        headers = _headers(given, path)
        return GroupFixture(
            account=account,
            name=name,
            endpoints=tuple(_endpoint(item, f"{at}[{index}]") for index, item in enumerate(items)),
            headers=headers,
            defaults=self._options(headers, path, RequestKind.GROUP_DEFAULTS),
        )

    def _schedule(self, value: Json, path: str) -> ScheduleFixture:
        given = read_object(value, path, ("account", "id", "cron", "destination", "body", "headers", "paused"))
        account = self._owner(given, path)
        schedule_id: ScheduleId | None = None
        if "id" in given:
            schedule_id = ScheduleId(self._name(given["id"], joined(path, "id")))
            self._take(f"schedule of {account}", schedule_id, joined(path, "id"))
        at = joined(path, "cron")
        try:
            expression = cron.parse(read_text(_required(given, path, "cron"), at)).text
        except Malformed as malformed:
            raise InvalidInput(at, f"Invalid cron expression {malformed.reason}") from None
        at = joined(path, "destination")
        try:
            destination = destinations.read_batch_destination(read_text(_required(given, path, "destination"), at))
        except InvalidInput as problem:
            raise InvalidInput(at, problem.reason) from None
        except Unsupported as problem:
            raise InvalidInput(at, problem.text) from None
        body = given.get("body", "")
        if not isinstance(body, str):
            raise InvalidInput(joined(path, "body"), f"expected a text, got {kind_of(body)}")
        headers = _headers(given, path)
        for name, _ in headers:
            for own, key in (("cron", "cron"), ("schedule-id", "id")):
                if name.lower() == self._dialect.lower_prefix + own:
                    raise InvalidInput(f"{path}.headers.{name}", f"expected {key} of the schedule instead")
        return ScheduleFixture(
            account=account,
            schedule_id=schedule_id,
            cron=expression,
            destination=destination,
            body=_encoded(body, joined(path, "body")),
            options=self._options(headers, path, RequestKind.SCHEDULE),
            paused=_flag(given, path, "paused") or False,
        )

    def _rule(self, value: Json, path: str) -> DestinationRule:
        try:
            return read_rule(value)
        except InvalidInput as problem:
            field = path if problem.field == WHOLE else joined(path, problem.field)
            raise InvalidInput(field, problem.reason) from None

    def _options(
        self, headers: tuple[tuple[str, tuple[str, ...]], ...], path: str, kind: RequestKind
    ) -> MessageOptions:
        pairs = [(name, value) for name, values in headers for value in values]
        try:
            return read_listed_options(pairs, self._dialect, kind=kind)
        except InvalidInput as problem:
            written = [name for name, _ in headers if name.lower() == problem.field.lower()]
            raise InvalidInput(f"{path}.headers.{written[0] if written else problem.field}", problem.reason) from None

    # -- parts ----------------------------------------------------------------------------------

    def _owner(self, given: JsonObject, path: str) -> int:
        """The position of the account something belongs to: it is named by its number or its customer_id."""
        if "account" not in given:
            return 0
        value, at = given["account"], joined(path, "account")
        if isinstance(value, str):
            if value in self._owners:
                return self._owners.index(value)
            raise InvalidInput(at, f"expected the customer_id of an account of this document, got {excerpt(value)}")
        return read_integer(value, at, 1, max(1, len(self._owners))) - 1

    def _take(self, kind: str, value: object, path: str) -> None:
        """Raises InvalidInput for what something else of the document has already."""
        other = self._taken.setdefault((kind, value), path)
        if other != path:
            raise InvalidInput(path, f"{other} is the same, expected another one")

    def _name(self, value: Json, path: str) -> str:
        try:
            return names.parse_name(read_text(value, path))
        except Malformed as malformed:
            raise InvalidInput(path, malformed.reason) from None

    def _secret(self, given: JsonObject, path: str, key: str) -> str | None:
        return _secret(given[key], joined(path, key)) if key in given else None

    def _check_age(self, given: JsonObject, path: str) -> None:
        if "age" in given and "creation_time" in given:
            raise InvalidInput(joined(path, "age"), "expected only one of age and creation_time")

    def _age(self, given: JsonObject, path: str) -> int | None:
        return read_duration_ms(given["age"], joined(path, "age")) if "age" in given else None


def _known_fields(value: Json, path: str, known: Sequence[str]) -> JsonObject:
    """An object with one of many keys, too many to list them all where one is misspelt."""
    if isinstance(value, Mapping):
        for key in value:
            if key not in known:
                import difflib

                similar = difflib.get_close_matches(key, known, n=3)
                hint = f", perhaps {' or '.join(similar)} is meant" if similar else ""
                raise InvalidInput(joined(path, key), f"unknown, expected a field of the account record{hint}")
    return read_object(value, path, known)


def _required(given: JsonObject, path: str, key: str) -> Json:
    if key not in given:
        raise InvalidInput(joined(path, key), "is missing")
    return given[key]


def _flag(given: JsonObject, path: str, key: str) -> bool | None:
    return _boolean(given[key], joined(path, key)) if key in given else None


def _boolean(value: Json, path: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(path, f"expected true or false, got {kind_of(value)}")
    return value


def _label(value: Json, path: str) -> str:
    """A name for people to read."""
    try:
        return names.parse_free_text(read_text(value, path))
    except Malformed as malformed:
        raise InvalidInput(path, malformed.reason) from None


def _any_text(value: Json, path: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise InvalidInput(path, f"expected a text of at most {_MAX_TEXT} characters")
    return value


def _secret(value: Json, path: str) -> str:
    text = _any_text(value, path)
    if not text or not text.isprintable() or not text.isascii():
        raise InvalidInput(path, "expected printable ASCII characters, at least one")
    return text


def _limit(value: Json, path: str) -> int:
    return read_integer(value, path, -1)


def _count(value: Json, path: str) -> int:
    return read_integer(value, path, 0)


_SEARCH_READERS: dict[str, Callable[[Json, str], object]] = {
    "customer_id": _label,
    "endpoint": _label,
    "integration_email": _any_text,
    "token": _secret,
    "read_only_token": _secret,
    "max_vector_count": _count,
    "max_monthly_reranks": _limit,
    "max_daily_updates": _limit,
    "max_daily_queries": _limit,
    "max_monthly_bandwidth": _limit,
    "max_writes_per_second": _count,
    "max_query_per_second": _count,
    "max_reads_per_request": _count,
    "max_writes_per_request": _count,
    "creation_time": _count,
    "input_enrichment_enabled": _boolean,
}
_VECTOR_READERS: dict[str, Callable[[Json, str], object]] = {"customer_id": _label, "creation_time": _count}


def _endpoint(value: Json, path: str) -> Endpoint:
    given = read_object(value, path, ("url", "name"))
    at = joined(path, "url")
    url = destinations.check_url(at, read_text(_required(given, path, "url"), at))
    return Endpoint(url=url, name=_label(given["name"], joined(path, "name")) if "name" in given else None)


def _headers(given: JsonObject, path: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if "headers" not in given:
        return ()
    at, content = joined(path, "headers"), given["headers"]
    if not isinstance(content, Mapping):
        raise InvalidInput(at, f"expected an object, got {kind_of(content)}")
    headers: list[tuple[str, tuple[str, ...]]] = []
    for name, value in content.items():
        values: Sequence[Json] = [value] if isinstance(value, str) else read_list(value, f"{at}.{name}")
        texts = [text for text in values if isinstance(text, str)]
        if len(texts) < len(values):
            raise InvalidInput(f"{at}.{name}", "expected a text or a list of texts")
        headers.append((name, tuple(texts)))
    return tuple(headers)


def _encoded(text: str, path: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(path, "holds half a surrogate pair, expected Unicode text") from None
