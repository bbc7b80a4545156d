"""The configuration of a message: headers with the service's prefix, and their twins in the query.

A header such as Svc-Callback-Retries is Svc-Retries of the callback message, so that one reader
serves a message and, level by level, its callbacks. Header names arrive in lower case.

Source: interface document, "Create a schedule" and "Publish and webhook intake". Not shown there,
and chosen: an empty value says nothing, an option given twice is refused (D-072), where an option
may stand (D-074), which headers can be forwarded (D-075).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec.structs import replace

from emulator.core.errors import InvalidInput, InvalidRunMessage, Malformed
from emulator.core.language import cron
from emulator.core.language.text import canonical_name, excerpt
from emulator.core.model.options import CallbackOptions, FlowControl, MessageOptions, RunOptions
from emulator.core.record import FlowKey, Record, RunId, ScheduleId
from emulator.wire import names, urls
from emulator.wire.dialect import BUILT_IN, DOCUMENT_PREFIX, Dialect, load, owner_of, start_with
from emulator.wire.messaging import flow_control
from emulator.wire.messaging.option_values import RUN_ID, RUN_VALUES, UNKNOWN_SDK, VALUES
from emulator.wire.messaging.outgoing import CONNECTION_HEADERS
from emulator.wire.parts import Pairs, RequestParts, token_parameter

T = TypeVar("T")

MAX_CALLBACK_DEPTH = 2


class RequestKind(Enum):
    """What a request's options configure."""

    PUBLISH = auto()
    ENQUEUE = auto()
    SCHEDULE = auto()
    BATCH_ITEM = auto()
    GROUP_DEFAULTS = auto()
    DEAD_LETTER_RETRY = auto()
    TRIGGER = auto()


class Note(Record):
    """The options and headers of a request that are ignored, by the client's names.

    `ignored` are options that mean nothing on this call (D-074), `dropped` are headers to forward
    that belong to the connection (D-075), `unknown` are names that are no option's.
    """

    ignored: tuple[str, ...]
    dropped: tuple[str, ...]
    unknown: tuple[str, ...] = ()


# Called if anything is ignored.
LogNote = Callable[[Note], None]


def discard_note(note: Note) -> None:
    """For callers that log nothing."""


def read_options(
    parts: RequestParts, dialect: Dialect, *, kind: RequestKind, log_note: LogNote = discard_note
) -> MessageOptions:
    """What the headers and the query of a request say about the message.

    Raises: InvalidInput naming the header or parameter as the client would write it.
    """
    # A token in the query leaves the Authorization header to the destination (D-079).
    own_authorization = token_parameter(parts, dialect) is None
    return _read(parts.headers, parts.query, dialect, kind, log_note, own_authorization=own_authorization)


def read_listed_options(
    headers: Iterable[tuple[str, str]], dialect: Dialect, *, kind: RequestKind, log_note: LogNote = discard_note
) -> MessageOptions:
    """The same for headers from a JSON body, whose names may have any case.

    Raises: InvalidInput naming the header.
    """
    lower = [(name.lower(), value) for name, value in headers]
    return _read(lower, None, dialect, kind, log_note, own_authorization=False)


def _read(
    headers: Sequence[tuple[str, str]],
    query: Pairs | None,
    dialect: Dialect,
    kind: RequestKind,
    log_note: LogNote,
    *,
    own_authorization: bool,
) -> MessageOptions:
    """`query` is None for headers from a body: unknown ones are checked for typos here only."""
    given = _Given(dialect)
    try:
        rest = given.add(headers, query or ())
        if query is None:
            given.unknown += [name for name, _ in rest]
        options = _top_options(given, rest, kind, own_authorization=own_authorization)
    except InvalidInput as problem:
        raise problem_of(problem, (*headers, *(query or ())), dialect) from None
    given.report(log_note)
    return options


def names_run(options: Iterable[tuple[str, str]], dialect: Dialect) -> bool:
    """Whether headers, or parameters of the query, make their message part of a run; an empty value says nothing."""
    wanted = dialect.lower_prefix + RUN_ID
    return any(name.lower() == wanted and value.strip() for name, value in options)


def problem_of(problem: InvalidInput, options: Iterable[tuple[str, str]], dialect: Dialect) -> InvalidInput:
    """The refusal of a wrong value, another one for a message of a run (D-364)."""
    if names_run(options, dialect):
        return InvalidRunMessage(problem.field, problem.reason)
    return problem


