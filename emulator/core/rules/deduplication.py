"""Which messages count as the same one."""

from __future__ import annotations

import hashlib

from emulator.core.model.names import MessageId
from emulator.core.model.options import Destination, DestinationKind, MessageOptions
from emulator.core.model.resources import Endpoint
from emulator.core.state_view import AccountView

WINDOW_MS = 600_000  # Ten minutes for both kinds (D-023).


def key_of(destination: Destination, body: bytes, options: MessageOptions, endpoint: Endpoint) -> str | None:
    """The key under which a message is deduplicated, or None if it asks for no deduplication.

    The given id wins over the content. The content is the destination as named, the body, the
    content type and the forwarded headers. Each endpoint of a group has keys of its own.
    """
    if options.deduplication_id is not None:
        text = f"id:{options.deduplication_id}"
    elif options.content_deduplication:
        digest = hashlib.sha256()
        texts = [destination.kind.value, destination.text, options.content_type or ""]
        for name, value in sorted((name.lower(), value) for name, value in options.forwarded):
            texts += [name, value]
        for part in (body, *(text.encode("utf-8", "surrogatepass") for text in texts)):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        text = f"content:{digest.hexdigest()}"
    else:
        return None
    if destination.kind is not DestinationKind.GROUP:
        return text
    # Two endpoints may share a URL as long as their names differ.
    return f"{text}@{endpoint.name or ''}@{endpoint.url}"


def earlier_message(owner: AccountView, key: str, now_ms: int) -> MessageId | None:
    """The message that already stands for this key, if its window has not ended."""
    found = owner.deduplications.get(key)
    return found[0] if found is not None and now_ms < found[1] else None
