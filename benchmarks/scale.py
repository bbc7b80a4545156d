"""Short tests through the balancer of `examples/ci/scale`: what they cost with one server behind it, and with three."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from benchmarks import processes, servers, worlds
from benchmarks.checkouts import HERE, Checkout
from benchmarks.figures import Figure, Unit

# Debian has it where only administrators look for programs.
HAPROXY = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
_CONFIGURATION = Path("examples", "ci", "scale", "haproxy.cfg")
_PATIENCE_S = 60


def scale(checkout: Checkout, *, tests: int = 800, workers: int = 8, haproxy: str | None = HAPROXY) -> Iterator[Figure]:
    """Tests that each make a world, publish 20 messages, advance a day, look at the deliveries and delete the world."""
    if haproxy is None:
        print("scale: left out, because HAProxy is not installed", file=sys.stderr)
        return
    for count in (1, 3):
        yield from _figures(checkout, haproxy, count, tests, workers)


def workers(checkout: Checkout, *, tests: int = 300, counts: Sequence[int] = (1, 2, 8)) -> Iterator[Figure]:
    """An ordinary suite on several workers of pytest-xdist, all of which use one server: seconds, and the server's CPU.

    A test costs its worker four times as much CPU as it costs the server, so that one worker and the server fill little
    more than one core. Two workers fill two cores, and that is the knee there, with the server at an eighth of the
    CPU: each further worker adds the CPU of its own start, as much as some sixty tests, and gains nothing before there
    is a core for it. The server itself would be the limit at about five workers on cores of their own.
    """
    for count in counts:
        with servers.emulator(checkout, *servers.FROZEN) as emulator, tempfile.TemporaryDirectory() as folder:
            path = worlds.write_tests(Path(folder), tests, body=_ORDINARY)
            command = worlds.pytest_command(
                path, "-n", str(count), "--emulator-url", f"http://127.0.0.1:{emulator.port}"
            )
            before_s, began, before_all_s = emulator.cpu_s, time.perf_counter(), processes.children_cpu_s()
            subprocess.run(command, cwd=folder, env=checkout.environment, **processes.QUIET)
            took_s, workers_s = time.perf_counter() - began, processes.children_cpu_s() - before_all_s
            cpu_s = emulator.cpu_s - before_s
        what = f"{tests} tests on {count} worker{'s' if count > 1 else ''}, one server"
        yield Figure(what=what, value=took_s, unit=Unit.SECONDS, count=tests, things="tests")
        yield Figure(what=f"the server's CPU of {what}", value=cpu_s, unit=Unit.CPU_SECONDS)
        yield Figure(what=f"the workers' CPU of {what}", value=workers_s, unit=Unit.CPU_SECONDS)


_ORDINARY = """for _ in range(3):
        emulator.publish("https://app.test/hook", json={"order": number}, delay="1h")
    emulator.clock.advance("2h")
    emulator.verify("https://app.test/hook", times=3, status=200)"""


def _figures(checkout: Checkout, haproxy: str, count: int, tests: int, workers: int) -> Iterator[Figure]:
    with ExitStack() as ending:
        emulators = [ending.enter_context(servers.emulator(checkout, *servers.FROZEN)) for _ in range(count)]
        balancer, url = ending.enter_context(_balancer(haproxy, [each.port for each in emulators]))
        testers = [ending.enter_context(_worker(url, tests // workers)) for _ in range(workers)]
        before_s, balancer_before_s = sum(each.cpu_s for each in emulators), processes.cpu_s(balancer.pid)
        began = time.perf_counter()
        for tester in testers:
            print("go", file=tester.stdin, flush=True)
        failed = [tester.wait() for tester in testers]
        took_s = time.perf_counter() - began
        if any(failed):
            raise RuntimeError("a test has failed behind the balancer")
        cpu_s = sum(each.cpu_s for each in emulators) - before_s
        balancer_s = processes.cpu_s(balancer.pid) - balancer_before_s
    done = tests // workers * workers
    behind = f"{'1 server' if count == 1 else f'{count} servers'} behind a balancer"
    yield Figure(what=f"short tests, {behind}", value=took_s, unit=Unit.SECONDS, count=done, things="tests")
    milliseconds = Unit.MILLISECONDS
    yield Figure(what=f"CPU of a short test, {behind}", value=cpu_s / done * 1000, unit=milliseconds)
    yield Figure(what=f"the balancer's CPU of it, {behind}", value=balancer_s / done * 1000, unit=milliseconds)


@contextmanager
def _balancer(haproxy: str, ports: Sequence[int]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """HAProxy as the example has it; one server stands in all three places."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as taken:
        front = taken.getsockname()[1]
        taken.close()
        variables = {f"EMULATOR_{at + 1}": f"127.0.0.1:{ports[at % len(ports)]}" for at in range(3)}
        variables |= {"LISTEN": f"127.0.0.1:{front}", "ADMIN": str(Path(folder, "admin"))}
        command = [haproxy, "-db", "-f", str(HERE.path / _CONFIGURATION)]
        with subprocess.Popen(
            command, env=os.environ | variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                url = f"http://127.0.0.1:{front}"
                _until_answered(url)
                yield process, url
            finally:
                processes.stop(process)


def _until_answered(url: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            httpx.get(f"{url}/_emulator/health", trust_env=False).raise_for_status()
        except httpx.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


@contextmanager
def _worker(url: str, tests: int) -> Iterator[subprocess.Popen[str]]:
    """A process that makes its tests as soon as it reads a line, and is ready for that."""
    command = [sys.executable, "-m", "benchmarks.scale_worker", url, str(tests)]
    with subprocess.Popen(
        command, cwd=HERE.path, env=HERE.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield process
        finally:
            processes.stop(process)
