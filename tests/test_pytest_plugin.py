"""The pytest plugin, in test runs of their own inside this one; the worlds of tests: D-251."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

import svc_emulator_pytest
from emulator import Emulator

if TYPE_CHECKING:
    # Imported by pytest, which rewrites its assertions.
    from tests.harness.pytest_runs import Run

pytest_plugins = ["pytester", "tests.harness.pytest_runs"]
pytestmark = pytest.mark.slow

FAILING = """
def test_reminder(emulator):
    emulator.publish("https://app.example.com/remind", headers={"Svc-Delay": "1d"})
    emulator.clock.advance("1d")
    assert emulator.deliveries() == []
"""
TIMELINE = [
    "*- svc-emulator timeline -*",
    "1 attempt of 1 message; the clock is at 2026-01-02T00:00:00.000Z, frozen",
    "  virtual time (UTC)   after  message     try  destination                          by       answer",
    "  2026-01-02 00:00:00  +1d    msg_..*  1    POST https://app.example.com/remind  capture  200",
]


def worlds(emulator: Emulator) -> list[str]:
    answer = httpx.get(f"{emulator.url}/_emulator/worlds", trust_env=False, verify=False)
    return [world["id"] for world in answer.json()["worlds"]]


# -- worlds -----------------------------------------------------------------------------------


def test_every_test_has_a_fresh_world_with_a_frozen_clock(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("""
import httpx, pytest

@pytest.mark.parametrize("turn", [1, 2])
def test_world(emulator, emulator_server, turn):
    assert str(emulator.clock.now()) == "2026-01-01 00:00:00+00:00"
    assert emulator.clock.status().rate == 0
    assert emulator.deliveries() == []
    emulator.publish("https://app.example.com/")
    emulator.clock.advance("1d")
    found = httpx.get(emulator_server.url + "/_emulator/worlds").json()["worlds"]
    assert [world["id"] for world in found] == ["default", emulator.world]
    assert emulator_server.world == "default"
    assert emulator_server.deliveries() == []
""")

    run().assert_outcomes(passed=2)


def test_ids_and_tokens_of_a_test_do_not_depend_on_the_tests_around_it(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeconftest("""
import random

def pytest_collection_modifyitems(config, items):
    if config.getoption("verbose"):
        items.reverse()

def pytest_runtest_setup(item):
    random.seed(0)  # as pytest-randomly does
""")
    pytester.makepyfile(
        test_worlds="""
import pytest

@pytest.mark.parametrize("name", ["a b", "a/b", "ü", "x" * 100])
def test_world(emulator, name):
    message_id = emulator.publish("https://app.example.com/")
    with open("found", "a") as file:
        print(emulator.world, emulator.token, message_id, file=file)
