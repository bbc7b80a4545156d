"""What may be contacted (D-105, D-106, D-107)."""

from __future__ import annotations

import asyncio
import socket

import pytest

from emulator.delivery.egress import (
    CheckedResolver,
    EgressPolicy,
    EgressRefused,
    EgressVerdict,
    ExternalPolicy,
    Lookup,
    Resolved,
)

LOCAL = [
    "http://127.0.0.1:3000/x",
    "http://127.8.9.1/",
    "http://2130706433/",
    "http://127.1/",
    "http://0.0.0.0:8000/",
    "http://0/",
    "http://[::]:8000/",
    "http://[::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://10.1.2.3/",
    "http://172.17.0.1/",
    "http://192.168.65.254/",
    "http://100.64.1.1/",
    "http://198.19.249.2/",
    "http://0.250.250.254/",
    "http://[fd12:3456::1]/",
    "http://localhost:3000/",
    "http://LOCALHOST./",
    "http://app.localhost/",
    "http://web:8000/",
    "http://my_service/",
    "http://host.docker.internal/",
    "http://printer.local/",
    "https://user:pass@localhost/",
]

EXTERNAL = [
    "https://api.example.com/hook",
    "https://example.com.:8443/",
    "http://93.184.216.34/",
    "http://1572395042/",
    "http://172.32.0.1/",
    "http://192.169.0.1/",
    "http://[2606:2800:220:1::1]/",
    # What a gateway would make an IPv4 address of; this one is behind none.
    "http://[2606:2800:220:1::a9fe:a9fe]/",
    "http://localhost.example.com/",
    "http://internal.example/",
    "http://localhost@example.com/",
    "http://bücher.example/",
]

METADATA = [
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.169.254./",
    "http://169.254.170.2/v2/credentials",
    "http://169.254.0.1/",
    "http://2852039166/",
    "http://0xA9FEA9FE/",
    "http://0xa9.0xfe.0xa9.0xfe/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://169.16689662/",
    "http://%31%36%39.254.169.254/",
    "http://169%2E254%2E169%2E254/",
    "http://１６９.２５４.１６９.２５４/",
    "http://169。254。169。254/",
    "http://localhost@169.254.169.254/",
    "http://localhost\\@169.254.169.254/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[0:0:0:0:0:FFFF:A9FE:A9FE]/",
    "http://[::169.254.169.254]/",
    "http://[64:ff9b::169.254.169.254]/",
    "http://[64:ff9b:1::169.254.169.254]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[2001:db8::5efe:169.254.169.254]/",
    "http://[fe80::1]/",
    "http://[fe80::a9fe:a9fe%25eth0]/",
    "http://[fd00:ec2::254]/",
    "http://[FD00:0EC2:0:0:0:0:0:254]/",
    "http://[fd00:ec2::23]/",
    "http://[fd20:ce::254]/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://METADATA.google.internal./",
    "http://metadata%2egoogle.internal/",
    "http://metadata.goog/",
    "http://instance-data/",
]

EVERYTHING_ALLOWED = EgressPolicy(
    external=ExternalPolicy.ALLOW,
    allow_hosts=(
        "169.254.169.254",
        "metadata.google.internal",
        "metadata.goog",
        "instance-data",
        "*.internal",
        "fe80::1",
    ),
)


@pytest.mark.parametrize("url", LOCAL)
@pytest.mark.parametrize("external", list(ExternalPolicy))
def test_this_machine_and_private_networks_are_always_reached(url: str, external: ExternalPolicy) -> None:
    assert EgressPolicy(external=external).decide(url) is EgressVerdict.NETWORK


@pytest.mark.parametrize("url", EXTERNAL)
def test_everything_else_follows_the_policy(url: str) -> None:
    assert EgressPolicy().decide(url) is EgressVerdict.CAPTURE
    assert EgressPolicy(external=ExternalPolicy.FAIL).decide(url) is EgressVerdict.FAIL
    assert EgressPolicy(external=ExternalPolicy.ALLOW).decide(url) is EgressVerdict.NETWORK


@pytest.mark.parametrize("url", METADATA)
def test_cloud_metadata_is_never_reached(url: str) -> None:
    assert EgressPolicy().decide(url) is EgressVerdict.FORBIDDEN
    assert EVERYTHING_ALLOWED.decide(url) is EgressVerdict.FORBIDDEN


