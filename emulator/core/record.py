"""The base of every record: frozen, keyword-only, compared by value, cheap to make.

A record is a `msgspec.Struct` that the garbage collector does not walk: records hold texts,
numbers, tuples and other records, and so are never part of a cycle. Change one with
`msgspec.structs.replace`, which carries over every field that is not named.
"""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec
from msgspec import Struct


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
