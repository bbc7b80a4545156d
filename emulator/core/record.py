"""The base of every record: frozen, keyword-only, compared by value, cheap to make.

A record is a `msgspec.Struct` that the garbage collector does not walk: records hold texts,
numbers, tuples and other records, and so are never part of a cycle. Change one with
`msgspec.structs.replace`, which carries over every field that is not named.
"""

from __future__ import annotations

from typing import Any, TypeVar, dataclass_transform

import msgspec
from msgspec import NODEFAULT, Struct


class _RecordMeta(msgspec.StructMeta):
    """Gives each subclass the options of `Record`: msgspec does not inherit `kw_only`.

    What has its default value is not written, which makes what is stored half as long.
    """

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> _RecordMeta:
        return super().__new__(
            mcls,
            name,
            bases,
            namespace,
            **{"frozen": True, "kw_only": True, "gc": False, "omit_defaults": True, **options},
        )


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Record(Struct, metaclass=_RecordMeta, frozen=True):
    """One thing that is known: `class Endpoint(Record): url: str` says it all."""


R = TypeVar("R", bound=Record)


def brief(kind: type[R], *names: str) -> type[R]:
    """A type for records of a kind that have their defaults in all fields but these, and take no place for the others.

    Such a record reads, is shown, stored and compared as one of the kind is, and is read back as one. To replace
    another field than these, make it `whole`. Of a kind that is stored as a list, name its first fields.
    """
    all_names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    default_of = dict(zip(reversed(all_names), reversed(defaults), strict=False))

    def equals(record: R, other: R) -> bool:
        return whole(record) == whole(other)

    def hashed(record: R) -> int:
        return hash(whole(record))

    def shown(record: R) -> str:
        return repr(whole(record))

    namespace: dict[str, Any] = {name: default for name, default in default_of.items() if default is not NODEFAULT}
    assert {*names, *namespace} == {*all_names}
    namespace["__annotations__"] = {name: kind.__annotations__[name] for name in names}
    namespace |= {"__eq__": equals, "__hash__": hashed, "__repr__": shown, "__module__": kind.__module__}
    made: Any = _RecordMeta(f"Brief{kind.__name__}", (Record,), namespace, array_like=kind.__struct_config__.array_like)
    _KIND_OF[made] = kind
    return made  # type: ignore[no-any-return]


# Of each brief type.
_KIND_OF: dict[type[Any], type[Any]] = {}


def whole(record: R) -> R:
    """A record with a place for each of its fields: itself, unless it is of a brief type."""
    kind = _KIND_OF.get(type(record))
    if kind is None:
        return record
    known = {name: getattr(record, name) for name in record.__struct_fields__}
    return kind(**known)  # type: ignore[no-any-return]
