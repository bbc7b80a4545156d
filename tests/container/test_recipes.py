"""The recipes under examples/ci say what their systems understand, and what they say works.

No such system is here. Visibility are: each file fits the published schema of its kind, every variable is
a setting that the server takes, every name by which containers call each other is let in, and the
programs run, with loopback in the place of those names.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from emulator.delivery.egress import EgressPolicy, EgressVerdict, ExternalPolicy
from emulator.server.settings import PREFIX, Settings
from tests.container.engine import engine
from tests.harness.emulators import InProcess, asgi_call, server, with_emulator
from tests.harness.loops import PATIENCE_S
from tests.harness.processes import environment

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "examples" / "ci"
WORKFLOWS = ROOT / ".github" / "workflows"
YAML = sorted([*RECIPES.rglob("*.y*ml"), *WORKFLOWS.glob("*.yml")])

# A file or a folder of this project.
NAMED = re.compile(r"(?<![\w/])(?:\.ci|examples|tests)/[\w./-]*\w")
# The token of the published local-development user.
DEVELOPER = "eyJVc2VySUQiOiJkZWZhdWx0VXNlciIsIlBhc3N3b3JkIjoiZGVmYXVsdFBhc3N3b3JkIn0="
HOST = re.compile(r"https?://(?P<host>[a-z][a-z.-]*):(?P<port>\d+)")


@pytest.mark.slow
def test_every_file_fits_the_schema_of_its_kind() -> None:
    compose = [path for path in YAML if path.name.startswith("compose.")]
    gitlab = [path for path in YAML if path.name == "gitlab-ci.yml"]
    workflows = [path for path in YAML if path not in (*compose, *gitlab)]
    for schema, files in (
        (["vendor.compose-spec"], compose),
        (["vendor.gitlab-ci", "--data-transform", "gitlab-ci"], gitlab),
        (["vendor.github-workflows"], workflows),
    ):
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", *schema, *map(str, files)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.yml")), ids=lambda path: path.name)
def test_every_file_that_a_workflow_names_is_there(path: Path) -> None:
    found = NAMED.findall(path.read_text("utf-8"))
    assert found
    assert [name for name in found if not (ROOT / name).exists()] == []


def service_of(path: Path) -> dict[str, Any]:
    """What a recipe says of the emulator's container."""
    content = yaml.safe_load(path.read_text("utf-8"))
    match path.name:
        case "compose.yaml" | "compose.nextjs.yaml":
            service = content["services"]["emulator"]
            return {"variables": service["environment"], "ports": service["ports"]}
        case "gitlab-ci.yml":
            (service,) = content["test"]["services"]
            return {"variables": service["variables"], "ports": []}
        case _:
            service = content["jobs"]["test"]["services"]["emulator"]
            return {"variables": service["env"], "ports": service["ports"]}


@pytest.mark.parametrize("name", ["compose.yaml", "compose.nextjs.yaml", "github-actions-image.yml", "gitlab-ci.yml"])
def test_every_variable_is_a_setting_and_the_port_the_image_s(name: str) -> None:
    service = service_of(RECIPES / name)

    known = {f"{PREFIX}{entry.name.upper()}": entry.name for entry in fields(Settings)}
    Settings(**{known[variable]: value for variable, value in service["variables"].items()})
    assert all(str(port).endswith(":8080") for port in service["ports"])


