"""The Python API for tests that do not await; it imports what `emulator.client` may.

Its modules are made from `emulator.client.aio` when the distribution is built. In a checkout they
are made here if they are missing or older than their source, so that it needs no build.
"""

from __future__ import annotations

try:
    # Not in the wheel.
    from emulator.client import generate
except ImportError:
    pass
else:
    import atexit
    import importlib
    import shutil
    import tempfile
    from pathlib import Path

    try:
        generate.make(Path(__file__).parent)
    except OSError:
        # The checkout is read-only: the modules of this process lie in a directory of its own.
        _directory = tempfile.mkdtemp(prefix="svc-emulator-")
        atexit.register(shutil.rmtree, _directory, ignore_errors=True)
        generate.make(Path(_directory))
        __path__.insert(0, _directory)
    # The import system may have listed the directory before.
    importlib.invalidate_caches()
