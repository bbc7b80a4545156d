"""What every request passes first: foreign web pages are refused, allowed ones are answered as browsers want it."""

from __future__ import annotations

import asyncio
import base64

import pytest
from starlette.types import Message

from emulator.api.endpoint import Bodies
from emulator.core.record import Headers
from tests.harness.emulators import Answer, InProcess, asgi_call, http_scope, in_process, with_emulator
from tests.harness.loops import on_loop

EVIL = "https://evil.example"
PAGE = "https://console.example.com"
URL = "http://localhost:3000/hook"


async def from_host(
    emulator: InProcess, host: str, method: str, target: str, headers: Headers = (), body: bytes = b""
) -> Answer:
    pairs = [("Host", host), ("Authorization", f"Bearer {emulator.token}"), *headers]
    return await asgi_call(emulator.emulation.app, method, target.encode(), pairs, body, "127.0.0.1")


def login(emulator: InProcess) -> Headers:
    """The Authorization of the management API."""
    return (("Authorization", f"Basic {base64.b64encode(':'.join(emulator.world.login).encode()).decode()}"),)


# -- foreign pages ----------------------------------------------------------------------------


@with_emulator()
async def test_a_foreign_page_can_use_no_api(emulator: InProcess) -> None:
    """D-270: the default token, which every page knows, is no help."""
    before = emulator.image()
    for headers, named in (
        ({"Origin": EVIL}, "--allow-origin"),
        ({"Origin": "http://localhost:3000"}, "--allow-origin"),
        ({"Origin": "null"}, "--allow-origin"),
        ({"Origin": "http://127.0.0.1:8080", "Host": "evil.example"}, "--public-host"),
        ({"Host": "evil.example"}, "--public-host"),
    ):
        for method, target in (
            ("POST", f"/v2/publish/{URL}?queue_token={emulator.token}"),
            ("GET", "/v2/keys"),
            ("GET", "/v2/queue/users"),
            ("GET", "/nowhere"),
            ("GET", "/"),
            ("OPTIONS", "/v2/keys"),
        ):
            answer = await emulator.call(method, target, headers)
            assert answer.status == 403, (method, target)
            # The page at the root is the emulator's own, and says what to do next (D-747).
            assert answer.json.keys() == ({"error", "next"} if target == "/" else {"error"})
            assert named in answer.json["error"]
            assert "access-control-allow-origin" not in answer.headers
        assert emulator.image() == before, headers


@with_emulator()
async def test_a_cross_site_request_is_refused_everywhere(emulator: InProcess) -> None:
    """D-150, D-270: browsers send no Origin with a picture or a frame."""
    for site, status in (("cross-site", 403), ("same-origin", 200), ("none", 200)):
        for target in ("/v2/keys", "/_emulator/clock"):
            answer = await emulator.get(target, {"Sec-Fetch-Site": site})
            assert answer.status == status, target
        answer = await emulator.get("/v2/queue/users", (("Sec-Fetch-Site", site), *login(emulator)), token=None)
        assert answer.status == status, site


@with_emulator()
async def test_a_link_of_another_site_opens_a_page_and_nothing_else(emulator: InProcess) -> None:
    """D-304."""
    link = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
        "Accept": "text/html",
    }
    for target, status in (("/", 307), ("/_emulator", 307), ("/_emulator/reference", 200)):
        assert (await emulator.get(target, link)).status == status, target
        for changed in (
            {"Sec-Fetch-Dest": "iframe"},
            {"Sec-Fetch-Mode": "no-cors"},
            {"Host": "evil.example"},
            {"Origin": EVIL},
        ):
            assert (await emulator.get(target, {**link, **changed})).status == 403, (target, changed)
        assert (await emulator.call("POST", target, link)).status == 403
    for target in ("/v2/keys", "/_emulator/clock", "/_emulator/credentials", "/_emulator/trace", "/nowhere"):
        assert (await emulator.get(target, link)).status == 403, target


@with_emulator(strict=True)
async def test_strict_mode_says_nothing_of_what_a_page_sent(emulator: InProcess) -> None:
    answer = await from_host(emulator, "evil.example", "GET", "/v2/keys?unknown=1")
    assert (answer.status, "svc-emulator-contract" in answer.headers) == (403, False)


# -- hosts ------------------------------------------------------------------------------------


@with_emulator(public_host=("App.Tunnel.example",))
async def test_a_public_host_reaches_all_but_the_control_api(emulator: InProcess) -> None:
    """D-270: a tunnel for webhooks."""
    for host in ("app.tunnel.example", "APP.tunnel.example.:443"):
        assert (await from_host(emulator, host, "GET", "/v2/keys")).status == 200
        assert (await from_host(emulator, host, "POST", f"/v2/publish/{URL}")).status == 200
    for target in ("/_emulator/clock", "/_EMULATOR/clock", "/_emulator", "/%5Femulator/clock"):
        refused = await from_host(emulator, "app.tunnel.example", "GET", target)
        assert refused.status == 403, target
        assert "--allow-control-host" in refused.json["error"]
    for host in ("other.tunnel.example", "tunnel.example", "x.app.tunnel.example"):
        assert (await from_host(emulator, host, "GET", "/v2/keys")).status == 403


