"""What the user of a terminal asks of every program that runs in it."""

from __future__ import annotations

import os


def wants_colours() -> bool:
    """Whether a terminal may be given colours: not with NO_COLOR, a convention between programs, no setting of ours."""
    return not os.environ.get("NO_COLOR")
