"""Checking receivers from a test."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import anyio
import fastapi
import flask
import jwt
import pytest

from emulator import AsyncEmulator, Emulator, Request, Verdict
from emulator.conformance.reports import text_lines
from tests.harness.job_receivers import JOB, JobReceiver, as_function, served


def jobs_of(emu: Emulator, url: str = "https://jobs.test/run", mistake: str = "") -> JobReceiver:
    keys = emu.credentials
    return JobReceiver(url=url, mistake=mistake, current=keys.current_signing_key, following=keys.next_signing_key)


def test_a_mounted_application_is_checked_at_its_url(emu: Emulator) -> None:
    jobs = jobs_of(emu)
    emu.mount("https://jobs.test", as_function(jobs))
    report = emu.check_receiver(jobs.url, body=JOB, effect=lambda: jobs.done, callbacks=True)
    report.raise_for_failures()
    assert [result.id for result in report.of(Verdict.NOT_JUDGED)] == ["slow-client"]
    assert emu.deliveries() == []


def test_an_application_is_mounted_for_the_time_of_its_check(emu: Emulator) -> None:
    jobs = jobs_of(emu, "https://receiver.test/hooks?a=1", mistake="works twice for duplicates")
    report = emu.check_receiver(as_function(jobs), path="/hooks?a=1", json={"a": 1}, effect=lambda: len(jobs.done))
    assert [result.id for result in report.failures] == ["idempotency"]
    emu.publish("https://receiver.test/hooks", retries=0)
    [delivery] = emu.deliveries()
    assert delivery.via == "capture"


@pytest.mark.slow
def test_a_receiver_elsewhere_is_checked_over_the_network(emu: Emulator) -> None:
    jobs = jobs_of(emu, mistake="ignores nbf")
    with served(jobs) as url:
        report = emu.check_receiver(url, body=JOB, headers={"X-Team": "a"}, method="post", timeout=5)
        assert [result.id for result in report.failures] == ["not-yet-valid"]
        assert report["slow-client"].verdict is Verdict.PASSED


# -- the thread of the effect -----------------------------------------------------------------


def test_an_effect_is_read_in_the_thread_of_the_test(emu: Emulator) -> None:
    """What belongs to a thread, such as a database session, works in it (D-575)."""
    jobs = jobs_of(emu)
    emu.mount("https://jobs.test", as_function(jobs))
    database = sqlite3.connect(":memory:", check_same_thread=True)
    database.execute("CREATE TABLE reads (state INTEGER)")
    threads = set()

    def effect() -> int:
        threads.add(threading.current_thread())
        database.execute("INSERT INTO reads VALUES (1)")
        # A call of the emulator's may be among what it does.
        return len(jobs.done) + len(emu.deliveries())

    report = emu.check_receiver(jobs.url, body=JOB, effect=effect)
    report.raise_for_failures()
    assert report["concurrent-effect"].verdict is Verdict.PASSED
    assert threads == {threading.current_thread()}
    assert database.execute("SELECT count(*) FROM reads").fetchone()[0] > 10
    database.close()


@pytest.mark.parametrize("library", ["asyncio", "trio"])
@pytest.mark.parametrize("is_asynchronous", [False, True])
def test_an_effect_is_read_in_the_thread_of_an_asynchronous_test(library: str, is_asynchronous: bool) -> None:
    """D-575."""
    threads = set()

    def effect() -> int:
        threads.add(threading.current_thread())
        return 1

    async def later() -> int:
        return effect()

    async def main() -> None:
        async with AsyncEmulator() as emulator:
            report = await emulator.check_receiver(lambda request: 401, effect=later if is_asynchronous else effect)
            assert {result.id for result in report.failures} >= {"valid", "next-key"}

    anyio.run(main, backend=library)
    assert threads == {threading.current_thread()}


@pytest.mark.parametrize(
    "error", [ZeroDivisionError, StopIteration, KeyboardInterrupt, pytest.fail.Exception, SystemExit]
)
def test_whatever_an_effect_raises_ends_the_check(emu: Emulator, error: type[BaseException]) -> None:
    def effect() -> int:
        raise error("stop")

    with pytest.raises((error, RuntimeError)) as raised:
        emu.check_receiver(lambda request: 200, effect=effect)
    assert raised.type is error or isinstance(raised.value.__cause__, error)
    emu.publish("https://receiver.test/hooks", retries=0)


# -- real frameworks --------------------------------------------------------------------------


def verified(emu: Emulator, url: str, token: str | None, body: bytes) -> bool:
    """As a receiver of its own verifies, with PyJWT."""
    keys = emu.credentials
    for key in (keys.current_signing_key, keys.next_signing_key):
        try:
            claims = jwt.decode(token or "", key, algorithms=["HS256"], issuer="Svc")
        except jwt.InvalidTokenError:
            continue
        digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip("=")
        return bool(claims["sub"] == url and claims["body"].rstrip("=") == digest)
    return False


FRAMEWORK_URL = "https://receiver.test/"


def written_again(body: bytes) -> bytes:
    """JSON that is parsed and written; other bodies as they are."""
    with contextlib.suppress(ValueError):
        return json.dumps(json.loads(body), separators=(",", ":")).encode()
    return body


def fastapi_app(emu: Emulator, mistake: str) -> Any:
    """Of the mistakes, `writes again` verifies JSON that is parsed and written again, `JSON only` no other body."""
    app = fastapi.FastAPI()

    @app.post("/")
    async def receive(request: fastapi.Request) -> fastapi.Response:
        body = await request.body()
        if mistake == "writes again":
            body = written_again(body)
        is_exempt = mistake == "JSON only" and request.headers.get("content-type") != "application/json"
        if not is_exempt and not verified(emu, FRAMEWORK_URL, request.headers.get("svc-signature"), body):
            return fastapi.Response(status_code=401)
        try:
            json.loads(body)
        except ValueError:
            return fastapi.Response(status_code=400)
        return fastapi.Response(status_code=200)

    return app


def flask_app(emu: Emulator, mistake: str) -> Any:
    app = flask.Flask("receiver")

    @app.post("/")
    def receive() -> tuple[str, int]:
        if mistake == "JSON only":
            # A form is consumed by its parser: nothing is left to verify.
            assert flask.request.form is not None
        body = flask.request.get_data()
        if mistake == "writes again":
            body = written_again(body)
        if not verified(emu, FRAMEWORK_URL, flask.request.headers.get("Svc-Signature"), body):
            return "", 401
        return "", 200 if flask.request.is_json and flask.request.get_json(silent=True) is not None else 415

    return app.wsgi_app


def plain_function(emu: Emulator, mistake: str) -> Any:
    def receive(request: Request) -> int:
        if request.method != "POST":
            return 405
        if mistake == "JSON only" and request.headers["content-type"].startswith("text/"):
            return 200
        body = written_again(request.body) if mistake == "writes again" else request.body
        return 200 if verified(emu, FRAMEWORK_URL, request.headers.get("svc-signature"), body) else 401

    return receive


@pytest.mark.parametrize("app", [fastapi_app, flask_app, plain_function])
@pytest.mark.parametrize(
    ("mistake", "found"), [("", None), ("writes again", "exact-body"), ("JSON only", "content-type")]
)
def test_a_receiver_that_verifies_other_bytes_or_json_alone_is_found(
    emu: Emulator, app: Callable[[Emulator, str], Any], mistake: str, found: str | None
) -> None:
    """D-577, D-578."""
    report = emu.check_receiver(app(emu, mistake), body=b'{"name":"Ada","user":7}')
    assert [result.id for result in report.failures] == ([] if found is None else [found])


def test_a_report_is_printed_as_text_and_named_in_a_line_by_an_assert(emu: Emulator) -> None:
    report = emu.check_receiver(plain_function(emu, "writes again"), body=b'{"user":7}')
    assert str(report).splitlines() == list(text_lines(report))
    assert "mend:" in str(report)
    assert repr(report).startswith("<ReceiverReport of https://receiver.test/: ")
    assert repr(report).endswith("exact-body: a good delivery was not accepted: it was answered 401>")
    assert "\n" not in repr(report)
