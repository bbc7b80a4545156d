"""The scripted run is answered as it was when it was recorded, byte for byte."""

from __future__ import annotations

import lzma

import pytest

from tests.golden import servers
from tests.golden.recording import first_difference
from tests.golden.scripted_run import TRACE, Run


@pytest.mark.slow
def test_the_scripted_run_is_answered_as_it_was_recorded() -> None:
    run, failure = Run(servers.HERE), None
    try:
        run.perform()
    except Exception as error:  # What it was answered until then says more than where the script failed.
        failure = error
    difference = first_difference(lzma.decompress(TRACE.read_bytes()), run.text())
    if difference:
        ended = "" if failure is None else f"\nthe script failed, so that its record may end early: {failure!r}"
        pytest.fail(difference + ended, pytrace=False)
    if failure is not None:
        raise failure
