"""The pytest plugin: a fresh world for every test, and its timeline in the report of a test that fails.

    def test_reminder(emulator: Emulator) -> None:
        emulator.publish("https://app.example.com/remind", delay="1d")
        emulator.clock.advance("1d")
        emulator.verify(url="https://app.example.com/remind", at="1d")

It is loaded into every test run of an environment that has the distribution, so it imports nothing
of the emulator until a test asks for a fixture: other runs cost nothing, and coverage measures the
modules that tests import. It lies beside the package, because a project may have a module or a
package of its own called `emulator`: then the plugin is off, and says so.
"""

# D-290.

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import secrets
import shlex
import sys
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pluggy import Result

    from emulator import AsyncEmulator, Emulator
    from emulator.client.errors import HandlerErrors

TITLE = "svc-emulator timeline"
HANDLERS_TITLE = "svc-emulator errors of mounted code"
SEEDS_TITLE = "svc-emulator seeds"
# The head of the ids at the end of a timeline. The module that writes it is not imported without need.
IDS = "Whole ids:"

# A world always begins at the same instant, so that its tests do not depend on the day (D-251).
DEFAULT_EPOCH = "2026-01-01T00:00:00Z"
DEFAULT_EPOCH_MS = 1_767_225_600_000
DEFAULT_SEED = 0

# The longest id that a world can have.
_MAX_ID = 64
# How long a report waits for an emulator that hangs, seconds of real time.
_TIMEOUT_S = 10.0

_HELP = {
    "seed": f"seeds the ids and tokens of every test's world (default: {DEFAULT_SEED})",
    "without": "attempts that the chaos of a test with many seeds spares, as its failure names them (3.1,4.1)",
    "epoch": f"the first instant of every test's world, ISO 8601 (default: {DEFAULT_EPOCH})",
    "dialect": "the names on the wire: svc, upstash or a TOML file (default: svc)",
    "external": "what happens to a destination outside this machine that no rule and no mount answers: capture "
    "(journal it, answer 200), fail (a connection error) or allow (really send) (default: capture)",
    "plan": "the plan of every test's account: free or paid (default: paid)",
    "fixtures": "a YAML or JSON file of what every test's world begins with",
    "token": "the token of every test's world, for clients that are made when the app is imported",
    "port": "the port of the run's server, for the same clients; a range such as 8917-8924 gives each worker of "
    "pytest-xdist its own (default: a free one)",
    "keep-history": "how much of what has happened a test's world keeps: all, a number of entries or an age such "
    "as 30d (default: all)",
    "chaos": "how much goes wrong in every test's world, from 0 to 1 (default: 0)",
    "handler-errors": "what an AssertionError of a mounted application does: raise (it fails the test) or report "
    "(a response of 500, listed in emulator.handler_errors) (default: raise)",
    "settle": "how long of real time a move of the clock waits for deliveries under way (default: 15s)",
    "url": "use the emulator that runs there, such as a CI service container, instead of starting one "
    "(default: the environment variable EMULATOR_URL, if it is set)",
    "control-token": "the control token of the emulator at --emulator-url "
    "(default: the environment variable EMULATOR_CONTROL_TOKEN, if it is set)",
}
_STRICT = "fail every test whose client sends what the contract does not know"
_VARIABLES = {"url": "EMULATOR_URL", "control-token": "EMULATOR_CONTROL_TOKEN"}


@dataclass(frozen=True)
class _Text:
    """The text of an option, and where it was given."""

    text: str
    source: str

    def wrong(self, reason: str) -> pytest.UsageError:
        return pytest.UsageError(f"{self.source}: {reason}")


@dataclass(frozen=True)
class _Options:
    """`run` has what every test's world is made with and no marker says otherwise, by the names of `Emulator`."""

    run: Mapping[str, Any]
    url: str | None
    url_source: str
    control_token: str | None
    # The seed of the command line alone, which a marked test then runs under; the ini file's is for all tests.
    only_seed: int | None
    without: tuple[str, ...]

    @property
    def is_strict(self) -> bool:
        return bool(self.run["strict"])