"""
    )

    def found(*arguments: str) -> list[str]:
        run(*arguments).assert_outcomes(passed=4)
        lines = (pytester.path / "found").read_text().splitlines()
        (pytester.path / "found").unlink()
        return lines

    in_order = found()

    assert found("-v") == in_order[::-1]
    assert len({line.split()[0] for line in in_order}) == 4
    assert len({line.split()[1] for line in in_order}) == 4


@pytest.mark.parametrize(
    ("test", "id"),
    [
        ("tests/test_app.py::test_a", "tests-test_app.py-test_a-feafc0f3"),
        ("test_app.py::TestB::test_a[1-/x y]", "test_app.py-TestB-test_a-1-x-y-16b05f1a"),
        ("tests/" + "x" * 100, f"{'x' * 55}-"),
        ("::-", "test-"),
    ],
)
def test_a_world_is_named_after_its_test(test: str, id: str) -> None:
    found = svc_emulator_pytest.world_id(test, shared=False)

    assert found.startswith(id)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", found)
    assert svc_emulator_pytest.world_id(test, shared=False) == found


def test_on_a_shared_server_a_worlds_name_ends_at_random() -> None:
    test = "tests/" + "x" * 100
    found = {svc_emulator_pytest.world_id(test, shared=True) for _ in range(10)}

    assert len(found) == 10
    assert all(re.fullmatch(r"x{46}-[0-9a-f]{8}-[0-9a-f]{8}", each) for each in found)


# -- options ----------------------------------------------------------------------------------


def test_a_seed_decides_on_ids_and_tokens(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_seed(emulator): print('token', emulator.token)")

    def token(*arguments: str) -> str:
        [line] = [line for line in run("-s", *arguments).outlines if "token ey" in line]
        return line

    assert token() == token("--emulator-seed", "0")
    assert token() != token("--emulator-seed", "7")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--emulator-seed", "x"], "--emulator-seed: expected an integer, got 'x'"),
        (["--emulator-epoch", "soon"], "--emulator-epoch: expected an ISO 8601 time such as 2026-01-01T00:00:00Z, *"),
        (["--emulator-epoch", "1969-12-31"], "--emulator-epoch: expected an instant after 1970-01-01T00:00:00Z"),
        (["--emulator-url", "localhost:8080"], "--emulator-url: expected an address such as http://127.0.0.1:8080, *"),
        (["--emulator-external", "no"], "--emulator-external: expected one of capture, fail, allow, got 'no'"),
        (["--emulator-plan", "gold"], "--emulator-plan: expected one of free, paid, got 'gold'"),
        (["--emulator-chaos", "5"], "--emulator-chaos: expected a number from 0 (nothing) to 1, got '5'"),
        (["--emulator-settle", "5"], "--emulator-settle: expected a time such as 30s*; did you mean 5s[?]"),
        (["--emulator-keep-history", "no"], "--emulator-keep-history: expected 'all', a number of*got 'no'"),
        (["--emulator-handler-errors", "no"], "--emulator-handler-errors: expected raise or report, got 'no'"),
        (["--emulator-token", "a b"], "--emulator-token: expected 8 to 256 letters, *got 'a b'"),
        (["--emulator-port", "x"], "--emulator-port: expected a port, or a range such as *got 'x'"),
        (["--emulator-port", "0"], "--emulator-port: expected a port, *got '0'"),
        (["--emulator-port", "9000-8000"], "--emulator-port: expected a port, *got '9000-8000'"),
        (["-o", "emulator_strict=maybe"], "emulator_strict: expected true or false: *'maybe'"),
        (["-o", "emulator_seed=x"], "emulator_seed in the ini file: expected an integer, got 'x'"),
        (["-c", "own.ini"], "emulator_plan in own.ini: expected one of free, paid, got 'gold'"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_before_any_test(
    pytester: pytest.Pytester, run: Run, options: list[str], text: str
) -> None:
    pytester.makefile(".ini", own="[pytest]\nemulator_plan = gold")

    result = run(*options)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {text}"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--emulator-dialect klingon", "dialect: unknown dialect 'klingon': expected svc, upstash or *"),
        ("--emulator-fixtures nowhere.yaml", "*nowhere.yaml: cannot be read: *"),
        ("--emulator-url http://127.0.0.1:1", "no emulator answers at http://127.0.0.1:1: *"),
        ("--emulator-url {url} --emulator-settle 2s", "emulator_settle: {url} runs already; start it with --settle *"),
        ("--emulator-url {url} --emulator-dialect upstash", "{url} speaks the dialect svc, not upstash"),
        ("--emulator-url {url} --emulator-strict", "{url} is not strict, as emulator_strict wants it (serve --strict)"),
    ],
)
def test_a_server_that_tests_cannot_have_fails_them_in_one_line(
    pytester: pytest.Pytester, run: Run, shared: Emulator, options: str, text: str
) -> None:
    pytester.makepyfile("def test_x(emulator): pass\ndef test_y(emulator): pass")

    result = run(*options.format(url=shared.url).split())

    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines([f"*svc-emulator: {text.format(url=shared.url)}"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_help_tells_of_every_option(run: Run) -> None:
    text = " ".join(run("--help").outlines)

    for name in ("seed", "epoch", "dialect", "url", "control-token"):
        assert f"--emulator-{name}=" in text
        assert f"emulator_{name.replace('-', '_')} (string)" in text


# -- reports ----------------------------------------------------------------------------------


def test_a_failing_test_or_fixture_shows_the_timeline_of_its_world(pytester: pytest.Pytester, run: Run) -> None:
    in_fixture = FAILING.replace("def test_reminder", "@pytest.fixture\ndef reminder")
    pytester.makepyfile(test_a=FAILING, test_b=f"import pytest\n{in_fixture}\ndef test_it(reminder): pass")

    for file, outcome in {"test_a.py": "failed", "test_b.py": "errors"}.items():
        result = run(file)
        result.assert_outcomes(**{outcome: 1})
        result.stdout.fnmatch_lines(TIMELINE, consecutive=True)


REFUSED = {
    "emulator.publish('https://a.test', dely='1d')": "TypeError: no option is named dely, did you mean delay[?]",
    "emulator.publish('https://a.test', delay='1x')": "ValueError: delay: expected a duration such as 10s*",
    "emulator.publish('https://a.test', headers={'Svc-Delay': 'soon'})": "*Refused: Svc-Delay: expected *",
    "emulator.schedules.create('https://a.test', '0 9 * * *', dely='1d')": "TypeError: no option is named dely*",
    "emulator.clock.advance('soon')": "*Refused: by: expected *",
    "emulator.verify(at='soon')": "ValueError: at: expected *",
    "emulator.destinations.respond('https://a.test', times=0)": "*times: expected *",
}


def test_what_is_refused_shows_the_line_of_the_test_alone(pytester: pytest.Pytester, run: Run) -> None:
    tests = [f"def test_{number}(emulator):\n    {line}" for number, line in enumerate(REFUSED)]
    pytester.makepyfile("\n\n".join(tests))

    result = run("--tb=short")

    result.assert_outcomes(failed=len(REFUSED))
    for number, (line, text) in enumerate(REFUSED.items()):
        shown = [f"test_*.py:{3 * number + 2}: in test_{number}", f"    {line}", f"E   {text}"]
        result.stdout.fnmatch_lines(shown, consecutive=True)


def test_other_reports_show_none(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("""
import pytest