def _refuse_foreign(pairs: Iterable[tuple[str, str]], dialect: Dialect) -> None:
    """Raises: InvalidInput naming an option of another built-in dialect, which would do nothing here (D-529)."""
    if dialect.takes_foreign_options:
        return
    others = _other_prefixes(dialect.lower_prefix)
    for name, value in pairs:
        lower_name = name.lower()
        if not lower_name.startswith(others):
            continue
        owner = _owner_of_option(lower_name, dialect)
        if owner is not None and value.strip():
            shown = canonical_name(name)
            if shown.startswith(DOCUMENT_PREFIX):
                # As such it would be read as the document's name for an option of this dialect.
                shown = shown.lower()
            raise InvalidInput(
                shown, f"is of the dialect {owner}, this server speaks {dialect.name}: {start_with(owner)}"
            )


@lru_cache(maxsize=16)
def _other_prefixes(lower_prefix: str) -> tuple[str, ...]:
    """What the options of the built-in dialects but this one begin with."""
    return tuple(prefix for name in BUILT_IN if (prefix := load(name).lower_prefix) != lower_prefix)


@lru_cache(maxsize=1024)
def _owner_of_option(lower_name: str, dialect: Dialect) -> str | None:
    """The other dialect that has an option of this name."""
    owner = None if lower_name.startswith(dialect.lower_prefix) else owner_of(lower_name)
    return owner if owner is not None and is_option(lower_name[len(load(owner).lower_prefix) :]) else None


def read_cron(parts: RequestParts, dialect: Dialect) -> str:
    """The cron expression of a schedule, trimmed and checked.

    Raises: InvalidInput. Source: interface document, Svc-Cron; D-012.
    """
    given = _Given(dialect)
    given.add(parts.headers, parts.query)
    try:
        return cron.parse(given.at("").get(_CRON, "")).text
    except Malformed as malformed:
        raise InvalidInput(given.name(_CRON), f"Invalid cron expression {malformed.reason}") from None


def read_schedule_id(parts: RequestParts, dialect: Dialect) -> ScheduleId | None:
    """The id a client chose for its schedule, None if it left that to the service.

    Raises: InvalidInput. Source: interface document, Svc-Schedule-Id.
    """
    given = _Given(dialect)
    given.add(parts.headers, parts.query)
    schedule_id = given.read("", _SCHEDULE_ID, names.parse_name)
    return None if schedule_id is None else ScheduleId(schedule_id)


_CRON, _SCHEDULE_ID = "cron", "schedule-id"
_FLOW_CONTROL = ("flow-control-key", "flow-control-value")
_CALLBACKS = ("callback", "failure-callback")
# All others behind the prefix mean nothing here.
_OPTIONS = frozenset((*VALUES, _CRON, _SCHEDULE_ID, *_FLOW_CONTROL, *_CALLBACKS, *RUN_VALUES))

# --- sorting: which message an option is about ----------------------------------------------------

_FORWARD = "forward-"
_CALLBACK_FAMILIES = ("callback-", "failure-callback-")
# What a name behind the prefix may be, callbacks of callbacks aside.
OPTION_KEYS = tuple(sorted(f"{family}{key}" for family in ("", *_CALLBACK_FAMILIES) for key in _OPTIONS))


def is_option(suffix: str) -> bool:
    """Whether a header's name behind the prefix means anything, for a message or for one of its callbacks."""
    key = _key_of(suffix)
    return key in _OPTIONS or key.startswith(_FORWARD)


_LIST_OPTIONS = frozenset(("label", "redact-fields"))


def is_list_option(name: str, dialect: Dialect) -> bool:
    """Whether a header is an option, of a message or of a callback, whose value is a list with commas."""
    lower = name.lower()
    return lower.startswith(dialect.lower_prefix) and _key_of(lower[len(dialect.lower_prefix) :]) in _LIST_OPTIONS


def _key_of(suffix: str) -> str:
    """The key of the option that configures a callback, of whichever level; the suffix itself if it is of none."""
    while suffix not in _OPTIONS and suffix.startswith(_CALLBACK_FAMILIES):
        suffix = suffix.removeprefix("failure-").removeprefix("callback-")
    return suffix


_TOKEN = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_LINE_BREAK = re.compile(r"[\r\n\0]")
_NOTHING: Mapping[str, str] = MappingProxyType({})