@with_emulator(allow_control_host=("dev.example.com",))
async def test_a_control_host_reaches_every_api(emulator: InProcess) -> None:
    """D-270."""
    for target in ("/v2/keys", "/_emulator/clock"):
        assert (await from_host(emulator, "dev.example.com:8080", "GET", target)).status == 200


@with_emulator()
async def test_each_of_several_hosts_has_to_be_in_order(emulator: InProcess) -> None:
    assert (await emulator.get("/v2/keys", {"Host": "evil.example"})).status == 403


@with_emulator()
async def test_a_page_of_the_emulator_itself_may_call_also_behind_tls(emulator: InProcess) -> None:
    for origin in ("http://127.0.0.1:8080", "https://127.0.0.1:8080"):
        assert (await emulator.get("/v2/keys", {"Origin": origin})).status == 200
    plain = await from_host(emulator, "localhost:80", "GET", "/v2/keys", (("Origin", "http://LOCALHOST"),))
    assert plain.status == 200


# -- allowed pages ----------------------------------------------------------------------------


@with_emulator(allow_origin=("https://Console.example.com:443/",))
async def test_an_allowed_page_may_call_the_messaging_api(emulator: InProcess) -> None:
    """D-271."""
    for method, target, status in (
        ("GET", "/v2/keys", 200),
        ("GET", "/v2/messages/none", 404),
        ("PUT", "/v2/keys", 405),
    ):
        headers = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}
        answer = await emulator.call(method, target, headers)
        assert answer.status == status
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["access-control-expose-headers"] == "*"
        assert answer.headers["vary"] == "Origin"
    answer = await emulator.get("/v2/keys", {"Origin": PAGE}, token=None)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (401, PAGE)
    # A program is answered as usual.
    assert "vary" not in (await emulator.get("/v2/keys")).headers


@with_emulator(allow_origin=(PAGE,))
async def test_a_preflight_of_an_allowed_page_is_answered(emulator: InProcess) -> None:
    """D-271."""
    asked = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "DELETE",
        "Access-Control-Request-Headers": "authorization, svc-delay",
        "Access-Control-Request-Private-Network": "true",
    }
    answer = await emulator.call("OPTIONS", "/v2/messages/msg_1", asked, token=None)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["access-control-allow-methods"] == "GET, DELETE"
    assert answer.headers["access-control-allow-headers"] == "authorization, svc-delay"
    assert answer.headers["access-control-allow-private-network"] == "true"
    assert "access-control-allow-credentials" not in answer.headers


@with_emulator(allow_origin=(PAGE,))
async def test_an_allowed_page_may_call_nothing_else(emulator: InProcess) -> None:
    """D-271."""
    for target in ("/_emulator/clock", "/_emulator/credentials", "/v2/queue/users", "/nowhere"):
        for method in ("GET", "OPTIONS"):
            answer = await emulator.call(method, target, {"Origin": PAGE})
            assert answer.status == 403, target
            assert "access-control-allow-origin" not in answer.headers
    for other in ("http://console.example.com", f"{PAGE}:444", "https://x.console.example.com", EVIL, "null"):
        assert (await emulator.get("/v2/keys", {"Origin": other})).status == 403, other


@with_emulator()
async def test_no_page_is_allowed_by_default(emulator: InProcess) -> None:
    """D-271."""
    headers = {"Origin": PAGE, "Access-Control-Request-Method": "GET"}
    assert (await emulator.call("OPTIONS", "/v2/keys", headers, token=None)).status == 403


# -- every answer -----------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
@on_loop
async def test_every_answer_forbids_sniffing(strict: bool) -> None:
    """D-270."""
    async with in_process(strict=strict) as emulator:
        for method, target in (
            ("GET", "/v2/keys"),
            ("GET", "/nowhere"),
            ("PUT", "/v2/keys"),
            ("GET", "/_emulator/clock"),
            ("GET", "/_emulator/trace"),
            ("GET", "/_emulator/contract?format=json"),
            ("POST", "/v2/publish/nowhere"),
        ):
            answer = await emulator.call(method, target)
            assert answer.headers["x-content-type-options"] == "nosniff", target


# -- proxies ----------------------------------------------------------------------------------


async def caller_ip(emulator: InProcess, headers: Headers, client: str) -> str:
    pairs = (("Svc-Delay", "1h"), *headers)
    message_id = await emulator.publish(URL, pairs, client=client)
    found: str = (await emulator.get(f"/v2/messages/{message_id}")).json["callerIP"]
    return found


