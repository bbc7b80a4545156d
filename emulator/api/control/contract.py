"""`/_emulator/contract` and its reference page.

What they are made with is imported at their first use, so that a server is ready sooner.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import Response

from emulator.api.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.core.errors import NotFound
from emulator.version import VERSION
from emulator.wire.dialect import Dialect
from emulator.wire.parts import RequestParts

if TYPE_CHECKING:
    from emulator.contract.document import Api, Format


async def get_contract(call: ControlCall) -> Response:
    """The OpenAPI documents that the query asks for. Raises: InvalidInput, NotAcceptable, NotFound."""
    from emulator.contract import document as contract

    wanted = contract.read_wanted(call.parts)
    # In a thread: the first reading takes a tenth of a second, and deliveries must not wait for it.
    text = await asyncio.to_thread(_text, wanted.apis, wanted.format, call.dialect, _own_url(call.parts))
    return Response(text, media_type=contract.MEDIA_TYPES[wanted.format], headers={"Vary": "Accept"})


async def get_reference(call: ControlCall) -> Response:
    """The page that a person reads. Raises: InvalidInput, NotFound."""
    from emulator.contract import document as contract
    from emulator.contract import reference

    apis = contract.read_apis(dict(call.parts.query).get("api", ""))
    text = await asyncio.to_thread(_page, apis, call.dialect, _own_url(call.parts))
    headers = {"Content-Security-Policy": reference.CONTENT_SECURITY_POLICY}
    return Response(text, media_type="text/html", headers=headers)


def _own_url(parts: RequestParts) -> str:
    """The URL under which the client found this server."""
    return f"http://{parts.header('host') or parts.header(':authority') or '127.0.0.1:8080'}"


def _text(apis: tuple[Api, ...], form: Format, dialect: Dialect, url: str) -> str:
    from emulator.contract import files as contract_files

    try:
        return contract_files.written(contract_files.document(apis, dialect, url), form)
    except contract_files.UnreadableContract as error:
        raise NotFound(f"the contract is not there: {error}") from error


def _page(apis: tuple[Api, ...], dialect: Dialect, url: str) -> str:
    from emulator.contract import files as contract_files
    from emulator.contract import reference

    try:
        return reference.page(contract_files.documents(apis, dialect), url, VERSION)
    except contract_files.UnreadableContract as error:
        raise NotFound(f"the contract is not there: {error}") from error


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/contract", get_contract, OWN_QUERY),
    ControlRoute("GET", "/_emulator/reference", get_reference, OWN_QUERY),
)