def test_passes(emulator): pass

def test_without(): assert False

@pytest.mark.xfail
def test_expected_to_fail(emulator): assert False

@pytest.fixture
def broken(emulator):
    yield
    raise RuntimeError

def test_teardown(broken): pass
""")

    result = run("-ra")

    result.assert_outcomes(passed=2, failed=1, xfailed=1, errors=1)
    result.stdout.no_fnmatch_line("*svc-emulator timeline*")


def test_a_report_has_the_whole_ids_to_copy(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("""
def test_ids(emulator):
    print("made", emulator.publish("https://app.example.com/a"))
    assert False
""")

    result = run()

    [made] = [line.split()[1] for line in result.outlines if line.startswith("made ")]
    assert len(made) > 50
    result.stdout.fnmatch_lines(["*- svc-emulator timeline -*", "Whole ids:", f"  msg_..{made[-4:]}  {made}"])


def test_a_failed_verify_shows_the_timeline_once(pytester: pytest.Pytester, run: Run) -> None:
    """Also one in a helper, or in an assertion."""
    pytester.makepyfile("""
import pytest

def helper(emulator):
    try:
        emulator.verify(status=500)
    except AssertionError as error:
        raise RuntimeError("not delivered") from error

@pytest.mark.parametrize("way", ["alone", "helper", "assert"])
def test_it(emulator, way):
    ids = [emulator.publish("https://app.example.com/" + name) for name in "ab"]
    print("made", *ids)
    if way == "helper":
        helper(emulator)
    if way == "assert":
        assert emulator.verify(status=500) is None
    emulator.verify(status=500)
""")

    result = run()

    result.assert_outcomes(failed=3)
    assert sum("2 attempts of 2 messages; the clock is at " in line for line in result.outlines) == 3
    for made in [line.split()[1:] for line in result.outlines if line.startswith("made ")]:
        shown = ["*- svc-emulator timeline -*", "It is shown above.", "", "Whole ids:"]
        result.stdout.fnmatch_lines([*shown, *(f"  msg_..{each[-4:]}  {each}" for each in made)], consecutive=True)


def test_a_report_is_made_though_the_emulator_is_gone(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("""
def test_closed(emulator):
    emulator.close()
    assert 1 == 2
""")

    result = run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E       assert 1 == 2",
            "*- svc-emulator timeline -*",
            "It is not known: this emulator is not running: use it in a with block, or call start()",
        ]
    )


def test_a_report_does_not_wait_for_an_emulator_that_hangs(shared: Emulator) -> None:
    with shared.new_world() as world:
        world.session.clock = lambda: asyncio.sleep(3600)  # type: ignore[assignment, method-assign, return-value]  # hangs

        assert svc_emulator_pytest.timeline(world, 0.01) == "The emulator did not tell it within 0.01 s."


# -- a server that runs already -----------------------------------------------------------------


def test_a_shared_server_has_the_worlds_as_long_as_their_tests(
    pytester: pytest.Pytester, run: Run, shared: Emulator
) -> None:
    pytester.makepyfile(f"""
