"""`deliveries` against a real server."""

from __future__ import annotations

import pytest

from tests.cli.shell import DOWN, URL, printed, publish, read, rule
from tests.harness import emulators

pytestmark = pytest.mark.slow


def test_deliveries_are_the_newest_with_the_last_at_the_end(server: emulators.Server) -> None:
    assert printed(server, "deliveries") == "no deliveries\n"
    rule(server, DOWN, respond={"status": 503})
    rule(server, "https://gone.test/", fault="dns")
    ok, down = publish(server, URL), publish(server, DOWN, Svc_Retries="0")
    gone = publish(server, "https://gone.test/", Svc_Retries="0")
    lines = printed(server, "deliveries").splitlines()
    assert lines[0].split() == ["STARTED", "ID", "ENDS", "TRY", "DESTINATION", "RESULT", "VIA"]
    assert [line.split()[1] for line in lines[1:]] == [ok[-8:], down[-8:], gone[-8:]]
    assert lines[2].split()[-2:] == ["503", "rule"]
    assert [each["message_id"] for each in read(server, "deliveries", "--failed")["deliveries"]] == [gone, down]
    assert [each["message_id"] for each in read(server, "deliveries", "--succeeded")["deliveries"]] == [ok]
    assert [each["message_id"] for each in read(server, "deliveries", "--to", "https://down*")["deliveries"]] == [down]
    newest, *rest = printed(server, "deliveries", "--limit", "1").splitlines()[1:]
    assert newest.split()[1] == gone[-8:]
    assert rest == ["there are older ones: --limit lists more"]
