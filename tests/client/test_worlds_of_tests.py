"""What a test's world is made from: the plugin's options and the marker `emulator`, in runs inside this one."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from emulator import AsyncEmulator, Emulator, explore
from emulator.client.worlds_of_tests import fewest

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
    assert (settings.settle_s, settings.kept.entries) == (2, 1000)
"""
FIXTURES = """
accounts: [{}]
url_groups: [{name: news, endpoints: [{url: "https://a.example.com"}]}]
"""


@pytest.mark.parametrize("way", ["option", "ini"])
def test_every_option_reaches_the_worlds_of_tests(way: str, pytester: pytest.Pytester, run: Run) -> None:
    """D-490, D-492, D-493."""
    port = free_port()
    pytester.makepyfile(ALL_TEST % {"port": port})
    pytester.makefile(".yaml", begin=FIXTURES)
    given = {
        "external": "fail",
        "plan": "free",
        "fixtures": "begin.yaml",
        "token": FREE_TOKEN,
        "port": str(port),
        "settle": "2s",
        "keep-history": "1000",
        "handler-errors": "report",
    }
    if way == "ini":
        lines = "\n".join(f"emulator_{name.replace('-', '_')} = {value}" for name, value in given.items())
        pytester.makeini(f"[pytest]\n{lines}")
    arguments = [text for name, value in given.items() for text in (f"--emulator-{name}", value)]

    run(*(arguments if way == "option" else [])).assert_outcomes(passed=1)


def test_chaos_of_the_ini_file_is_in_every_world(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeini("[pytest]\nemulator_chaos = 1")
    pytester.makepyfile("""
def test_disturbed(emulator):
    emulator.publish("https://app.test/", retries=0)
    emulator.clock.drain()
    assert all(each.chaos for each in emulator.deliveries())
""")

    run().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("ini", "text"),
    [
        ("emulator_external = no", "emulator_external in tox.ini: expected one of capture, fail, allow, got 'no'"),
        ("emulator_plan = gold", "emulator_plan in tox.ini: expected one of free, paid, got 'gold'"),
        ("emulator_chaos = 5", "emulator_chaos in tox.ini: expected a number from 0 (nothing) to 1, got '5'"),
        ("emulator_settle = 5", "emulator_settle in tox.ini: expected a time such as 30s*; did you mean 5s[?]"),
        ("emulator_keep_history = no", "emulator_keep_history in tox.ini: expected 'all', a number of*got 'no'"),
        ("emulator_handler_errors = no", "emulator_handler_errors in tox.ini: expected raise or report, got 'no'"),
        ("emulator_token = a b", "emulator_token in tox.ini: expected 8 to 256 letters, *got 'a b'"),
        ("emulator_port = x", "emulator_port in tox.ini: expected a port, or a range such as *got 'x'"),
        ("emulator_port = 0", "emulator_port in tox.ini: expected a port, *got '0'"),
        ("emulator_port = 9000-8000", "emulator_port in tox.ini: expected a port, *got '9000-8000'"),
        ("emulator_seed = x", "emulator_seed in tox.ini: expected an integer, got 'x'"),
    ],
)
def test_a_wrong_value_of_the_ini_file_names_it(pytester: pytest.Pytester, run: Run, ini: str, text: str) -> None:
    pytester.makeini(f"[pytest]\n{ini}")

    result = run()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {text}"])


