"""What a test's world is made from: the plugin's options and the marker `emulator`, in runs inside this one."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from emulator import AsyncEmulator, Emulator, explore
from emulator.client.worlds_of_tests import check_arguments, fewest

if TYPE_CHECKING:
    from tests.harness.pytest_runs import Run


pytest_plugins = ["pytester", "tests.harness.pytest_runs"]
pytestmark = pytest.mark.slow

FREE_TOKEN = "token-of-the-app"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


# -- options ----------------------------------------------------------------------------------

ALL_TEST = """
import pytest

def test_all(emulator, emulator_server):
    assert str(emulator.clock.now()) == str(emulator_server.clock.now()) == "2027-03-01 12:00:00+00:00"
    assert emulator.dialect.name == "upstash"
    emulator.publish("https://forgotten.test/", retries=0)
    [delivery] = emulator.deliveries()
    assert delivery.response is None
    assert emulator.accounts()[0]["type"] == "free"
    assert [group.name for group in emulator.url_groups.all()] == ["news"]
    assert emulator.token == "token-of-the-app"
    assert emulator.url.endswith(":%(port)s")
    emulator.mount("https://app.test", lambda request: pytest.fail("reported"))
    emulator.publish("https://app.test/", retries=0)
    assert emulator.deliveries("https://app.test/")[0].status == 500
    settings = emulator_server.session.server._emulation.settings
    assert (settings.settle_s, settings.kept.entries, settings.seed) == (2, 1000, 7)
"""
FIXTURES = """
accounts: [{}]
url_groups: [{name: news, endpoints: [{url: "https://a.example.com"}]}]
"""


@pytest.mark.parametrize("way", ["option", "ini", "option before ini"])
def test_every_option_reaches_the_worlds_of_tests(way: str, pytester: pytest.Pytester, run: Run) -> None:
    """D-490, D-492, D-493."""
    port = free_port()
    pytester.makepyfile(ALL_TEST % {"port": port})
    pytester.makefile(".yaml", begin=FIXTURES)
    given = {
        "seed": "7",
        "epoch": "2027-03-01T12:00" if way == "option" else "1803902400000",
        "dialect": "upstash",
        "external": "fail",
        "plan": "free",
        "fixtures": "begin.yaml",
        "token": FREE_TOKEN,
        "port": str(port),
        "settle": "2s",
        "keep-history": "1000",
        "handler-errors": "report",
    }
    in_file = {"option": {}, "ini": given, "option before ini": {"plan": "paid", "epoch": "2029-01-01", "seed": "3"}}
    lines = "\n".join(f"emulator_{name.replace('-', '_')} = {value}" for name, value in in_file[way].items())
    pytester.makeini(f"[pytest]\n{lines}")
    arguments = [text for name, value in given.items() for text in (f"--emulator-{name}", value)]

    run(*([] if way == "ini" else arguments)).assert_outcomes(passed=1)


def test_chaos_of_the_ini_file_is_in_every_world(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeini("[pytest]\nemulator_chaos = 1")
    pytester.makepyfile("""
def test_disturbed(emulator):
    emulator.publish("https://app.test/", retries=0)
    emulator.clock.drain()
    assert all(each.chaos for each in emulator.deliveries())
""")

    run().assert_outcomes(passed=1)


def test_an_address_where_nothing_listens_says_who_named_it(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("EMULATOR_URL", url)
    pytester.makepyfile("def test_x(emulator): pass")

    run().stdout.fnmatch_lines(
        [f"svc-emulator: no emulator answers at {url}: * (the environment variable EMULATOR_URL)"]
    )


# -- clients made when the app is imported ------------------------------------------------------

APP = """
import httpx

client = httpx.Client(base_url="http://127.0.0.1:%(port)s", headers={"Authorization": "Bearer token-of-the-app"})

keys = set()

def remind():
    return client.post("/v2/publish/https://app.example.com/remind")
"""
APP_TEST = """
import app

def test_first(emulator):
    assert app.remind().status_code == 200
    assert len(emulator.deliveries()) == 1
    app.keys.add(emulator.credentials.current_signing_key)

def test_second(emulator):
    assert emulator.deliveries() == []
    assert app.remind().status_code == 200
    assert len(emulator.deliveries()) == 1
    assert app.keys == {emulator.credentials.current_signing_key}

def test_without_a_world(emulator_server):
    answer = app.remind()
    assert answer.status_code == 401
    assert "the token of a world that has ended (test_app.py-test_second-" in answer.text
"""


def test_a_client_made_at_import_finds_every_tests_world(pytester: pytest.Pytester, run_apart: Run) -> None:
    """D-491, D-492."""
    port = free_port()
    pytester.makepyfile(app=APP % {"port": port}, test_app=APP_TEST)

    result = run_apart("-s", "--emulator-token", FREE_TOKEN, "--emulator-port", str(port))

    result.assert_outcomes(passed=3)


def test_each_worker_of_xdist_has_a_port_of_the_range(pytester: pytest.Pytester, run_apart: Run) -> None:
    """D-492."""
    first = next(port for port in (free_port() for _ in range(50)) if _is_free(port + 1))
    pytester.makepyfile(f"""