@dataclass(frozen=True)
class _Seeds:
    """What the marker `emulator_seeds` asks for."""

    seeds: Sequence[int]
    chaos: float


@dataclass
class _SeededRun:
    """One run of a marked test, and the disturbances that it met if it failed."""

    seed: int
    chaos: float
    without: tuple[str, ...]
    met: Mapping[str, str]


class SvcEmulatorWarning(pytest.PytestWarning):
    """The plugin is off."""


_OPTIONS = pytest.StashKey[_Options]()
_MARKED = pytest.StashKey[Mapping[str, Any]]()
_OFF = pytest.StashKey[str]()
_WORLD = pytest.StashKey["Emulator"]()
_SEEDS = pytest.StashKey[_Seeds]()
_RUN = pytest.StashKey[_SeededRun]()


# -- options ----------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("svc-emulator", "svc-emulator (each option is also an ini option: emulator_seed ...)")
    for name, text in _HELP.items():
        group.addoption(f"--emulator-{name}", metavar=name.upper().replace("-", "_"), help=text)
        parser.addini(_ini_name(name), text)
    group.addoption("--emulator-strict", action="store_true", help=_STRICT)
    parser.addini("emulator_strict", _STRICT, type="bool")


def pytest_configure(config: pytest.Config) -> None:
    """Read the options, so that one that cannot be used is refused before any test runs."""
    for line in (
        "emulator(seed=..., epoch=..., plan=..., external=..., chaos=..., ...): the arguments of `Emulator` for this "
        "test's world; they win over the options",
        "emulator_seeds(seeds, chaos=0.2): run the test under many seeds, a number of them or the seeds themselves, "
        "each time in a fresh world with chaos",
    ):
        config.addinivalue_line("markers", line)
    reason = _why_off()
    if reason is not None:
        config.stash[_OFF] = reason
        # Under pytest-xdist the workers' warnings are shown as well.
        if not hasattr(config, "workerinput"):
            _warn(config, reason)
        return
    _import_as_compiled(config)
    url, control_token = _option(config, "url"), _option(config, "control-token")
    only_seed = config.getoption("emulator_seed")
    config.stash[_OPTIONS] = _Options(
        run=_read_run(config, None if url is None else url.text),
        url=None if url is None else _read_url(url),
        url_source="" if url is None else url.source,
        control_token=None if control_token is None else control_token.text,
        only_seed=_read_seed(_Text(only_seed, "--emulator-seed")) if only_seed else None,
        without=_read_without(config),
    )


def _import_as_compiled(config: pytest.Config) -> None:
    """Keep pytest from rewriting the assertions of the emulator.

    It marks all modules of a distribution that has a plugin, and has no public way to take one out. A rewritten import
    costs each run a tenth of a second of CPU, and the first run of an environment a second.
    """
    with suppress(AttributeError):
        hook = config.pluginmanager.rewrite_hook
        hook._must_rewrite.discard("emulator")  # type: ignore[attr-defined]  # not public
        hook._marked_for_rewrite_cache.clear()  # type: ignore[attr-defined]  # not public


def _read_run(config: pytest.Config, url: str | None) -> Mapping[str, Any]:
    """What the tests' worlds are made with, by the names of `Emulator`; what nobody gave is not there."""
    seed, epoch, port = _option(config, "seed"), _option(config, "epoch"), _option(config, "port")
    run: dict[str, Any] = {
        "seed": DEFAULT_SEED if seed is None else _read_seed(seed),
        "epoch": DEFAULT_EPOCH_MS if epoch is None else _read_epoch_ms(epoch),
        "strict": _read_strict(config),
    }
    for name in (
        "dialect",
        "external",
        "plan",
        "fixtures",
        "chaos",
        "settle",
        "token",
        "keep-history",
        "handler-errors",
    ):
        given = _option(config, name)
        if given is not None:
            run[name.replace("-", "_")] = given.text
            _check(name.replace("-", "_"), given)
    if "fixtures" in run:
        run["fixtures"] = _read_path(config, "fixtures", run["fixtures"])
    if port is not None:
        run["port"] = _read_port(config, port)
    if url is not None and "token" in run and (workers := _worker(config)[1]) > 1:
        raise pytest.UsageError(
            f"emulator_token: {workers} workers of pytest-xdist cannot all have a world with this token at {url}; "
            "without --emulator-url each has a server of its own"
        )
    return run


