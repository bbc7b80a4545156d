"""What is read: the inspector, the book, the contracts and their reference, where `/` leads, and the texts for agents.

The modules that make the contracts are imported at their first use: without them a server starts faster.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from starlette.responses import PlainTextResponse, Response

import emulator.inspector
from emulator import resources
from emulator.api.endpoint import Answer, no_operation
from emulator.control.call import OWN_QUERY, PAGE, PUBLIC, ControlCall, ControlPolicy, ControlRoute, Inspector
from emulator.core.errors import NotInstalled
from emulator.version import VERSION
from emulator.wire.parts import prefers_html

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The book's search is a form that leads to a page of the book (D-745).
BOOK_POLICY = CONTENT_SECURITY_POLICY.replace("form-action 'none'", "form-action 'self'")
_FILES = Path(emulator.inspector.__file__).parent
_FOLDERS = (_FILES, _FILES / "views")
_PAGE = "index.html"
# What the view that is opened without an address is made of; the others are read when they are opened.
_FIRST_VIEW = (
    *("views/index.js", "views/timeline.js"),
    *("views/message.js", "views/message_parts.js", "views/app_spans.js"),
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


async def get_file(call: ControlCall, folder: str = "") -> Response:
    """A file of the inspector; without a name its page."""
    name, mode = folder + call.request.path_parameters.get("name", _PAGE), call.options.inspector
    # Read at each opening: the page costs nothing before, and its files may be edited while the server runs.
    content = None if mode is Inspector.OFF else await asyncio.to_thread(_read, name, mode)
    return no_operation(call.parts.path) if content is None else _answer(call, name, content)


async def get_view(call: ControlCall) -> Response:
    return await get_file(call, "views/")


def _answer(call: ControlCall, name: str, content: bytes, policy: str = CONTENT_SECURITY_POLICY) -> Response:
    """A file's content, or 304 where the client has it."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        # Kept, and asked for again: another version of the emulator may listen here tomorrow.
        "Cache-Control": "no-cache",
        "ETag": tag,
    }
    if tag in (call.parts.header("if-none-match") or ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers | {"Content-Type": _TYPES[Path(name).suffix]})


def _read(name: str, mode: Inspector) -> bytes | None:
    """A file of the page, None if there is none of that name."""
    path = _FILES / name
    if path.suffix not in _TYPES or path.parent not in _FOLDERS or not path.is_file():
        return None
    return _written_page(path, mode) if name == _PAGE else path.read_bytes()


def _written_page(path: Path, mode: Inspector) -> bytes:
    """The page in its mode. It names the modules it begins with, which a browser then asks for at once."""
    modules = (*sorted(found.name for found in _FILES.glob("*.js")), *_FIRST_VIEW)
    links = "".join(f'<link rel="modulepreload" href="/_emulator/inspector/{module}">\n' for module in modules)
    page = path.read_text("utf-8").replace('data-mode="on"', f'data-mode="{mode.value}"')
    return page.replace("</head>", f"{links}</head>").encode()


# -- the book ---------------------------------------------------------------------------------

_NO_BOOK = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>svc-emulator documentation</title>
<h1>The documentation is not in this installation</h1>
<p>It was installed from a checkout in which the documentation had not been built. The same pages are the Markdown files
in <code>docs/</code> of the source. To build them, in the checkout:</p>
<pre>python -m pip install '.[docs]'
python -m sphinx docs book</pre>
<p><a href="/_emulator/reference">The reference of the APIs</a> is here.</p>
"""


async def get_book(call: ControlCall) -> Response:
    """Leads to the book's first page, to which its links are relative. Without a book, a page that says so."""
    if (call.options.book / "index.html").is_file():
        return Answer(status=307, headers=(("Location", "/_emulator/docs/index.html"),))
    return Response(_NO_BOOK, media_type="text/html", headers={"Content-Security-Policy": BOOK_POLICY})


async def get_book_file(call: ControlCall) -> Response:
    """A page of the book, or of the folder that the path names."""
    folder = call.request.path_parameters.get("folder", "")
    content = await asyncio.to_thread(_read_of_book, call.options.book, folder, call.name)
    return no_operation(call.parts.path) if content is None else _answer(call, call.name, content, BOOK_POLICY)


