"""Which connections end at this process itself, and that no request of a delivery to the control API is sent there."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator

import pytest

from emulator.core.model.messages import Response
from emulator.core.model.options import Method
from emulator.delivery import listeners
from emulator.delivery.egress import Resolved
from emulator.delivery.http import HttpClient, SendFailure
from emulator.delivery.listeners import Listeners
from emulator.server import serving
from tests.delivery.conftest import on_both_loops
from tests.delivery.receivers import Answer, client, receiver

REFUSED = SendFailure(text="the control API takes no deliveries")

IPV4, IPV6 = "127.0.0.1", "::1"


@contextlib.contextmanager
def listening(host: str, *, only_ipv6: bool = True) -> Iterator[tuple[Listeners, int]]:
    """Listeners of which one is on a free port of a host, and the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_ipv6)
        listener.bind((host, 0))
        of_test = Listeners()
        of_test.add(listener)
        yield of_test, listener.getsockname()[1]


# -- the addresses of a connection --------------------------------------------------------------

# An address that no machine has: it is kept for documentation.
ELSEWHERE = "203.0.113.254"


@pytest.mark.parametrize(
    ("host", "peer", "own", "expected"),
    [
        pytest.param("127.0.0.1", "127.0.0.1", "127.0.0.1", True, id="itself"),
        pytest.param("127.0.0.1", "::ffff:127.0.0.1", "::ffff:127.0.0.1", True, id="inside-an-ipv6-address"),
        pytest.param("127.0.0.1", "127.0.0.2", "127.0.0.1", False, id="another-loopback-address"),
        pytest.param("127.0.0.1", "::1", "::1", False, id="the-other-family"),
        pytest.param("127.0.0.1", ELSEWHERE, "10.0.0.1", False, id="elsewhere"),
        pytest.param("0.0.0.0", "127.0.0.1", "127.0.0.1", True, id="all-and-loopback"),
        pytest.param("0.0.0.0", "127.9.9.9", "127.0.0.1", True, id="all-and-any-loopback"),
        pytest.param("0.0.0.0", "0.0.0.0", None, True, id="all-and-unspecified"),
        pytest.param("0.0.0.0", "::ffff:127.0.0.1", None, True, id="all-inside-an-ipv6-address"),
        pytest.param("0.0.0.0", ELSEWHERE, ELSEWHERE, True, id="all-and-both-ends-the-same"),
        pytest.param("0.0.0.0", ELSEWHERE, "10.0.0.1", False, id="all-and-elsewhere"),
        pytest.param("0.0.0.0", "::1", "::1", False, id="all-of-ipv4-and-ipv6"),
        pytest.param("::1", "::1", "::1", True, id="ipv6-itself"),
        pytest.param("::1", "127.0.0.1", "127.0.0.1", False, id="ipv6-alone"),
        pytest.param("::", "::1", "::1", True, id="all-of-ipv6"),
        pytest.param("::", "127.0.0.1", "127.0.0.1", False, id="all-of-ipv6-alone-and-ipv4"),
    ],
)
def test_a_connection_ends_here_by_its_addresses(host: str, peer: str, own: str | None, expected: bool) -> None:
    """D-770."""
    with listening(host) as (of_test, port):
        assert of_test.take((peer, port), None if own is None else (own, 50_000)) is expected


def test_a_listener_of_both_families_takes_either() -> None:
    """D-770."""
    with listening("::", only_ipv6=False) as (of_test, port):
        for peer in ("127.0.0.1", "::ffff:127.0.0.1", "::1"):
            assert of_test.take((peer, port), None), peer


