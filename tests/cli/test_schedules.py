"""`schedules` against a real server."""

from __future__ import annotations

import pytest

from tests.cli.shell import URL, printed, read, service
from tests.harness import emulators

pytestmark = pytest.mark.slow


def test_schedules_are_listed_paused_resumed_and_deleted(server: emulators.Server) -> None:
    assert printed(server, "schedules") == "no schedules\n"
    cron = "CRON_TZ=Europe/Berlin 30 9 * * *"
    service(server, "POST", f"schedules/{URL}", Svc_Cron=cron, Svc_Schedule_Id="daily")
    assert printed(server, "schedules", "--firings", "2").splitlines() == [
        "ID     CRON                              DESTINATION                   NEXT                      LAST",
        f"daily  {cron}  {URL}  2026-01-01T08:30:00.000Z  not yet",
        "",
        "daily (Europe/Berlin):",
        "  2026-01-01T08:30:00.000Z  2026-01-01T09:30:00+01:00",
        "  2026-01-02T08:30:00.000Z  2026-01-02T09:30:00+01:00",
    ]
    emulators.control(server, "POST", "/clock/advance", {"by": "9h"})
    assert printed(server, "schedules").splitlines()[1].endswith("2026-01-01T08:30:00.000Z success")
    assert printed(server, "schedules", "pause", "daily") == f"schedule daily to {URL} is paused\n"
    assert printed(server, "schedules").split()[-3] == "paused"
    assert "fires next at 2026-01-02T08:30:00.000Z" in printed(server, "schedules", "resume", "daily")
    assert printed(server, "schedules", "delete", "daily") == f"schedule daily to {URL} deleted\n"
    assert read(server, "schedules") == {"schedules": []}