import httpx

def test_world(emulator, emulator_server):
    assert emulator_server.url == emulator.url == "{shared.url}"
    found = httpx.get(emulator.url + "/_emulator/worlds", trust_env=False, verify=False).json()["worlds"]
    assert [world["id"] for world in found] == ["default", emulator.world]
    assert "as_long_as_their_tests.py-test_world-" in emulator.world
    assert str(emulator.clock.now()) == "2026-01-01 00:00:00+00:00"

{FAILING}
""")

    result = run("--emulator-url", shared.url + "/")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([f"svc-emulator: {shared.url}/"])
    result.stdout.fnmatch_lines(TIMELINE, consecutive=True)
    assert worlds(shared) == ["default"]


def test_the_server_may_be_named_by_the_environment(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile("def test_url(emulator): print('url', emulator.url)")
    with Emulator(control_token="secret") as guarded:
        monkeypatch.setenv("EMULATOR_URL", guarded.url)
        guarded_url, refused = guarded.url, run()
        mistaken = run("--emulator-control-token", "wrong")
        monkeypatch.setenv("EMULATOR_CONTROL_TOKEN", "secret")
        let_in = run("-s")
        let_in.stdout.fnmatch_lines([f"*url {guarded.url}*"])

    refused.assert_outcomes(errors=1)
    refused.stdout.fnmatch_lines(
        [f"svc-emulator: {guarded_url} needs its control token (--emulator-control-token)"], consecutive=True
    )
    mistaken.stdout.fnmatch_lines([f"svc-emulator: {guarded_url} has another control token (--emulator-control-token)"])
    let_in.assert_outcomes(passed=1)


# -- asynchronous tests -------------------------------------------------------------------------

ASYNC_TEST = """
import pytest
from emulator import AsyncEmulator, Emulator

{mark}
async def test_reminder(emulator: Emulator, async_emulator: AsyncEmulator) -> None:
    async def app(scope, receive, send):
        seen.append((await receive())["body"])
        await send({{"type": "http.response.start", "status": 202, "headers": []}})
        await send({{"type": "http.response.body", "body": b""}})

    seen = []
    await async_emulator.mount("https://app.test", app)
    await async_emulator.publish("https://app.test/remind", "hello", headers={{"Svc-Delay": "1d"}})
    await async_emulator.clock.advance("1d")
    await async_emulator.verify(url="https://app.test/*", at="1d", status=202, signed_with="current")
    assert seen == [b"hello"]
    assert async_emulator.world == emulator.world
"""


def test_asynchronous_tests_run_under_the_plugin_of_asyncio(pytester: pytest.Pytester, run_apart: Run) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(ASYNC_TEST.format(mark="@pytest.mark.asyncio"))

    run_apart("-p", "pytest_asyncio.plugin", "--asyncio-mode=strict").assert_outcomes(passed=1)


def test_asynchronous_tests_run_on_asyncio_and_trio_under_that_of_anyio(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(ASYNC_TEST.format(mark="@pytest.mark.anyio"))

    run("-panyio").assert_outcomes(passed=2)


# -- beside other plugins, and beside nothing ---------------------------------------------------


def test_the_workers_of_xdist_have_worlds_of_their_own_on_a_shared_server(
    pytester: pytest.Pytester, run_apart: Run, shared: Emulator
) -> None:
    pytester.makepyfile(f"""
import pytest

@pytest.mark.parametrize("turn", range(8))
def test_world(emulator, turn):
    emulator.publish("https://app.example.com/")
    assert len(emulator.deliveries()) == 1
    assert emulator.url == "{shared.url}"
""")

    run_apart("-p", "xdist", "-n", "2", "--emulator-url", shared.url).assert_outcomes(passed=8)

    assert worlds(shared) == ["default"]


def test_the_plugin_imports_nothing_that_a_run_without_it_does_not_need() -> None:
    script = """
import pytest, sys
before = set(sys.modules)
import svc_emulator_pytest
print(*sorted(name for name in set(sys.modules) - before if "." not in name or name.startswith("emulator")))
"""
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert set(printed) - {"svc_emulator_pytest"} <= set(sys.stdlib_module_names) | {"_hashlib"}


def test_the_python_api_does_not_import_the_command_line_of_its_http_client() -> None:
    script = """
