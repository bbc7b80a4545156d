"""Calls of ASGI applications in this process, and their start-up and shutdown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from emulator import Emulator
from emulator.client.asgi import Exchange, raw_headers, target_of

TARGET = target_of("https://app.test:8443/a%20b/ü?x=1")


async def echo(scope: Any, receive: Any, send: Any) -> None:
    message = await receive()
    await send({"type": "http.response.start", "status": 201, "headers": [(b"x-a", b"1")]})
    await send({"type": "http.response.body", "body": message["body"], "more_body": True})
    await send({"type": "http.response.body", "body": b"!"})
    assert (await receive())["type"] == "http.disconnect"


def test_a_url_is_taken_apart_as_a_server_would() -> None:
    assert (TARGET.path, TARGET.raw_path, TARGET.query) == ("/a b/ü", b"/a%20b/%C3%BC", b"x=1")
    assert (TARGET.scheme, TARGET.host, TARGET.port, TARGET.netloc) == ("https", "app.test", 8443, b"app.test:8443")


def test_a_query_that_is_given_replaces_that_of_the_url() -> None:
    assert target_of("http://a/?x=1", (("y", "b"),)).query == b"y=b"


def test_header_values_are_sent_in_utf_8() -> None:
    assert raw_headers([("X-Name", "José")]) == [(b"x-name", "José".encode())]


def test_an_application_gets_the_request_and_its_answer_is_put_together() -> None:
    exchange = Exchange(b"hello")
    asyncio.run(exchange.run(echo, "POST", TARGET, []))
    assert (exchange.final_status(), exchange.headers, exchange.body) == (201, [(b"x-a", b"1")], b"hello!")


def test_an_application_that_waits_for_its_client_to_leave_waits_for_the_end_of_its_answer() -> None:
    order = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def watch() -> None:
            order.append((await receive())["type"])

        await receive()
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 200})
        order.append("answered")
        await send({"type": "http.response.body"})
        await watching

    asyncio.run(Exchange(b"").run(app, "GET", TARGET, []))
    assert order == ["answered", "http.disconnect"]


def test_an_answer_that_breaks_the_protocol_is_an_error_of_the_application() -> None:
    async def begins_twice(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.start", "status": 200})

    async def goes_on(scope: Any, receive: Any, send: Any) -> None:
        await echo(scope, receive, send)
        await send({"type": "http.response.body", "body": b"more"})

    async def has_no_end(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    with pytest.raises(RuntimeError, match="began its answer twice"):
        asyncio.run(Exchange(b"").run(begins_twice, "GET", TARGET, []))
    with pytest.raises(RuntimeError, match="continued its answer"):
        asyncio.run(Exchange(b"").run(goes_on, "GET", TARGET, []))
    unfinished = Exchange(b"")
    asyncio.run(unfinished.run(has_no_end, "GET", TARGET, []))
    with pytest.raises(RuntimeError, match="ended before its answer did"):
        unfinished.final_status()


async def respond(send: Any) -> None:
    await send({"type": "http.response.start", "status": 201, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def takes_everything_for_a_request(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await respond(send)


async def answers_at_once(scope: Any, receive: Any, send: Any) -> None:
    await respond(send)


async def passes_over_others(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await respond(send)


async def wants_requests(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    await respond(send)


async def returns_after_its_start(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        return
    await respond(send)


@pytest.mark.parametrize(
    "app",
    [
        takes_everything_for_a_request,
        answers_at_once,
        passes_over_others,
        wants_requests,
        returns_after_its_start,
    ],
)
def test_an_application_without_a_lifespan_is_mounted_and_not_waited_for(emu: Emulator, app: Any) -> None:
    emu.mount("https://app.test", app)
    emu.publish("https://app.test/hook")
    [delivery] = emu.deliveries()
    emu.unmount("https://app.test")
    assert (delivery.via, delivery.response and delivery.response.status) == ("mount", 201)


async def fails_to_start(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})


def test_an_application_that_tells_of_its_failure_is_not_mounted(emu: Emulator) -> None:
    with pytest.raises(RuntimeError, match="the application did not start: no database"):
        emu.mount("https://app.test", fails_to_start)
