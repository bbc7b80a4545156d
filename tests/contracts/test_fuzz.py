"""Schemathesis finds nothing: all phases, all checks, every API, with credentials and without.

`FUZZ_MAX_EXAMPLES` is how many examples of each operation are tried, `FUZZ_SEED` where the run begins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.contracts import fuzzing
from tests.contracts.fuzzing import Allowed, json_of

ALLOWED: dict[str, tuple[Allowed, ...]] = {"messaging": (), "management": (), "control": ()}
