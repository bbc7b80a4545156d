"""`verify` and `timeline` of a world: fetched from a server, over the API that everybody has."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from emulator import AsyncEmulator, Emulator
from tests.harness.emulators import EPOCH
from tests.harness.loops import on_loop

HOOK = "https://app.test/hook"


@pytest.fixture(scope="module")
def server() -> Iterator[Emulator]:
    with Emulator() as server:
        yield server


@pytest.fixture
def emulator(server: Emulator) -> Iterator[Emulator]:
    with server.new_world(epoch=EPOCH) as world:
        yield world


def failure(emulator: Emulator, **expected: object) -> str:
    with pytest.raises(AssertionError) as failed:
        emulator.verify(**expected)  # type: ignore[arg-type]  # each test gives what is meant
    return str(failed.value)


def test_retries_are_verified_with_their_instants_and_signatures(emulator: Emulator) -> None:
    emulator.destinations.sequence("https://app.test/*", [503, 503, 200])
    emulator.publish(HOOK, json={"user": 7}, headers={"Svc-Retry-Delay": "10000 * (1 + 2 * retried)"})
    emulator.clock.advance("1h")

    emulator.verify(
        url="https://app.test/*",
        method="POST",
        times=1,
        attempts=3,
        at=["0s", "10s", "40s"],
        status=[503, 503, 200],
        outcome="delivered",
        body_json={"user": 7},
        headers={"content-type": re.compile("^application/json"), "svc-retried": "2", "X-Tenant": None},
        signed_with="current",
    )


def test_the_url_needs_no_keyword(emulator: Emulator) -> None:
    emulator.publish(HOOK)

    emulator.verify(HOOK, attempts=1)
    with pytest.raises(AssertionError, match=r"Expected a message to https://app\.test/other; none went there"):
        emulator.verify("https://app.test/other")
    with pytest.raises(TypeError, match=rf"url: expected one, got '{re.escape(HOOK)}' and '"):
        emulator.verify(HOOK, url="https://b.test")


def test_what_is_not_there_yet_is_told_with_the_way_to_it(emulator: Emulator) -> None:
    emulator.publish(HOOK, headers={"Svc-Delay": "1d"})

    text = failure(emulator, url=HOOK)

    assert text.startswith(f"Expected a message to {HOOK}; nothing has been delivered.\n")
    assert 'the next message there is due in 1d: emulator.clock.advance("1d")' in text.replace("\n", " ")
    assert "Still to come:\n  2026-01-02 00:00:00  in 1d  msg_.." in text
    emulator.clock.advance("1d")
    emulator.verify(url=HOOK, at="1d")


def test_why_the_nearest_message_failed_is_told(emulator: Emulator) -> None:
    emulator.destinations.fault(HOOK, "refused")
    message_id = emulator.publish(HOOK, headers={"Svc-Retries": "0"})

    text = failure(emulator, message_id=message_id, outcome="succeeded")

    assert "expected succeeded, but attempt 1 got no response (connection refused)" in text.replace("\n", " ")
    assert f"Why:\n  msg_..{message_id[-4:]}  Failed at 2026-01-01T00:00:00.000Z: attempt 1" in text


def test_keys_are_those_that_are_valid_now(emulator: Emulator) -> None:
    emulator.publish(HOOK)
    headers = {"Authorization": f"Bearer {emulator.token}"}
    assert httpx.post(f"{emulator.url}/v2/keys/rotate", headers=headers, trust_env=False).is_success

    assert "signed with neither key" in failure(emulator, signed_with="current")
    emulator.publish(HOOK)
    emulator.verify(signed_with="current", times=1)


def test_a_world_of_a_server_elsewhere_is_verified_alike(emulator: Emulator) -> None:
    with Emulator.connect(emulator.url) as connected, connected.new_world(epoch=EPOCH) as world:
        world.publish(HOOK, "hello")
        world.verify(url=HOOK, body="hello", signed_with="current")
        assert 'body: expected "bye", got "hello"' in failure(world, body="bye")


@on_loop
async def test_verify_awaits(emulator: Emulator) -> None:
    world = AsyncEmulator.sharing(emulator)
    await world.publish(HOOK, "hello")
    await world.verify(url=HOOK, times=1)
    with pytest.raises(AssertionError, match=f"^Expected no message to {HOOK}, found 1\\.\n"):
        await world.verify(url=HOOK, times=0)


def test_a_keyword_that_cannot_be_meant_is_refused_before_any_call(emulator: Emulator) -> None:
    with pytest.raises(ValueError, match=r"^attempts: expected an integer of at least 1, got 0$"):
        emulator.verify(attempts=0)
    with pytest.raises(TypeError, match=r"^uri: verify knows no such keyword"):
        emulator.verify(uri=HOOK)  # type: ignore[call-arg]


def test_the_timeline_explains_what_failed_and_what_waits(emulator: Emulator) -> None:
    emulator.destinations.respond("https://app.test/*", status=500)
    failed = emulator.publish("https://app.test/failing", headers={"Svc-Retries": "0"})
    retried = emulator.publish("https://app.test/again", headers={"Svc-Retry-Delay": "60000"})
    limit = {"Svc-Flow-Control-Key": "key", "Svc-Flow-Control-Value": "rate=1,period=1h"}
    emulator.publish("https://app.example.com/", headers=limit)
    held = emulator.publish("https://app.example.com/", headers=limit)

    text = emulator.timeline()

    assert text.startswith("3 attempts of 3 messages; the clock is at 2026-01-01T00:00:00.000Z, frozen\n")
    sections = dict(re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n?)+)", text, re.MULTILINE))
    assert list(sections) == ["Still to come", "Waiting", "Why", "Whole ids"]
    assert failed in sections["Whole ids"]
    assert f"msg_..{retried[-4:]}" in sections["Still to come"]
    assert f"msg_..{held[-4:]}" in sections["Waiting"]
    assert f"msg_..{failed[-4:]}" in sections["Why"]
    assert sections["Why"].count("msg_..") == 1
