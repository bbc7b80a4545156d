from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from flask.testing import FlaskClient

from emulator import Emulator
from shop import create_app

SHOP = "https://shop.test"
INVOICE = {"number": "2026-17", "email": "ada@example.com"}
REMINDER = ("ada@example.com", "Invoice 2026-17 is due.")

Mails = list[tuple[str, str]]


@pytest.fixture
def emu() -> Iterator[Emulator]:
    with Emulator(epoch="2026-01-01T09:00:00Z") as emu:
        yield emu


@pytest.fixture
def mails() -> Mails:
    return []


@pytest.fixture
def shop(emu: Emulator, mails: Mails) -> FlaskClient:
    """The shop, which the emulator calls without a socket."""
    app = create_app({**emu.env, "APP_URL": SHOP}, lambda address, text: mails.append((address, text)))
    emu.mount(SHOP, app)
    return app.test_client()


def test_an_unpaid_invoice_is_reminded_of_after_three_days(emu: Emulator, shop: FlaskClient, mails: Mails) -> None:
    shop.post("/invoices", json=INVOICE)
    emu.clock.advance("2d23h")
    assert mails == []
    emu.clock.advance("1h")
    assert mails == [REMINDER]


def test_a_paid_invoice_is_not(emu: Emulator, shop: FlaskClient, mails: Mails) -> None:
    shop.post("/invoices", json=INVOICE)
    shop.put("/invoices/2026-17/payment")
    emu.clock.advance("3d")
    assert mails == []
    [delivery] = emu.deliveries(f"{SHOP}/*")
    assert delivery.succeeded


def test_the_reminder_survives_an_outage_of_the_shop(emu: Emulator, shop: FlaskClient, mails: Mails) -> None:
    emu.destinations.respond(f"{SHOP}/*", status=503, times=2)
    shop.post("/invoices", json=INVOICE)
    emu.clock.drain()
    assert [delivery.succeeded for delivery in emu.deliveries(f"{SHOP}/*")] == [False, False, True]
    assert mails == [REMINDER]


def test_the_reminder_survives_a_change_of_signing_keys(emu: Emulator, shop: FlaskClient, mails: Mails) -> None:
    shop.post("/invoices", json=INVOICE)
    httpx.post(f"{emu.url}/v2/keys/rotate", headers={"Authorization": f"Bearer {emu.token}"}).raise_for_status()
    emu.clock.advance("3d")
    assert mails == [REMINDER]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"headers": {}}, id="no-signature"),
        pytest.param({"data": b'{"number": "2026-18"}'}, id="another-body"),
        pytest.param({"base_url": "https://other.test"}, id="another-url"),
    ],
)
def test_nobody_but_the_service_can_remind(emu: Emulator, shop: FlaskClient, change: dict[str, Any]) -> None:
    shop.post("/invoices", json=INVOICE)
    emu.clock.advance("3d")
    [delivery] = emu.deliveries(f"{SHOP}/*")
    genuine: dict[str, Any] = {
        "data": delivery.body,
        "content_type": delivery.headers["Content-Type"],
        "headers": {"Svc-Signature": delivery.headers["Svc-Signature"]},
        "base_url": SHOP,
    }
    assert shop.post("/jobs/remind", **genuine).status_code == 204
    assert shop.post("/jobs/remind", **{**genuine, **change}).status_code == 401
