"""What an account has, and the world's own settings, each in its view."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import Look, copied, in_browser, needs_browser, opened, row
from tests.harness.emulators import EPOCH, EPOCH_MS, Server, control, server, service

pytestmark = [pytest.mark.slow, needs_browser]


# -- accounts in a browser: limits that hold at once, and charts -----------------------------------


@in_browser
def test_a_limit_is_changed_and_a_wrong_one_refused(emulator: Server) -> None:
    with opened(emulator, "#/accounts", expected=["400"]) as page:
        limit = page.get_by_label("Retries of a message").first
        limit.fill("7")
        limit.press("Enter")
        expect(page.get_by_text("max_retries = 7: done.")).to_be_visible()
        limit = page.get_by_label("Retries of a message").first
        expect(limit).to_have_value("7")
        limit.fill("-1")
        limit.press("Enter")
        expect(page.locator(".notice.bad")).to_contain_text("max_retries")
        expect(page.get_by_label("Retries of a message").first).to_have_value("7")
    assert control(emulator, "GET", "/accounts")["accounts"][0]["max_retries"] == 7


@in_browser
def test_charts_show_what_was_used_in_a_period(emulator: Server) -> None:
    for _ in range(3):
        service(emulator, "POST", "/v2/publish/https://app.test/")
    control(emulator, "POST", "/clock/advance", {"by": "2m"})
    with opened(emulator, "#/accounts") as page:
        page.get_by_label("Period").first.select_option("1h")
        month = page.get_by_role("img", name="Requests by day: 3 in all").first
        expect(month).to_be_visible()
        expect(month.locator("rect")).to_have_count(1)
        page.get_by_label("Period").first.select_option("30d")
        expect(page.get_by_role("img", name="Requests: ").first).to_be_visible()
        assert "period=30d" in page.url


@in_browser
def test_a_dialect_with_other_names_has_the_same_charts() -> None:
    with server(dialect="upstash") as emulator, opened(emulator, "#/accounts") as page:
        expect(page.get_by_role("img", name="Messages: delivered").first).to_be_visible()


# -- queues and flow control keys in a browser -----------------------------------------------------


SLOW = {"match": {"url": "https://slow.test/*"}, "respond": {"latency": "1h"}}


FLOW = {"Svc-Flow-Control-Key": "customer-7", "Svc-Flow-Control-Value": "rate=2, period=1m"}


@in_browser
def test_a_queue_shows_its_lag_and_who_waits(emulator: Server) -> None:
    control(emulator, "POST", "/destinations", SLOW)
    ids = [service(emulator, "POST", "/v2/enqueue/orders/https://slow.test/")["messageId"] for _ in range(3)]
    with opened(emulator, "#/queues") as page:
        cells = row(page, "orders").locator("td")
        expect(cells.nth(3)).to_have_text("3")
        expect(cells.nth(4)).to_contain_text(ids[0][-6:])
        expect(cells.nth(5)).to_contain_text(ids[1][-6:])
        expect(cells.nth(5)).to_contain_text(ids[2][-6:])


@in_browser
def test_a_queue_is_paused_resumed_widened_and_deleted(emulator: Server) -> None:
    service(emulator, "POST", "/v2/queues", (), {"queueName": "orders", "parallelism": 1})
    with opened(emulator, "#/queues") as page:
        page.get_by_role("button", name="Pause queue orders").click()
        expect(row(page, "orders")).to_contain_text("paused")
        assert service(emulator, "GET", "/v2/queues/orders")["paused"] is True
        page.get_by_role("button", name="Resume queue orders").click()
        expect(row(page, "orders")).to_contain_text("running")
        width = page.get_by_label("Parallelism of orders")
        width.fill("3")
        width.press("Enter")
        expect(page.get_by_text("Parallelism of orders: done.")).to_be_visible()
        assert service(emulator, "GET", "/v2/queues/orders")["parallelism"] == 3
        row(page, "orders").get_by_role("button", name="Delete").click()
        row(page, "orders").get_by_role("button", name="Delete with its messages?").click()
        expect(page.get_by_text("No queue yet.")).to_be_visible()
    assert service(emulator, "GET", "/v2/queues") == []


@in_browser
def test_a_key_shows_what_it_holds_back_and_is_paused(emulator: Server) -> None:
    for _ in range(3):
        service(emulator, "POST", "/v2/publish/https://app.test/", FLOW)
    with opened(emulator, "#/queues") as page:
        here = row(page, "customer-7")
        expect(here).to_contain_text("2/2 per 1 min")
        expect(here).to_contain_text("held by flow control key customer-7 (rate)")
        page.get_by_role("button", name="Pause key customer-7").click()
        expect(here).to_contain_text("paused")
        page.get_by_role("button", name="Resume key customer-7").click()
        expect(page.get_by_role("button", name="Pause key customer-7")).to_be_visible()
        page.get_by_role("button", name="Reset key customer-7").click()
        expect(here).to_contain_text("1/2 per 1 min")


@in_browser
def test_a_key_is_pinned_and_unpinned(emulator: Server) -> None:
    service(emulator, "POST", "/v2/publish/https://app.test/", FLOW)
    with opened(emulator, "#/queues") as page:
        page.get_by_role("button", name="Pin key customer-7").click()
        page.get_by_label("Rate").fill("9")
        page.get_by_label("Period in seconds").fill("120")
        page.get_by_role("button", name="Pin", exact=True).click()
        expect(row(page, "customer-7")).to_contain_text("/9 per 2 min")
        key = service(emulator, "GET", "/v2/flowControl/customer-7")
        assert (key["isPinnedRate"], key["rateMax"], key["ratePeriod"]) == (True, 9, 120)
        page.get_by_role("button", name="Unpin key customer-7").click()
        expect(page.get_by_role("button", name="Pin key customer-7")).to_be_visible()
        assert service(emulator, "GET", "/v2/flowControl/customer-7")["isPinnedRate"] is False


@in_browser
def test_what_all_destinations_do_together_is_said_for_each_account(emulator: Server) -> None:
    with opened(emulator, "#/queues") as page:
        for account in control(emulator, "GET", "/accounts")["accounts"]:
            said = page.get_by_role("listitem").filter(has_text=account["customer_id"])
            expect(said).to_contain_text(re.compile(r"0 of \d+ under way"))


# -- uRL groups in a browser -----------------------------------------------------------------------


@in_browser
def test_endpoints_are_added_and_removed_and_a_group_deleted(emulator: Server) -> None:
    with opened(emulator, "#/groups") as page:
        expect(page.get_by_text("No URL group yet.")).to_be_visible()
        for url, name in (("https://a.test/hook", "billing"), ("https://b.test/hook", "")):
            page.get_by_label("Group", exact=True).fill("receivers")
            page.get_by_label("Endpoint", exact=True).fill(url)
            page.get_by_label("Its name").fill(name)
            page.get_by_role("button", name="Add endpoint").click()
            expect(row(page, "receivers")).to_contain_text(url.removeprefix("https://"))
        assert service(emulator, "GET", "/v2/topics/receivers")["endpoints"] == [
            {"url": "https://a.test/hook", "name": "billing"},
            {"url": "https://b.test/hook"},
        ]
        page.get_by_role("button", name="Remove https://b.test/hook from receivers").click()
        expect(row(page, "receivers")).not_to_contain_text("b.test")
        row(page, "receivers").get_by_role("button", name="Delete").click()
        row(page, "receivers").get_by_role("button", name="Really delete?").click()
        expect(page.get_by_text("No URL group yet.")).to_be_visible()
    assert service(emulator, "GET", "/v2/topics") == []


@in_browser
def test_a_groups_default_headers_are_shown(emulator: Server) -> None:
    service(emulator, "POST", "/v2/topics/receivers/endpoints", (), {"endpoints": [{"url": "https://a.test"}]})
    service(emulator, "PATCH", "/v2/topics/receivers", (), {"headers": {"Svc-Retries": "2"}})
    with opened(emulator, "#/groups") as page:
        expect(row(page, "receivers")).to_contain_text("Svc-Retries: 2")
        row(page, "receivers").get_by_role("link", name="publish to it").click()
        expect(page.get_by_label("Destination")).to_have_value("receivers")


# -- the list of schedules in a browser: firings, pause, resume, delete, and the calls of all that ---


NEW_YORK = {"Svc-Cron": "CRON_TZ=America/New_York 0 9 * * *", "Svc-Schedule-Id": "daily"}


@in_browser
def test_ten_firings_are_shown_in_the_schedules_zone_and_in_that_of_the_page(emulator: Server) -> None:
    service(emulator, "POST", "/v2/schedules/https://app.test/report", NEW_YORK)
    with opened(emulator, "#/schedules", Look(time_zone="Asia/Tokyo")) as page:
        page.get_by_role("button", name="daily", exact=True).click()
        firings = page.get_by_role("complementary").locator("ol").first.locator("li")
        expect(firings).to_have_count(10)
        expect(firings.first).to_have_text("Thu 1 Jan 2026 09:00 -05:00 23:00:00 · in 14 h")
        expect(firings.nth(9)).to_contain_text("Sat 10 Jan 2026 09:00 -05:00")


@in_browser
def test_a_schedule_is_paused_resumed_and_deleted(emulator: Server) -> None:
    service(emulator, "POST", "/v2/schedules/https://app.test/report", NEW_YORK)
    with opened(emulator, "#/schedules") as page:
        here = row(page, "daily")
        page.get_by_role("button", name="Pause daily").click()
        expect(here).to_contain_text("paused")
        assert service(emulator, "GET", "/v2/schedules/daily")["isPaused"] is True
        page.get_by_role("button", name="Resume daily").click()
        expect(here).to_contain_text("active")
        here.get_by_role("button", name="Delete").click()
        assert service(emulator, "GET", "/v2/schedules") != []
        here.get_by_role("button", name="Really delete?").click()
        expect(page.get_by_text("No schedule yet.")).to_be_visible()
    assert service(emulator, "GET", "/v2/schedules") == []


@in_browser
def test_an_action_can_be_copied_as_the_call_that_it_made(emulator: Server) -> None:
    service(emulator, "POST", "/v2/schedules/https://app.test/report", NEW_YORK)
    with opened(emulator, "#/schedules") as page:
        page.get_by_role("button", name="Pause daily").click()
        done = page.locator(".notice").filter(has_text="Pause daily")
        done.get_by_role("button", name="copy as curl").click()
        expect(page.get_by_text("Copied: curl")).to_be_visible()
        assert copied(page).startswith("curl")
        assert f"'{emulator.url}/v2/schedules/daily/pause'" in copied(page)
        done.get_by_label("language to copy in").select_option("TypeScript")
        expect(page.get_by_text("Copied: TypeScript")).to_be_visible()
        assert copied(page).startswith("const response = await fetch(")
        done.get_by_label("language to copy in").select_option("Python")
        expect(page.get_by_text("Copied: Python")).to_be_visible()
        service(emulator, "POST", "/v2/schedules/daily/resume")
        exec(copied(page))
        assert service(emulator, "GET", "/v2/schedules/daily")["isPaused"] is True
        # The choice is kept.
        page.evaluate("location.hash = '#/publish'")
        expect(page.get_by_role("tab", name="Python")).to_have_attribute("aria-selected", "true")


@in_browser
def test_what_came_of_the_last_firing_is_shown(emulator: Server) -> None:
    control(emulator, "POST", "/destinations", {"match": {"url": "https://app.test/*"}, "respond": {"latency": "1h"}})
    service(
        emulator, "POST", "/v2/schedules/https://app.test/report", {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "often"}
    )
    with opened(emulator, "#/schedules?select=often") as page:
        expect(row(page, "often")).to_contain_text("active")
        control(emulator, "POST", "/clock/advance", {"by": "1m"})
        expect(row(page, "often")).to_contain_text("1 in progress")
        expect(page.get_by_role("complementary")).to_contain_text("Messages of the last firing")


# -- destination rules in a browser: two clicks for the usual ones, a form for the others, their order ---


def rules(emulator: Server) -> Any:
    return control(emulator, "GET", "/destinations")["destinations"]


@in_browser
def test_two_clicks_make_the_next_two_fail(emulator: Server) -> None:
    with opened(emulator) as page:
        page.get_by_role("link", name="Rules").click()
        page.get_by_role("button", name="Fail the next 2 with 503").click()
        expect(row(page, "rule_1")).to_contain_text("answer 503")
        expect(row(page, "rule_1")).to_contain_text("0 of 2")
    assert rules(emulator) == [
        {"id": "rule_1", "match": {"url": "https://*"}, "respond": {"status": 503}, "times": 2, "used": 0}
    ]


@in_browser
def test_any_other_rule_is_written_out(emulator: Server) -> None:
    with opened(emulator, "#/rules", expected=["400"]) as page:
        page.get_by_text("Any other rule").click()
        text = page.get_by_label("Rule", exact=True)
        page.get_by_role("button", name="Add rule").click()
        expect(row(page, "rule_1")).to_contain_text("1. answer 429, Retry-After: 10, after 2s")
        expect(row(page, "rule_1")).to_contain_text("2. answer 200")
        text.fill('{"match": {"url": "https://a.test/*"}, "forward_to": "http://127.0.0.1:3000", "latency": "soon"}')
        page.get_by_role("button", name="Add rule").click()
        expect(page.locator(".notice.bad")).to_contain_text("latency")
        text.fill(text.input_value().replace("soon", "1s"))
        page.get_by_role("button", name="Add rule").click()
        expect(row(page, "rule_2")).to_contain_text("forward to http://127.0.0.1:3000 after 1s")
        text.fill("{")
        page.get_by_role("button", name="Add rule").click()
        assert text.evaluate("text => text.validationMessage").startswith("This is no JSON")
    assert [each["id"] for each in rules(emulator)] == ["rule_1", "rule_2"]


@in_browser
def test_rules_are_moved_and_removed(emulator: Server) -> None:
    """D-328."""
    for number in range(3):
        control(emulator, "POST", "/destinations", {"match": {"url": f"https://{number}.test"}, "fault": "dns"})
    with opened(emulator, "#/rules") as page:
        expect(page.get_by_role("button", name="Move rule_1 up")).to_be_disabled()
        page.get_by_role("button", name="Move rule_3 up").click()
        expect(page.locator("tbody tr").nth(1)).to_contain_text("rule_3")
        assert [each["id"] for each in rules(emulator)] == ["rule_1", "rule_3", "rule_2"]
        # The rows that did not move know the new order too.
        page.get_by_role("button", name="Move rule_1 down").click()
        expect(page.locator("tbody tr").first).to_contain_text("rule_3")
        assert [each["id"] for each in rules(emulator)] == ["rule_3", "rule_1", "rule_2"]
        page.get_by_role("button", name="Fail the next 2 with 503").click()
        expect(page.get_by_role("button", name="Move rule_2 down")).to_be_enabled()
        control(emulator, "DELETE", "/destinations/rule_4")
        row(page, "rule_1").get_by_role("button", name="Remove").click()
        row(page, "rule_1").get_by_role("button", name="Really remove?").click()
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_role("button", name="Remove all").click()
        page.get_by_role("button", name="Really remove all?").click()
        expect(page.get_by_text("No rule:")).to_be_visible()
    assert rules(emulator) == []


@in_browser
def test_rules_by_chance_are_made_and_told_in_words(emulator: Server) -> None:
    with opened(emulator, "#/rules") as page:
        page.get_by_text("By chance", exact=True).click()
        what, add = page.get_by_label("What"), page.get_by_role("button", name="Add rule by chance")
        add.click()
        expect(row(page, "rule_1")).to_contain_text("with chance 0.2:")
        expect(row(page, "rule_1")).to_contain_text("answer 503")
        page.get_by_label("Chance, from 0 to 1").fill("0.5")
        for option, text in (
            ("deliver twice", "deliver twice"),
            ("leave out of order", "leave out of order"),
            ("answer late", "answer late after 0s to 5s"),
            ("never answer", "never answer"),
        ):
            what.select_option(option)
            add.click()
            expect(page.locator("tbody tr").last).to_contain_text(text)
        page.get_by_label("At least so late").fill("1s")
        page.get_by_label("At most so late").fill("10s")
        what.select_option("answer 503")
        add.click()
        expect(row(page, "rule_6")).to_contain_text("answer 503, after 1s to 10s")
    match = {"url": "https://*"}
    assert [{name: each[name] for name in each if name not in ("id", "used")} for each in rules(emulator)[:6]] == [
        {"match": match, "respond": {"status": 503}, "chance": 0.2},
        {"match": match, "duplicate": True, "chance": 0.5},
        {"match": match, "reorder": True, "chance": 0.5},
        {"match": match, "latency": {"min": "0s", "max": "5s"}, "chance": 0.5},
        {"match": match, "fault": "timeout", "chance": 0.5},
        {"match": match, "respond": {"status": 503, "latency": {"min": "1s", "max": "10s"}}, "chance": 0.5},
    ]


@in_browser
def test_the_line_that_repeats_the_run_is_copied(emulator: Server) -> None:
    """D-438."""
    control(emulator, "POST", "/worlds", {"id": "w", "seed": 7, "epoch": EPOCH, "chaos": 0.2})
    control(emulator, "POST", "/worlds", {"id": "v", "epoch": EPOCH, "chaos": {"level": 0.2, "except": ["3.1"]}})
    control(emulator, "POST", "/destinations", {"match": {"url": "*"}, "duplicate": "10s", "reorder": "1m"})
    with opened(emulator, "#/rules?world=w") as page:
        expect(page.locator("tbody tr")).to_have_count(6)
        page.get_by_role("button", name="Copy").click()
        expect(page.get_by_text("Copied: the line.")).to_be_visible()
        assert copied(page) == (
            "svc-emulator worlds create --seed 7 --epoch 2026-01-01T00:00:00.000Z --plan paid --chaos 0.2"
        )
        page.goto(f"{emulator.url}/_emulator/inspector#/rules?world=v")
        expect(page.get_by_text('chaos={"level":0.2,"except":["3.1"]})')).to_be_visible()
        expect(page.get_by_text("worlds create")).to_have_count(0)
        page.goto(f"{emulator.url}/_emulator/inspector#/rules")
        expect(row(page, "rule_1")).to_contain_text("deliver twice, again after 10s, put back for up to 1m")
        expect(page.get_by_text("svc-emulator serve --clock frozen --seed 0")).to_be_visible()


# -- settings in a browser: they hold in all views, and after a reload -----------------------------


@in_browser
def test_the_zone_is_chosen_and_kept_and_so_is_the_theme(emulator: Server) -> None:
    service(emulator, "POST", "/v2/publish/https://app.test/hook")
    with opened(emulator, "#/settings") as page:
        zone = page.get_by_label("Time zone shown beside UTC")
        expect(zone).to_have_value("Europe/Berlin")
        zone.fill("Nowhere/City")
        zone.press("Enter")
        assert zone.evaluate("input => input.validationMessage").startswith("There is no such time zone")
        zone.fill("Asia/Kolkata")
        zone.press("Enter")
        page.get_by_role("link", name="Messages").click()
        expect(row(page, "app.test/hook")).to_contain_text("05:30:00")
        page.reload()
        expect(row(page, "app.test/hook")).to_contain_text("05:30:00")
        page.evaluate("location.hash = '#/settings'")
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_label("Theme").select_option("dark")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


# -- snapshots in a browser: saved, restored, exported, imported, deleted --------------------------


@in_browser
def test_a_snapshot_is_saved_restored_and_deleted(emulator: Server) -> None:
    with opened(emulator, "#/snapshots") as page:
        page.get_by_label("Name").fill("before")
        page.get_by_role("button", name="Save the world").click()
        expect(row(page, "before")).to_be_visible()
        control(emulator, "POST", "/clock/advance", {"by": "1h"})
        row(page, "before").get_by_role("button", name="Restore").click()
        row(page, "before").get_by_role("button", name="Really restore?").click()
        expect(page.get_by_text("Restore before: done.")).to_be_visible()
        assert control(emulator, "GET", "/clock")["now_ms"] == EPOCH_MS
        row(page, "before").get_by_role("button", name="Delete").click()
        row(page, "before").get_by_role("button", name="Really delete?").click()
        expect(page.get_by_text("No snapshot yet.")).to_be_visible()


@in_browser
def test_a_snapshot_is_carried_away_and_brought_back(emulator: Server, tmp_path: Path) -> None:
    control(emulator, "POST", "/snapshots", {"name": "mine"})
    with opened(emulator, "#/snapshots") as page:
        with page.expect_download() as downloading:
            page.get_by_role("button", name="Export mine").click()
        assert downloading.value.suggested_filename == "mine.db"
        file = tmp_path / "again.db"
        downloading.value.save_as(file)
        assert file.read_bytes().startswith(b"SQLite format 3")
        with page.expect_file_chooser() as choosing:
            page.get_by_role("button", name="Import a file…").click()
        choosing.value.set_files(file)
        expect(row(page, "again")).to_be_visible()
    assert [each["name"] for each in control(emulator, "GET", "/snapshots")["snapshots"]] == ["again", "mine"]


# -- worlds in a browser ---------------------------------------------------------------------------


@in_browser
def test_a_world_is_made_shown_and_deleted(emulator: Server) -> None:
    service(emulator, "POST", "/v2/publish/https://app.test/", {"Svc-Delay": "1h"})
    # A list of the world may be in flight while the world is deleted: the browser writes that it was not found.
    with opened(emulator, "#/worlds", expected=["404 (Not Found)"]) as page:
        expect(row(page, "default")).to_contain_text("shown here")
        expect(row(page, "default").get_by_role("button", name="Delete")).to_have_count(0)
        page.get_by_label("Id").fill("ci-42")
        page.get_by_label("Its clock begins").fill("2030-05-01T00:00:00Z")
        page.get_by_role("button", name="Create").click()
        row(page, "ci-42").get_by_role("link", name="switch to it").click()
        page.get_by_role("link", name="Messages").click()
        expect(page.get_by_text("No message yet.")).to_be_visible()
        assert "world=ci-42" in page.url
        page.get_by_role("link", name="Worlds").click()
        expect(row(page, "ci-42")).to_contain_text("shown here")
        row(page, "ci-42").get_by_role("button", name="Delete").click()
        row(page, "ci-42").get_by_role("button", name="Really delete?").click()
        expect(row(page, "default")).to_contain_text("shown here")
        expect(row(page, "ci-42")).to_have_count(0)
    assert [each["id"] for each in control(emulator, "GET", "/worlds")["worlds"]] == ["default"]


@in_browser
def test_a_world_that_is_not_shown_is_reset(emulator: Server) -> None:
    token = control(emulator, "POST", "/worlds", {"id": "other"})["credentials"]["queue"]["token"]
    service(emulator, "POST", "/v2/publish/https://app.test/", {"Svc-Delay": "1h"})
    service(emulator, "POST", "/v2/publish/https://app.test/", {"Svc-Delay": "1h", "Authorization": f"Bearer {token}"})
    with opened(emulator, "#/worlds") as page:
        row(page, "other").get_by_role("button", name="Reset").click()
        row(page, "other").get_by_role("button", name="Really reset?").click()
        expect(page.get_by_text("Reset other: done.")).to_be_visible()
    assert control(emulator, "GET", "/clock", world="other")["pending"] == 0
    assert control(emulator, "GET", "/clock")["pending"] == 1
