"""Applications in the test's process as destinations."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request as StarletteRequest
from starlette.responses import JSONResponse
from starlette.routing import Route

from emulator import Delivery, Emulator, Refused, Request, Response
from emulator.client.mounts import Interface, interface_of
from tests.harness import emulators, loops

URL = "https://app.test/hook?a=1&a=2"


def only_delivery(emu: Emulator) -> Delivery:
    [delivery] = emu.deliveries()
    return delivery


# -- the three kinds --------------------------------------------------------------------------


def test_an_asgi_application_gets_the_request_as_a_server_would_give_it(emu: Emulator) -> None:
    seen: dict[str, Any] = {}

    async def hook(request: StarletteRequest) -> JSONResponse:
        seen.update(
            method=request.method, url=str(request.url), headers=dict(request.headers), body=await request.body()
        )
        return JSONResponse({"ok": True}, 202, {"X-Answer": "yes"})

    emu.mount("https://app.test", Starlette(routes=[Route("/hook", hook, methods=["POST"])]))
    emu.publish(URL, b"hello", headers={"Svc-Forward-X-Key": "1"})
    delivery = only_delivery(emu)
    assert (seen["method"], seen["url"], seen["body"]) == ("POST", URL, b"hello")
    assert seen["headers"] == {name.lower(): value for name, value in delivery.headers.items()} | {
        "content-length": "5"
    }
    received = emulators.Received(method="POST", path="/hook", headers=seen["headers"], body=seen["body"])
    emulators.verify(received, URL, emu.credentials.current_signing_key)
    assert delivery.via == "mount"
    assert delivery.response is not None
    assert (delivery.response.status, delivery.response.json()) == (202, {"ok": True})
    assert delivery.response.headers["x-answer"] == "yes"


def test_a_wsgi_application_gets_the_request_as_a_server_would_give_it(emu: Emulator) -> None:
    seen: dict[str, Any] = {}

    def app(environ: Any, start_response: Any) -> list[bytes]:
        seen.update(environ, body=environ["wsgi.input"].read())
        start_response("418 I'm a teapot", [("X-Answer", "yes")])
        return [b"short ", b"and stout"]

    emu.mount("https://app.test", app)
    emu.publish(URL, b"hello", headers={"Svc-Forward-X-Key": "1", "Svc-Retries": "0"})
    delivery = only_delivery(emu)
    assert (seen["REQUEST_METHOD"], seen["PATH_INFO"], seen["QUERY_STRING"]) == ("POST", "/hook", "a=1&a=2")
    assert (seen["HTTP_X_KEY"], seen["HTTP_HOST"], seen["wsgi.url_scheme"]) == ("1", "app.test", "https")
    assert (seen["body"], seen["CONTENT_LENGTH"]) == (b"hello", "5")
    assert seen["HTTP_SVC_SIGNATURE"] == delivery.headers["Svc-Signature"]
    assert delivery.response is not None
    assert (delivery.response.status, delivery.response.body) == (418, b"short and stout")
    assert delivery.response.headers["x-answer"] == "yes"


def test_a_function_gets_the_request_as_a_record(emu: Emulator) -> None:
    seen: list[Request] = []
    emu.mount("https://app.test", seen.append)
    emu.publish(URL, json={"user": 7})
    [request] = seen
    assert (request.method, request.url, request.json()) == ("POST", URL, {"user": 7})
    assert request.headers["svc-retried"] == "0"


def test_every_kind_of_application_gets_headers_and_paths_beyond_ascii(emu: Emulator) -> None:
    seen: dict[str, tuple[str, str]] = {}

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        seen["asgi"] = (dict(scope["headers"])[b"x-name"].decode(), scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def wsgi(environ: Any, start_response: Any) -> list[bytes]:
        values = (environ[name].encode("latin-1").decode() for name in ("HTTP_X_NAME", "PATH_INFO"))
        seen["wsgi"] = (next(values), next(values))
        start_response("200 OK", [])
        return []

    def function(request: Request) -> None:
        seen["function"] = (request.headers["X-Name"], unquote(urlsplit(request.url).path))

    apps: dict[str, Any] = {"asgi": asgi, "wsgi": wsgi, "function": function}
    for interface, app in apps.items():
        emu.mount(f"https://{interface}.test", app, interface=interface)
        headers = {"Authorization": f"Bearer {emu.token}", "Svc-Forward-X-Name": "José".encode()}
        httpx.post(f"{emu.url}/v2/publish/https://{interface}.test/caf%C3%A9", headers=cast(Any, headers))

    assert seen == dict.fromkeys(("asgi", "wsgi", "function"), ("José", "/café"))
    assert [each.headers["x-name"] for each in emu.deliveries()] == ["José"] * 3


def _in_json() -> dict[str, int]:
    return {"a": 1}


@pytest.mark.parametrize(
    ("answer", "status", "body", "content_type"),
    [
        pytest.param(None, 200, b"", None, id="nothing"),
        pytest.param(503, 503, b"", None, id="status"),
        pytest.param("café", 200, "café".encode(), "text/plain; charset=utf-8", id="text"),
        pytest.param(b"\xff", 200, b"\xff", None, id="bytes"),
        pytest.param(_in_json(), 200, b'{"a": 1}', "application/json", id="object"),
        pytest.param([1], 200, b"[1]", "application/json", id="list"),
        pytest.param(Response(201, body=b"made"), 201, b"made", None, id="response"),
    ],
)
def test_a_function_answers_with_what_it_returns(
    answer: Any, status: int, body: bytes, content_type: str | None, emu: Emulator
) -> None:
    async def asynchronous(request: Request) -> Any:
        await asyncio.sleep(0)
        return answer

    emu.mount("https://app.test", lambda request: answer)
    emu.mount("https://async.test", asynchronous)
    for url in ("https://app.test/", "https://async.test/"):
        emu.publish(url, headers={"Svc-Retries": "0"})
    for delivery in emu.deliveries():
        assert delivery.response is not None
        assert (delivery.response.status, delivery.response.body) == (status, body)
        assert delivery.response.headers.get("content-type") == content_type


@pytest.mark.parametrize(
    ("application", "interface"),
    [
        pytest.param(lambda scope, receive, send: None, Interface.ASGI, id="three"),
        pytest.param(lambda environ, start_response: None, Interface.WSGI, id="two"),
        pytest.param(lambda request, default=None: None, Interface.FUNCTION, id="one"),
        pytest.param(Starlette(), Interface.ASGI, id="object"),
        pytest.param([].append, Interface.FUNCTION, id="built-in"),
    ],
)
def test_an_application_is_known_by_what_it_takes(application: Any, interface: Interface) -> None:
    assert interface_of(application) is interface


@pytest.mark.parametrize(
    "origin", ["app.test", "ftp://app.test", "", "https://", "https://*.test", "https://app.test/hook", "http://a?b"]
)
def test_what_is_no_origin_is_refused(origin: str, emu: Emulator) -> None:
    with pytest.raises(ValueError, match=r"expected an origin such as https://app\.test, without path"):
        emu.mount(origin, lambda request: None)


def test_an_origin_may_end_with_a_slash(emu: Emulator) -> None:
    emu.mount("https://app.test/", lambda request: 202)
    emu.publish(URL)
    emu.verify(url=URL, status=202)


# -- failures ---------------------------------------------------------------------------------


def _raise(*_: object) -> None:
    raise LookupError("no such user")


async def _raise_later(*_: object) -> None:
    raise LookupError("no such user")


def _begin_and_raise(environ: object, start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", [])
    yield b"so far"
    raise LookupError("no such user")


async def _end_before_the_answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


@pytest.mark.parametrize(
    ("application", "interface", "text"),
    [
        (_end_before_the_answer, "asgi", "ended before its answer did"),
        (_begin_and_raise, "wsgi", "no such user"),
        (_raise_later, "function", "no such user"),
        (lambda request: object(), "function", "expected a status, a body or a Response"),
        (lambda request: 99, "function", "the status 99, expected one from 200 to 599"),
        (lambda request: Response(1000), "function", "the status 1000, expected one from"),
    ],
)
def test_an_application_that_fails_answers_500_and_is_logged(
    application: Any, interface: str, text: str, emu: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    emu.mount("https://app.test", application, interface=interface)
    emu.publish(URL, headers={"Svc-Retries": "0"})
    delivery = only_delivery(emu)
    assert delivery.response is not None
    assert delivery.response.status == 500
    assert "a mounted application failed" in caplog.text
    assert text in caplog.text


@pytest.mark.parametrize(
    ("application", "interface"), [(_raise_later, "asgi"), (_raise, "function")], ids=["asgi", "function"]
)
def test_the_traceback_of_a_failure_that_comes_again_is_logged_once(
    application: Any, interface: str, emu: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    emu.mount("https://app.test", application, interface=interface)
    emu.publish(URL, retries=2)
    emu.clock.drain()

    assert caplog.text.count("Traceback") == 1
    assert caplog.text.count("with 500, as before: LookupError: no such user") == 2


@pytest.mark.parametrize("interface", ["asgi", "starlette", "wsgi", "function"])
def test_an_exception_of_an_application_is_told_where_failures_are_explained(
    interface: str, emu: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """D-336."""

    def fail(*_: Any) -> Any:
        raise ValueError("no such\nuser: 7")

    async def fail_later(*_: Any) -> Any:
        fail()

    apps: dict[str, tuple[Any, str]] = {
        "asgi": (fail_later, "asgi"),
        "starlette": (Starlette(routes=[Route("/hook", fail_later, methods=["POST"])]), "asgi"),
        "wsgi": (fail, "wsgi"),
        "function": (fail, "function"),
    }
    application, kind = apps[interface]
    emu.mount("https://app.test", application, interface=kind)
    message_id = emu.publish(URL, headers={"Svc-Retries": "0"})

    assert only_delivery(emu).response.body == b"ValueError: no such\nuser: 7"  # type: ignore[union-attr]
    assert "500 by the application mounted there: ValueError: no such\\nuser: 7" in emu.explain(message_id)["summary"]
    assert "ValueError: no such" in emu.timeline().partition("Why:")[2]
    assert caplog.text.count("Traceback") == 1


def test_an_application_that_hangs_times_out(emu: Emulator) -> None:
    cancelled = threading.Event()

    async def hang(request: Request) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    emu.mount("https://app.test", hang)
    emu.publish(URL, headers={"Svc-Timeout": "1s", "Svc-Retries": "0"})
    emu.clock.advance(0)
    assert only_delivery(emu).error == "timeout: no response in time"
    assert cancelled.wait(loops.PATIENCE_S)


# -- their life -------------------------------------------------------------------------------


class Living:
    """An ASGI application that notes its start-up and shutdown."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.noted: list[str] = []
        self.app = Starlette(routes=[Route("/hook", self.hook, methods=["POST"])], lifespan=self.lifespan)
        self._breaks = breaks

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[dict[str, str]]:
        if self._breaks:
            raise LookupError("no database")
        self.noted.append("up")
        yield {"database": "open"}
        self.noted.append("down")

    async def hook(self, request: StarletteRequest) -> JSONResponse:
        self.noted.append(request.state.database)
        return JSONResponse(None)


