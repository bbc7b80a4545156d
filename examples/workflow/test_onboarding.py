from __future__ import annotations

from unittest.mock import Mock

import pytest
from fastapi.testclient import TestClient

from emulator import Emulator
from onboarding import CRM, create_app

APP = "https://app.test"
ADA = {"email": "ada@example.com"}


@pytest.fixture
def send_mail() -> Mock:
    return Mock(return_value=None)


@pytest.fixture
def is_active() -> Mock:
    return Mock(return_value=False)


@pytest.fixture
def api(emulator: Emulator, send_mail: Mock, is_active: Mock) -> TestClient:
    """The application, which the emulator calls without a socket."""
    app = create_app({**emulator.env, "APP_URL": APP}, send_mail, is_active)
    emulator.mount(APP, app)
    emulator.destinations.respond(f"{CRM}/*", status=200, body='{"offer": "half the price"}')
    return TestClient(app)


def texts(send_mail: Mock) -> list[str]:
    return [call.args[1] for call in send_mail.call_args_list]


def test_thirty_days(emulator: Emulator, api: TestClient, send_mail: Mock) -> None:
    api.post("/users", json=ADA)
    assert texts(send_mail) == ["Welcome!"]
    emulator.clock.advance("3d")
    assert texts(send_mail)[1:] == ["We miss you."]
    emulator.clock.advance("27d")
    assert texts(send_mail)[2:] == ["Your trial ends. We offer half the price."]
    [run] = emulator.workflows.runs()
    emulator.verify_run(
        run.id,
        state="RUN_SUCCESS",
        steps=[
            "welcome",
            {"name": "three days", "at": "0s", "ended": "3d"},
            {"name": "check", "out": False},
            "remind",
            {"name": "until the thirtieth day", "ended": "30d"},
            {"name": "offer", "type": "Call"},
            {"name": "farewell", "at": "30d"},
        ],
    )


def test_who_is_active_is_not_reminded(emulator: Emulator, api: TestClient, send_mail: Mock, is_active: Mock) -> None:
    is_active.return_value = True
    api.post("/users", json=ADA)
    emulator.clock.advance("30d")
    assert texts(send_mail) == ["Welcome!", "Your trial ends. We offer half the price."]


def test_the_offer_survives_an_outage(emulator: Emulator, api: TestClient, send_mail: Mock) -> None:
    emulator.destinations.clear()
    emulator.destinations.sequence(f"{CRM}/*", [503, {"status": 200, "body": '{"offer": "a month"}'}])
    api.post("/users", json=ADA)
    emulator.clock.advance("31d")
    assert texts(send_mail)[-1] == "Your trial ends. We offer a month."
