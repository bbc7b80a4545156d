"""The timeline, runs on their axis, and when schedules fire."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cli import shell
from tests.harness.browsers import Look, copied, in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, control, service
from tests.harness.loops import PATIENCE_S
from tests.inspector import workflow_world

pytestmark = [pytest.mark.slow, needs_browser]


# -- the timeline in a browser: past and future on one axis, live, filtered and grouped ------------


URL, DOWN = "https://app.test/orders", "https://down.test/hook"


def rows(page: Page, kind: str = "past") -> Locator:
    return page.locator(f".row.{kind}")


def publish(emulator: Server, url: str = URL, **headers: str) -> str:
    return shell.publish(emulator, url, **headers)


def break_down(emulator: Server) -> None:
    answer = {"status": 503, "headers": {"Retry-After": "22"}, "body": '{"detail": "db locked"}'}
    control(emulator, "POST", "/destinations", {"match": {"url": DOWN}, "respond": answer})


@in_browser
def test_without_a_message_it_teaches_how_to_publish_one(emulator: Server) -> None:
    with opened(emulator) as page:
        teaching = page.get_by_text("Nothing has happened yet.")
        expect(teaching).to_be_visible()
        page.get_by_role("button", name="Copy", exact=True).click()
        lines = copied(page)
        assert f"{emulator.url}/v2/publish/" in lines
        assert emulator.token in lines
        publish(emulator)
        expect(rows(page)).to_have_count(1)
        expect(teaching).to_be_hidden()


@in_browser
def test_past_and_future_stand_on_both_sides_of_now(emulator: Server) -> None:
    break_down(emulator)
    publish(emulator, Svc_Label="nightly")
    publish(emulator, DOWN, Svc_Retries="3")
    service(
        emulator, "POST", "/v2/schedules/https://app.test/poll", {"Svc-Cron": "*/15 * * * *", "Svc-Schedule-Id": "poll"}
    )
    publish(emulator, Svc_Delay="2h")
    with opened(emulator) as page:
        expect(rows(page)).to_have_count(2)
        expect(rows(page, "due")).to_have_count(3)
        texts = page.locator(".row").all_text_contents()
        assert [text.startswith("now Thu 1 Jan 2026 01:00:00") for text in texts].index(True) == 2
        expect(rows(page).first).to_contain_text("1/6● 200–0 B / 0 Bpublished nightly")
        expect(rows(page).last).to_contain_text('503: {"detail": "db locked"} · retried: Retry-After: 22 → 22s')
        expect(rows(page, "due").nth(0)).to_contain_text("in 22 s")
        expect(rows(page, "due").nth(0)).to_contain_text("2/4◐ retryretry 1 of 3: Retry-After: 22 → 22s")
        expect(rows(page, "due").nth(1)).to_contain_text("the schedule fires at")
        control(emulator, "POST", "/clock/advance", {"by": "22s"})
        expect(rows(page).last).to_contain_text("2/4")
        rows(page, "due").filter(has_text="the schedule fires at").click()
        expect(page).to_have_url(f"{emulator.url}/_emulator/inspector#/schedules?select=poll")


@in_browser
def test_a_delivery_appears_by_itself_and_goes_with_its_world(emulator: Server) -> None:
    publish(emulator)
    # A list that is just being read while the world is exchanged is refused, and read again.
    with opened(emulator, expected=["409 (Conflict)"]) as page:
        expect(rows(page)).to_have_count(1)
        page.evaluate("window.same = true")
        publish(emulator, "https://live.test/")
        expect(rows(page).filter(has_text="live.test")).to_be_visible()
        assert page.evaluate("window.same")
        control(emulator, "POST", "/reset")
        expect(page.get_by_text("Nothing has happened yet.")).to_be_visible()


@in_browser
def test_a_filter_is_in_the_address_and_narrows_both_sides(emulator: Server) -> None:
    break_down(emulator)
    publish(emulator, Svc_Label="nightly")
    publish(emulator, DOWN)
    publish(emulator, Svc_Delay="1h", Svc_Label="nightly")
    with opened(emulator, "#/timeline?filter=label%3Anightly") as page:
        expect(rows(page)).to_have_count(1)
        expect(rows(page, "due")).to_have_count(1)
        filter_box = page.get_by_label("Filter")
        expect(filter_box).to_have_value("label:nightly")
        page.locator("main").press("/")
        expect(filter_box).to_be_focused()
        filter_box.fill("status:failed url:*/hook")
        expect(rows(page)).to_have_count(1)
        expect(rows(page, "due")).to_have_count(0)
        assert "filter=status%3Afailed+url%3A*%2Fhook" in page.url
        filter_box.fill("status:brocken")
        expect(page.get_by_role("alert")).to_contain_text("status:brocken is none of failed, ok")


@in_browser
def test_groups_are_by_message_schedule_or_destination(emulator: Server) -> None:
    break_down(emulator)
    publish(emulator)
    publish(emulator)
    publish(emulator, DOWN, Svc_Retries="1")
    control(emulator, "POST", "/clock/advance", {"by": "22s"})
    with opened(emulator) as page:
        page.get_by_label("Group").select_option("by destination")
        heads = rows(page, "group")
        expect(heads).to_have_count(2)
        expect(heads.first).to_contain_text("2 deliveriesdown.test/hook2/2▲ 5032 failed")
        heads.first.click()
        expect(rows(page)).to_have_count(2)
        page.locator("main").press("b")
        expect(page.get_by_label("Group")).to_have_value("")
        page.get_by_label("Group").select_option("by message")
        expect(heads).to_have_count(3)
        page.reload()
        expect(heads).to_have_count(3)


@in_browser
def test_keys_go_from_row_to_row_and_open_them(emulator: Server) -> None:
    first, second = publish(emulator), publish(emulator, "https://two.test/")
    with opened(emulator) as page:
        expect(rows(page)).to_have_count(2)
        page.locator("main").press("j")
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary").get_by_role("heading").first).to_contain_text(first[-6:])
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary").get_by_role("heading").first).to_contain_text(second[-6:])
        assert f"select={second}" in page.url
        page.keyboard.press("Escape")
        expect(page.get_by_role("complementary")).to_be_hidden()


@in_browser
def test_the_order_can_be_turned_and_now_is_found_again(emulator: Server) -> None:
    for number in range(60):
        publish(emulator, f"https://app.test/{number}")
    publish(emulator, Svc_Delay="1h")
    with opened(emulator) as page:
        line = rows(page, "now")
        expect(page.get_by_role("status").filter(has_text="60 deliveries")).to_be_visible()
        expect(line).to_be_in_viewport()
        page.locator("[data-scroller]").evaluate("box => { box.scrollTop = 0 }")
        page.get_by_role("button", name="↓ now").click()
        expect(line).to_be_in_viewport()
        page.evaluate("location.hash = '#/settings'")
        expect(page.locator("section.settings")).to_be_visible()
        page.evaluate("location.hash = '#/timeline'")
        # What is known is drawn before the list is in the page.
        expect(line).to_be_in_viewport()
        page.evaluate("location.hash = '#/settings'")
        page.get_by_label("Order of the timeline").select_option("future above, past below")
        page.evaluate("location.hash = '#/timeline'")
        expect(page.locator(".row").first).to_contain_text("the first attempt, 1h")


@in_browser
def test_the_timeline_and_the_message_mark_what_chaos_did(emulator: Server) -> None:
    """D-439."""
    for rule in ({"respond": {"status": 503}, "chance": 1, "times": 1}, {"duplicate": "1h"}):
        control(emulator, "POST", "/destinations", {"match": {"url": "https://app.test/*"}, **rule})
    service(emulator, "POST", "/v2/publish/https://app.test/a", {"Svc-Retries": "1", "Svc-Retry-Delay": "1000"})
    service(emulator, "POST", "/v2/publish/https://calm.test/b")
    with opened(emulator) as page:
        rows = page.get_by_role("option")
        expect(rows.filter(has_text="⚡ chaos: 503 instead of a delivery")).to_have_count(1)
        control(emulator, "POST", "/clock/advance", {"by": "1m"})
        expect(rows.filter(has_text="⚡ chaos: duplicate of attempt 2")).to_have_count(1)
        page.get_by_label("Filter").fill("status:chaos")
        expect(page.get_by_text("1 delivery of 3")).to_be_visible()
        rows.filter(has_text="503 instead").click()
        detail = page.get_by_role("complementary")
        expect(detail.locator("summary").first).to_contain_text("⚡ chaos: 503 instead of a delivery")
        detail.locator("summary").first.click()
        expect(detail).to_contain_text('A rule spares this attempt with "except": ["1.1"].')


@in_browser
def test_in_a_running_world_the_line_of_now_moves_and_what_is_to_come_counts_down(emulator: Server) -> None:
    """D-511."""
    control(emulator, "PUT", "/clock", {"rate": 1})
    publish(emulator, Svc_Delay="2h")
    with opened(emulator) as page:
        line, ahead = rows(page, "now"), rows(page, "due")
        expect(ahead).to_contain_text("in 1 h 59 min")
        # The first move of the line shows that everything of the beginning has been drawn.
        expect(line).not_to_have_text(line.text_content() or "")
        shown = line.text_content() or ""
        node = line.element_handle()
        expect(line).not_to_have_text(shown)
        # It is the same row, so that nothing moves under the pointer.
        assert node.evaluate("node => node.isConnected")
        control(emulator, "PUT", "/clock", {"rate": 60})
        expect(ahead).to_contain_text("in 1 h 57 min")
        expect(ahead).to_contain_text("in 1 h 55 min")
    control(emulator, "PUT", "/clock", {"rate": 0})


@in_browser
def test_a_row_passes_the_line_of_now_when_its_time_has_come(emulator: Server) -> None:
    """D-511."""
    publish(emulator)
    publish(emulator, "https://soon.test/", Svc_Delay="90s")
    with opened(emulator) as page:
        expect(rows(page, "due")).to_have_count(1)
        # What the page reckons by itself: no further list of what is to come arrives.
        page.route("**/_emulator/upcoming*", lambda route: None)
        control(emulator, "PUT", "/clock", {"rate": 60})
        is_last = "() => [...document.querySelectorAll('.row')].at(-1)?.classList.contains('now')"
        page.wait_for_function(is_last, timeout=PATIENCE_S * 1000)
        expect(rows(page, "due")).to_have_count(1)
        expect(rows(page).filter(has_text="soon.test")).to_have_count(1)
    control(emulator, "PUT", "/clock", {"rate": 0})


@in_browser
def test_attempts_are_sorted_by_the_start_that_they_show(emulator: Server) -> None:
    """D-512."""
    answer = {"status": 200, "latency": "1h"}
    control(emulator, "POST", "/destinations", {"match": {"url": "https://slow.test/"}, "respond": answer})
    publish(emulator, "https://slow.test/")
    publish(emulator, Svc_Delay="1m")
    control(emulator, "POST", "/clock/advance", {"by": "2h"})
    ended = [each["url"] for each in control(emulator, "GET", "/deliveries")["deliveries"]]
    assert ended == [URL, "https://slow.test/"]
    with opened(emulator) as page:
        expect(rows(page)).to_have_count(2)
        expect(rows(page).first).to_contain_text("slow.test")


# -- workflow runs in a browser --------------------------------------------------------------------


APP = "https://app.test/onboarding"


def begin(emulator: Server, run: str) -> None:
    """A run whose endpoint answers by a rule, and a step of it that sleeps for three days."""
    headers = {"Authorization": f"Bearer {emulator.token}", "Svc-Workflow-RunId": run, "Svc-Workflow-Url": APP}
    first = {**headers, "Svc-Workflow-Init": "true"}
    sleep = {**headers, "Svc-Workflow-Init": "false", "Svc-Workflow-CallType": "step", "Svc-Delay": "3d"}
    step = {"stepId": 1, "stepName": "wait 3 days", "stepType": "SleepFor", "sleepFor": 259200, "concurrent": 1}
    for sent, body in ((first, {"user": 7}), (sleep, step)):
        answer = httpx.post(f"{emulator.url}/v2/publish/{APP}", headers=sent, json=body, trust_env=False, verify=False)
        assert answer.status_code == 200, answer.text


@in_browser
def test_a_run_is_listed_with_its_steps_and_can_be_cancelled(emulator: Server) -> None:
    control(emulator, "POST", "/destinations", {"match": {"url": APP}, "respond": {"status": 200}})
    with opened(emulator, "#/runs") as page:
        expect(page.get_by_text("No workflow has run yet.")).to_be_visible()
        begin(emulator, "wfr_1")
        here = row(page, "wfr_1")
        expect(here).to_contain_text("running")
        here.get_by_role("button", name="wfr_1").click()
        details = page.get_by_label("Details")
        expect(details).to_contain_text("wait 3 days")
        expect(details).to_contain_text("sleeps until")
        details.get_by_role("button", name="Cancel").click()
        details.get_by_role("button", name="Really cancel?").click()
        expect(here).to_contain_text("cancelled")


@in_browser
def test_a_row_opens_its_own_run_where_the_id_was_used_again(emulator: Server) -> None:
    """D-692."""
    control(emulator, "POST", "/destinations", {"match": {"url": APP}, "respond": {"status": 200}})
    begin(emulator, "wfr_1")
    control(emulator, "POST", "/clock/advance", {"by": "1m"})
    service(emulator, "DELETE", "/v2/workflows/runs/wfr_1")
    begin(emulator, "wfr_1")
    with opened(emulator, "#/runs?select=wfr_1") as page:
        details, rows = page.get_by_label("Details"), page.locator("tbody tr")
        expect(details).to_contain_text("This id was used before · earlier run, began 01:00:00, cancelled")
        expect(page.locator("tr[aria-selected=true]")).to_contain_text("running")
        rows.last.get_by_role("button", name="wfr_1").click()
        expect(details.locator(".state-line")).to_contain_text("cancelled")
        expect(details).to_contain_text("This id was used again")
        expect(page.locator("tr[aria-selected=true]")).to_contain_text("cancelled")
        page.reload()
        expect(details.locator(".state-line")).to_contain_text("cancelled")
        details.get_by_role("link", name="later run, began 01:01:00, running").click()
        expect(details.locator(".state-line")).to_contain_text("running")
        assert page.url.endswith("select=wfr_1%2F2")
        # From the oldest message, which is the earlier run's first call.
        page.evaluate("location.hash = '#/messages'")
        rows.last.get_by_role("link", name="run wfr_1").click()
        expect(details.locator(".state-line")).to_contain_text("cancelled")


@in_browser
def test_a_failed_run_says_where_and_what_was_answered_and_is_restarted(emulator: Server) -> None:
    workflow_world.fill(emulator, 3)
    with opened(emulator, f"#/runs?select={workflow_world.FAILED}") as page:
        details = page.get_by_role("complementary")
        expect(details).to_contain_text('Failed in the call after step "charge the card"')
        expect(details).to_contain_text('"error": "the ledger is locked"')
        expect(details).to_contain_text('"noted": "ticket 12"')
        expect(details.locator(".mark")).to_have_count(2)
        details.get_by_role("link", name="on the timeline").click()
        rows = page.locator(".row.past")
        expect(rows).to_have_count(4)
        expect(rows.last).to_contain_text(f"run {workflow_world.FAILED}, failure function")
        page.get_by_label("Filter").fill("step:charge")
        expect(rows).to_have_count(2)
        rows.last.click()
        details.get_by_role("link", name=workflow_world.FAILED).click()
        expect(details.locator("details[open]")).to_contain_text('"amount": 12')
        details.get_by_role("button", name="Restart").click()
        page.wait_for_url(lambda url: f"select={workflow_world.FAILED}" not in url)
        expect(details).to_contain_text("running")
        page.evaluate(f"location.hash = '#/runs?select={workflow_world.FAILED}'")
        expect(details).to_contain_text("Failed in")
        expect(details.get_by_role("button", name="Restart")).to_have_count(0)
    runs = control(emulator, "GET", "/runs")["runs"]
    assert (runs[0]["payload"], runs[0]["state"], len(runs)) == ('{"user": 9}', "RUN_STARTED", 5)


@in_browser
def test_failed_runs_are_dead_letters_and_older_runs_are_shown(emulator: Server) -> None:
    workflow_world.fill(emulator, 1)
    with opened(emulator, "#/dead") as page:
        here = row(page, workflow_world.FAILED)
        expect(here).to_contain_text('Failed in the call after step "charge the card"')
        expect(here).to_contain_text('{"error": "the ledger is locked"}')
        here.get_by_role("button", name=f"Resume {workflow_world.FAILED}").click()
        expect(here).to_have_count(0)
        service(emulator, "POST", "/v2/batch/trigger", {}, [{"destination": workflow_world.FLOW}] * 200)
        page.evaluate("location.hash = '#/runs'")
        expect(page.get_by_text("3 running, 1 succeeded, 201 failed")).to_be_visible()
        expect(page.locator("tbody tr")).to_have_count(200)
        page.get_by_role("button", name="Show older runs").click()
        expect(row(page, workflow_world.DONE)).to_be_visible()
        expect(page.locator("tbody tr")).to_have_count(205)


@in_browser
def test_a_run_is_drawn_on_its_axis_and_notified_of_what_it_waits_for(emulator: Server) -> None:
    workflow_world.fill(emulator, 200)
    with opened(emulator, f"#/runs?select={workflow_world.DONE}") as page:
        details = page.get_by_role("complementary")
        lanes = details.locator(".lanes > li")
        expect(lanes).to_have_count(7)
        bars = [box for box in (each.bounding_box() for each in details.locator(".bar-of").all()) if box is not None]
        beside, other, sleep, call = bars[2:6]
        assert abs(beside["x"] - other["x"]) < 1
        assert beside["width"] < other["width"] < sleep["width"]
        assert abs(sleep["x"] + sleep["width"] - call["x"]) < 2
        assert "quiet" in (details.locator(".bar-of").nth(4).get_attribute("class") or "")
        expect(lanes.nth(5).locator(".mark")).to_have_count(1)
        page.evaluate(f"location.hash = '#/runs?select={workflow_world.LONG}'")
        expect(lanes).to_have_count(201)
        assert lanes.evaluate_all("all => all.every(each => each.offsetHeight < 30)")
        page.evaluate(f"location.hash = '#/runs?select={workflow_world.WAITING}'")
        details.get_by_text(f"Notify of {workflow_world.EVENT}").click()
        details.get_by_role("button", name="Notify").click()
        expect(page.get_by_text(f"Notify {workflow_world.EVENT}: done.")).to_be_visible()
        expect(details.get_by_role("heading", name="Waits for")).to_have_count(0)
        page.evaluate("location.hash = '#/runs?url=*onboarding&label=nightly'")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_text("1 running", exact=True)).to_be_visible()


@in_browser
def test_a_run_is_triggered_by_the_publish_form(emulator: Server) -> None:
    control(emulator, "POST", "/destinations", {"match": {"url": APP}, "respond": {"status": 200}})
    with opened(emulator, "#/runs") as page:
        page.get_by_role("button", name="Trigger…").click()
        expect(page.locator("[name=Cron]")).to_be_hidden()
        page.locator("[name=destination]").fill(APP)
        page.locator("[name=Workflow-RunId]").fill("mine")
        page.get_by_role("button", name="Trigger", exact=True).click()
        page.wait_for_url("**#/runs?select=mine")
    assert control(emulator, "GET", "/runs")["runs"][0]["payload"] == '{"order": 7}'


# -- what expressions come to: firings with changes of the clock, attempts, and what is wrong with them ----------------


BERLIN = "CRON_TZ=Europe/Berlin 30 2 * * *"


GAP = "02:30 does not exist on 2026-03-29: it fires at the first minute after the gap"


@in_browser
def test_firings_with_their_changes_of_the_clock_are_shown(emulator: Server) -> None:
    """D-437."""
    with opened(emulator, "#/timeline", Look(time_zone="Asia/Tokyo")) as page:
        page.keyboard.press("g")
        page.keyboard.press("c")
        page.get_by_label("From").fill("2026-03-28")
        page.get_by_label("Cron expression").fill(BERLIN)
        page.get_by_label("How many").fill("3")
        firings = page.locator("ol li")
        expect(firings).to_have_count(3)
        expect(firings.nth(0)).to_contain_text("Sat 28 Mar 2026 02:30 +01:00 28 Mar 10:30:00")
        expect(firings.nth(1)).to_contain_text("Sun 29 Mar 2026 03:00 +02:00")
        expect(firings.nth(1)).to_contain_text(GAP)
        expect(page.get_by_text("After Sat 28 Mar 2026 00:00:00 UTC, in Europe/Berlin:")).to_be_visible()
        address = page.url
        page.goto("about:blank")
        page.goto(address)
        expect(firings).to_have_count(3)
        expect(page.get_by_label("Cron expression")).to_have_value(BERLIN)


@in_browser
def test_firings_begin_at_the_present_of_the_world(emulator: Server) -> None:
    with opened(emulator, f"#/when?expression={BERLIN}".replace(" ", "%20")) as page:
        first = page.locator("ol li").first
        expect(first).to_contain_text("Thu 1 Jan 2026 02:30 +01:00")
        control(emulator, "POST", "/clock/advance", {"by": "31d"})
        expect(first).to_contain_text("Sun 1 Feb 2026 02:30 +01:00")


@in_browser
def test_the_ladder_of_attempts_is_shown(emulator: Server) -> None:
    with opened(emulator, "#/when") as page:
        rows = page.locator("dl.facts dd")
        expect(rows).to_have_count(4)
        # The arrow and what it stands between do not break apart.
        assert (rows.nth(1).text_content() or "").endswith("s\u00a0→\u00a012s")
        page.get_by_label("Retry delay").fill("pow(2, retried) * 1000")
        page.get_by_label("Retries").fill("5")
        expect(rows).to_have_count(6)
        expect(rows.nth(5)).to_contain_text("+31 s")


@in_browser
def test_what_is_wrong_stands_beside_its_field(emulator: Server) -> None:
    with opened(emulator, "#/when", expected=["status of 400"]) as page:
        expression = page.get_by_label("Cron expression")
        expression.fill("61 * * * *")
        wrong = page.get_by_role("alert")
        expect(wrong.filter(has_text="expected 0-59 in the minute field")).to_have_count(1)
        expect(expression).to_have_attribute("aria-invalid", "true")
        expect(page.locator("label", has=expression)).to_contain_text("expected 0-59")
        page.get_by_label("Retry delay").fill("pow(2")
        expect(page.locator("label").filter(has_text="Retry delay").get_by_role("alert")).not_to_be_empty()
        expect(page.locator("dl.facts dd")).to_have_count(0)
        expression.fill("1 * * * *")
        expect(page.locator("ol li")).to_have_count(10)
        expect(expression).to_have_attribute("aria-invalid", "false")


@in_browser
def test_a_schedule_and_the_publish_form_lead_to_it(emulator: Server) -> None:
    service(emulator, "POST", "/v2/schedules/https://app.test/a", {"Svc-Cron": BERLIN, "Svc-Schedule-Id": "nightly"})
    with opened(emulator, "#/schedules?select=nightly") as page:
        page.get_by_role("link", name="more").click()
        expect(page.get_by_label("Cron expression")).to_have_value(BERLIN)
        expect(page.locator("ol li")).to_have_count(10)
        page.goto(f"{emulator.url}/_emulator/inspector#/publish")
        page.locator("[name=Retry-Delay]").fill("1000")
        page.locator("[name=Retries]").fill("1")
        with page.expect_popup() as opening:
            page.get_by_role("link", name="When would that be?").click()
        expect(opening.value.locator("dl.facts dd")).to_have_count(2)