class _Given:
    """The options of a request, by the path of the message that they configure.

    A path is "" for the message itself, `callback-` for its callback, and so on; a path and the key
    of an option together are the suffix of its header.
    """

    __slots__ = ("_dialect", "_dropped", "_forwarded", "_from_query", "_ignored", "_texts", "has_callbacks", "unknown")

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._texts: dict[str, dict[str, str]] = {}
        self._from_query: set[str] = set()
        self._forwarded: dict[str, list[tuple[str, str]]] = {}
        self._ignored: list[str] = []
        self._dropped: list[str] = []
        self.unknown: list[str] = []
        # Whether any option names a callback, or configures one.
        self.has_callbacks = False

    def add(self, headers: Iterable[tuple[str, str]], query: Pairs) -> list[tuple[str, str]]:
        """Sort in the service's headers and query parameters; the other headers come back."""
        prefix = self._dialect.lower_prefix
        rest: list[tuple[str, str]] = []
        for pair in headers:
            name, value = pair
            if name.startswith(prefix):
                self._add(name[len(prefix) :], value, from_query=False)
            else:
                rest.append(pair)
        for name, value in query:
            lower_name = name.lower()
            if lower_name.startswith(prefix):
                self._add(lower_name[len(prefix) :], value, from_query=True)
        _refuse_foreign((*rest, *query), self._dialect)
        return rest

    def _add(self, suffix: str, value: str, *, from_query: bool) -> None:
        key = suffix
        depth = 0
        while key not in _OPTIONS and key.startswith(_CALLBACK_FAMILIES) and depth <= MAX_CALLBACK_DEPTH:
            # `callback-` is what remains of either family once `failure-` is cut off.
            key = key.removeprefix("failure-").removeprefix("callback-")
            depth += 1
        path = suffix[: len(suffix) - len(key)]
        text = value.strip()
        is_forwarded = depth <= MAX_CALLBACK_DEPTH and key.startswith(_FORWARD)
        if not is_forwarded and (not text or (key not in _OPTIONS and depth <= MAX_CALLBACK_DEPTH)):
            if key not in _OPTIONS:
                self.unknown.append(self._dialect.lower_prefix + suffix)
            return
        if path or key in _CALLBACKS:
            self.has_callbacks = True
        if from_query:
            self._from_query.add(suffix)
        if is_forwarded:
            self._add_forwarded(path, key, value)
            return
        if depth + (key in _CALLBACKS) > MAX_CALLBACK_DEPTH:
            raise InvalidInput(self.name(suffix), f"callbacks nest at most {MAX_CALLBACK_DEPTH} deep")
        if not text.isascii():
            raise InvalidInput(self.name(suffix), f"expected ASCII characters only, got {excerpt(text)}")
        texts = self._texts.setdefault(path, {})
        if key in texts:
            raise InvalidInput(self.name(suffix), "expected this option only once")
        texts[key] = text

    def _add_forwarded(self, path: str, key: str, value: str) -> None:
        name = key[len(_FORWARD) :]
        if not _TOKEN.fullmatch(name):
            raise InvalidInput(self.name(path + key), "expected the name of a header after the prefix")
        if _is_of_connection(name):
            # Clients forward everything that they got (D-075).
            self._dropped.append(self.name(path + key))
            return
        if _LINE_BREAK.search(value):
            raise InvalidInput(self.name(path + key), "expected a value of one line")
        self._forwarded.setdefault(path, []).append((canonical_name(name), value))

    def name(self, suffix: str) -> str:
        """An option's name as the client wrote it, or would write it: a parameter's or a header's."""
        return self._dialect.lower_prefix + suffix if suffix in self._from_query else self._dialect.header(suffix)

    def at(self, path: str) -> Mapping[str, str]:
        """The texts of the options about one message, by their keys."""
        return self._texts.get(path, _NOTHING)

    def concerns(self, path: str) -> bool:
        """Whether any option is about the message of that path, or about a callback of it."""
        return any(given.startswith(path) for given in (*self._texts, *self._forwarded))

    def read(self, path: str, key: str, parse: Callable[[str], T]) -> T | None:
        """The parsed value of an option, None without one."""
        text = self.at(path).get(key)
        if text is None:
            return None
        try:
            return parse(text)
        except Malformed as malformed:
            raise InvalidInput(self.name(path + key), malformed.reason) from None

    def read_all(self, path: str, table: Mapping[str, tuple[str, Callable[[str], object]]]) -> dict[str, object]:
        """The values of the options of a table that are given, by the fields that they fill."""
        texts = self.at(path)
        return {field: self.read(path, key, parse) for key, (field, parse) in table.items() if key in texts}

    def forwarded(self, path: str) -> Pairs:
        return tuple(self._forwarded.get(path, ()))

    def reject_schedule_options(self, path: str) -> None:
        """Only schedules have a cron expression, which is refused elsewhere, and an id, which is ignored (D-074)."""
        texts = self.at(path)
        if _CRON in texts:
            raise InvalidInput(self.name(path + _CRON), "expected only when a schedule is created")
        if _SCHEDULE_ID in texts:
            self._ignored.append(self.name(path + _SCHEDULE_ID))

    def report(self, log_note: LogNote) -> None:
        """Call `log_note` if anything is ignored."""
        if self._ignored or self._dropped or self.unknown:
            dropped = tuple(dict.fromkeys(self._dropped))
            log_note(Note(ignored=tuple(self._ignored), dropped=dropped, unknown=tuple(self.unknown)))


