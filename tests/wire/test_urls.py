from __future__ import annotations

import pytest

from emulator.wire.urls import canonical_host, is_local_name, origin_of, read_target


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.COM.", "example.com"),
        ("my_container", "my_container"),
        ("127.1", "127.0.0.1"),
        ("2852039166", "169.254.169.254"),
        ("0xA9FEA9FE", "169.254.169.254"),
        ("0xa9.0xfe.0xa9.0xfe", "169.254.169.254"),
        ("0251.0376.0251.0376", "169.254.169.254"),
        ("169.254.43518", "169.254.169.254"),
        ("169.16689662", "169.254.169.254"),
        ("%31%36%39.254.169.254", "169.254.169.254"),
        ("１６９。２５４。１６９。２５４", "169.254.169.254"),
        ("169.254.169.254.", "169.254.169.254"),
        ("[::FFFF:169.254.169.254]", "::ffff:169.254.169.254"),
        ("[fe80::1%25eth0]", "fe80::1"),
        ("::1", "::1"),
        ("bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_every_spelling_of_a_host_has_one_canonical_form(text: str, host: str) -> None:
    canonical = canonical_host(text)
    assert canonical is not None
    assert canonical.replace("::ffff:a9fe:a9fe", "::ffff:169.254.169.254") == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a..b",
        "a b",
        "a\\b",
        "%2531.example",
        "1.2.3.4.5",
        "256.1.1.1",
        "08.1.1.1",
        "4294967296",
        "[::g]",
        "a%00",
    ],
)
def test_what_no_client_could_connect_to_is_no_host(text: str) -> None:
    assert canonical_host(text) is None


@pytest.mark.parametrize(
    ("url", "origin", "host_header", "request_target"),
    [
        ("http://a.test", "http://a.test", "a.test", "/"),
        ("HTTP://A.test:80/x", "http://a.test", "A.test:80", "/x"),
        ("https://a.test:8443?q=1", "https://a.test:8443", "a.test:8443", "/?q=1"),
        ("https://u:p@a.test/x#frag", "https://a.test", "a.test", "/x"),
        ("http://a.test:/x", "http://a.test", "a.test", "/x"),
        # The host of an odd authority is what follows the last at sign.
        ("http://good.test\\@169.254.169.254/", "http://169.254.169.254", "169.254.169.254", "/"),
        ("http://[::1]:3000/x", "http://[::1]:3000", "[::1]:3000", "/x"),
        ("http://a.test/b//c/../%zz%2F?x=1&y=?", "http://a.test", "a.test", "/b//c/../%zz%2F?x=1&y=?"),
        ("http://a.test/x?", "http://a.test", "a.test", "/x?"),
        ("http://bücher.example/x", "http://xn--bcher-kva.example", "xn--bcher-kva.example", "/x"),
    ],
)
def test_a_url_is_read_byte_for_byte(url: str, origin: str, host_header: str, request_target: str) -> None:
    target = read_target(url)
    assert target is not None
    assert (target.origin, target.host_header, target.request_target) == (origin, host_header, request_target)
    assert origin_of(url) == origin


def test_what_a_request_line_cannot_hold_is_percent_encoded() -> None:
    """D-100."""
    target = read_target("http://a.test/a b\r\nX: y/ü?q=\x00")
    assert target is not None
    assert target.request_target == "/a%20b%0D%0AX:%20y/%C3%BC?q=%00"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.test/",
        "a.test",
        "http:///x",
        "http://a.test:99999/",
        "http://a.test:x/",
        "http://[::1/",
        "http://[::1]x/",
    ],
)
def test_a_url_without_a_usable_host_and_port_has_no_target(url: str) -> None:
    assert read_target(url) is None
    assert origin_of(url) is None


@pytest.mark.parametrize(
    "name", ["localhost", "web", "my_service", "app.localhost", "host.docker.internal", "nas.local"]
)
def test_a_name_that_no_public_page_can_have_is_local(name: str) -> None:
    assert is_local_name(name)


@pytest.mark.parametrize("name", ["", "example.com", "localhost.example.com", "internal.example", "local.test"])
def test_a_name_that_a_public_page_can_have_is_not_local(name: str) -> None:
    assert not is_local_name(name)