def pytest_report_header(config: pytest.Config) -> str | None:
    options = config.stash.get(_OPTIONS, None)
    return None if options is None or options.url is None else f"svc-emulator: {options.url}"


def _why_off() -> str | None:
    """Why the plugin is off: `import emulator` finds, or found, another module than ours."""
    try:
        spec = importlib.util.find_spec("emulator")
    except ValueError:  # A module without a spec was put in its place.
        spec = None
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    if any(Path(place, "pytest_plugin.py").is_file() for place in places):
        return None
    found = getattr(sys.modules.get("emulator"), "__file__", None) if spec is None else spec.origin
    where = found or next(iter(places), "a module without a file")
    return f"the pytest plugin of svc-emulator is off, because `import emulator` means another module here: {where}"


def _warn(config: pytest.Config, text: str) -> None:
    """Put a warning into the summary. Not by `warnings`: a project whose warnings are errors must still run."""
    message = warnings.WarningMessage(SvcEmulatorWarning(f"{text} (-p no:svc-emulator)"), SvcEmulatorWarning, "", 0)
    config.hook.pytest_warning_recorded.call_historic(
        kwargs={"warning_message": message, "nodeid": "", "when": "config", "location": None}
    )


def _ini_name(name: str) -> str:
    return f"emulator_{name.replace('-', '_')}"


def _option(config: pytest.Config, name: str) -> _Text | None:
    """The flag, the variable or the ini option, the first that is there and not empty."""
    flag: str | None = config.getoption(_ini_name(name))
    if flag:
        return _Text(flag, f"--emulator-{name}")
    variable = _VARIABLES.get(name, "")
    if os.environ.get(variable):
        return _Text(os.environ[variable], f"the environment variable {variable}")
    ini: str | None = config.getini(_ini_name(name))
    return _Text(ini, f"{_ini_name(name)} in {_ini_file(config)}") if ini else None


def _ini_file(config: pytest.Config) -> str:
    return "the ini file" if config.inipath is None else config.inipath.name


def _read_path(config: pytest.Config, name: str, text: str) -> str:
    """A path of the command line is relative to where that was typed, one of the ini file to that file."""
    is_flag = bool(config.getoption(_ini_name(name)))
    base = config.invocation_params.dir if is_flag or config.inipath is None else config.inipath.parent
    return str(base / text)


def _check(name: str, given: _Text) -> None:
    """Refuse a value that no server takes."""
    if name == "handler_errors" and given.text not in ("raise", "report"):
        raise given.wrong(f"expected raise or report, got {given.text!r}")
    if name not in ("external", "plan", "chaos", "settle", "token", "keep_history"):
        return
    from emulator.core.errors import Malformed
    from emulator.core.world_setup import parse_token
    from emulator.server.settings import Settings, SettingsError

    try:
        if name == "token":
            parse_token(given.text)
        else:
            Settings(**{name: given.text})  # type: ignore[arg-type]  # these are texts
    except SettingsError as error:
        raise given.wrong(str(error).removeprefix(f"{name}: ")) from None
    except Malformed as malformed:
        raise given.wrong(f"{malformed.reason}, got {given.text!r}") from None


