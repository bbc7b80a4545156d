"""Connections counted at the system call while tricky URLs are published: none leaves the machine.

The server runs under `strace`, and where it is allowed in a network of its own that has nothing but
loopback, so that whatever it does reaches nobody.
"""

from __future__ import annotations

import ipaddress
import json
import re
import shutil
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

from campaign.calls import Caller, NoAnswer, caller
from campaign.programs import Server, serving
from campaign.receiver import Receiver, receiving
from campaign.rounds import Report, Round

# Of all the URLs below, so many a round: each takes ten calls of a server that strace slows down.
_URLS = 40
_CALLS = "connect,sendto,sendmsg,sendmmsg"
_V4 = re.compile(r'sin_port=htons\((\d+)\), sin_addr=inet_addr\("([^"]+)"\)')
_V6 = re.compile(r'sin6_port=htons\((\d+)\).*?inet_pton\(AF_INET6, "([^"]+)"')
# Names and addresses that are nobody's (RFC 2606, RFC 5737, RFC 3849), and those of cloud metadata.
_OUTSIDE = ("203.0.113.7", "198.51.100.9", "192.0.2.1", "a.example", "evil.invalid", "169.254.169.254")
_V6_OUTSIDE = ("[2001:db8::1]", "[::ffff:203.0.113.7]", "[64:ff9b::cb00:7107]", "[2002:cb00:7107::1]", "[fe80::1]")


def play(round: Round) -> None:
    """One server, and every route for every URL."""
    if shutil.which("strace") is None:
        round.report.count("rounds without strace, which counted nothing")
        return
    _raise_loopback()
    trace = round.folder / "strace.txt"
    # With -D the process that is started is the server, and the tracer is its grandchild.
    before = ("strace", "-D", "-f", "-q", "-e", "signal=none", "-s", "64", "-e", f"trace={_CALLS}", "-o", str(trace))
    options = ("--clock", "frozen", "--external", "capture", "--log-level", "error")
    with receiving() as receiver, serving(round.folder, *options, before=before) as server:
        urls = _urls(round.random, server.port)
        _publish_all(server, receiver, urls, round)
        # One that must be seen, or nothing was.
        seen = {each.body for each in receiver.arrivals}
        code = server.stop()
        round.report.expect(code == 0, "the exit code after tricky URLs", f"{code}: {server.err[-300:]}")
        is_whole = _await_end(trace, server.process.pid)
    round.report.expect(is_whole, "strace did not write the end", str(trace))
    round.report.expect("must arrive" in seen, "the delivery that must arrive did not", str(len(seen)))
    _count(trace, receiver.port, round.report)


def _raise_loopback() -> None:
    """Switch on the loopback interface, which is down in a new network."""
    import fcntl  # Windows has none, and no strace either.

    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(any_socket, 0x8913, request)[:18])[1]
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", flags | 1))


def _urls(random: Random, port: int) -> list[str]:
    """URLs that are outside, each in a form that some parser takes for this machine, or the reverse."""
    found: list[str] = []
    for host in (*_OUTSIDE, *_V6_OUTSIDE):
        found += [f"http://{host}/", f"https://{host}:8443/x?y=1", f"HTTP://{host.upper()}:{port}/"]
    for host in random.sample(_OUTSIDE, 3):
        found += [
            f"http://localhost@{host}/",
            f"http://127.0.0.1:80@{host}/",
            f"http://{host}#@127.0.0.1/",
            f"http://{host}\\@127.0.0.1/",
            f"http://127.0.0.1\\@{host}/",
            f"http://{host}%2f@127.0.0.1/",
            f"http://127.0.0.1%2f.{host}/",
            f"http://127.0.0.1.{host}/",
            f"http://localhost.{host}/",
            f"http://{host}./",
            f"http://{host}%00.localhost/",
            f"http://{host}\t.localhost/",
            f"http://{host}／.localhost/",
            f"http:\\\\{host}/",
            f"http:///{host}/",
            f"http:{host}/",
            "http://%32%30%33.0.113.7/",
        ]
    number = int(ipaddress.IPv4Address("203.0.113.7"))
    found += [f"http://{number}/", f"http://{number:#x}/", f"http://0{number:o}/", "http://0313.0.0161.7/"]
    found += ["http://203.0.28935/", "http://203.28935/", "http://２０３.0.113.7/", "http://203。0。113。7/"]
    found += ["http://[::ffff:cb00:7107]/", "http://[0:0:0:0:0:ffff:203.0.113.7]/", "http://[::203.0.113.7]/"]
    found += ["http://[2001:db8::1%25lo]/", "http://[fe80::1%25eth0]/", "http://metadata.google.internal/"]
    found += [
        "http://lоcalhost.example/",
        "http://loca\u00adlhost.example/",
        "http://ⓔxample.example/",
        "http://xn--a.example/",
    ]
    return random.sample(found, _URLS)


