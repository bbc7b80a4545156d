"""The names on the wire that the interface document only stands in for.

A dialect renames; behaviour never depends on it. Built in are `svc`, the document as written, and
`upstash`; any other is a TOML file of the same form (D-081).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from emulator import resources
from emulator.core.errors import Malformed
from emulator.core.language.text import canonical_name, excerpt
from emulator.core.record import Record
from emulator.wire import toml

BUILT_IN = ("svc", "upstash")
DOCUMENT_PREFIX = "Svc-"
# What the names of the emulator's own headers begin with.
OWN_PREFIX = "svc-emulator"
# Where the messages to the service's own language model go, as the emulator shows it (D-311).
LLM_URL = "https://svc.example/llm/v1/chat/completions"


class DialectError(ValueError):
    """A dialect cannot be used; the text names the file, and the key if one key is wrong."""


class Environment(Record):
    """The variables from which the dialect's clients take their configuration."""

    url: str
    token: str
    current_signing_key: str
    next_signing_key: str

    def variables(self, *, url: str, token: str, current_signing_key: str, next_signing_key: str) -> dict[str, str]:
        """The values under the names that clients look for, in the order in which they are shown."""
        return {
            self.url: url,
            self.token: token,
            self.current_signing_key: current_signing_key,
            self.next_signing_key: next_signing_key,
        }


class DialectCredentials(Record):
    """Credentials that the dialect's clients expect of a local server, for its default account."""

    token: str
    current_signing_key: str
    next_signing_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One set of names. `fields` maps the document's JSON fields and enum values to those on the wire.

    `users` are further published accounts of the default world (D-528), `earlier_signing_keys` keys that were
    published once (D-804). With `takes_foreign_options` those of other dialects are ignored, otherwise they are
    refused (D-529).
    """

    name: str
    header_prefix: str
    token_parameter: str
    issuer: str
    user_agent: str
    queue_segment: str
    environment: Environment
    fields: Mapping[str, str] = field(hash=False, default_factory=lambda: MappingProxyType({}))
    credentials: DialectCredentials | None = None
    users: tuple[DialectCredentials, ...] = ()
    earlier_signing_keys: tuple[str, ...] = ()
    takes_foreign_options: bool = False
    llm_url: str = LLM_URL
    lower_prefix: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower_prefix", self.header_prefix.lower())

    def header(self, suffix: str) -> str:
        """The full name of a service header: `retry-delay` -> `Svc-Retry-Delay`."""
        return self.header_prefix + canonical_name(suffix)

    def is_own_parameter(self, name: str) -> bool:
        """Whether a query parameter is addressed to the service itself: the token, or an option."""
        lower_name = name.lower()
        return lower_name.startswith(self.lower_prefix) or lower_name == self.token_parameter.lower()

    def wire_name(self, name: str) -> str:
        """The name on the wire of a JSON field or an enum value of the management API."""
        return self.fields.get(name, name)

    def rename_field_at_fault(self, name: str) -> str:
        """The client's name for a field that a refusal names: the core uses the document's names."""
        if name.startswith(self.header_prefix):
            return name
        if name.startswith(DOCUMENT_PREFIX):
            return self.header_prefix + name[len(DOCUMENT_PREFIX) :]
        return self.fields.get(name, name)


# The dialect of the interface document, read at its first use.
SVC: Dialect

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Dialect:
        if name == "SVC":
            return load("svc")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def owner_of(lower_name: str) -> str | None:
    """The built-in dialect whose prefix a header or parameter has."""
    if lower_name.startswith(OWN_PREFIX):
        return None  # The emulator's own headers have the same names in every dialect.
    return next((name for name in BUILT_IN if lower_name.startswith(load(name).lower_prefix)), None)


def publisher_of(token: str) -> str | None:
    """The built-in dialect whose service publishes a token for local development."""
    return next((name for name in BUILT_IN if any(user.token == token for user in _published(load(name)))), None)


def publisher_of_key(text: str) -> str | None:
    """The built-in dialect whose service publishes a signing key for local development, or did so once (D-804)."""
    for name in BUILT_IN:
        dialect = load(name)
        keys = [key for user in _published(dialect) for key in (user.current_signing_key, user.next_signing_key)]
        if text in keys or text in dialect.earlier_signing_keys:
            return name
    return None


def _published(dialect: Dialect) -> tuple[DialectCredentials, ...]:
    return (*dialect.users, *(() if dialect.credentials is None else (dialect.credentials,)))


def owner_of_token_parameter(lower_name: str) -> str | None:
    """The built-in dialect in which a query parameter is the token."""
    return next((name for name in BUILT_IN if lower_name == load(name).token_parameter.lower()), None)


def start_with(name: str) -> str:
    """How to start a server of another dialect."""
    return f"start with --dialect {name}"


@functools.lru_cache(maxsize=16)
def load(name_or_path: str) -> Dialect:
    """A built-in dialect by its name, or the one in a TOML file. Read once per process.

    Raises: DialectError, one line that names the file and the key. Source: D-081.
    """
    if name_or_path in BUILT_IN:
        return _read(resources.path("fixtures", "dialects", f"{name_or_path}.toml"))
    path = Path(name_or_path)
    # Unlike the method of a path, this takes a name that no file can have.
    if path.suffix != ".toml" and not os.path.exists(path):
        raise DialectError(
            f"unknown dialect {excerpt(name_or_path)}: expected {', '.join(BUILT_IN)} or the path of a TOML file"
        )
    return _read(path)


# --- the file -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """The grammar of a key's text, and how an error describes it."""

    pattern: re.Pattern[str]
    expected: str