@with_emulator()
async def test_a_forwarded_address_is_not_believed_by_default(emulator: InProcess) -> None:
    """D-272."""
    for client in ("127.0.0.1", "203.0.113.7"):
        assert await caller_ip(emulator, (("X-Forwarded-For", "198.51.100.1"),), client) == client


@with_emulator(trust_proxy=("10.0.0.0/8", "fd00::1"))
async def test_a_forwarded_address_of_a_trusted_proxy_is_the_callers(emulator: InProcess) -> None:
    """D-272."""
    for client, forwarded, expected in (
        ("10.0.0.2", ("198.51.100.1",), "198.51.100.1"),
        ("10.0.0.2", ("6.6.6.6, 198.51.100.1",), "198.51.100.1"),
        ("10.0.0.2", ("198.51.100.1, 10.0.0.3, 10.9.9.9",), "198.51.100.1"),
        ("10.0.0.2", ("6.6.6.6", "198.51.100.1, 10.0.0.3"), "198.51.100.1"),
        ("::ffff:10.0.0.2", ("198.51.100.1",), "198.51.100.1"),
        ("10.0.0.2", ("[2001:db8::1]:4711",), "2001:db8::1"),
        ("10.0.0.2", ("198.51.100.1:4711",), "198.51.100.1"),
        ("10.0.0.2", ("6.6.6.6, unknown, 10.0.0.3",), "10.0.0.3"),
        ("10.0.0.2", ("unknown",), "10.0.0.2"),
        ("10.0.0.2", ("",), "10.0.0.2"),
        ("10.0.0.2", (), "10.0.0.2"),
        ("192.0.2.9", ("198.51.100.1",), "192.0.2.9"),
        ("fd00::1", ("198.51.100.1",), "198.51.100.1"),
    ):
        headers = tuple(("X-Forwarded-For", each) for each in forwarded)
        assert await caller_ip(emulator, headers, client) == expected, client


# -- bodies that come in pieces --------------------------------------------------------------------


class Sender:
    """A request whose body comes in pieces, as the test gives them; `answer` is its status and its headers."""

    def __init__(self, emulator: InProcess, target: str, token: str | None, bodies: Bodies | None = None) -> None:
        headers = [("Host", "localhost")]
        headers += [] if token is None else [("Authorization", f"Bearer {token}")]
        self._pieces: asyncio.Queue[Message] = asyncio.Queue()
        self._sent: list[Message] = []
        scope = http_scope("POST", target.encode(), headers, "127.0.0.1")
        if bodies is not None:
            scope[Bodies.ALL] = bodies
        self._task = asyncio.ensure_future(emulator.emulation.app(scope, self._pieces.get, self._send))

    async def _send(self, message: Message) -> None:
        self._sent.append(message)

    async def give(self, size: int, *, more: bool = True) -> None:
        """Returns when the piece has been taken, and the request answered if it is refused."""
        self._pieces.put_nowait({"type": "http.request", "body": b"x" * size, "more_body": more})
        for _ in range(100):
            await asyncio.sleep(0)

    def leave(self) -> None:
        self._pieces.put_nowait({"type": "http.disconnect"})

    async def answer(self) -> tuple[int, dict[bytes, bytes]]:
        await self._task
        return self._sent[0]["status"], dict(self._sent[0]["headers"])


@with_emulator()
async def test_who_has_no_credentials_is_refused_before_the_body_is_received(emulator: InProcess) -> None:
    """D-812: the first piece is enough."""
    for target, token in (
        (f"/v2/publish/{URL}", None),
        ("/v2/batch", "wrong"),
        ("/v2/batch?queue_token=wrong", emulator.token),
        ("/v2/queue/rotate-token/x", emulator.token),
    ):
        sender = Sender(emulator, target, token)
        await sender.give(1)
        assert (await sender.answer())[0] == 401, target


def test_the_control_token_is_asked_for_before_the_body_is_received() -> None:
    """D-812."""

    @on_loop
    async def run() -> None:
        async with in_process(control_token="secret") as emulator:
            sender = Sender(emulator, "/_emulator/destinations", None)
            await sender.give(1)
            assert (await sender.answer())[0] == 401

    run()


def test_bodies_under_way_have_a_limit_together() -> None:
    """D-812: what has been answered, or whose client has gone, makes room again."""
    bodies = Bodies(1_000)
    target = f"/v2/publish/{URL}"

    @on_loop
    async def run() -> None:
        async with in_process() as emulator:
            for _ in range(3):
                gone, first, second = (Sender(emulator, target, emulator.token, bodies) for _ in range(3))
                await gone.give(400)
                await first.give(600)
                await second.give(1)
                status, headers = await second.answer()
                assert (status, headers[b"retry-after"]) == (503, b"1")
                # One that comes whole is not counted.
                assert (await emulator.post(target, body=b"x" * 2_000)).status == 200

                gone.leave()
                await gone.answer()
                await first.give(400, more=False)
                assert (await first.answer())[0] == 200

    run()
