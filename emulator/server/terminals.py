"""Conventions of terminals."""

from __future__ import annotations

import os


def wants_colours() -> bool:
    """False with the environment variable NO_COLOR, a convention between programs."""
    return not os.environ.get("NO_COLOR")
