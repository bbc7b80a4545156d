"""The Python API for tests; it may import server and what lies below it."""

import sys

if "httpx" not in sys.modules:
    # httpx imports its own command line, and with it click, rich and pygments: a tenth of the CPU until a first test
    # runs. None makes that import fail, which httpx expects where they are not installed.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]  # documented for this purpose
    try:
        import httpx as httpx
    finally:
        del sys.modules["httpx._main"]