def test_all_addresses_of_the_machine_are_taken_by_a_listener_on_all() -> None:
    """D-770: an address that the machine has can be bound to, and the connection's own end need not be the same."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: the system only chooses which of its addresses it would send from.
        try:
            probe.connect((ELSEWHERE, 9))
        except OSError:
            pytest.skip("the machine has no address but loopback")
        of_machine = probe.getsockname()[0]
    with listening("0.0.0.0") as (of_test, port):
        assert of_test.take((of_machine, port), ("127.0.0.1", 50_000))


def test_another_port_is_another_server() -> None:
    """D-770."""
    with listening("0.0.0.0") as (of_test, port):
        assert not of_test.take((IPV4, port % 65_535 + 1), (IPV4, 50_000))


def test_a_peer_that_cannot_be_read_may_be_any_while_anything_listens() -> None:
    """D-770."""
    with listening(IPV4) as (of_test, _):
        assert of_test.take(None, None)
    assert not of_test.take(None, None)


def test_a_listener_that_is_closed_counts_no_more() -> None:
    """D-770: its port may be another server's from then on."""
    with listening(IPV4) as (of_test, port):
        assert of_test.take((IPV4, port), (IPV4, 50_000))
    assert not of_test.take((IPV4, port), (IPV4, 50_000))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_what_the_server_listens_on_is_known_until_it_closes(host: str) -> None:
    """D-770."""
    peer = IPV6 if ":" in host else IPV4
    with contextlib.closing(serving.listen(host, 0)) as listener:
        port = listener.getsockname()[1]
        assert listeners.OF_PROCESS.take((peer, port), (peer, 50_000))
    assert not listeners.OF_PROCESS.take((peer, port), (peer, 50_000))


# -- requests -----------------------------------------------------------------------------------


async def get(http: HttpClient, url: str) -> Response | SendFailure:
    return await http.exchange(method=Method.GET, url=url, headers=(("Host", "x"),), body=b"", timeout_ms=5000)


SPELLINGS = [
    "127.0.0.1",
    "localhost",
    "LOCALHOST.",
    "a.b.localhost",
    "receiver.internal",
    "0.0.0.0",
    "0",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "127.0.0.1.",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
]


@pytest.mark.skipif(sys.platform == "win32", reason="connects to neither 0.0.0.0 nor IPv4 by way of IPv6")
@pytest.mark.parametrize("host", SPELLINGS)
@on_both_loops
async def test_no_request_to_the_control_api_is_sent_however_the_host_is_spelt(host: str) -> None:
    """D-770: the service's own API is reached, and the control API is not."""

    async def lookup(name: str, port: int, family: socket.AddressFamily) -> list[Resolved]:
        return [Resolved(hostname=name, host=IPV4, port=port, family=socket.AF_INET, proto=0, flags=0)]

    own = Listeners()
    async with client(lookup, own_listeners=own) as http, receiver() as there:
        own.add(there.listener)
        assert await get(http, there.url("/_emulator/credentials", host=host)) == REFUSED
        assert there.requests == []
        reply = await get(http, there.url("/v2/keys", host=host))
        assert isinstance(reply, Response)
        assert len(there.requests) == 1


@on_both_loops
async def test_a_connection_of_the_pool_is_asked_for_each_request() -> None:
    """D-770: it may have been opened for a request to the service's API, or before the emulator listened."""
    own = Listeners()
    async with client(own_listeners=own) as http, receiver() as there:
        for _ in range(2):
            assert isinstance(await get(http, there.url("/_emulator")), Response)
        own.add(there.listener)
        assert isinstance(await get(http, there.url("/v2/keys")), Response)
        assert there.connections == 1
        assert await get(http, there.url("/_emulator")) == REFUSED
        assert len(there.requests) == 3


@on_both_loops
async def test_another_server_of_this_machine_gets_whatever_path() -> None:
    """D-770: an emulator of another process knows a delivery by its headers, and others have nothing to protect."""
    with listening("0.0.0.0") as (own, _):
        async with client(own_listeners=own) as http, receiver([Answer()]) as there:
            assert isinstance(await get(http, there.url("/_emulator/reset")), Response)
            assert there.requests[0].startswith(b"GET /_emulator/reset ")
