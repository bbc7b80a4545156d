"""Calls of ASGI applications in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

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
    assert target_of("http://a/?x=1", (("y", "a b"),)).query == b"y=a+b"


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
    with pytest.raises(RuntimeError, match="went on with its answer"):
        asyncio.run(Exchange(b"").run(goes_on, "GET", TARGET, []))
    unfinished = Exchange(b"")
    asyncio.run(unfinished.run(has_no_end, "GET", TARGET, []))
    with pytest.raises(RuntimeError, match="ended before its answer did"):
        unfinished.final_status()
