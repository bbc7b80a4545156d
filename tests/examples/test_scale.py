"""Three emulators behind a real HAProxy, as examples/ci/scale has them (D-436)."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from emulator import Emulator, Refused
from tests.examples.workplaces import EXAMPLES
from tests.harness import forks
from tests.harness.loops import PATIENCE_S

SCALE = EXAMPLES / "ci" / "scale"
HAPROXY = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
ROOT = EXAMPLES.parent

pytestmark = [pytest.mark.slow, pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed")]

# Every test tells which server has its world. From a certain one on, a test of the second server tells that it is
# in its midst, and continues its calls until that server is killed.
TESTS = """
import pathlib, time
import httpx, pytest

HERE = pathlib.Path(__file__).parent
SERVERS = {servers!r}

def server_of(world):
    for number, url in enumerate(SERVERS):
        try:
            if httpx.get(f"{{url}}/_emulator/worlds/{{world}}", trust_env=False, verify=False).status_code == 200:
                return number
        except httpx.TransportError:
            pass

@pytest.mark.parametrize("turn", range({count}))
def test_turn(emulator, turn):
    number = server_of(emulator.world)
    (HERE / f"{{turn}}.server").write_text(str(number))
    emulator.publish("https://app.example.com/", delay="1h")
    if number == 1 and turn >= {count} // 4:
        (HERE / "midst").touch()
        while not (HERE / "killed").exists():
            emulator.publish("https://app.example.com/", delay="1h")
            time.sleep(0.01)
    emulator.clock.advance("1d")
    emulator.verify("https://app.example.com/", at="1h")
"""
COUNT = 40
WORKERS = 3
PLUGINS = ("-p", "emulator.pytest_plugin", "-p", "xdist.plugin", "-p", "no:cacheprovider", "-p", "no:randomly")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The address of all, the servers behind it by their order, and the socket that administers HAProxy."""

    url: str
    servers: tuple[str, ...]
    processes: tuple[subprocess.Popen[str], ...]
    admin: Path

    def administer(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.admin))
            connection.sendall(f"{command}\n".encode())
            return connection.makefile().read()

    def sessions(self) -> list[int]:
        """How many calls each server has had."""
        rows = [line.split(",") for line in self.administer("show stat").splitlines()]
        return [int(row[7]) for row in rows if row[:1] == ["emulators"] and row[1] in ("one", "two", "three")]


def until(condition: Callable[[], object]) -> None:
    """Look again and again: several workers on a busy machine take long to start."""
    deadline = time.monotonic() + 6 * PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline


