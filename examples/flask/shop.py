"""A shop that reminds of an invoice which is not paid after three days.

It speaks plain HTTP with the service and verifies signatures with PyJWT; there is no client library.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping

import httpx
import jwt
from flask import Flask, abort, request
from flask.typing import ResponseReturnValue


def create_app(settings: Mapping[str, str] = os.environ, send_mail: Callable[[str, str], object] = print) -> Flask:
    """The application.

    `settings` holds the variables of the service, and in APP_URL the address at which the service
    reaches this application; `send_mail` is called with an address and a text.
    """
    app = Flask(__name__)
    unpaid: dict[str, str] = {}

    @app.post("/invoices")
    def write_invoice() -> ResponseReturnValue:
        invoice = request.get_json()
        unpaid[invoice["number"]] = invoice["email"]
        httpx.post(
            f"{settings['SVC_URL']}/v2/publish/{settings['APP_URL']}/jobs/remind",
            json={"number": invoice["number"]},
            headers={"Authorization": f"Bearer {settings['SVC_TOKEN']}", "Svc-Delay": "3d"},
        ).raise_for_status()
        return invoice, 201

    @app.put("/invoices/<number>/payment")
    def pay(number: str) -> ResponseReturnValue:
        unpaid.pop(number, None)
        return "", 204

    @app.post("/jobs/remind")
    def remind() -> ResponseReturnValue:
        verify_signature((settings["SVC_CURRENT_SIGNING_KEY"], settings["SVC_NEXT_SIGNING_KEY"]))
        number = request.get_json()["number"]
        if number in unpaid:
            send_mail(unpaid[number], f"Invoice {number} is due.")
        return "", 204

    return app


def verify_signature(keys: Iterable[str]) -> None:
    """Answer 401 unless the service has signed this request, its URL and its body, with one of the keys.

    There are two, so that they can be changed without a gap.
    """
    token = request.headers.get("Svc-Signature", "")
    digest = urlsafe_b64encode(hashlib.sha256(request.get_data()).digest()).decode()
    for key in keys:
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=["HS256"],
                issuer="Svc",
                subject=request.url,
                options={"require": ["exp", "body"]},
            )
        except jwt.InvalidTokenError:
            continue
        # It may come with or without the padding of base64.
        if hmac.compare_digest(claims["body"].rstrip("="), digest.rstrip("=")):
            return
    abort(401)
