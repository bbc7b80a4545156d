from __future__ import annotations

from unittest.mock import Mock

import pytest
from fastapi.testclient import TestClient

from emulator import Emulator
from trials import create_app

APP = "https://app.test"
ADA = {"email": "ada@example.com"}


@pytest.fixture
def send_mail() -> Mock:
    return Mock()


@pytest.fixture
def api(emulator: Emulator, send_mail: Mock) -> TestClient:
    """The application, which the emulator calls without a socket. Its start-up makes the schedule."""
    app = create_app({**emulator.env, "APP_URL": APP}, send_mail)
    emulator.mount(APP, app)
    return TestClient(app)


def test_a_trial_ends_after_two_weeks(emulator: Emulator, api: TestClient, send_mail: Mock) -> None:
    api.post("/trials", json=ADA)
    emulator.clock.advance("14d")
    emulator.verify(url=f"{APP}/jobs/trial-ends", times=1, at="14d", body_json=ADA, signed_with="current")
    send_mail.assert_called_with("ada@example.com", "Your trial ends today.")


def test_while_the_mail_server_is_down_it_is_tried_again(emulator: Emulator, api: TestClient, send_mail: Mock) -> None:
    api.post("/trials", json=ADA)
    emulator.clock.advance("13d23h")
    send_mail.side_effect = [ConnectionRefusedError, TimeoutError, None]
    emulator.clock.advance("2h")
    emulator.verify(url=f"{APP}/jobs/trial-ends", at=["14d", "14d10m", "14d20m"], status=[503, 503, 200])


def test_the_digest_is_sent_at_nine_in_berlin(emulator: Emulator, api: TestClient, send_mail: Mock) -> None:
    api.post("/trials", json=ADA)
    emulator.clock.advance("3d")
    digests = emulator.deliveries(f"{APP}/jobs/digest")
    # The clocks go forward on the 29th.
    assert [f"{digest.at:%d %H:%M}" for digest in digests] == ["28 08:00", "29 07:00", "30 07:00"]
    texts = [call.args[1] for call in send_mail.call_args_list]
    assert texts == ["New trials: ada@example.com", "New trials: none", "New trials: none"]


def test_a_trial_ends_while_the_clock_runs(emulator: Emulator, api: TestClient) -> None:
    emulator.clock.rate(1_000_000)  # Two weeks are over in little more than a second.
    api.post("/trials", json=ADA)
    [delivery] = emulator.wait_for(f"{APP}/jobs/trial-ends", status=200)
    assert delivery.json() == ADA


def test_nobody_but_the_service_can_end_a_trial(api: TestClient, send_mail: Mock) -> None:
    assert api.post("/jobs/trial-ends", json=ADA).status_code == 401
    send_mail.assert_not_called()
