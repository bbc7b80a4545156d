"""What the answers of the control API are made of: records whose encoding is the JSON.

A field holds what the JSON shows, in the order of the JSON. One that may be absent is `UNSET` then, one without a
value None. An instant is there twice: the record is made with milliseconds, and fills in the ISO 8601 text.

The schemas of the contract are made of these records by `emulator/control/schemas.py`: the docstring of a class
and the `#:` comment of a field are what the contract says of them.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, dataclass_transform

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import force_setattr

from emulator.core.model.messages import Message
from emulator.core.record import Headers
from emulator.core.rules.destination_rules import attempt_key
from emulator.queries import history
from emulator.queries.workflow_runs import step_of
from emulator.wire.times import iso

# The ISO 8601 text of an instant, which the record fills in.
TWIN: Any = ""

# Names of schemas in the contract, which are written there by hand.
Instant = Annotated[str, Meta(title="Instant")]
InstantMs = Annotated[int, Meta(title="InstantMs")]
WholeNumber = Annotated[int, Meta(title="WholeNumber")]
PositiveNumber = Annotated[int, Meta(title="PositiveNumber")]
Base64 = Annotated[str, Meta(title="Base64")]
Rate = Annotated[float, Meta(title="Rate")]
Secret = Annotated[str, Meta(title="Secret")]
ShortText = Annotated[str, Meta(title="ShortText")]
WorldId = Annotated[str, Meta(title="WorldId")]
VariableName = Annotated[str, Meta(title="VariableName")]
Spared = Annotated[tuple[str, ...], Meta(title="Spared")]
HeaderValues = Annotated[dict[str, list[str]], Meta(title="HeaderValues")]
Count = Annotated[int, Meta(ge=0)]
# A text that is never empty.
Text = Annotated[str, Meta(min_length=1)]
Status = Annotated[int, Meta(ge=100, le=999)]
LocalTime = Annotated[str, Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[+-][0-9]{2}:[0-9]{2}$")]


class _ViewMeta(msgspec.StructMeta):
    """Gives each subclass the options of `View`. Unlike those of a `Record`, its defaults are written too."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> _ViewMeta:
        return super().__new__(
            mcls, name, bases, namespace, **{"frozen": True, "kw_only": True, "gc": False, **options}
        )


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class View(Struct, metaclass=_ViewMeta, frozen=True):
    """An answer, or a part of one."""

    def __post_init__(self) -> None:
        for name, source in _twins(type(self)):
            instant_ms = getattr(self, source)
            force_setattr(self, name, iso(instant_ms) if isinstance(instant_ms, int) else instant_ms)


@cache
def _twins(view: type[View]) -> tuple[tuple[str, str], ...]:
    """The fields that hold the instant of another one as text: `at` of `at_ms`."""
    names = view.__struct_fields__
    # The field of a word of Python's has a line behind it: `from_` of `from_ms`.
    sources = ((name, f"{name.rstrip('_')}_ms") for name in names)
    return tuple((name, source) for name, source in sources if source in names and name != source)


class Dropped(View):
    """What is not kept any more of the oldest history (D-281). The field is there if something was dropped."""

    entries: PositiveNumber  #: How many events and attempts there were.
    until: Instant = TWIN
    until_ms: InstantMs


def dropped_view(dropped: history.Dropped) -> Dropped | UnsetType:
    """What is not kept any more; nothing if all is."""
    return Dropped(entries=dropped.seq, until_ms=dropped.at_ms) if dropped.seq else UNSET


class ChaosDone(View):
    """What rules did to the attempt by chance; absent if nothing."""

    #: The numbers of the message and of its attempt, by which `except` spares it.
    id: Annotated[str, Meta(pattern=r"^[1-9][0-9]*\.[1-9][0-9]*$")]
    did: Text  #: In words.


def chaos_view(message: Message, attempt: int, did: str) -> ChaosDone:
    """What chance did to an attempt: the name by which a rule can spare it, and what that was (D-439)."""
    return ChaosDone(id=attempt_key(message, attempt), did=did)


def run_of(message: Message) -> str | UnsetType:
    """The workflow run of a message; nothing for a message of none."""
    return UNSET if message.run is None else message.run.run_id


def run_number_of(message: Message) -> int | UnsetType:
    """The number of a message's workflow run, which tells runs of one id apart; nothing for a message of none."""
    return UNSET if message.run is None else message.run.run_number


def step_name_of(message: Message) -> str | UnsetType | None:
    """The step that a message of a run is about, None where there is none; nothing for a message of no run."""
    if message.run is None:
        return UNSET
    step = step_of(message)
    return None if step is None else step.step_name


def of_message(message: Message) -> dict[str, Any]:
    """The fields of an item that say which message it is about."""
    return {
        "account_id": message.account_id,
        "message_id": message.message_id,
        "url": message.url,
        "workflow_run_id": run_of(message),
        "step": step_name_of(message),
    }


def source_of(message: Message) -> dict[str, Any]:
    """The fields of an entry of a list that say what the message is and what made it."""
    source, policy = message.source, message.policy
    return {
        "method": message.method,
        "url": message.url,
        "created_ms": message.created_ms,
        "created_by": source.created_by,
        "schedule_id": source.schedule_id,
        "queue": policy.queue,
        "url_group": source.url_group,
        "flow_control_key": policy.flow_key,
        "source_message_id": source.source_message_id,
    }


def rate_view(rate: float) -> int | float:
    """A clock's rate; a whole one is an integer."""
    return int(rate) if rate.is_integer() else rate


def values_by_name(headers: Headers) -> dict[str, list[str]]:
    """All values of each name, in order, under the name exactly as it is written."""
    grouped = {name: [value] for name, value in headers}
    if len(grouped) < len(headers):
        grouped = {name: [] for name in grouped}
        for name, value in headers:
            grouped[name].append(value)
    return grouped
