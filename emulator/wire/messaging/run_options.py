"""The headers that make a message part of a workflow run.

Without an id of a run all others say nothing. Unknown workflow headers are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from emulator.core.errors import InvalidInput, InvalidRunMessage, Malformed
from emulator.core.language.excerpts import excerpt
from emulator.core.model.names import RunId
from emulator.core.model.options import CallType, RunOptions
from emulator.wire import names
from emulator.wire.dialect import Dialect
from emulator.wire.messaging import destinations
from emulator.wire.messaging.option_values import parse_boolean

T = TypeVar("T")

RUN_ID = "workflow-runid"
_INIT = "workflow-init"
_URL = "workflow-url"
_CALL_TYPE = "workflow-calltype"
_INVOKE = "workflow-invoke"
_BY_SDK = "workflow-trigger-by-sdk"
_FEATURES = "feature-set"
KEYS = (RUN_ID, _INIT, _URL, _CALL_TYPE, _INVOKE, _BY_SDK, _FEATURES)

_CALL_TYPES = {call_type.value.lower(): call_type for call_type in CallType}


class ReadOption(Protocol):
    """Reads an option by its key; None without one, InvalidInput naming it for a wrong one."""

    def __call__(self, key: str, parse: Callable[[str], T]) -> T | None: ...


def read(texts: Mapping[str, str], read_option: ReadOption) -> RunOptions:
    """What the workflow headers say of a message that names a run. Raises InvalidInput naming the header."""
    run_id = read_option(RUN_ID, parse_run_id)
    assert run_id is not None
    features = texts.get(_FEATURES, "").split(",")
    return RunOptions(
        run_id=run_id,
        is_init=read_option(_INIT, parse_boolean) or False,
        url=read_option(_URL, destinations.parse_url),
        call_type=read_option(_CALL_TYPE, _parse_call_type) or CallType.STEP,
        invokes=read_option(_INVOKE, parse_boolean) or False,
        by_sdk=read_option(_BY_SDK, parse_boolean) or False,
        features=tuple(feature.strip() for feature in features if feature.strip()),
    )


def parse_run_id(text: str) -> RunId:
    """The id of a run: any name. Raises: Malformed."""
    return RunId(names.parse_free_text(text))


def _parse_call_type(text: str) -> CallType:
    call_type = _CALL_TYPES.get(text.lower())
    if call_type is None:
        raise Malformed(f"expected one of {', '.join(CallType)}, got {excerpt(text)}")
    return call_type


def names_run(options: Iterable[tuple[str, str]], dialect: Dialect) -> bool:
    """Whether headers, or parameters of the query, make their message part of a run; an empty value says nothing."""
    wanted = dialect.lower_prefix + RUN_ID
    return any(name.lower() == wanted and value.strip() for name, value in options)


def problem_of(problem: InvalidInput, options: Iterable[tuple[str, str]], dialect: Dialect) -> InvalidInput:
    """The refusal of a wrong value, another one for a message of a run (D-364)."""
    if names_run(options, dialect):
        return InvalidRunMessage(problem.field, problem.reason)
    return problem