def test_an_asgi_application_lives_from_mount_to_unmount(emu: Emulator) -> None:
    living = Living()
    emu.mount("https://app.test", living.app)
    emu.publish(URL)
    emu.unmount("https://APP.test/")
    assert living.noted == ["up", "open", "down"]
    emu.publish(URL)
    assert [each.via.value for each in emu.deliveries()] == ["mount", "capture"]


def test_an_asgi_application_is_shut_down_with_its_world_and_by_its_successor(server: Emulator) -> None:
    first, second = Living(), Living()
    with server.new_world() as world:
        world.mount("https://app.test", first.app)
        world.mount("https://app.test", second.app)
        assert first.noted == ["up", "down"]
    assert second.noted == ["up", "down"]
    third = Living()
    with Emulator() as emulator:
        emulator.mount("https://app.test", third.app)
    assert third.noted == ["up", "down"]


def test_an_application_that_cannot_start_is_not_mounted(emu: Emulator) -> None:
    with pytest.raises(LookupError, match="no database"):
        emu.mount("https://app.test", Living(breaks=True).app)
    emu.publish(URL)
    assert only_delivery(emu).via == "capture"


def test_a_mount_outlives_a_reset_and_is_known_to_its_world_only(server: Emulator) -> None:
    with server.new_world() as one, server.new_world() as other:
        one.mount("https://app.test", lambda request: 201)
        one.reset()
        one.publish(URL)
        other.publish(URL)
        assert (only_delivery(one).via, only_delivery(other).via) == ("mount", "capture")