@pytest.mark.slow
def test_the_steps_without_an_image_run_and_keep_the_timeline(tmp_path: Path) -> None:
    job = yaml.safe_load((RECIPES / "github-actions.yml").read_text("utf-8"))["jobs"]["test"]
    steps = [step["run"] for step in job["steps"] if step.get("run", "").startswith("svc-emulator")]
    kept = next(step["with"]["path"].split() for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    (tmp_path / "svc-emulator").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m emulator "$@"\n')
    (tmp_path / "svc-emulator").chmod(0o755)
    variables = {**job["env"], "EMULATOR_URL": f"http://localhost:{port}", "EMULATOR_PORT": port}
    serve, health, on_failure = steps
    refused = f'curl -s "$EMULATOR_URL/v2/publish/https://app.example.com" -H "Authorization: Bearer {DEVELOPER}"'
    script = "\n".join((serve, "trap 'kill $!' EXIT", health, refused, on_failure))
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=tmp_path,
        env=environment({**variables, "PATH": f"{tmp_path}:{os.environ['PATH']}"}),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S * 3,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [name for name in kept if name != "report.xml" and not (tmp_path / name).exists()] == []
    # What nobody answers for is a failure, in the log and in the timeline.
    for name in ("emulator.log", "timeline.txt"):
        assert "https://app.example.com" in (tmp_path / name).read_text(), name


def test_the_app_of_next_js_is_given_the_published_user() -> None:
    variables = yaml.safe_load((RECIPES / "compose.nextjs.yaml").read_text("utf-8"))["services"]["app"]["environment"]
    published = tomllib.loads((ROOT / "fixtures" / "dialects" / "upstash.toml").read_text())["credentials"]
    assert variables["QSTASH_TOKEN"] == published["token"] == DEVELOPER
    assert variables["QSTASH_CURRENT_SIGNING_KEY"] == published["current_signing_key"]
    assert variables["QSTASH_NEXT_SIGNING_KEY"] == published["next_signing_key"]


def names() -> set[str]:
    texts = [path.read_text("utf-8") for path in RECIPES.iterdir() if path.is_file()]
    return {found["host"] for text in texts for found in HOST.finditer(text)}


def test_every_name_in_a_recipe_is_one_that_is_really_called() -> None:
    policy = EgressPolicy(external=ExternalPolicy.FAIL, allow_hosts=())

    assert names() == {"app", "build", "emulator", "host.docker.internal", "localhost"}
    assert {policy.decide(f"http://{name}:3000/hook") for name in names()} == {EgressVerdict.NETWORK}


@with_emulator()
async def test_the_control_api_is_open_under_every_name_in_a_recipe(emulator: InProcess) -> None:
    for name in names():
        headers = [("Host", f"{name}:8080")]
        answer = await asgi_call(emulator.emulation.app, "GET", b"/_emulator/health", headers, b"", "172.17.0.3")
        assert answer.status == 200, name


@pytest.mark.slow
def test_the_app_of_the_compose_file_is_called_back() -> None:
    app = yaml.safe_load((RECIPES / "compose.yaml").read_text("utf-8"))["services"]["app"]
    assert app["volumes"] == ["./app.py:/app.py:ro"]
    assert set(app["environment"]) == {"EMULATOR_URL", "APP_URL"}
    assert urlsplit(app["environment"]["APP_URL"]).port == 3000
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with server(clock="realtime", epoch="") as running:
        local = {
            "EMULATOR_URL": running.url,
            "APP_URL": f"http://127.0.0.1:{port}",
            "PORT": str(port),
            "no_proxy": "127.0.0.1",
        }
        # Two threads print, and without a buffer a line and its end are written one after the other.
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        with subprocess.Popen(
            [sys.executable, str(RECIPES / "app.py")],
            env={**variables, **local},
            stdout=subprocess.PIPE,
            encoding="utf-8",
        ) as process:
            try:
                assert process.stdout is not None
                lines = sorted(process.stdout.readline() for _ in range(2))
            finally:
                process.kill()
    assert lines[0] == 'called back at /hook: {"user": 7}\n'
    assert lines[1].startswith("published msg_")


@pytest.mark.slow
def test_the_example_for_testcontainers_passes(tmp_path: Path) -> None:
    code = (RECIPES / "test_with_testcontainers.py").read_text("utf-8")
    assert "host.docker.internal" in code
    # There is no container here that would need a name for this machine.
    (tmp_path / "test_example.py").write_text(code.replace("host.docker.internal", "127.0.0.1"), "utf-8")
    with engine(tmp_path) as running:
        variables = {
            "DOCKER_HOST": running.url,
            "TESTCONTAINERS_RYUK_DISABLED": "true",
            "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
        }
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py"],
            cwd=tmp_path,
            env=environment(variables),
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S * 3,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
