"""The contract and its reference page, as a server shows them.

What they are made with is imported at their first use, because a server has to be there at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import Response

from emulator.core.errors import NotFound
from emulator.version import VERSION
from emulator.wire.dialect import Dialect
from emulator.wire.parts import RequestParts

if TYPE_CHECKING:
    from emulator.contract.document import Api, Format


async def contract_answer(parts: RequestParts, dialect: Dialect) -> Response:
    """The OpenAPI documents that the query asks for. Raises: InvalidInput, NotAcceptable, NotFound."""
    from emulator.contract import document as contract

    wanted = contract.read_wanted(parts)
    # Reading them for the first time takes a tenth of a second, in which deliveries go on.
    text = await asyncio.to_thread(_text, wanted.apis, wanted.format, dialect, own_url(parts))
    return Response(text, media_type=contract.MEDIA_TYPES[wanted.format], headers={"Vary": "Accept"})


async def reference_answer(parts: RequestParts, dialect: Dialect) -> Response:
    """The page that a person reads. Raises: InvalidInput, NotFound."""
    from emulator.contract import document as contract
    from emulator.contract import reference

    apis = contract.read_apis(dict(parts.query).get("api", ""))
    text = await asyncio.to_thread(_page, apis, dialect, own_url(parts))
    return Response(
        text, media_type="text/html", headers={"Content-Security-Policy": reference.CONTENT_SECURITY_POLICY}
    )


def own_url(parts: RequestParts) -> str:
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