# -- from inside ------------------------------------------------------------------------------


def test_an_application_may_block_its_loop_while_it_publishes(emu: Emulator) -> None:
    """A synchronous client in an asynchronous handler is a mistake that must not hang a test."""

    async def hook(request: StarletteRequest) -> JSONResponse:
        return JSONResponse({"made": emu.publish("https://other.example.com", headers={"Svc-Delay": "1m"})})

    emu.mount("https://app.test", Starlette(routes=[Route("/hook", hook, methods=["POST"])]))
    emu.publish(URL)
    emu.clock.advance("1h")
    assert [each.url for each in emu.deliveries()] == [URL, "https://other.example.com"]


def test_a_function_may_read_what_was_delivered_before_it(emu: Emulator) -> None:
    counts: list[int] = []
    emu.mount("https://app.test", lambda request: counts.append(len(emu.deliveries())))
    emu.publish(URL)
    emu.publish(URL, headers={"Svc-Delay": "1m"})
    emu.clock.advance("1h")
    assert counts == [0, 1]


def test_a_rule_comes_before_a_mount_and_may_forward_to_it(emu: Emulator) -> None:
    emu.mount("https://app.test", lambda request: request.url)
    emu.destinations.respond(URL, 204)
    emu.destinations.forward("https://api.example.com/*", "https://app.test")
    emu.publish(URL)
    emu.publish("https://api.example.com/orders")
    ruled, forwarded = (each.response for each in emu.deliveries())
    assert ruled is not None
    assert forwarded is not None
    assert (ruled.status, forwarded.text) == (204, "https://app.test/orders")


