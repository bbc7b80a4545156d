"""`/_emulator/contract` and its reference page.

The modules that make them are imported at their first use: without them a server starts faster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.responses import Response

from emulator.api.control.call import OWN_QUERY, ControlCall, ControlRoute, Policy
from emulator.core.errors import NotFound
from emulator.version import VERSION


async def get_contract(call: ControlCall) -> Response:
    """The OpenAPI documents that the query asks for. Raises: InvalidInput, NotAcceptable, NotFound."""
    from emulator.contract import files
    from emulator.contract.wanted import MEDIA_TYPES, read_wanted

    wanted = read_wanted(call.parts)

    def made() -> str:
        document = files.document(wanted.apis, call.dialect, _own_url(call), call.options.contracts)
        return files.written(document, wanted.format)

    return Response(await _made(made), media_type=MEDIA_TYPES[wanted.format], headers={"Vary": "Accept"})


async def get_reference(call: ControlCall) -> Response:
    """The page that a person reads. Raises: InvalidInput, NotFound."""
    from emulator.contract import files, reference
    from emulator.contract.wanted import read_apis

    apis = read_apis(dict(call.parts.query).get("api", ""))

    def made() -> str:
        documents = files.documents(apis, call.dialect, call.options.contracts)
        return reference.page(documents, _own_url(call), VERSION)

    headers = {"Content-Security-Policy": reference.CONTENT_SECURITY_POLICY}
    return Response(await _made(made), media_type="text/html", headers=headers)


async def _made(make: Callable[[], str]) -> str:
    """Make a text in a thread: reading the documents takes a tenth of a second, and deliveries must not wait for it."""
    from emulator.contract.files import UnreadableContract

    try:
        return await asyncio.to_thread(make)
    except UnreadableContract as error:
        raise NotFound(f"the contract is not there: {error}") from error


def _own_url(call: ControlCall) -> str:
    """The URL under which the client found this server."""
    return f"http://{call.parts.header('host') or call.parts.header(':authority') or '127.0.0.1:8080'}"


REFERENCE = Policy(reads_query=True, is_page=True)

ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/contract", get_contract, OWN_QUERY),
    ControlRoute("GET", "/_emulator/reference", get_reference, REFERENCE),
)
