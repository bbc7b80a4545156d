"""The signing keys, which receivers verify deliveries with (D-058)."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging.call import KEYS, WRITE, MessagingCall, MessagingRoute
from emulator.core.commands import RotateSigningKeys
from emulator.wire.messaging import views


async def get_signing_keys(call: MessagingCall) -> Response:
    return Answer(views.signing_keys(call.owner.account.signing_keys))


async def rotate_signing_keys(call: MessagingCall) -> Response:
    return Answer(views.signing_keys(await call.world.submit(RotateSigningKeys(account_id=call.account_id))))


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/keys", get_signing_keys, KEYS),
    MessagingRoute("POST", "/v2/keys/rotate", rotate_signing_keys, WRITE),
    MessagingRoute("POST", "/v2/rotate", rotate_signing_keys, WRITE),
)
