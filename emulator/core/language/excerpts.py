"""Showing a client's own text back to it inside an error sentence."""

from __future__ import annotations

MAX_SHOWN = 40


def excerpt(text: str) -> str:
    """The text as an error sentence quotes it: at most 40 characters of it, control characters escaped."""
    if len(text) <= MAX_SHOWN:
        return repr(text)
    return repr(text[:MAX_SHOWN]) + "..."