import sys
from emulator import Emulator
print("rich" in sys.modules, "httpx._main" in sys.modules)
"""
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert printed == "False False\n"


STRICT = """
def test_right(emulator):
    emulator.publish("https://app.example.com/", headers={"Svc-Delay": "1s"})

def test_wrong(emulator):
    emulator.publish("https://app.example.com/", headers={"Svc-Dealy": "1s"})

def test_right_again(emulator):
    emulator.publish("https://app.example.com/")
"""


@pytest.mark.parametrize("option", [["--emulator-strict"], ["-o", "emulator_strict=true"]])
def test_a_strict_run_fails_the_test_whose_client_is_wrong(
    option: list[str], pytester: pytest.Pytester, run: Run
) -> None:
    """D-337."""
    pytester.makepyfile(STRICT)
    result = run(*option)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*The contract does not know what was sent (1 mismatch):",
            "  POST /v2/publish/{destination}: header Svc-Dealy: unknown, did you mean Svc-Delay[?]",
            "*svc-emulator timeline*",
        ]
    )


# -- many seeds -------------------------------------------------------------------------------

ONCE = """
import pytest

@pytest.fixture(scope="module")
def shared():
    print("module begins")
    yield
    print("module ends")

@pytest.mark.emulator_seeds(100)
def test_once(emulator, shared):
    bodies = []
    emulator.mount("https://app.test", lambda request: bodies.append(request.body))
    for number in range(3):
        emulator.publish("https://app.test/hook", str(number), delay="1m")
    emulator.clock.drain()
    assert len(bodies) == len(set(bodies))

def test_another(emulator, shared):
    assert emulator.destinations.all() == []
"""


def test_a_marked_test_is_shrunk_and_repeated_by_one_line(pytester: pytest.Pytester, run: Run) -> None:
    """D-425."""
    pytester.makepyfile(test_app=ONCE)
    result = run("-s")
    result.assert_outcomes(failed=1, passed=1)
    assert result.stdout.str().count("module begins") == 1
    result.stdout.fnmatch_lines(["*- svc-emulator timeline -*", "*- svc-emulator seeds -*", "It fails under seed *"])
    text = result.stdout.str()
    (line,) = re.findall("Repeat it: pytest (.*)", text)
    assert line.startswith("test_app.py::test_once --emulator-seed ")
    (remaining,) = re.findall(r"^  [0-9]+[.][0-9]+  .*duplicate of attempt.*$", text, re.MULTILINE)
    again = run(*line.split())
    again.assert_outcomes(failed=1)
    assert remaining.split("  ")[1] not in line
    again.stdout.fnmatch_lines(["*chaos: duplicate of attempt 1"])


def test_a_marked_test_that_passes_is_one_test(pytester: pytest.Pytester, run: Run) -> None:
    """D-425."""
    pytester.makepyfile("""
import pytest

tried = []

@pytest.mark.emulator_seeds([5, 6, 7], chaos=0.5)
def test_all(emulator):
    tried.append([rule["chance"] for rule in emulator.destinations.all()])

def test_after():
    assert tried == [[0.5, 0.5, 0.5, 0.25, 0.125, 0.125]] * 3
""")
    run("-pno:randomly").assert_outcomes(passed=2)


def test_a_marked_asynchronous_test_is_run_under_its_seeds(pytester: pytest.Pytester, run: Run) -> None:
    """D-425."""
    pytester.makepyfile("""
import pytest

worlds = []

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.emulator_seeds(3)
async def test_all(async_emulator):
    worlds.append(async_emulator.token)
    assert len(worlds) < 3 or len(set(worlds)) == 3
