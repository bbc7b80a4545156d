"""Workflow runs in a browser."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import expect

from tests.harness.browsers import in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, control

pytestmark = [pytest.mark.slow, needs_browser]
APP = "https://app.test/onboarding"


def begin(emulator: Server, run: str) -> None:
    """A run whose endpoint answers by a rule, and a step of it that sleeps for three days."""
    headers = {"Authorization": f"Bearer {emulator.token}", "Svc-Workflow-RunId": run, "Svc-Workflow-Url": APP}
    first = {**headers, "Svc-Workflow-Init": "true"}
    sleep = {**headers, "Svc-Workflow-Init": "false", "Svc-Workflow-CallType": "step", "Svc-Delay": "3d"}
    step = {"stepId": 1, "stepName": "wait 3 days", "stepType": "SleepFor", "sleepFor": 259200, "concurrent": 1}
    for sent, body in ((first, {"user": 7}), (sleep, step)):
        answer = httpx.post(f"{emulator.url}/v2/publish/{APP}", headers=sent, json=body, trust_env=False)
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
        details.get_by_role("button", name="Really cancel it?").click()
        expect(here).to_contain_text("cancelled")