def _read_of_book(book: Path, folder: str, name: str) -> bytes | None:
    """A file of the book, None if there is none of that name."""
    path = book / folder / name
    # Names alone: what leads out of the book has a separator or dots.
    if not all(re.fullmatch(r"[\w-][\w.-]*", part) for part in (folder or name, name)) or path.suffix not in _TYPES:
        return None
    return path.read_bytes() if path.is_file() else None


# -- what coding agents read ------------------------------------------------------------------
# `/llms.txt` and `/llms-full.txt`, in short and as a whole. `python -m emulator.cli.llms` makes the files in `docs/`
# from the commands and the contract; the handbook is the beginning of the second.

SHORT = ("docs", "llms.txt")
REFERENCE = ("docs", "llms-reference.md")
# What a user reads; the how-tos, in the folder of that name, follow.
_HANDBOOK = ("start.md", "tutorial.md", "concepts.md", "symptoms.md", "coming-from.md")

# D-709.
_READ = ControlPolicy(needs_token=False)


def handbook() -> tuple[Path, ...]:
    """The pages of the handbook."""
    return (
        *(resources.path("docs", name) for name in _HANDBOOK),
        *sorted(resources.path("docs", "howto").glob("*.md")),
    )


def full_text() -> str:
    """The handbook, all commands, and all calls of the control API."""
    pages = [path.read_text("utf-8") for path in (*handbook(), resources.path(*REFERENCE))]
    # A page without the settings at its beginning.
    texts = (page.split("\n---\n", 1)[-1] if page.startswith("---\n") else page for page in pages)
    return "\n".join(["# svc-emulator\n", *texts])


async def get_short(call: ControlCall) -> Response:
    return PlainTextResponse(await asyncio.to_thread(resources.path(*SHORT).read_text, "utf-8"))


async def get_full(call: ControlCall) -> Response:
    return PlainTextResponse(await asyncio.to_thread(full_text))


# -- the contract -----------------------------------------------------------------------------


async def get_contract(call: ControlCall) -> Response:
    """The OpenAPI documents that the query asks for. Raises: InvalidInput, NotAcceptable, NotInstalled."""
    from emulator.contract import files
    from emulator.contract.files import MEDIA_TYPES, read_contract_request

    wanted = read_contract_request(call.parts)

    def made() -> str:
        document = files.document(wanted.apis, call.dialect, _own_url(call), call.options.contracts)
        return files.written(document, wanted.format)

    return Response(await _made(made), media_type=MEDIA_TYPES[wanted.format], headers={"Vary": "Accept"})


async def get_reference(call: ControlCall) -> Response:
    """The page that a person reads. Raises: InvalidInput, NotInstalled."""
    from emulator.contract import files, reference
    from emulator.contract.files import read_apis

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
        raise NotInstalled(f"the contract is not there: {error}") from error


def _own_url(call: ControlCall) -> str:
    """The URL under which the client found this server."""
    return f"http://{call.parts.header('host') or call.parts.header(':authority') or '127.0.0.1:8080'}"


_INSPECTOR = "/_emulator/inspector"
_REFERENCE = "/_emulator/reference"


async def show_page(call: ControlCall) -> Response:
    """A page for a browser; any other client gets the 404 of a path without an operation (D-294, D-320)."""
    if not prefers_html(call.parts):
        return no_operation(call.parts.path)
    page = _REFERENCE if call.options.inspector is Inspector.OFF else _INSPECTOR
    return Answer(status=307, headers=(("Location", page), ("Vary", "Accept")))


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/inspector", get_file, PAGE),
    ControlRoute("GET", "/_emulator/inspector/{name}", get_file, PUBLIC),
    ControlRoute("GET", "/_emulator/inspector/views/{name}", get_view, PUBLIC),
    ControlRoute("GET", "/_emulator/docs", get_book, PAGE),
    ControlRoute("GET", "/_emulator/docs/{name}", get_book_file, PAGE),
    ControlRoute("GET", "/_emulator/docs/{folder}/{name}", get_book_file, PAGE),
    ControlRoute("GET", "/_emulator/contract", get_contract, OWN_QUERY),
    ControlRoute("GET", "/_emulator/reference", get_reference, ControlPolicy(reads_query=True, is_page=True)),
    ControlRoute("GET", "/llms.txt", get_short, _READ),
    ControlRoute("GET", "/llms-full.txt", get_full, _READ),
    ControlRoute("GET", "/", show_page, PAGE),
    ControlRoute("GET", "/_emulator", show_page, PAGE),
)
