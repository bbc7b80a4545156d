"""Schedules: time zones and daylight saving, pauses, options, and what firings lead to."""

from __future__ import annotations

from tests.golden.stage import Stage

# Around every change of the clock of 2026 in these zones there are firings to be decided about.
_ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kolkata")
_CRONS = ("30 2 * * *", "0 0 * * sun", "15 */6 * * *", "30 1 1-31/3 mar,oct,nov *")


def daylight(stage: Stage) -> None:
    """A year of sparse schedules in zones that put their clocks forward and back."""
    world = stage.world("daylight", seed=41, epoch="2026-03-01T00:00:00Z")
    for zone in _ZONES:
        world.schedule(
            f"CRON_TZ={zone} 30 2 * mar,apr,sep,oct,nov sun",
            f"https://app.example.com/{zone}",
            schedule_id=zone.replace("/", "_"),
        )
    for number, cron in enumerate(_CRONS):
        world.schedule(f"TZ={_ZONES[number % 2]} {cron}", "https://cron.example.com/", schedule_id=f"cron-{number}")
        world.call("POST", f"/v2/schedules/cron-{number}/pause")
    world.schedule("0 0 29 2 *", "https://app.example.com/leap", schedule_id="leap")
    for text in ("* * * *", "60 * * * *", "0 0 30 2 *", "CRON_TZ=Mars/Olympus * * * * *", "@daily", "0 0 * * 7", ""):
        world.schedule(text, "https://app.example.com/")
    world.look_ahead()
    world.control("GET", "/upcoming", until="2026-06-01", limit="100")
    # The wildcard and the fixed minute differ in the hour that comes twice.
    for instant in ("2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z"):
        world.advance_to(instant)
        world.schedule("CRON_TZ=Europe/Berlin */20 1-3 * * *", "https://every.example.com/", schedule_id="every")
        world.schedule("CRON_TZ=Europe/Berlin 10,50 1-3 * * *", "https://fixed.example.com/", schedule_id="fixed")
        world.advance("3h")
        world.call("POST", "/v2/schedules/every/pause")
        world.call("POST", "/v2/schedules/fixed/pause")
    for number in range(len(_CRONS)):
        world.call("POST", f"/v2/schedules/cron-{number}/resume")
    world.advance_to("2026-11-03T12:00:00Z")
    world.look(messages=0)


def schedules(stage: Stage) -> None:
    """Every option of a schedule, changes of schedules, and firings that are not let through."""
    world = stage.world("schedules", seed=42)
    world.rule("https://down.example.com/*", respond={"status": 500})
    world.rule("https://slow.example.com/*", respond={"status": 200, "latency": "90s"})
    world.call("POST", "/v2/topics/pair/endpoints", {}, {"endpoints": [{"url": "https://a.example.com/"}]})
    world.schedule("*/2 * * * *", "https://slow.example.com/overlap", schedule_id="slow")
    world.schedule("*/3 * * * *", "pair", '{"to":"group"}', schedule_id="group", label="grouped", retries=1)
    world.schedule("*/4 * * * *", "https://down.example.com/", schedule_id="down", retries=1, retry_delay="20000")
    world.schedule("*/5 * * * *", "https://app.example.com/", schedule_id="late", delay="90s", timeout="10s")
    world.schedule("* * * * *", "https://slow.example.com/q", schedule_id="queued", queue_name="line", method="PUT")
    world.schedule(
        "*/2 * * * *",
        "https://app.example.com/flow",
        schedule_id="flow",
        flow_control_key="firings",
        flow_control_value="rate=1,period=5m",
        callback="https://cb.example.com/",
        forward_x_from="schedule",
        redact_fields="body",
    )
    unnamed = world.schedule("0 * * * *", "https://app.example.com/unnamed")
    world.schedule("* * * * *", "https://app.example.com/dup", schedule_id="dup", deduplication_id="only-once")
    world.call("GET", f"/v2/schedules/{unnamed}")
    world.call("GET", "/v2/schedules/none")
    world.call("DELETE", "/v2/topics/pair")
    world.look_ahead()
    world.advance("7m")
    world.call("GET", "/v2/schedules")
    world.call("POST", "/v2/schedules/group/pause")
    world.call("PATCH", "/v2/schedules/down/pause")
    world.call("POST", "/v2/schedules/dup/pause")
    world.call("POST", "/v2/schedules/none/pause")
    world.call("POST", "/v2/topics/pair/endpoints", {}, {"endpoints": [{"url": "https://b.example.com/"}]})
    world.advance("10m")
    world.call("PATCH", "/v2/schedules/down/resume")
    world.call("POST", "/v2/schedules/group/resume")
    world.schedule("30 12 * * *", "https://app.example.com/replaced", "other", schedule_id="late", retries=0)
    world.control("PUT", f"/accounts/{world.account_id}", {"active": False})
    world.call("GET", "/v2/schedules")
    world.advance("5m")
    world.control("PUT", f"/accounts/{world.account_id}", {"active": True, "max_requests_per_day_hard": 60})
    world.advance("10m")
    world.call("GET", "/v2/schedules")
    world.call("DELETE", "/v2/schedules/queued")
    world.call("DELETE", "/v2/schedules/queued")
    world.call("DELETE", "/v2/schedules/group")
    world.call("DELETE", "/v2/topics/pair")
    world.call("DELETE", "/v2/messages?scheduleId=queued")
    world.control("POST", "/clock/next")
    world.control("POST", "/clock/drain", {"horizon": "10m"})
    world.advance("14h")
    world.look(messages=10)
