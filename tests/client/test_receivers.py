"""Checking receivers from a test."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from emulator import AsyncEmulator, Emulator, Verdict
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


def test_an_asynchronous_effect_is_read_on_the_loop_of_the_test() -> None:
    threads = set()

    async def main() -> None:
        async with AsyncEmulator() as emulator:

            async def effect() -> int:
                threads.add(threading.current_thread())
                return 1

            report = await emulator.check_receiver(lambda request: 401, effect=effect)
            assert {result.id for result in report.failures} >= {"valid", "next-key"}

    asyncio.run(main())
    assert threads == {threading.current_thread()}


def test_what_an_effect_raises_is_raised(emu: Emulator) -> None:
    def effect() -> int:
        raise ZeroDivisionError("no table")

    with pytest.raises(ZeroDivisionError, match="no table"):
        emu.check_receiver(lambda request: 200, effect=effect)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"efect": len}, TypeError, "no option is named efect, did you mean effect?"),
        ({"method": "HEAD"}, ValueError, "method: expected GET, POST"),
        ({"timeout": 0}, ValueError, "timeout: expected seconds"),
        ({"path": "hook"}, ValueError, "path: expected one that begins with a slash"),
        ({"profile": "php"}, ValueError, "profile: expected none, qstash-python, qstash-npm"),
        ({"body": b"a", "json": 1}, TypeError, "expected body or json, got both"),
    ],
)
def test_a_wrong_option_is_named(emu: Emulator, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("?", r"\?")):
        emu.check_receiver(lambda request: 200, **options)
    with pytest.raises(ValueError, match="target: expected a URL"):
        emu.check_receiver("jobs.test")