# -- the clock from a handler (D-293) ---------------------------------------------------------


def moves_of(emulator: Emulator) -> list[Callable[[], object]]:
    clock = emulator.clock
    return [lambda: clock.advance("1h"), clock.next, clock.drain, lambda: clock.set("2027-01-01")]


@pytest.mark.parametrize("kind", ["function", "asynchronous function", "wsgi", "asgi"])
@pytest.mark.parametrize("rate", [0, 1])
def test_a_handler_that_moves_the_clock_is_refused_at_once(server: Emulator, kind: str, rate: int) -> None:
    """In real time no call waits for the delivery, so that only the handler's own thread or task tells."""
    refusals: list[str] = []
    with server.new_world(epoch=emulators.EPOCH, rate=rate) as emu:

        def move() -> None:
            for each in moves_of(emu):
                with pytest.raises(Refused) as refused:
                    each()
                refusals.append(f"{refused.value.status} {refused.value}")

        async def function(_: Request) -> None:
            move()

        def wsgi(environ: Any, start_response: Any) -> list[bytes]:
            move()
            start_response("200 OK", [])
            return []

        async def hook(_: StarletteRequest) -> JSONResponse:
            move()
            return JSONResponse({})

        applications: dict[str, Any] = {
            "function": lambda _: move(),
            "asynchronous function": function,
            "wsgi": wsgi,
            "asgi": Starlette(routes=[Route("/hook", hook, methods=["POST"])]),
        }
        emu.mount("https://app.test", applications[kind])
        emu.publish("https://app.test/hook")
        emu.wait_for("https://app.test/hook", status=200)

        assert refusals == ["409 an attempt is under way; a receiver cannot move the clock from its handler"] * 4


def test_a_handler_may_move_the_clock_of_another_world(server: Emulator, emu: Emulator) -> None:
    with server.new_world(epoch=emulators.EPOCH) as other:
        emu.mount("https://app.test", lambda _: str(other.clock.advance("1h").deliveries))
        emu.publish("https://app.test/hook")

        emu.verify("https://app.test/hook", status=200)
        assert other.clock.now().hour == 1
