"""The version of the distribution, in the one place that every part of the program reads."""

from __future__ import annotations

VERSION = "1.0.0"
