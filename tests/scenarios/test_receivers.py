"""Receivers with the public clients, as their documentation writes them, checked from outside by the command."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fastapi import FastAPI, HTTPException, Request
from qstash import Receiver
from qstash.errors import SignatureError

from emulator.cli import main
from emulator.client.event_loops import Background
from emulator.client.server import served
from emulator.server import serving
from tests.examples.workplaces import Workplace, missing
from tests.harness.loops import PATIENCE_S

KEYS = {
    "QSTASH_CURRENT_SIGNING_KEY": "sig_current_key_of_a_receiver_12",
    "QSTASH_NEXT_SIGNING_KEY": "sig_next_key_of_a_receiver_12345",
}
SCRIPT = Path(__file__).with_name("receiver.mjs")

pytestmark = pytest.mark.slow


def check(url: str, *arguments: str) -> Any:
    """The report of the command, which judges effects by `/done`."""
    effect = f"{url.rpartition('/')[0]}/done"
    result = CliRunner().invoke(
        main,
        ["check", url, "--effect-url", effect, "--dialect", "upstash", "--callbacks", "--json", *arguments],
        env=KEYS,
    )
    report = json.loads(result.stdout)
    assert result.exit_code == (0 if report["passed"] else 1)
    return report


def verdicts(report: Mapping[str, Any]) -> dict[str, str]:
    """The checks that did not pass."""
    return {each["id"]: each["verdict"] for each in report["results"] if each["verdict"] != "passed"}


def python_receiver() -> FastAPI:
    """At /jobs it compares its URL, at /anywhere not."""
    app, done = FastAPI(), set[str]()
    receiver = Receiver(*KEYS.values())

    async def jobs(request: Request, url: str | None) -> int:
        body = await request.body()
        signature = request.headers.get("Upstash-Signature", "")
        try:
            receiver.verify(signature=signature, body=body.decode(), url=url)
        except (SignatureError, UnicodeDecodeError):
            raise HTTPException(401) from None
        try:
            json.loads(body or b"{}")
        except ValueError:
            raise HTTPException(400) from None
        done.add(request.headers["Upstash-Message-Id"])
        return len(done)

    @app.post("/jobs")
    async def strict(request: Request) -> int:
        return await jobs(request, str(request.url))

    @app.post("/anywhere")
    async def lenient(request: Request) -> int:
        return await jobs(request, None)

    @app.get("/done")
    async def count() -> int:
        return len(done)

    return app


@pytest.fixture(scope="module")
def fastapi() -> Iterator[str]:
    background, listener = Background("receiver"), serving.listen("127.0.0.1", 0)
    server = served(python_receiver(), listener)
    background.submit(server.__aenter__()).result(PATIENCE_S)
    try:
        yield serving.url_of(listener)
    finally:
        background.submit(server.__aexit__(None, None, None)).result(PATIENCE_S)
        background.close()


@pytest.fixture(scope="module")
def express(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = Workplace(tmp_path_factory.mktemp("receiver"), KEYS)
    shutil.copy(SCRIPT, place.folder)
    options = ("--no-package-lock", "--no-save", "--no-audit", "--no-fund")
    place.run("npm", "install", *options, "@upstash/qstash@^2.12", "express@^5.1", timeout_s=240)
    with place.running("node", SCRIPT.name) as program:
        yield program.line_with("listening on").rpartition(" ")[2]


@pytest.mark.parametrize(
    ("receiver", "profile"),
    [
        ("fastapi", "qstash-python"),
        pytest.param(
            "express", "qstash-npm", marks=pytest.mark.skipif(missing("node", "npm"), reason="needs Node.js and npm")
        ),
    ],
)
def test_a_receiver_with_a_public_client_passes_with_its_tolerances(
    receiver: str, profile: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(receiver)
    assert verdicts(check(f"{url}/jobs")) == {"invalid-utf8": "failed"}
    tolerated = {"tampered-url": "tolerated", "invalid-utf8": "tolerated"}
    assert verdicts(check(f"{url}/anywhere", "--profile", profile)) == tolerated