@pytest.mark.parametrize("url", ["http:///x", "http://a b/", "ftp://localhost/", "http://%2531.test/", "http://[::1"])
def test_a_url_without_a_usable_host_is_never_reached(url: str) -> None:
    assert EVERYTHING_ALLOWED.decide(url) is EgressVerdict.FORBIDDEN


@pytest.mark.parametrize(
    ("allowed", "url", "route"),
    [
        ("api.example.com", "https://API.example.com./x", EgressVerdict.NETWORK),
        ("API.Example.com", "https://api.example.com/x", EgressVerdict.NETWORK),
        ("api.example.com", "https://www.api.example.com/x", EgressVerdict.CAPTURE),
        ("*.example.com", "https://a.b.example.com/x", EgressVerdict.NETWORK),
        ("*.example.com", "https://example.com/x", EgressVerdict.CAPTURE),
        ("*.example.com", "https://notexample.com/x", EgressVerdict.CAPTURE),
        ("93.184.216.34", "http://1572395042/", EgressVerdict.NETWORK),
        ("2606:2800:220:1::1", "http://[2606:2800:220:1:0:0:0:1]/", EgressVerdict.NETWORK),
    ],
)
def test_an_allowed_host_is_reached_although_external(allowed: str, url: str, route: EgressVerdict) -> None:
    assert EgressPolicy(allow_hosts=(allowed,)).decide(url) is route


# -- names ------------------------------------------------------------------------------------


def answering(*addresses: str) -> Lookup:
    async def look_up(host: str, port: int, family: socket.AddressFamily) -> list[Resolved]:
        return [
            Resolved(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for address in addresses
        ]

    return look_up


async def unreachable_lookup(host: str, port: int, family: socket.AddressFamily) -> list[Resolved]:
    raise AssertionError(f"asked for {host}")


def resolve(policy: EgressPolicy, host: str, lookup: Lookup) -> list[str]:
    found = asyncio.run(CheckedResolver(policy, lookup).resolve(host, 80))
    return [address["host"] for address in found]


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254", "fe80::1%eth0", "100.100.100.200"]
)
@pytest.mark.parametrize("host", ["web", "rebind.internal", "api.example.com"])
def test_a_name_that_resolves_to_metadata_is_refused_whatever_the_options(address: str, host: str) -> None:
    policy = EgressPolicy(external=ExternalPolicy.ALLOW, allow_hosts=("web", "rebind.internal", "api.example.com"))
    with pytest.raises(
        EgressRefused, match=f"egress refused: {host} resolves to a cloud metadata or link-local address"
    ):
        resolve(policy, host, answering("10.0.0.1", address))


def test_a_local_name_that_resolves_to_a_public_address_is_refused() -> None:
    with pytest.raises(EgressRefused, match=r"egress refused: web resolves to an address outside private networks"):
        resolve(EgressPolicy(), "web", answering("10.0.0.1", "93.184.216.34"))


@pytest.mark.parametrize(
    "policy",
    [EgressPolicy(external=ExternalPolicy.ALLOW), EgressPolicy(allow_hosts=("nas.local",))],
    ids=["all", "one"],
)
def test_a_local_name_may_resolve_to_a_public_address_where_that_is_allowed(policy: EgressPolicy) -> None:
    assert resolve(policy, "nas.local", answering("93.184.216.34")) == ["93.184.216.34"]


def test_a_local_name_resolves_to_private_addresses() -> None:
    assert resolve(EgressPolicy(), "web", answering("172.18.0.3", "fd00::3")) == ["172.18.0.3", "fd00::3"]


@pytest.mark.parametrize("host", ["localhost", "app.localhost"])
def test_localhost_and_names_below_it_are_this_machine_and_ask_nobody(host: str) -> None:
    """D-106."""
    assert resolve(EgressPolicy(), host, unreachable_lookup) == ["127.0.0.1", "::1"]


def test_an_address_is_held_against_the_policy_too() -> None:
    assert resolve(EgressPolicy(), "10.0.0.7", unreachable_lookup) == ["10.0.0.7"]
    with pytest.raises(EgressRefused):
        resolve(EgressPolicy(), "169.254.169.254", unreachable_lookup)
