"""`/_emulator/inspector`: the web page, as the files in `emulator/inspector/` are (D-320 to D-322)."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from starlette.responses import Response

import emulator.inspector
from emulator.api.control.call import PAGE, PUBLIC, ControlCall, ControlRoute
from emulator.api.control.options import Inspector
from emulator.api.endpoint import no_operation

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_FILES = Path(emulator.inspector.__file__).parent
_FOLDERS = (_FILES, _FILES / "views")
_PAGE = "index.html"
# What the view that is opened without an address is made of; the others are read when they are opened.
_FIRST_VIEW = ("views/index.js", "views/timeline.js", "views/message.js", "views/message_parts.js")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


async def get_page(call: ControlCall) -> Response:
    return await _file(call, _PAGE)


async def get_file(call: ControlCall) -> Response:
    return await _file(call, call.name)


async def get_view(call: ControlCall) -> Response:
    return await _file(call, f"views/{call.name}")


async def _file(call: ControlCall, name: str) -> Response:
    mode = call.options.inspector
    # Read at each opening: the page costs nothing before, and its files may be edited while the server runs.
    content = None if mode is Inspector.OFF else await asyncio.to_thread(_read, name, mode)
    if content is None:
        return no_operation(call.parts.path)
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
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


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/inspector", get_page, PAGE),
    ControlRoute("GET", "/_emulator/inspector/{name}", get_file, PUBLIC),
    ControlRoute("GET", "/_emulator/inspector/views/{name}", get_view, PUBLIC),
)