# --- reading: what the options say together -------------------------------------------------------


def _top_options(
    given: _Given, rest: list[tuple[str, str]], kind: RequestKind, *, own_authorization: bool
) -> MessageOptions:
    """The options of the message itself; `own_authorization`: that header is for the service alone."""
    if kind is not RequestKind.SCHEDULE:
        given.reject_schedule_options("")
    content_type: str | None = None
    incoming: list[tuple[str, str]] = []
    for name, value in rest:
        shown_name = _incoming_name(name)
        if shown_name is None or (own_authorization and name == "authorization"):
            continue
        if not value.isprintable() and _LINE_BREAK.search(value):
            raise InvalidInput(shown_name, "expected a value of one line")
        if name != "content-type":
            incoming.append((shown_name, value))
        elif value.strip():
            if content_type is not None:
                raise InvalidInput("Content-Type", "expected this header only once")
            content_type = value.strip()
            if not content_type.isascii() or not content_type.isprintable():
                reason = f"expected printable ASCII characters only, got {excerpt(content_type)}"
                raise InvalidInput("Content-Type", reason)
    if kind is RequestKind.DEAD_LETTER_RETRY:
        # The call has a content type of its own, which is not the message's.
        content_type = None
    options = _options(given, "", content_type, tuple(incoming))
    if kind is RequestKind.TRIGGER and options.workflow is None and UNKNOWN_SDK in given.at(""):
        # The service is to name the run.
        options = replace(options, workflow=replace(_ANY_RUN, **given.read_all("", RUN_VALUES)))
    return options


_ANY_RUN = RunOptions(run_id=RunId(""))


def _options(given: _Given, path: str, content_type: str | None = None, incoming: Pairs = ()) -> MessageOptions:
    texts = given.at(path)
    values: dict[str, Any] = given.read_all(path, VALUES) if texts else {}
    for key in _CALLBACKS if given.has_callbacks else ():
        field = key.replace("-", "_")
        values[field], values[f"{field}_settings"] = _callback(given, path, key)
    if texts and not texts.keys().isdisjoint(_FLOW_CONTROL):
        values["flow_control"] = _flow_control(given, path)
    if RUN_ID in texts:
        values["workflow"] = replace(_ANY_RUN, **given.read_all(path, RUN_VALUES))
    return MessageOptions(content_type=content_type, forwarded=given.forwarded(path), incoming=incoming, **values)


def _callback(given: _Given, parent: str, key: str) -> tuple[CallbackOptions | None, MessageOptions | None]:
    """The callback behind an option, and the family of options that begins with its name; or that family alone."""
    path = f"{parent}{key}-"
    if key not in given.at(parent) and not given.concerns(path):
        return None, None
    url = given.read(parent, key, urls.parse_url)
    given.reject_schedule_options(path)
    options = _options(given, path)
    if url is not None:
        return CallbackOptions(url=url, options=options), None
    # The URL may stand in a URL group's defaults (D-020); a delayed callback is refused all the same (D-007).
    if options.delay_ms:
        raise InvalidInput(given.name(path + "delay"), "a callback cannot be delayed, expected no delay or 0s")
    if options.not_before_ms is not None:
        raise InvalidInput(given.name(path + "not-before"), "a callback cannot be delayed")
    return None, options if options != MessageOptions() else None


def _flow_control(given: _Given, path: str) -> FlowControl | None:
    """The key and its limits; a key alone is counted and limits nothing (D-083)."""
    key = given.read(path, "flow-control-key", names.parse_free_text)
    limits = given.read(path, "flow-control-value", flow_control.parse_flow_control_value)
    if key is not None:
        return replace(limits or flow_control.NO_LIMITS, key=FlowKey(key))
    if limits is not None:
        key_name = given.name(path + "flow-control-key")
        raise InvalidInput(given.name(path + "flow-control-value"), f"expected {key_name} beside it")
    return None


def _is_of_connection(name: str) -> bool:
    return name in CONNECTION_HEADERS or name.startswith("proxy-")


@lru_cache(maxsize=1024)
def _incoming_name(name: str) -> str | None:
    """How a request's own header is passed on, None for one that is not. Raises: InvalidInput."""
    if _is_of_connection(name):
        return None
    if not _TOKEN.fullmatch(name):
        raise InvalidInput(name, "expected the name of a header")
    return canonical_name(name)
