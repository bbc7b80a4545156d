"""The settings: defaults, bounds, and what an `emulator.toml` may say."""

from __future__ import annotations

import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from emulator.core.world_setup import Keep
from emulator.server.settings import Settings, SettingsError, check_variables, read_file
from emulator.wire.dialect import DialectError, load


def test_defaults_listen_on_this_machine_in_real_time_and_keep_nothing() -> None:
    settings = Settings()

    assert (settings.host, settings.port, settings.db, settings.rate) == ("127.0.0.1", 8080, ":memory:", 1.0)


@pytest.mark.parametrize("entry", fields(Settings), ids=lambda entry: entry.name)
def test_every_setting_says_what_it_is(entry: Any) -> None:
    assert entry.metadata["help"].endswith(".")


@pytest.mark.parametrize(
    ("clock", "rate"),
    [("realtime", 1.0), ("frozen", 0.0), ("60", 60.0), ("0", 0.0), ("0.5", 0.5), ("1000000", 1_000_000.0)],
)
def test_clock_is_a_rate(clock: str, rate: float) -> None:
    assert Settings(clock=clock).rate == rate


@pytest.mark.parametrize(
    ("values", "text"),
    [
        pytest.param({"clock": "slow"}, "clock: expected 'realtime', 'frozen' or a rate", id="clock-word"),
        pytest.param({"clock": "-1"}, "clock: expected", id="clock-backwards"),
        pytest.param({"clock": "nan"}, "clock: expected", id="clock-nan"),
        pytest.param({"clock": "inf"}, "clock: expected", id="clock-inf"),
        pytest.param({"port": 65_536}, "port: expected a number from 0 to 65535, got 65536", id="port"),
        pytest.param({"port": -1}, "port: expected", id="port-negative"),
        pytest.param({"concurrency": 10_001}, "concurrency: expected a number from 0 to 10000", id="concurrency"),
        pytest.param({"max_attempts_per_instant": 0}, "max_attempts_per_instant: expected", id="instant"),
        pytest.param({"seed": 2**53}, "seed: expected a number from", id="seed"),
        pytest.param({"plan": "gold"}, "plan: expected one of free, paid, got 'gold'", id="plan"),
        pytest.param({"plan": 1}, "plan: expected one of free, paid, got 1", id="plan-number"),
        pytest.param({"server": "apache"}, "server: expected one of uvicorn, hypercorn", id="server"),
        pytest.param({"external": "maybe"}, "external: expected one of capture, fail, allow", id="external"),
        pytest.param({"allow_host": ("http://x",)}, "allow_host: expected a host name or an address", id="allow-host"),
        pytest.param({"allow_host": ("a.test", "b:80")}, "allow_host: expected a host name", id="allow-host-port"),
        pytest.param(
            {"allow_control_host": ("*.test",)}, "allow_control_host: expected a host name", id="control-host"
        ),
        pytest.param({"log_format": "xml"}, "log_format: expected one of text, json", id="log-format"),
        pytest.param(
            {"allow_origin": ("console.example",)},
            "allow_origin: expected the origin of a page, such as https://example.com, got 'console.example'",
            id="origin-without-scheme",
        ),
        pytest.param({"allow_origin": ("https://x.example/page",)}, "allow_origin: expected", id="origin-with-path"),
        pytest.param({"allow_origin": ("*",)}, "allow_origin: expected", id="origin-star"),
        pytest.param({"allow_origin": ("https://*.example",)}, "allow_origin: expected", id="origin-pattern"),
        pytest.param({"allow_origin": ("null",)}, "allow_origin: expected", id="origin-null"),
        pytest.param({"public_host": ("https://x.example",)}, "public_host: expected a host name", id="public-host"),
        pytest.param({"public_host": ("*.example",)}, "public_host: expected a host name", id="public-host-pattern"),
        pytest.param({"allow_control_host": ("a:80",)}, "allow_control_host: expected a host", id="control-host"),
        pytest.param({"trust_proxy": ("proxy",)}, "trust_proxy: expected an IP address or network", id="proxy"),
        pytest.param({"db": ""}, "db: expected a value such as :memory:, got an empty text", id="db-empty"),
        pytest.param({"db": "a\0b"}, "db: expected a text without NUL characters, got 'a\\x00b'", id="db-nul"),
        pytest.param({"fixtures": "\0"}, "fixtures: expected a text without NUL characters, got '\\x00'", id="nul"),
        pytest.param({"dialect": ""}, "dialect: expected a value such as svc, got an empty text", id="dialect-empty"),
        pytest.param(
            {"settle": "soon"}, "settle: expected a time such as 30s, an hour at most, got 'soon'", id="settle"
        ),
        pytest.param(
            {"settle": "60"},
            "settle: expected a time such as 30s, an hour at most, got '60'; did you mean 60s?",
            id="settle-number",
        ),
        pytest.param({"settle": "0s"}, "settle: expected a time such as 30s", id="settle-nothing"),
        pytest.param({"settle": "2h"}, "settle: expected a time such as 30s, an hour at most", id="settle-hours"),
        pytest.param({"log_level": "loud"}, "log_level: expected one of debug, info", id="log-level"),
    ],
)
def test_refuses_a_value_out_of_bounds_by_name(values: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(**values)

    assert str(caught.value).startswith(text)


def test_the_control_token_may_stand_in_a_file(tmp_path: Path) -> None:
    """D-150."""
    path = tmp_path / "token"
    path.write_text("s3cret\n", "utf-8")

    assert Settings(control_token_file=str(path)).read_control_token() == "s3cret"
    assert Settings(control_token="other").read_control_token() == "other"
    assert Settings().read_control_token() == ""


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xff", b"a\x1bb", b"x" * 20_000])
def test_a_file_without_a_control_token_is_refused(content: bytes, tmp_path: Path) -> None:
    """An empty one would leave the control API open."""
    path = tmp_path / "token"
    path.write_bytes(content)

    with pytest.raises(SettingsError, match="control_token_file: "):
        Settings(control_token_file=str(path)).read_control_token()
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings(control_token_file=str(tmp_path / "nowhere")).read_control_token()
    with pytest.raises(SettingsError, match="expected no control_token beside it"):
        Settings(control_token="x", control_token_file=str(path)).read_control_token()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://x", "(did you mean x?)"),
        ("https://api.example.com/v1?a=b", "(did you mean api.example.com?)"),
        ("api.example.com:443", "(did you mean api.example.com?)"),
        ("http://[::1]:80", "(did you mean ::1?)"),
        ("api example com", "got 'api example com'"),
    ],
)
def test_a_host_that_is_more_than_one_is_refused_with_the_host_that_was_meant(given: str, meant: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(allow_host=(given,))

    assert str(caught.value).endswith(meant)


@pytest.mark.parametrize("host", ["x", "api.example.com", "*.example.com", "10.0.0.1", "::1", "[::1]", "Ü.test"])
def test_a_host_may_be_a_name_or_an_address(host: str) -> None:
    assert Settings(allow_host=(host,)).allow_host == (host,)


# -- emulator.toml ----------------------------------------------------------------------------


def written(folder: Path, content: str) -> Path:
    path = folder / "emulator.toml"
    path.write_text(content, "utf-8")
    return path


def test_file_gives_each_setting_in_its_own_type(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        port = 9000
        clock = 60
        epoch = 2026-01-01T00:00:00Z
        seed = -7
        allow-host = ["api.example.com", "hooks.example.com"]
        log_level = "debug"
        """,
    )

    assert read_file(path) == {
        "port": 9000,
        "clock": "60",
        "epoch": "2026-01-01T00:00:00+00:00",
        "seed": -7,
        "allow_host": ("api.example.com", "hooks.example.com"),
        "log_level": "debug",
    }


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(
            "port = 1\n\n[colour]\na = 1", "3: colour: no such setting; there are host, port, ", id="unknown-table"
        ),
        pytest.param("prot = 1", "1: prot: no such setting (did you mean port?)", id="unknown-key"),
        pytest.param('port = "9000"', "port: expected a whole number, got '9000'", id="text-for-a-number"),
        pytest.param("port = true", "port: expected a whole number, got true", id="boolean-for-a-number"),
        pytest.param("strict = 1", "strict: expected true or false, got 1", id="number-for-a-boolean"),
        pytest.param("port = 70000", "port: expected a number from 0 to 65535, got 70000", id="out-of-bounds"),
        pytest.param("host = ['a']", "host: expected a text, got ['a']", id="list-for-a-text"),
        pytest.param('allow-host = "a"', "allow-host: expected a list of texts, got 'a'", id="text-for-a-list"),
        pytest.param("allow_host = [1]", "allow_host: expected a list of texts, got [1]", id="numbers-in-a-list"),
        pytest.param('clock = "slow"', "clock: expected 'realtime', 'frozen' or a rate", id="clock"),
        pytest.param('plan = "gold"', "plan: expected one of free, paid", id="choice"),
        pytest.param("port = x", "Invalid value (at line 1, column 8)", id="syntax"),
    ],
)
def test_refuses_a_file_by_name_and_key(tmp_path: Path, content: str, text: str) -> None:
    path = written(tmp_path, content)

    with pytest.raises(SettingsError) as caught:
        read_file(path)

    # A key that does not exist is named with its line.
    assert str(caught.value).startswith(f"{path}:{text}" if text[0].isdigit() else f"{path}: {text}")


def test_a_toml_file_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    """D-792: dotted keys take time that grows with the square of their number."""
    file = tmp_path / "emulator.toml"
    file.write_text("a" + ".a" * 500_000 + " = 1", "utf-8")
    with pytest.raises(SettingsError, match=r"emulator.toml: larger than 64 KiB"):
        read_file(file)
    with pytest.raises(DialectError, match=r"emulator.toml: is not a TOML file: larger than 64 KiB"):
        load(str(file))
    file.write_text("port = 1\na" + ".a" * 32_000 + " = 1", "utf-8")
    with pytest.raises(SettingsError, match=r"emulator.toml: line 2 is longer than 8 KiB"):
        read_file(file)
    file.write_text(("a" + ".a" * 4_000 + " = 1\n") * 8, "utf-8")
    started_s = time.process_time()
    with pytest.raises(SettingsError, match=r"emulator.toml: "):
        read_file(file)
    assert time.process_time() - started_s < 2


def test_refuses_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    path = tmp_path / "emulator.toml"
    with pytest.raises(SettingsError, match=r"emulator\.toml: cannot be read: No such file"):
        read_file(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is not a UTF-8 text file"):
        read_file(path)


@pytest.mark.parametrize(
    ("text", "db", "kept"),
    [
        ("", ":memory:", (200_000, None)),
        ("", "state.db", (None, None)),
        ("all", ":memory:", (None, None)),
        ("5000", "state.db", (5000, None)),
        ("30d", ":memory:", (None, 30 * 86_400_000)),
        ("5000, 1h", ":memory:", (5000, 3_600_000)),
    ],
)
def test_history_is_kept_by_number_and_by_age(text: str, db: str, kept: tuple[int | None, int | None]) -> None:
    """D-281."""
    entries, age_ms = kept
    assert Settings(keep_history=text, db=db).kept == Keep(entries=entries, age_ms=age_ms)


@pytest.mark.parametrize("text", ["some", "0", "-1", "1x", ",", "1,2", "1d,2d", "1,", "0d", "1,2,3d"])
def test_history_cannot_be_kept_by_anything_else(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^keep_history: "):
        Settings(keep_history=text)


# -- variables --------------------------------------------------------------------------------


def test_a_variable_that_nothing_reads_is_refused() -> None:
    """D-341."""
    with pytest.raises(SettingsError, match=r"^EMULATOR_PROT: no such setting \(did you mean EMULATOR_PORT\?\)"):
        check_variables({"EMULATOR_PROT": "1"})


def test_variables_of_others_are_left_alone() -> None:
    """D-341."""
    names = ("PATH", "MY_EMULATOR_X", "EMULATOR_IMAGE", "EMULATOR_PORT_8080_TCP_ADDR", "EMULATOR_SERVICE_HOST")
    check_variables(dict.fromkeys((*names, "EMULATOR_PORT", "EMULATOR_URL", "EMULATOR_WORLD"), "x"))
