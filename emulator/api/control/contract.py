"""`/_emulator/contract` and its reference page.

What they are made with is imported at their first use, so that a server is ready sooner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.responses import Response

from emulator.api.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.core.errors import NotFound
from emulator.version import VERSION
from emulator.wire.parts import RequestParts


async def get_contract(call: ControlCall) -> Response:
    """The OpenAPI documents that the query asks for. Raises: InvalidInput, NotAcceptable, NotFound."""
    from emulator.contract import document, files

    wanted = document.read_wanted(call.parts)
    text = await _made(
        lambda: files.written(files.document(wanted.apis, call.dialect, _own_url(call.parts)), wanted.format)
    )
    return Response(text, media_type=document.MEDIA_TYPES[wanted.format], headers={"Vary": "Accept"})


async def get_reference(call: ControlCall) -> Response:
    """The page that a person reads. Raises: InvalidInput, NotFound."""
    from emulator.contract import document, files, reference

    apis = document.read_apis(dict(call.parts.query).get("api", ""))
    text = await _made(lambda: reference.page(files.documents(apis, call.dialect), _own_url(call.parts), VERSION))
    headers = {"Content-Security-Policy": reference.CONTENT_SECURITY_POLICY}
    return Response(text, media_type="text/html", headers=headers)


async def _made(make: Callable[[], str]) -> str:
    """In a thread: the first reading takes a tenth of a second, and deliveries must not wait for it."""
    from emulator.contract.files import UnreadableContract

    try:
        return await asyncio.to_thread(make)
    except UnreadableContract as error:
        raise NotFound(f"the contract is not there: {error}") from error


def _own_url(parts: RequestParts) -> str:
    """The URL under which the client found this server."""
    return f"http://{parts.header('host') or parts.header(':authority') or '127.0.0.1:8080'}"


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/contract", get_contract, OWN_QUERY),
    ControlRoute("GET", "/_emulator/reference", get_reference, OWN_QUERY),
)
