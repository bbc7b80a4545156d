"""`refused` against a real server."""

from __future__ import annotations

import httpx
import pytest

from tests.cli.shell import URL, printed
from tests.harness import emulators

pytestmark = pytest.mark.slow


def test_refused_calls_are_listed_with_the_reason(server: emulators.Server) -> None:
    assert printed(server, "refused") == "no refused calls\n"
    headers = {"Authorization": f"Bearer {server.token}", "Svc-Delay": "soon"}
    httpx.post(f"{server.url}/v2/publish/{URL}", headers=headers, trust_env=False)
    line = printed(server, "refused").splitlines()[1]
    assert " 400 " in line
    assert "POST /v2/publish/" in line
    assert "Svc-Delay" in line