_HEADER_PREFIX = _Form(
    pattern=re.compile(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*-"),
    expected="letters and digits in parts that end in a hyphen, such as Svc-",
)
_WORD = _Form(pattern=re.compile(r"[A-Za-z0-9_.-]+"), expected="letters, digits, hyphens, underscores or periods")
_LINE = _Form(pattern=re.compile(r"[!-~](?:[ -~]*[!-~])?"), expected="printable ASCII characters")
_VARIABLE = _Form(
    pattern=re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), expected="the name of an environment variable, such as SVC_URL"
)

_FORMS = {
    "header_prefix": _HEADER_PREFIX,
    "token_parameter": _WORD,
    "issuer": _LINE,
    "user_agent": _LINE,
    "queue_segment": _WORD,
}
_URL = _Form(pattern=re.compile(r"https?://[!-~]+"), expected="a URL, prefixed with http:// or https://")
_OPTIONAL_FORMS = {"llm_url": _URL}
_OPTIONAL = (*_OPTIONAL_FORMS, "earlier_signing_keys")
_TABLES = ("environment", "fields", "credentials", "users")
# What else follows `/v2/`: a queue segment of the same name would make two operations of one path (D-176).
_TAKEN_SEGMENTS = frozenset(
    (
        "batch",
        "dlq",
        "enqueue",
        "events",
        "flowcontrol",
        "globalparallelism",
        "keys",
        "logs",
        "messages",
        "publish",
        "queues",
        "rotate",
        "schedules",
        "search",
        "topics",
        "vector",
    )
)
_ENVIRONMENT_FORMS = dict.fromkeys(("url", "token", "current_signing_key", "next_signing_key"), _VARIABLE)
_CREDENTIALS_FORMS = dict.fromkeys(("token", "current_signing_key", "next_signing_key"), _LINE)

_Table = Mapping[str, object]


