"""What a request says about media types: what it brings, and what it takes as an answer."""

from __future__ import annotations

from emulator.core.errors import InvalidInput, NotAcceptable
from emulator.core.language.excerpts import excerpt
from emulator.wire.parts import RequestParts

_ANY = ("*/*", "application/*", "application/json")


def accepted_text(parts: RequestParts) -> str:
    """What the client says that it accepts, empty if it does not say."""
    return ", ".join(value for name, value in parts.headers if name == "accept" and value.strip())


def read_accept(parts: RequestParts) -> list[tuple[str, float]]:
    """The media types that the client accepts with their qualities, in its order; none if it does not say."""
    accepted = accepted_text(parts)
    found: list[tuple[str, float]] = []
    for entry in accepted.lower().split(",") if accepted else ():
        media_type, *parameters = (piece.strip() for piece in entry.split(";"))
        found.append((media_type, _quality(parameters)))
    return found


def check_accepts_json(parts: RequestParts) -> None:
    """Raises NotAcceptable if the client excludes JSON, which is what there is (D-175)."""
    best = dict(read_accept(parts))
    if not best:
        return
    # The most specific entry decides: `application/json;q=0, */*` excludes JSON and nothing else.
    for media_type in reversed(_ANY):
        if media_type in best:
            if best[media_type] > 0:
                return
            break
    raise NotAcceptable(
        f"expected a client that accepts application/json, it accepts only {excerpt(accepted_text(parts))}"
    )


def prefers_html(parts: RequestParts) -> bool:
    """Whether the client asks for HTML by name, and not for JSON before it: a browser does."""
    qualities = dict(read_accept(parts))
    html = qualities.get("text/html", 0.0)
    return html > 0 and html >= qualities.get("application/json", 0.0)


def check_is_json(parts: RequestParts) -> None:
    """Raises InvalidInput for a body that says to be anything but JSON; one that says nothing is fine (D-175)."""
    content_type = parts.header("content-type")
    if content_type is None or not content_type.strip():
        return
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise InvalidInput("Content-Type", f"expected application/json, got {excerpt(content_type)}")


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 1.0
    return 1.0