def _worker(config: pytest.Config) -> tuple[int, int]:
    """Which worker of pytest-xdist this is, and how many there are; 0 of 1 without it."""
    worker: Mapping[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None:
        return int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    return 0, max(1, len(config.getoption("tx", None) or ()))


def _read_port(config: pytest.Config, given: _Text) -> int:
    """The port of this worker's server."""
    # D-492.
    found = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", given.text.strip())
    first = int(found[1]) if found else 0
    last = int(found[2] or first) if found else 0
    if not 0 < first <= last <= 65_535:
        raise given.wrong(f"expected a port, or a range such as 8917-8924 for pytest-xdist, got {given.text!r}")
    worker, workers = _worker(config)
    if last - first + 1 < workers:
        raise given.wrong(
            f"{workers} workers of pytest-xdist need a port each, got {given.text}: expected a range such as "
            f"{first}-{first + workers - 1}, in which worker gwN has the N-th, or -n 0"
        )
    return first + worker


def _read_seed(given: _Text) -> int:
    try:
        return int(given.text)
    except ValueError:
        raise given.wrong(f"expected an integer, got {given.text!r}") from None


def _read_url(given: _Text) -> str:
    if not re.match(r"https?://[^/]", given.text, re.IGNORECASE):
        raise given.wrong(f"expected an address such as http://127.0.0.1:8080, got {given.text!r}")
    return given.text


def _read_strict(config: pytest.Config) -> bool:
    try:
        return bool(config.getoption("emulator_strict") or config.getini("emulator_strict"))
    except (ValueError, pytest.UsageError) as error:
        # Which of the two depends on the version of pytest.
        raise pytest.UsageError(f"emulator_strict: expected true or false: {error}") from None


def _read_without(config: pytest.Config) -> tuple[str, ...]:
    given = _option(config, "without")
    if given is None:
        return ()
    marks = tuple(each.strip() for each in given.text.split(",") if each.strip())
    for mark in marks:
        if not re.fullmatch(r"[1-9][0-9]*\.[1-9][0-9]*", mark):
            raise given.wrong(f"expected attempts such as 3.1,4.1, got {mark!r}")
    return marks


def _read_epoch_ms(given: _Text) -> int:
    from emulator.core.errors import Malformed
    from emulator.wire.times import EARLIEST_VIRTUAL_MS, read_epoch_ms, read_instant_ms

    text = given.text
    try:
        epoch_ms = read_epoch_ms(int(text)) if re.fullmatch(r"-?[0-9]{1,15}", text) else read_instant_ms(text)
    except Malformed as malformed:
        raise given.wrong(malformed.reason) from None
    if epoch_ms < EARLIEST_VIRTUAL_MS:
        raise given.wrong("expected an instant after 1970-01-01T00:00:00Z")
    return epoch_ms


# -- fixtures ---------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def emulator_server(pytestconfig: pytest.Config) -> Iterator[Emulator]:
    """The emulator of the whole run: one started for it, or the one at --emulator-url.

    As an `emulator.Emulator` it stands for the server's `default` world. Under pytest-xdist every
    worker starts one of its own.
    """
    # Asked again: the folder of a test module may have come before ours meanwhile.
    off = pytestconfig.stash.get(_OFF, None) or _why_off()
    if off is not None:
        pytest.fail(off, pytrace=False)
    from emulator import Emulator

    options = pytestconfig.stash[_OPTIONS]
    if options.url is None:
        server = Emulator(**{name: value for name, value in options.run.items() if name != "token"})
    else:
        server = Emulator.connect(options.url, control_token=options.control_token)
    reason = _reason_not_to_start(server, options)
    if reason is not None:
        pytest.fail(f"svc-emulator: {reason}", pytrace=False)
    try:
        yield server
    finally:
        # Not by its `with` block: what no world's client sent fails no test.
        server.close()


@pytest.fixture
def emulator(request: pytest.FixtureRequest, emulator_server: Emulator) -> Iterator[Emulator]:
    """A fresh world with a frozen clock, deleted after the test.

    It begins at --emulator-epoch and is seeded by --emulator-seed. The marker `emulator` says otherwise
    for one test. Its ids and tokens are the same whenever the test runs, unless it runs on a server at
    --emulator-url. If the test fails, its report shows the timeline of the world.
    """
    options, node = request.config.stash[_OPTIONS], request.node
    from emulator.client.worlds_of_tests import world_of_test

    id = world_id(node.nodeid, shared=options.url is not None)
    # Every call of the test carries it, and a load balancer before several servers can tell them by it (D-432).
    token = None if options.url is None else secrets.token_urlsafe(24)
    marked: dict[str, Any] = {**node.stash.get(_MARKED, {})}
    if (run := node.stash.get(_RUN, None)) is not None:
        marked |= {"seed": run.seed, "chaos": {"level": run.chaos, "except": list(run.without)}}
    is_fixed = options.url is not None or "port" in options.run
    try:
        made = world_of_test(emulator_server, {"token": token, **options.run}, marked, id=id, is_fixed=is_fixed)
    except ValueError as error:
        pytest.fail(f"emulator: {error}", pytrace=False)
    with made as world:
        node.stash[_WORLD] = world
        yield world
        del node.stash[_WORLD]


@pytest.fixture
def async_emulator(emulator: Emulator) -> AsyncEmulator:
    """The world of `emulator` with awaits, for tests on asyncio or trio under any plugin."""
    from emulator import AsyncEmulator

    return AsyncEmulator.sharing(emulator)


@pytest.fixture
def emulator_time(emulator: Emulator) -> Iterator[None]:
    """`datetime.now()` and `time.time()` of the test, and of the applications that it mounts, are the virtual time.

    It needs the extra `svc-emulator[time]`; see `Emulator.follow_time`.
    """
    with emulator.follow_time():
        yield


def world_id(test: str, *, shared: bool) -> str:
    """An id for the world of a test, given the test's own.

    On a server of this run alone it is a function of the test, and with it all ids and tokens of
    the world. On a shared server the same test may run elsewhere at the same moment, so
    there the id ends at random.
    """
    # D-251.
    ends = [hashlib.blake2b(test.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()]
    if shared:
        # Not from `random`, which some plugins seed again for every test.
        ends.append(secrets.token_hex(4))
    end = "".join(f"-{each}" for each in ends)
    # The end of a test's id is the most specific; a world's id begins with a letter or a digit.
    name = re.sub(r"[^A-Za-z0-9._]+", "-", test)[-(_MAX_ID - len(end)) :].strip("-._")
    return f"{name or 'test'}{end}"


def _reason_not_to_start(server: Emulator, options: _Options) -> str | None:
    """Start the server or connect to it; if that cannot be, why not."""
    from emulator import EmulatorError, Refused

    try:
        server.start()
    except EmulatorError as error:
        if isinstance(error, Refused) and error.status == HTTPStatus.UNAUTHORIZED:
            does = "needs its control token" if options.control_token is None else "has another control token"
            return f"{options.url} {does} (--emulator-control-token)"
        # Whoever set a variable in a shell long ago does not think of it.
        return str(error) if options.url is None else f"{error} ({options.url_source})"
    if options.url is not None and "dialect" in options.run:
        # A mismatch would fail every test without a reason.
        spoken, name = server.dialect.name, Path(options.run["dialect"]).stem
        if spoken != name:
            server.close()
            return f"{options.url} speaks the dialect {spoken}, not {name}"
    if options.url is not None:
        from emulator.client.worlds_of_tests import only_of_a_server

        for name in only_of_a_server(options.run):
            if name not in ("strict", "dialect"):
                server.close()
                return f"emulator_{name}: {options.url} runs already; start it with --{name.replace('_', '-')} instead"
    if options.is_strict and not _is_strict(server):
        server.close()
        return f"{options.url} is not strict, as emulator_strict wants it (serve --strict)"
    return None


def _is_strict(server: Emulator) -> bool:
    session = server.session
    answer = session.server.background.submit(session.control("GET", "mismatches")).result(_TIMEOUT_S)
    return bool(answer["strict"])


# -- many seeds -------------------------------------------------------------------------------


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Read the markers, so that one that cannot be used is refused before any test runs."""
    for item in items:
        if item.get_closest_marker("emulator") is not None and _OPTIONS in item.config.stash:
            item.stash[_MARKED] = _read_arguments(item)
        marker = item.get_closest_marker("emulator_seeds")
        if marker is not None:
            item.stash[_SEEDS] = _read_marker(item, marker)


def _read_arguments(item: pytest.Item) -> Mapping[str, Any]:
    """The arguments of the marker `emulator`; of several, the closest to the test wins for each."""
    from emulator.client.worlds_of_tests import check_arguments

    marked: dict[str, Any] = {}
    for marker in item.iter_markers("emulator"):
        try:
            if marker.args:
                raise TypeError(f"expected keywords, such as epoch='2026-03-28T00:00:00Z', got {marker.args[0]!r}")
            check_arguments(marker.kwargs)
        except (TypeError, ValueError) as error:
            raise pytest.UsageError(f"{item.nodeid}: emulator: {error}") from None
        marked = {**marker.kwargs, **marked}
    is_its_own = any(marker.name == "emulator" for marker in item.own_markers)
    if is_its_own and "emulator" not in getattr(item, "fixturenames", ()) and not _may_ask_for_fixtures(item):
        raise pytest.UsageError(
            f"{item.nodeid}: emulator: the test uses no fixture `emulator`, whose world it is about"
        )
    return marked


def _may_ask_for_fixtures(item: pytest.Item) -> bool:
    """Whether the test, or a fixture of the project, takes `request`, by which it can get any fixture.

    Those of other plugins that are used in every test (Faker has one) do not count.
    """
    info = getattr(item, "_fixtureinfo", None)
    if info is None or "request" in info.argnames:
        return True
    fixtures = [fixture for found in info.name2fixturedefs.values() for fixture in found]
    codes = [getattr(fixture.func, "__code__", None) for fixture in fixtures if "request" in fixture.argnames]
    return any(code is None or not _INSTALLED & set(Path(code.co_filename).parts) for code in codes)


# Folders of what is installed.
_INSTALLED = {"site-packages", "dist-packages"}


def _read_marker(item: pytest.Item, marker: pytest.Mark) -> _Seeds:
    def read(seeds: object, chaos: object = 0.2) -> _Seeds:
        found = range(seeds) if isinstance(seeds, int) else seeds
        if not isinstance(found, Iterable) or isinstance(found, str) or not (listed := list(found)):
            raise TypeError(f"expected a number of seeds, or the seeds, got {seeds!r}")
        if not all(isinstance(each, int) for each in listed):
            raise TypeError(f"expected whole numbers, got {seeds!r}")
        if not isinstance(chaos, int | float) or not 0 <= chaos <= 1:
            raise TypeError(f"chaos: expected a number from 0 to 1, got {chaos!r}")
        if "emulator" not in getattr(item, "fixturenames", ()):
            raise TypeError("the test uses no fixture `emulator`, whose world would have the seed")
        return _Seeds(seeds=listed, chaos=float(chaos))

    try:
        if not marker.args and "seeds" not in marker.kwargs:
            raise TypeError("expected how many seeds, or the seeds, such as emulator_seeds(100)")
        return read(*marker.args, **marker.kwargs)
    except TypeError as error:
        raise pytest.UsageError(f"{item.nodeid}: emulator_seeds: {error}") from None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a marked test under its seeds until it fails; it is one test, and has the reports of its last run."""
    wanted, options = item.stash.get(_SEEDS, None), item.config.stash.get(_OPTIONS, None)
    if wanted is None or options is None:
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports: list[pytest.TestReport] = []
    for seed in wanted.seeds if options.only_seed is None else [options.only_seed]:
        run = _SeededRun(seed=seed, chaos=wanted.chaos, without=options.without, met={})
        reports = _run_seeded(item, run)
        if not all(each.passed for each in reports):
            break
    if any(each.failed for each in reports):
        may_shrink = options.only_seed is None and not item.config.getoption("usepdb")
        reports = _shrunk(item, run, reports) if may_shrink else reports
    del item.stash[_RUN]
    # Each run has kept what the test shares with its module; what the next test does not need ends now.
    ending = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown")
    if ending.excinfo is not None:
        reports.append(hook.pytest_runtest_makereport(item=item, call=ending))
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _run_seeded(item: pytest.Item, run: _SeededRun) -> list[pytest.TestReport]:
    """One run of the test from its setup to its teardown, with function fixtures of its own."""
    from _pytest.runner import runtestprotocol

    item.stash[_RUN] = run
    # What earlier runs printed.
    item._report_sections.clear()
    # What the test shares with its neighbours is kept: the next test, as far as that goes, is the parent.
    return runtestprotocol(item, log=False, nextitem=item.parent)  # type: ignore[arg-type]


def _shrunk(item: pytest.Item, first: _SeededRun, reports: list[pytest.TestReport]) -> list[pytest.TestReport]:
    """The reports of the smallest run that fails in the same phase, with what remains of the disturbances."""
    from emulator.client.worlds_of_tests import fewest, report

    smallest, phase = reports, next(each.when for each in reports if each.failed)

    def again(spared: Sequence[str]) -> Mapping[str, str] | None:
        nonlocal smallest
        run = _SeededRun(seed=first.seed, chaos=first.chaos, without=(*first.without, *spared), met={})
        found = _run_seeded(item, run)
        if not any(each.failed and each.when == phase for each in found):
            return None
        smallest = found
        return run.met

    spared, remaining = fewest(first.met, again)
    line = f"pytest {shlex.quote(item.nodeid)} --emulator-seed {first.seed}"
    if marks := (*first.without, *spared):
        line += f" --emulator-without {','.join(marks)}"
    failed = next(each for each in smallest if each.failed)
    failed.sections.append((SEEDS_TITLE, report(first.seed, first.met, remaining, line)))
    return smallest


def _disturbances(world: Emulator) -> Mapping[str, str]:
    """What the test met, as far as its emulator can still tell: a report is made in any case."""
    from emulator import EmulatorError
    from emulator.client.worlds_of_tests import disturbances_of

    try:
        return disturbances_of(world, _TIMEOUT_S)
    except (EmulatorError, TimeoutError):
        return {}


# -- reports ----------------------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Result[None], None]:
    """Fail a test that has passed though mounted code has raised or the contract does not know what its
    client sent, with emulator_strict.
    """
    # D-337, D-470.
    result = yield
    world, options = item.stash.get(_WORLD, None), item.config.stash.get(_OPTIONS, None)
    if world is None or options is None:
        return
    raised = None if result.excinfo is None else result.excinfo[1]
    if raised is None or isinstance(raised, pytest.skip.Exception):
        errors = _errors_of(world)
        if errors is not None and (due := errors.due_at_end()) is not None:
            result.force_exception(due)
            return
    if raised is not None or not _is_strict_test(item, options):
        return
    from emulator.client.verify.timeline import mismatches_of

    session = world.session
    text = session.server.background.submit(mismatches_of(session, forget=True)).result(_TIMEOUT_S)
    if text is not None:
        result.force_exception(pytest.fail.Exception(text, pytrace=False))


def _errors_of(world: Emulator) -> HandlerErrors | None:
    """What mounted code has raised in a world, None if the test has closed it, which raised it."""
    from emulator import EmulatorError

    try:
        return world.session.errors
    except EmulatorError:
        return None


def _is_strict_test(item: pytest.Item, options: _Options) -> bool:
    return bool(item.stash.get(_MARKED, {}).get("strict", options.is_strict))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Result[pytest.TestReport], None]:
    """Add the timeline to the report of a failed test, or of a fixture that failed beside the world."""
    result = yield
    world = item.stash.get(_WORLD, None)
    if world is not None and (report := result.get_result()).failed:
        if (run := item.stash.get(_RUN, None)) is not None:
            run.met = _disturbances(world)
        text = timeline(world)
        errors = _errors_of(world)
        if errors is not None and (listing := errors.report()) is not None:
            report.sections.append((HANDLERS_TITLE, listing))
        if text.partition("\n")[0] in report.longreprtext:
            # A failed `verify` shows the tables already, but not all ids.
            text = "".join(("It is shown above.", *text.partition(f"\n\n{IDS}\n")[1:]))
        report.sections.append((TITLE, text))


def timeline(world: Emulator, timeout_s: float = _TIMEOUT_S) -> str:
    """The timeline, or why there is none: a report is made in any case."""
    try:
        from emulator.client.verify.timeline import timeline_of

        session = world.session
        text = session.server.background.submit(timeline_of(session))
        try:
            return text.result(timeout_s)
        finally:
            text.cancel()
    except TimeoutError:
        return f"The emulator did not tell it within {timeout_s:g} s."
    except Exception as error:  # An edge: the test's own failure must be reported, whatever is wrong here.
        return f"It is not known: {str(error) or type(error).__name__}"