def free_ports(count: int) -> list[int]:
    with ExitStack() as taken:
        sockets = [taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


@contextmanager
def running(
    command: list[str], program: type[subprocess.Popen[str]], **environment: str
) -> Iterator[subprocess.Popen[str]]:
    inherited = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    with program(
        command, env=inherited | environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.fixture
def scale(tmp_path: Path) -> Iterator[Scale]:
    """HAProxy with the example's configuration before three servers."""
    assert HAPROXY is not None
    *ports, front = free_ports(4)
    # The path of a socket must be short.
    admin = Path(f"/tmp/haproxy-{front}.sock")
    variables = {f"EMULATOR_{number}": f"127.0.0.1:{port}" for number, port in enumerate(ports, start=1)}
    variables |= {"LISTEN": f"127.0.0.1:{front}", "ADMIN": str(admin)}
    with ExitStack() as ending:
        serve = [sys.executable, "-m", "emulator", "serve", "--clock", "frozen"]
        servers = [ending.enter_context(running(serve, forks.Forked, EMULATOR_PORT=str(port))) for port in ports]
        for server in servers:
            assert server.stdout is not None
            assert server.stdout.readline()
        ending.callback(admin.unlink, missing_ok=True)
        ending.enter_context(running([HAPROXY, "-db", "-f", str(SCALE / "haproxy.cfg")], subprocess.Popen, **variables))
        until(admin.exists)
        urls = tuple(f"http://127.0.0.1:{port}" for port in ports)
        yield Scale(url=f"http://127.0.0.1:{front}", servers=urls, processes=tuple(servers), admin=admin)


def pytest_run(scale: Scale, folder: Path) -> subprocess.Popen[str]:
    (folder / "test_turns.py").write_text(TESTS.format(servers=scale.servers, count=COUNT))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("EMULATOR_", "PYTEST_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-n", str(WORKERS), "-rfE", "--emulator-url", scale.url, *PLUGINS],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.long
def test_a_server_that_is_killed_fails_only_its_own_tests(scale: Scale, tmp_path: Path) -> None:
    """The others' tests continue, and so do those that begin later."""
    with pytest_run(scale, tmp_path) as run:
        try:
            until(lambda: (tmp_path / "midst").exists() or run.poll() is not None)
            scale.processes[1].kill()
            scale.processes[1].wait()
        finally:
            # Otherwise that run would never end.
            (tmp_path / "killed").touch()
        printed, _ = run.communicate(timeout=10 * PATIENCE_S)
    placed = {int(path.stem): path.read_text() for path in tmp_path.glob("*.server")}
    failed = {int(turn) for turn in re.findall(r"^(?:FAILED|ERROR) .*test_turn\[(\d+)\]", printed, re.MULTILINE)}
    assert failed, printed
    # Those of the second server, and those whose world was just being made there: at most one of each worker.
    assert {placed[turn] for turn in failed if turn in placed} <= {"1", "None"}, printed
    unplaced = set(range(COUNT)) - set(placed)
    assert unplaced <= failed, printed
    assert len(unplaced) < WORKERS, printed
    # Those of the other servers, all of them, and what began after the end of the second one.
    assert set(placed.values()) >= {"0", "1", "2"}
    # A test that had passed when its server ended has an error besides, since its world could not be removed.
    passed = re.search(r"(\d+) passed", printed)
    assert passed is not None, printed
    assert COUNT - len(failed) <= int(passed[1]) < COUNT, printed
    for turn in failed:
        report = printed.partition(f" test_turn[{turn}] ")[2].partition("\n____")[0]
        assert re.search("the server that had it has ended|no emulator answers", report), report


def test_every_call_of_a_test_is_answered_by_one_server(scale: Scale) -> None:
    with Emulator.connect(scale.url) as emulator:
        shares = set()
        for number in range(12):
            before = scale.sessions()
            with emulator.new_world(token=f"token-of-test-{number}") as world:
                world.publish("https://app.example.com/", delay="1h")
                world.clock.advance("1d")
                world.verify("https://app.example.com/", at="1h")
            calls = [after - first for after, first in zip(scale.sessions(), before, strict=True)]
            assert sorted(calls)[:2] == [0, 0], calls
            shares.add(calls.index(max(calls)))
        assert len(shares) > 1


def test_a_drained_server_ends_its_worlds_and_gets_no_new_ones(scale: Scale) -> None:
    with Emulator.connect(scale.url) as emulator, emulator.new_world(token="token-that-stays") as stays:
        [home] = [number for number, url in enumerate(scale.servers) if has_world(url, stays.world)]
        name = ("one", "two", "three")[home]
        scale.administer(f"set server emulators/{name} state drain")
        stays.publish("https://app.example.com/")
        stays.verify("https://app.example.com/", attempts=1)
        for number in range(9):
            with emulator.new_world(token=f"token-of-test-{number}") as world:
                assert not has_world(scale.servers[home], world.world)

        # Once it has ended, what it had is made again elsewhere, with the same token.
        scale.processes[home].kill()
        scale.processes[home].wait()
        with pytest.raises(Refused, match="the server that had it has ended"):
            stays.publish("https://app.example.com/")
        with pytest.raises(Refused, match="the server that had it has ended"):
            stays.clock.advance("1d")
        with emulator.new_world(token="token-that-stays") as again:
            again.publish("https://app.example.com/")


def has_world(url: str, world: str) -> bool:
    with Emulator.connect(url) as server:
        try:
            server.session.server.background.submit(server.session.control("GET", f"worlds/{world}")).result(PATIENCE_S)
        except Refused:
            return False
        return True


def test_compose_file_and_configuration_name_the_same_servers() -> None:
    services = yaml.safe_load((SCALE / "compose.yaml").read_text())["services"]
    variables = services["haproxy"]["environment"]
    configuration = (SCALE / "haproxy.cfg").read_text()
    for number in (1, 2, 3):
        assert variables[f"EMULATOR_{number}"] == f"emulator{number}:8080"
        assert f"emulator{number}" in services
        assert f'"${{EMULATOR_{number}}}"' in configuration
