"""A list of URL groups as JSON."""

from __future__ import annotations

from emulator.core.model.resources import UrlGroup
from emulator.wire.control.instants import instant_fields
from emulator.wire.json_fields import Json
from emulator.wire.messaging import views


def url_group_view(group: UrlGroup) -> dict[str, Json]:
    """A group with its endpoints and default headers; what those would hide in messages is hidden here."""
    return {
        "name": group.name,
        "account_id": group.account_id,
        "endpoints": [{"name": endpoint.name, "url": endpoint.url} for endpoint in group.endpoints],
        "headers": views.default_headers(group),
        **instant_fields("created", group.created_ms),
        **instant_fields("updated", group.updated_ms),
    }