import os, pytest

@pytest.mark.parametrize("turn", range(6))
def test_port(emulator, turn):
    worker = int(os.environ["PYTEST_XDIST_WORKER"][2:])
    assert emulator.url == f"http://127.0.0.1:{{{first} + worker}}"
    assert emulator.token == "{FREE_TOKEN}"
""")
    options = ("--emulator-token", FREE_TOKEN, "--emulator-port", f"{first}-{first + 1}")

    run_apart("-p", "xdist", "-n", "2", *options).assert_outcomes(passed=6)


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--emulator-port", "8917"), "--emulator-port: 2 workers of pytest-xdist need a port each, got 8917: *range*"),
        (("--emulator-url", "http://127.0.0.1"), "emulator_token: 2 workers of pytest-xdist cannot all have a world *"),
    ],
    ids=["port", "token"],
)
def test_workers_that_cannot_have_what_there_is_once_are_refused(
    run_apart: Run, options: tuple[str, str], text: str
) -> None:
    refused = run_apart("-p", "xdist", "-n", "2", "--emulator-token", FREE_TOKEN, *options)

    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines([f"*{text}"])


# -- the marker -------------------------------------------------------------------------------


def test_the_marker_wins_over_options_and_the_closest_over_the_others(pytester: pytest.Pytester, run: Run) -> None:
    """D-493."""
    pytester.makefile(".yaml", begin=FIXTURES)
    pytester.makepyfile("""
import pytest

pytestmark = pytest.mark.emulator(epoch="2030-01-01T00:00:00Z", plan="free")

@pytest.mark.emulator(plan="paid", seed=3, token="token-of-a-test", fixtures="begin.yaml", clock=60)
def test_marked(emulator):
    assert emulator.clock.now().year == 2030
    assert emulator.accounts()[0]["type"] == "paid"
    assert emulator.token == "token-of-a-test"
    assert [group.name for group in emulator.url_groups.all()] == ["news"]
    assert emulator.clock.status().rate == 60

def test_of_the_module(emulator, emulator_server):
    assert emulator.accounts()[0]["type"] == "free"
    assert emulator.url == emulator_server.url

@pytest.mark.emulator(external="fail", settle=3)
def test_fails(emulator):
    emulator.publish("https://forgotten.test", retries=0)
    assert [each.response for each in emulator.deliveries()] == [None]

@pytest.mark.emulator(dialect="upstash")
def test_dialect(emulator):
    assert emulator.dialect.name == "upstash"

@pytest.mark.emulator(strict=True)
def test_strict(emulator):
    emulator.publish("https://app.test", headers={"Svc-Dealy": "1d"})

def test_not_marked(emulator):
    emulator.publish("https://app.test", headers={"Svc-Dealy": "1d"})
    assert emulator.dialect.name == "svc"
""")

    result = run("--emulator-plan", "paid")

    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(["*header Svc-Dealy: unknown, did you mean Svc-Delay[?]"])


def test_a_test_without_strictness_in_a_strict_run(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("""
import pytest

@pytest.mark.emulator(strict=False)
def test_lax(emulator):
    emulator.publish("https://app.test", headers={"Svc-Dealy": "1d"})
""")

    run("--emulator-strict").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marked", "text"),
    [
        ({"plann": "free"}, "no option is named plann, did you mean plan?"),
        ({"plan": "gold"}, "plan: expected one of free, paid, got 'gold'"),
        ({"seed": "x"}, "seed: expected a whole number, got 'x'"),
        ({"chaos": "much"}, "chaos: expected a number from 0 (nothing) to 1, got 'much'"),
        ({"chaos": 5}, "chaos: expected a number from 0 (nothing) to 1, got '5'"),
        ({"epoch": "soon"}, "epoch: expected an ISO 8601 time"),
        ({"token": "x"}, "token: expected 8 to 256 letters"),
        ({"token": 5}, "token: expected a text, got 5"),
        ({"handler_errors": "log"}, "handler_errors: expected 'raise' or 'report', got 'log'"),
        ({"fixtures": {"queue": []}}, "fixtures: queue: "),
        ({"fixtures": "nowhere.yaml"}, "nowhere.yaml: cannot be read: "),
        ({"dialect": "klingon"}, "dialect: unknown dialect 'klingon'"),
        ({"settle": "soon"}, "settle: expected a time such as 30s"),
        (
            {"port": 8917},
            "port: the tests of a run share a server, so that a test cannot have its own; emulator_port in",
        ),
        ({"db": "a.db"}, "db: the tests of a run share a server"),
    ],
)
def test_an_argument_that_no_world_of_a_test_can_have_is_refused(marked: dict[str, Any], text: str) -> None:
    """D-493."""
    with pytest.raises((TypeError, ValueError)) as refused:
        check_arguments(marked)
    assert str(refused.value).startswith(text)


def test_a_marked_test_may_get_its_world_by_request_and_one_of_a_marked_module_needs_none(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        test_marked="""
import pytest

