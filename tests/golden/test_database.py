"""Databases of a recorded format are opened, and the worlds in them go on as they did then, byte for byte."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from tests.golden import databases, servers
from tests.golden.recording import Recording, first_difference


@pytest.mark.slow
@pytest.mark.parametrize("name", databases.NAMES)
def test_a_recorded_database_goes_on_as_it_did(name: str, tmp_path: Path) -> None:
    recording, failure = Recording(), None
    try:
        databases.go_on(name, servers.HERE, tmp_path, recording)
    except Exception as error:  # What it was answered until then tells more than where the script could not go on.
        failure = error
    difference = first_difference(lzma.decompress(databases.record(name).read_bytes()), recording.text())
    if difference:
        pytest.fail(difference, pytrace=False)
    if failure is not None:
        raise failure