# -- routes -----------------------------------------------------------------------------------


def _publish_all(server: Server, receiver: Receiver, urls: list[str], round: Round) -> None:
    owner = caller(server.port, timeout_s=60)
    for number, url in enumerate(urls):
        for route in _routes(owner, receiver, url, number):
            with suppress(NoAnswer, ValueError):
                route()
            round.report.count("publishes of tricky URLs")
    owner.message("POST", f"publish/{receiver.url('hook')}", {}, "must arrive")
    # Everything comes due: schedules, delays, retries, callbacks.
    moved = owner.control("POST", "/clock/advance", {"by": "2h"})
    round.report.expect(moved.is_good, "the clock cannot be moved after tricky URLs", str(moved))
    round.report.count("URLs", len(urls))


def _routes(owner: Caller, receiver: Receiver, url: str, number: int) -> Iterator[Callable[[], object]]:
    """Every way in which a URL can become a destination. Each is refused or taken; both are fine."""
    json_type = {"Content-Type": "application/json"}
    raw = quoted(url)
    once = {"Svc-Retries": "1", "Svc-Retry-Delay": "1000"}
    good = receiver.url("hook")
    header = url.encode().decode("latin-1")
    yield lambda: owner.message("POST", f"publish/{raw}", once, "x")
    yield lambda: owner.message("POST", f"enqueue/queue/{raw}", once, "x")
    item = {"destination": url, "headers": {**once, "Svc-Callback": url}, "body": "x"}
    yield lambda: owner.message("POST", "batch", json_type, json.dumps([item]))
    cron = {"Svc-Cron": "0 * * * *", "Svc-Schedule-Id": f"s{number}", **once}
    yield lambda: owner.message("POST", f"schedules/{raw}", cron, "x")
    group = json.dumps({"endpoints": [{"url": url}]})
    yield lambda: owner.message("POST", f"topics/g{number}/endpoints", json_type, group)
    yield lambda: owner.message("POST", f"publish/g{number}", once, "x")
    yield lambda: owner.message("POST", f"publish/{good}", {**once, "Svc-Callback": header}, "x")
    failing = receiver.url("broken")
    yield lambda: owner.message("POST", f"publish/{failing}", {**once, "Svc-Failure-Callback": header}, "x")
    rule = {"match": {"url": f"http://rule-{number}.example/*"}, "forward_to": url}
    yield lambda: owner.control("POST", "/destinations", rule)
    yield lambda: owner.message("POST", f"publish/http://rule-{number}.example/", once, "x")


def quoted(url: str) -> str:
    """A URL as it can stand in a request line: only what would end the line is escaped."""
    return "".join(each if "!" <= each <= "~" else "".join(f"%{byte:02X}" for byte in each.encode()) for each in url)


# -- counting ---------------------------------------------------------------------------------


def _await_end(trace: Path, pid: int) -> bool:
    """Whether the tracer has written that the server has ended: it may be behind."""
    pause = threading.Event()
    for _ in range(200):
        # Lines begin with the number of the process, filled up with spaces.
        if re.search(rf"^{pid} +\+\+\+ (exited|killed)", trace.read_text("utf-8", "replace"), re.MULTILINE):
            return True
        pause.wait(0.05)
    return False


def _count(trace: Path, receiver_port: int, report: Report) -> None:
    outside: list[str] = []
    is_seen = False
    for line in trace.read_text("utf-8", "replace").splitlines():
        for port, address in [*_V4.findall(line), *_V6.findall(line)]:
            report.count("connections seen")
            is_seen = is_seen or port == str(receiver_port)
            number = ipaddress.ip_address(address)
            mapped = getattr(number, "ipv4_mapped", None)
            # A datagram socket that is connected sends nothing; but none has a reason to be.
            if not (mapped or number).is_loopback:
                outside.append(f"{address} port {port}")
    report.expect(is_seen, "strace saw not even the connection to the receiver", str(trace))
    report.expect(not outside, "a connection outside loopback", f"{len(outside)}: {sorted(set(outside))[:8]}")