@pytest.fixture
def world(request):
    return request.getfixturevalue("emulator")

@pytest.mark.emulator(plan="free")
def test_by_request(request): request.getfixturevalue("emulator")

@pytest.mark.emulator(plan="free")
def test_by_fixture(world): pass
""",
        test_module="import pytest\n\npytestmark = pytest.mark.emulator(plan='free')\n\ndef test_it(): pass",
    )

    run("-p", "faker.contrib.pytest.plugin").assert_outcomes(passed=3)


@pytest.mark.parametrize("way", ["url", "port"])
def test_a_test_cannot_have_a_server_of_its_own_where_clients_are_bound_to_one(
    way: str, pytester: pytest.Pytester, run: Run, shared: Emulator
) -> None:
    pytester.makepyfile("""
import pytest

@pytest.mark.emulator(dialect="upstash")
def test_it(emulator): pass
""")
    arguments = ["--emulator-url", shared.url] if way == "url" else ["--emulator-port", str(free_port())]

    result = run(*arguments)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["emulator: dialect: a server of its own would be needed, *"])


URL = "https://app.test/hook"


# One test under many seeds, shrunk to the disturbances that it cannot bear (D-424).


def publishes_once(emulator: Emulator) -> None:
    """A receiver that cannot bear a delivery that comes twice."""
    bodies: list[bytes] = []
    emulator.mount("https://app.test", lambda request: bodies.append(request.body))
    for number in range(4):
        emulator.publish(URL, str(number), delay="1m")
    emulator.clock.drain()
    assert len(bodies) == len(set(bodies))


def test_a_failing_seed_is_shrunk_and_told_with_the_call_that_repeats_it() -> None:
    with pytest.raises(AssertionError) as failure:
        explore(publishes_once)
    (note,) = failure.value.__notes__
    first, *remaining, last = note.splitlines()
    assert first.startswith("It fails under seed ")
    assert " with 1 of " in first
    assert len(remaining) == 1
    assert "duplicate of attempt" in remaining[0]
    call = last.removeprefix("Repeat it: ")
    with pytest.raises(AssertionError) as again:
        eval(call, {"explore": explore, "publishes_once": publishes_once})
    # The same failure, by the one disturbance that is left.
    assert again.value.args == failure.value.args
    assert again.value.__notes__[0].splitlines()[1] == remaining[0]


def test_worlds_differ_in_the_order_of_simultaneous_deliveries() -> None:
    orders: set[str] = set()

    def test(emulator: Emulator) -> None:
        for name in "abc":
            emulator.publish(f"https://app.test/{name}", delay="1m")
        emulator.clock.drain()
        orders.add("".join(each.url[-1] for each in emulator.deliveries() if each.attempt == 1 and each.succeeded))

    explore(test, seeds=range(20))
    assert {"abc", "acb"} < orders


def test_a_test_that_bears_everything_passes_and_every_seed_was_tried() -> None:
    tried: list[str] = []

    def test(emulator: Emulator) -> None:
        tried.append(emulator.token)

    explore(test, seeds=(3, 4, 5), chaos=1)
    assert len(set(tried)) == 3


def test_a_coroutine_function_gets_an_emulator_with_awaits() -> None:
    async def test(emulator: AsyncEmulator) -> None:
        await emulator.publish(URL, retries=0)
        await emulator.clock.drain()
        assert all(each.succeeded for each in await emulator.deliveries())

    with pytest.raises(AssertionError) as failure:
        explore(test, chaos=1)
    assert "instead of a delivery" in failure.value.__notes__[0]


@dataclass(frozen=True)
class Frozen(ValueError):
    """An exception that refuses attributes, and so `add_note`."""

    text: str


@pytest.mark.parametrize("error", [ValueError("always"), Frozen("always")], ids=["common", "frozen"])
def test_a_failure_without_chaos_says_so(error: ValueError) -> None:
    def test(emulator: Emulator) -> None:
        raise error

    with pytest.raises(ValueError, match="always") as failure:
        explore(test)
    assert failure.value.__notes__[0].startswith("It fails under seed 0, and without any of 0 disturbances.")


@pytest.mark.parametrize("needed", [set(), {"3"}, {"1", "8"}, {"1", "2", "3"}])
def test_disturbances_are_spared_until_none_can_be(needed: set[str]) -> None:
    met = {str(number): "did" for number in range(9)}

    def run(spared: Sequence[str]) -> Mapping[str, str] | None:
        left = {mark: did for mark, did in met.items() if mark not in spared}
        return left if needed <= left.keys() else None

    spared, remaining = fewest(met, run)
    assert set(remaining) == needed
    assert set(spared) == met.keys() - needed