def _read(path: Path) -> Dialect:
    table = _parse(path)
    for key in table:
        if key not in _FORMS and key not in _OPTIONAL and key not in _TABLES:
            known = ", ".join((*_FORMS, *_OPTIONAL, *_TABLES))
            raise DialectError(f"{path}: {key}: unknown key, expected {known}")
    texts = {key: _text(path, table, key, "", form) for key, form in _FORMS.items()}
    texts |= {key: _text(path, table, key, "", form) for key, form in _OPTIONAL_FORMS.items() if key in table}
    if texts["queue_segment"].lower() in _TAKEN_SEGMENTS:
        raise DialectError(f"{path}: queue_segment: {texts['queue_segment']} is part of another path of the service")
    environment = _texts(path, _subtable(path, table, "environment"), "environment", _ENVIRONMENT_FORMS)
    credentials: DialectCredentials | None = None
    if "credentials" in table:
        given = _texts(path, _subtable(path, table, "credentials"), "credentials", _CREDENTIALS_FORMS)
        credentials = DialectCredentials(**given)
    return Dialect(
        name=path.stem,
        environment=Environment(**environment),
        fields=_renames(path, _subtable(path, table, "fields")) if "fields" in table else MappingProxyType({}),
        credentials=credentials,
        users=_users(path, table.get("users", [])),
        earlier_signing_keys=_lines(path, table.get("earlier_signing_keys", []), "earlier_signing_keys"),
        takes_foreign_options=False,
        **texts,
    )


def _users(path: Path, value: object) -> tuple[DialectCredentials, ...]:
    if not isinstance(value, list):
        raise DialectError(f"{path}: users: expected an array of tables, got {toml.shown(value)}")
    found = []
    for number, each in enumerate(value, start=1):
        name = f"users[{number}]"
        if not isinstance(each, dict):
            raise DialectError(f"{path}: {name}: expected a table, got {toml.shown(each)}")
        found.append(DialectCredentials(**_texts(path, each, name, _CREDENTIALS_FORMS)))
    return tuple(found)


def _lines(path: Path, value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise DialectError(f"{path}: {name}: expected an array, got {toml.shown(value)}")
    for number, line in enumerate(value, start=1):
        if not isinstance(line, str) or not _LINE.pattern.fullmatch(line):
            raise DialectError(f"{path}: {name}[{number}]: expected {_LINE.expected}, got {toml.shown(line)}")
    return tuple(value)


def _parse(path: Path) -> _Table:
    try:
        _, table = toml.read_file(path)
        return table
    except OSError as error:
        raise DialectError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise DialectError(f"{path}: is not a UTF-8 text file") from None
    except Malformed as error:
        raise DialectError(f"{path}: is not a TOML file: {error}") from None


def _subtable(path: Path, table: _Table, key: str) -> _Table:
    if key not in table:
        raise DialectError(f"{path}: {key}: this table is missing")
    value = table[key]
    if not isinstance(value, dict):
        raise DialectError(f"{path}: {key}: expected a table, got {toml.shown(value)}")
    return value


def _texts(path: Path, table: _Table, name: str, forms: Mapping[str, _Form]) -> dict[str, str]:
    for key in table:
        if key not in forms:
            raise DialectError(f"{path}: {name}.{key}: unknown key, expected {', '.join(forms)}")
    return {key: _text(path, table, key, f"{name}.", form) for key, form in forms.items()}


def _text(path: Path, table: _Table, key: str, prefix: str, form: _Form) -> str:
    if key not in table:
        raise DialectError(f"{path}: {prefix}{key}: this key is missing")
    value = table[key]
    if not isinstance(value, str) or not form.pattern.fullmatch(value):
        raise DialectError(f"{path}: {prefix}{key}: expected {form.expected}, got {toml.shown(value)}")
    return value


def _renames(path: Path, table: _Table) -> Mapping[str, str]:
    renames = {key: _text(path, table, key, "fields.", _WORD) for key in table}
    if len(set(renames.values())) < len(renames):
        values = list(renames.values())
        twice = next(key for key, value in renames.items() if values.count(value) > 1)
        raise DialectError(f"{path}: fields.{twice}: another field has the same name {excerpt(renames[twice])}")
    return MappingProxyType(renames)
