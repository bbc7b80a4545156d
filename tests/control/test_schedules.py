"""`/_emulator/schedules`: schedules with their next firings."""

from __future__ import annotations

from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator

URL = "https://api.test/hook"
HOUR = 3_600_000


@with_emulator()
async def test_schedules_show_their_next_firings_in_their_zone(emulator: InProcess) -> None:
    """D-340."""
    daily = {"Svc-Cron": "CRON_TZ=Europe/Berlin 30 9 * * *", "Svc-Schedule-Id": "daily", "Svc-Label": "red"}
    await emulator.post(f"/v2/schedules/{URL}", daily)
    await emulator.post(
        f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "paused", "Svc-Method": "PUT"}
    )
    await emulator.call("PATCH", "/v2/schedules/paused/pause")
    await emulator.advance("9h")

    found = (await emulator.control("GET", "/schedules?firings=2")).json["schedules"]

    first, second = found
    assert (first["schedule_id"], first["destination"], first["time_zone"]) == ("daily", URL, "Europe/Berlin")
    assert first["last_ms"] == EPOCH_MS + 8 * HOUR + HOUR // 2
    assert list(first["last_messages"].values()) == ["SUCCESS"]
    assert [(each["at_ms"] - first["last_ms"], each["local"]) for each in first["firings"]] == [
        (24 * HOUR, "2026-01-02T09:30:00+01:00"),
        (48 * HOUR, "2026-01-03T09:30:00+01:00"),
    ]
    assert first["next_ms"] == first["firings"][0]["at_ms"]
    assert (second["paused"], second["next"], second["firings"]) == (True, None, [])
    assert (first["method"], second["method"]) == ("POST", "PUT")
    assert (await emulator.control("GET", "/schedules")).json["schedules"][0]["firings"] == []


@with_emulator()
async def test_more_firings_than_can_be_shown_are_refused(emulator: InProcess) -> None:
    for query in ("firings=101", "firings=-1", "firing=1"):
        answer = await emulator.control("GET", f"/schedules?{query}")
        assert (answer.status, answer.json["field"]) == (400, query.partition("=")[0])
