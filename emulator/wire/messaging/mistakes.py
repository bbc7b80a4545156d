"""Names of headers and query parameters that are probably mistaken for options."""

from __future__ import annotations

from functools import lru_cache

from emulator.core.language.text import canonical_name, is_alike, near
from emulator.wire.dialect import OWN_PREFIX, Dialect, load, owner_of
from emulator.wire.messaging.options import OPTION_KEYS, is_option

_ALIKE = 0.85
_LONGEST = 80
# A longer name is like none: the time of a comparison grows with it.
_LONGEST_COMPARED = 64
# Of the names of one call no more are compared, at half a millisecond or more each (D-810).
MOST_NAMES = 100
# Headers with which public clients describe themselves; the service ignores them.
TELEMETRY = "telemetry-"
# The same of workflow clients, whose messages all have them, and perhaps the callbacks of these.
_OF_WORKFLOW_CLIENTS = ("workflow-sdk-version", "workflow-sdk", "workflow-invoke-count")


@lru_cache(maxsize=4096)
def mistake(lower_name: str, dialect: Dialect) -> str | None:
    """What is wrong with the name of a header or parameter, and what was probably meant (D-334).

    None for one that is right, or that means nothing to the service.
    """
    prefix = dialect.lower_prefix
    if lower_name.startswith(OWN_PREFIX):
        return None
    if lower_name.startswith(prefix):
        suffix = lower_name[len(prefix) :]
        return None if _is_ignored(suffix) or is_option(suffix) else _unknown(lower_name, dialect)
    if (other := owner_of(lower_name)) is not None:
        key = lower_name[len(load(other).lower_prefix) :]
        if _is_ignored(key):
            return None
        meant = f", did you mean {dialect.header(key)}?" if is_option(key) else ""
        return f"{_shown(lower_name)}: is of the dialect {other}, this server speaks {dialect.name}{meant}"
    dashed = lower_name.replace("_", "-")
    is_short = len(dashed) <= _LONGEST_COMPARED
    if dashed.startswith(prefix) or (is_short and is_alike(dashed, _names(dialect), _ALIKE)):
        return _unknown(lower_name, dialect)
    return None


def _is_ignored(suffix: str) -> bool:
    return suffix.startswith(TELEMETRY) or suffix.endswith(_OF_WORKFLOW_CLIENTS)


def _unknown(lower_name: str, dialect: Dialect) -> str:
    is_short = len(lower_name) <= _LONGEST_COMPARED
    close = near(lower_name.replace("_", "-"), _names(dialect)) if is_short else []
    meant = f", did you mean {dialect.header(close[0][len(dialect.lower_prefix) :])}?" if close else ""
    return f"{_shown(lower_name)}: unknown{meant}"


def _shown(lower_name: str) -> str:
    name = canonical_name(lower_name[:_LONGEST])
    return name if len(lower_name) <= _LONGEST else f"{name}..."


@lru_cache(maxsize=16)
def _names(dialect: Dialect) -> tuple[str, ...]:
    return tuple(dialect.lower_prefix + key for key in OPTION_KEYS)