""")
    run("-panyio").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "fixture", "said"),
    [
        ("emulator_seeds()", "emulator", "expected how many seeds, or the seeds, such as emulator_seeds(100)"),
        ("emulator_seeds(0)", "emulator", "expected a number of seeds, or the seeds, got 0"),
        ("emulator_seeds('ten')", "emulator", "expected a number of seeds, or the seeds, got 'ten'"),
        ("emulator_seeds([1, 'a'])", "emulator", "expected whole numbers"),
        ("emulator_seeds(10, chaos=2)", "emulator", "chaos: expected a number from 0 to 1, got 2"),
        ("emulator_seeds(10, mess=1)", "emulator", "unexpected keyword argument 'mess'"),
        ("emulator_seeds(3)", "", "the test uses no fixture `emulator`"),
        ("emulator(plan='free')", "", "the test uses no fixture `emulator`, whose world it is about"),
        ("emulator('paid')", "emulator", "expected keywords, such as epoch=*, got 'paid'"),
        ("emulator(plan='gold')", "emulator", "plan: expected one of free, paid, got 'gold'"),
    ],
)
def test_a_marker_that_cannot_be_used_is_refused(
    pytester: pytest.Pytester, run: Run, marker: str, fixture: str, said: str
) -> None:
    """D-425, D-493. A fixture of Faker takes `request`, and is used in every test."""
    pytester.makepyfile(f"import pytest\n\n@pytest.mark.{marker}\ndef test_all({fixture}): pass\n")
    result = run("-p", "faker.contrib.pytest.plugin")
    assert result.ret is pytest.ExitCode.USAGE_ERROR
    name, shown = marker.partition("(")[0], said.replace("[", "[[]")
    result.stderr.fnmatch_lines([f"ERROR: *.py::test_all: {name}: *{shown}*"])


# -- mounted code -----------------------------------------------------------------------------

BREAKS_OUT = """
import asyncio, httpx, pytest, sys

def fail(): pytest.fail("broken")
def leave(): sys.exit(3)
def cancel(): raise asyncio.CancelledError
def check(): assert 1 == 2, "sums"
def skip(): pytest.skip("not now")

def function(raises): return lambda request: raises()
def wsgi(raises):
    def app(environ, start_response): raises()
    return app
def coroutine(raises):
    async def app(request): raises()
    return app
def task(raises):
    async def app(request):
        async def work(): raises()
        await asyncio.create_task(work())
    return app
def asgi(raises):
    async def app(scope, receive, send):
        if scope["type"] == "http": raises()
    return app
def shutdown(raises):
    async def app(scope, receive, send):
        if scope["type"] == "http": return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        raises()
    return app

KINDS = [function, wsgi, coroutine, task, asgi]

@pytest.mark.parametrize("raises", [fail, leave, cancel, check, skip])
@pytest.mark.parametrize("make", KINDS)
def test_wrong(emulator, make, raises):
    emulator.mount("https://app.test", make(raises))
    emulator.publish("https://app.test/hook", retries=1)
    emulator.clock.advance("1d")

@pytest.mark.parametrize("make", KINDS)
def test_wrong_behind_a_client(emulator, make):
    emulator.mount("https://app.test", make(check))
    headers = {"Authorization": f"Bearer {emulator.token}"}
    httpx.post(f"{emulator.url}/v2/publish/https://app.test/hook", headers=headers, trust_env=False, verify=False)

def test_wrong_at_its_end(emulator):
    emulator.mount("https://app.test", shutdown(fail))

def test_wrong_without_await(async_emulator):
    async_emulator.mount("https://app.test", lambda request: 503)

async def answer(request): return 201
@pytest.mark.parametrize("app", [lambda request: 201, answer])
def test_right(emulator, app):
    emulator.mount("https://app.test", app)
    emulator.publish("https://app.test/hook")
    emulator.verify("https://app.test/hook", status=201, attempts=1)
"""


def test_a_test_whose_mounted_code_breaks_out_fails_and_the_next_one_is_well(
    pytester: pytest.Pytester, run: Run
) -> None:
    """D-470."""
    pytester.makepyfile(BREAKS_OUT)
    result = run("--tb=short")
    # Five are skipped; the end of a world comes after its test.
    result.assert_outcomes(failed=26, skipped=5, passed=3, errors=1)
    output = result.stdout.str()
    assert "mount(...) was not awaited, so it did nothing: write `await emulator.mount(...)`" in output
    assert "def check(): assert 1 == 2" in output
    assert "emulator/client" not in output.partition("Captured log")[0]


def test_the_report_of_a_failed_test_lists_what_mounted_code_raised(pytester: pytest.Pytester, run: Run) -> None:
    """D-471."""
    pytester.makepyfile("""
def test_it(emulator):
    def app(request): raise LookupError("no such user")
    emulator.mount("https://app.test", app)
    emulator.publish("https://app.test/hook", retries=0)
    emulator.verify("https://app.test/hook", status=200)
""")
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*- svc-emulator errors of mounted code -*", "2026-* the delivery of msg_* to https://app.test/hook", "*"]
    )
    assert result.stdout.str().count("LookupError: no such user") >= 2
