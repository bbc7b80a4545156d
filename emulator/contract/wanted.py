"""What a request for the contract asks for: which APIs, and in which format."""

from __future__ import annotations

import enum

from emulator.contract.document import Api
from emulator.core.errors import InvalidInput, NotAcceptable
from emulator.core.language.excerpts import excerpt
from emulator.core.record import Record
from emulator.wire.media_types import accepted_text, read_accept
from emulator.wire.parts import RequestParts

ALL = "all"


class Format(enum.StrEnum):
    """How a document is written."""

    YAML = "yaml"
    JSON = "json"


MEDIA_TYPES = {Format.YAML: "application/yaml", Format.JSON: "application/json"}
# JSON stands for whatever is accepted as well: every YAML reader reads it.
_FORMATS = {
    **dict.fromkeys(("application/json", "application/vnd.oai.openapi+json", "application/openapi+json"), Format.JSON),
    **dict.fromkeys(("*/*", "application/*"), Format.JSON),
    **dict.fromkeys(("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"), Format.YAML),
    **dict.fromkeys(("application/vnd.oai.openapi", "application/openapi+yaml"), Format.YAML),
}


class Wanted(Record):
    """Which APIs, and in which format."""

    apis: tuple[Api, ...]
    format: Format


def read_wanted(parts: RequestParts) -> Wanted:
    """What a request asks for: all APIs as JSON, unless its query or `Accept` says otherwise.

    Raises: InvalidInput naming the parameter; NotAcceptable.
    """
    query = dict(parts.query)
    given = query.get("format", "")
    if given and given not in (*Format,):
        raise InvalidInput("format", f"expected yaml or json, got {excerpt(given)}")
    return Wanted(apis=read_apis(query.get("api", "")), format=Format(given) if given else _accepted(parts))


def read_apis(text: str) -> tuple[Api, ...]:
    """The APIs that a text names: one, or all of them. Raises: InvalidInput."""
    if text in ("", ALL):
        return tuple(Api)
    try:
        return (Api(text),)
    except ValueError:
        raise InvalidInput("api", f"expected {', '.join(Api)} or {ALL}, got {excerpt(text)}") from None


def _accepted(parts: RequestParts) -> Format:
    """The format that the client prefers, JSON if it does not say. Raises: NotAcceptable."""
    accepted = read_accept(parts)
    if not accepted:
        return Format.JSON
    media_type, quality = max(
        ((name, quality) for name, quality in accepted if name in _FORMATS),
        key=lambda entry: entry[1],
        default=("", 0.0),
    )
    if quality <= 0:
        given = excerpt(accepted_text(parts))
        raise NotAcceptable(f"expected a client that accepts application/yaml or application/json, it accepts {given}")
    return _FORMATS[media_type]