def test_a_wrong_file_of_fixtures_fails_the_test_in_one_line(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_x(emulator): pass")

    run("--emulator-fixtures", "nowhere.yaml").stdout.fnmatch_lines(["svc-emulator: *nowhere.yaml: cannot be read: *"])


def test_what_only_a_server_can_have_is_refused_for_one_that_runs(
    pytester: pytest.Pytester, run: Run, shared: Emulator
) -> None:
    pytester.makepyfile("def test_x(emulator): pass")

    result = run("--emulator-url", shared.url, "--emulator-settle", "2s")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [f"svc-emulator: emulator_settle: {shared.url} runs already; start it with --settle instead"]
    )


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
    arguments = ("-p", "xdist", "-n", "2", "--emulator-token", FREE_TOKEN, "--emulator-port")

    run_apart(*arguments, f"{first}-{first + 1}").assert_outcomes(passed=6)
    refused = run_apart(*arguments, str(first))

    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(
        [f"*--emulator-port: 2 workers of pytest-xdist need a port each, got {first}: expected a range such as *"]
    )


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def test_workers_cannot_share_a_token_on_one_server(pytester: pytest.Pytester, run_apart: Run) -> None:
    refused = run_apart("-p", "xdist", "-n", "2", "--emulator-token", FREE_TOKEN, "--emulator-url", "http://127.0.0.1")

    refused.stderr.fnmatch_lines(
        ["*emulator_token: 2 workers of pytest-xdist cannot all have a world with this token*"]
    )


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
    ("marker", "text"),
    [
        ("emulator(plann='free')", "no option is named plann, did you mean plan[?]"),
        ("emulator(plan='gold')", "plan: expected one of free, paid, got 'gold'"),
        ("emulator(seed='x')", "seed: expected a whole number, got 'x'"),
        ("emulator(chaos='much')", "chaos: expected a number from 0 (nothing) to 1, got 'much'"),
        ("emulator(chaos=5)", "chaos: expected a number from 0 (nothing) to 1, got '5'"),
        ("emulator(epoch='soon')", "epoch: expected an ISO 8601 time*"),
        ("emulator(token='x')", "token: expected 8 to 256 letters*"),
        ("emulator(token=5)", "token: expected a text, got 5"),
        ("emulator(handler_errors='log')", "handler_errors: expected 'raise' or 'report', got 'log'"),
        ("emulator(fixtures={'queue': []})", "fixtures: queue: *"),
        ("emulator(fixtures='nowhere.yaml')", "nowhere.yaml: cannot be read: *"),
        ("emulator(dialect='klingon')", "dialect: unknown dialect 'klingon'*"),
        ("emulator(settle='soon')", "settle: expected a time such as 30s*"),
        ("emulator(port=8917)", "port: the tests of a run share a server*; emulator_port in the ini file*"),
        ("emulator(db='a.db')", "db: the tests of a run share a server*"),
        ("emulator('paid')", "expected keywords, such as epoch=*, got 'paid'"),
    ],
)
def test_an_argument_that_no_world_of_a_test_can_have_is_refused(
    pytester: pytest.Pytester, run: Run, marker: str, text: str
) -> None:
    """D-493."""
    pytester.makepyfile(f"""
import pytest

@pytest.mark.{marker}
def test_it(emulator): pass
""")

    result = run()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *.py::test_it: emulator: {text}"])


@pytest.mark.parametrize("plugins", [(), ("-p", "faker.contrib.pytest.plugin")], ids=["alone", "with Faker"])
def test_a_marked_test_without_the_fixture_is_refused(
    pytester: pytest.Pytester, run: Run, plugins: tuple[str, ...]
) -> None:
    """A fixture of Faker takes `request`, and is used in every test."""
    pytester.makepyfile("""
import pytest

@pytest.mark.emulator(plan="free")
def test_it(): pass
""")

    result = run(*plugins)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*::test_it: emulator: the test uses no fixture `emulator`, whose world it is about"])


@pytest.mark.parametrize(
    "test", ["def test_it(request): request.getfixturevalue('emulator')", "def test_it(world): pass"]
)
def test_a_marked_test_may_get_its_world_by_request(pytester: pytest.Pytester, run: Run, test: str) -> None:
    pytester.makepyfile(f"""
import pytest

@pytest.fixture
def world(request):
    return request.getfixturevalue("emulator")

@pytest.mark.emulator(plan="free")
{test}
""")

    run("-p", "faker.contrib.pytest.plugin").assert_outcomes(passed=1)


def test_a_marker_of_a_module_may_have_tests_without_the_fixture(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("""
import pytest

pytestmark = pytest.mark.emulator(plan="free")

def test_it(): pass
""")

    run().assert_outcomes(passed=1)


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
