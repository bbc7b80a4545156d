"""The class for Testcontainers, with the real library and a stand-in for the engine behind it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from testcontainers.core.config import ConnectionMode, testcontainers_config

from emulator import Unreachable
from emulator.testcontainers import EmulatorContainer
from tests.container.engine import IMAGE, Engine, engine

pytestmark = pytest.mark.slow


@pytest.fixture
def running_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    with engine(tmp_path) as running:
        monkeypatch.setenv("DOCKER_HOST", running.url)
        # The library would start a container of its own that cleans up after a killed test run.
        monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
        # Tests may run inside a container themselves, where it would look for another way to this one.
        monkeypatch.setattr(testcontainers_config, "connection_mode_override", ConnectionMode.docker_host)
        yield running


def test_container_is_handed_out_connected(running_engine: Engine) -> None:
    with EmulatorContainer(IMAGE, clock="frozen", epoch="2026-01-01T00:00:00Z") as container:
        assert container.variables["SVC_URL"] == container.url
        assert container.variables["SVC_TOKEN"] == container.token
        with container.connect() as emulator:
            emulator.publish("https://app.example.com/remind", headers={"Svc-Delay": "1d"})
            emulator.clock.advance("1d")
            assert [each.url for each in emulator.deliveries()] == ["https://app.example.com/remind"]
        assert not running_engine.is_removed
    assert running_engine.is_removed


def test_settings_become_variables_of_the_container(running_engine: Engine) -> None:
    with EmulatorContainer(
        IMAGE, dialect="upstash", seed=7, allow_host=["a.example.com", "b.example.com"], control_token="secret"
    ).with_env("EMULATOR_PLAN", "free") as container:
        assert set(running_engine.created["Env"]) == {
            "EMULATOR_DIALECT=upstash",
            "EMULATOR_SEED=7",
            "EMULATOR_ALLOW_HOST=a.example.com,b.example.com",
            "EMULATOR_CONTROL_TOKEN=secret",
            "EMULATOR_PLAN=free",
            # The engine's host, under which the control API is called.
            "EMULATOR_ALLOW_CONTROL_HOST=127.0.0.1",
        }
        # The token is used: without it nobody would be let in.
        assert container.variables["QSTASH_TOKEN"] == container.token


def test_port_is_published_and_the_host_has_a_name(running_engine: Engine) -> None:
    with EmulatorContainer(IMAGE):
        host = running_engine.created["HostConfig"]
        assert host["PortBindings"] == {"8080/tcp": [{"HostIp": "", "HostPort": ""}]}
        assert host["ExtraHosts"] == ["host.docker.internal:host-gateway"]


def test_nothing_is_left_of_a_container_whose_server_is_gone(running_engine: Engine) -> None:
    with EmulatorContainer(IMAGE) as container:
        url = container.url
        assert running_engine.process is not None
        running_engine.process.process.kill()
        running_engine.process.process.wait()
        with pytest.raises(Unreachable, match=url):
            assert container.token
    assert running_engine.is_removed


def test_without_the_extra_the_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is None there cannot be imported.
    for name in [name for name in sys.modules if name.partition(".")[0] == "testcontainers"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "emulator.testcontainers")

    with pytest.raises(ImportError, match=r"pip install 'svc-emulator\[testcontainers\]'"):
        importlib.import_module("emulator.testcontainers")
