"""Processes of the program that begin as a fork of one that has imported all of it.

Nearly all that a command costs is the import of its modules. What tests look at is not that: signals, pipes, exit
codes, files. So `Forked` starts a process that has its own pid, is a child of this one, and gets arguments, folder,
variables and streams as any other; only the interpreter and its modules are there already. The modules of a
program started in the usual way are tested by `tests/test_wheel.py`, `tests/book/test_fresh_clone.py`, and every
test that runs `processes.command` itself.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import inspect
import io
import marshal
import os
import runpy
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
# How long a process may take to begin.
_PATIENCE_S = 60
# What moves the children of a process that ends to an ancestor of its choice; the parent of a fork's fork becomes us.
IS_POSSIBLE = sys.platform == "linux"
_PR_SET_CHILD_SUBREAPER = 36
# The module, its arguments, the folder, the variables; and whether the caller wants the exit code, not the pid.
_Request = tuple[str, list[str], str, dict[bytes, bytes], bool]

# A command that asks for the process with its streams, and ends with its exit code: with the least of an interpreter.
CLIENT = """#!{python} -IS
import _socket, array, marshal, posix, sys
asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
asked.connect({address!r})
request = marshal.dumps(({module!r}, sys.argv[1:], posix.getcwd(), dict(posix.environ), True))
asked.sendmsg([b"!"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
while request:
    request = request[asked.send(request):]
asked.shutdown(_socket.SHUT_WR)
code = asked.recv(16)
posix._exit(int(code) if code else 70)
"""


class Forked(subprocess.Popen[str]):
    """`[sys.executable, "-m", MODULE, *ARGUMENTS]`, as `subprocess.Popen` runs it."""

    if IS_POSSIBLE:

        def _execute_child(self, *arguments: Any) -> None:
            given = inspect.signature(subprocess.Popen._execute_child).bind(self, *arguments).arguments  # type: ignore[attr-defined]  # has no public name
            python, minus_m, module, *rest = given["args"]
            assert (python, minus_m) == (sys.executable, "-m"), given["args"]
            assert given["preexec_fn"] is None
            variables = {os.fsencode(name): os.fsencode(value) for name, value in (given["env"] or os.environ).items()}
            request: _Request = (module, rest, os.fspath(given["cwd"] or os.getcwd()), variables, False)
            ends = [
                own if given[theirs] == -1 else given[theirs]
                for own, theirs in enumerate(("p2cread", "c2pwrite", "errwrite"))
            ]
            self.pid = _started(request, ends)
            self._child_created = True
            pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(given[name] for name in pipes))  # type: ignore[attr-defined]


def _started(request: _Request, ends: list[int]) -> int:
    """The pid of a new child of this process."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(_PATIENCE_S)
        asked.connect(address())
        _adopt(True)
        try:
            socket.send_fds(asked, [b"!"], ends)
            asked.sendall(marshal.dumps(request))
            asked.shutdown(socket.SHUT_WR)
            answer = b""
            # Its end comes when the process between is no more, whose child is ours then.
            while piece := asked.recv(16):
                answer += piece
        finally:
            _adopt(False)
    return int(answer)


def _adopt(whether: bool) -> None:
    """Become the parent of descendants whose own parent ends, or no longer."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(whether), 0, 0, 0)


@functools.cache
def address() -> str:
    """The socket of the process that is forked, which lives as long as this one."""
    # A path of a socket is short.
    folder = tempfile.mkdtemp(prefix="forks-")
    path = f"{folder}/socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.forks", str(listener.fileno())],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )

    def end() -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(_PATIENCE_S)
        os.unlink(path)
        os.rmdir(folder)

    atexit.register(end)
    return path


def command(module: str, file: Path) -> None:
    """Make `file` a program that runs a module like `python -m`, in a fork."""
    file.write_text(CLIENT.format(python=sys.executable, address=address(), module=module), "utf-8")
    file.chmod(0o755)


# -- the process that is forked ---------------------------------------------------------------


def _serve(listener: socket.socket) -> None:
    """Fork for each request, until stdin ends. Returns in the forks, as the program that was asked for."""
    while listener.fileno() in select.select([listener.fileno(), 0], [], [])[0]:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        connection, _ = listener.accept()
        _, ends, _, _ = socket.recv_fds(connection, 1, 3)
        text = b""
        while piece := connection.recv(65_536):
            text += piece
        request: _Request = marshal.loads(text)
        between = os.fork()
        if not between:
            program = os.fork()
            if not program:
                listener.close()
                connection.close()
                _become(request, ends)
                return
            waits = request[-1]
            if waits:
                for end in ends:
                    os.close(end)
                code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
            connection.sendall(str((code if code >= 0 else 128 - code) if waits else program).encode())
            os._exit(0)
        for end in ends:
            os.close(end)
        if not request[-1]:
            os.waitpid(between, 0)
        connection.close()
    os._exit(0)


def _become(request: _Request, ends: Sequence[int]) -> None:
    """Take over what makes a process a program's, but for its module."""
    module, arguments, folder, variables, _ = request
    for own, end in enumerate(ends):
        os.dup2(end, own)
        os.close(end)
    os.chdir(folder)
    os.environ.clear()
    os.environb.update(variables)
    time.tzset()
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))

    def stream(number: int, mode: str, errors: str, **options: bool) -> Any:
        buffered = open(number, mode, 0 if is_unbuffered and number else -1, closefd=False)  # noqa: SIM115
        return io.TextIOWrapper(buffered, encoding, errors, **options)  # type: ignore[arg-type]

    sys.stdin = stream(0, "rb", errors or "strict")
    sys.stdout = stream(1, "wb", errors or "strict", line_buffering=os.isatty(1), write_through=is_unbuffered)
    sys.stderr = stream(2, "wb", "backslashreplace", line_buffering=True)
    sys.path[0] = folder
    sys.argv = [module, *arguments]


def _import_everything() -> None:
    from emulator.cli import SECTIONS

    modules = {module for section in SECTIONS.values() for module in section.values()}
    others = ("httpx", "uvicorn.protocols.http.httptools_impl", "hypercorn.asyncio", "pytest", "yaml", "jsonschema")
    for name in (*modules, "emulator.client", "emulator.server.bootstrap", "tests.contracts.answers", *others):
        importlib.import_module(name)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _listener:
        _import_everything()
        # Pages with nothing but what a collection writes stay those of all forks.
        gc.collect()
        gc.freeze()
        _serve(_listener)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
