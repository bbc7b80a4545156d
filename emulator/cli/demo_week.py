"""The week of the demo: what is published, how the receiver answers, what has to arrive when, and what is printed.

The expected instants are written out, not computed, so that a mistake in the engine cannot change both.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import jwt
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from emulator.client.records import Delivery as JournalEntry
from emulator.client.records import Dialect
from emulator.queries.reports import Credentials
from emulator.server.logs import runs_for_agent, wants_colours
from emulator.wire.times import iso

EPOCH = "2026-03-23T08:00:00Z"
BEGINNING = "Monday, 23 March 2026, 08:00 UTC"
DAYS = 7
ZONE = "Europe/Berlin"
GROUP = "customers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One call of the messaging API; `{receiver}` stands for the receiver's address."""

    path: str
    headers: tuple[tuple[str, str], ...] = ()
    body: str
    method: str = "POST"

    def addressed(self, receiver_url: str) -> Publication:
        """The call for the receiver at this address."""

        def filled(text: str) -> str:
            return text.replace("{receiver}", receiver_url)

        headers = tuple((name, filled(value)) for name, value in self.headers)
        return replace(self, path=filled(self.path), body=filled(self.body), headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the receiver answers."""

    status: int = 200
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An expected or actual delivery: `at` is ISO 8601, `path` the destination's."""

    at: str
    path: str
    attempt: int
    status: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDelivery:
    """One entry of the delivery journal; `problem` is what the receiver found wrong with its signature."""

    arrival: Arrival
    message_id: str
    problem: str | None


PUBLICATIONS = (
    Publication(
        path=f"/v2/topics/{GROUP}/endpoints",
        body='{"endpoints": [{"name": "anna", "url": "{receiver}/group/anna"}, '
        '{"name": "ben", "url": "{receiver}/group/ben"}, '
        '{"name": "chloe", "url": "{receiver}/group/chloe"}]}',
    ),
    Publication(path="/v2/publish/{receiver}/welcome", body='{"mail": "welcome"}'),
    Publication(
        path="/v2/publish/{receiver}/orders",
        headers=(("Callback", "{receiver}/orders/done"),),
        body='{"order": 1001}',
    ),
    Publication(path="/v2/publish/{receiver}/invoice", body='{"invoice": 17}'),
    Publication(
        path="/v2/publish/{receiver}/broken",
        headers=(("Retries", "2"), ("Failure-Callback", "{receiver}/alarm")),
        body='{"doomed": true}',
    ),
    Publication(path=f"/v2/publish/{GROUP}", headers=(("Delay", "1d"),), body='{"news": "spring sale"}'),
    Publication(path="/v2/publish/{receiver}/reminder", headers=(("Delay", "2d3h"),), body='{"remind": "anna"}'),
    Publication(
        path="/v2/schedules/{receiver}/report",
        headers=(("Cron", f"CRON_TZ={ZONE} 30 9 * * *"), ("Schedule-Id", "daily-report")),
        body='{"report": "daily"}',
    ),
)

# One per attempt, the last repeats; what is not listed is answered 200.
REPLIES: dict[str, tuple[Reply, ...]] = {
    "/invoice": (Reply(status=503, retry_after_s=90), Reply(status=503), Reply(status=200)),
    "/broken": (Reply(status=500),),
}

LABELS = {
    "/welcome": "welcome, at once",
    "/orders": "order with a callback",
    "/orders/done": "its callback",
    "/invoice": "invoice, flaky target",
    "/broken": "doomed, 2 retries",
    "/alarm": "its failure callback",
    "/group/anna": "news to a URL group",
    "/group/ben": "news to a URL group",
    "/group/chloe": "news to a URL group",
    "/reminder": "reminder, in 2d3h",
    "/report": "daily report by cron",
}

EXPECTED = (
    Arrival(at="2026-03-23T08:00:00.000Z", path="/welcome", attempt=1, status=200),
    Arrival(at="2026-03-23T08:00:00.000Z", path="/orders", attempt=1, status=200),
    Arrival(at="2026-03-23T08:00:00.000Z", path="/orders/done", attempt=1, status=200),
    Arrival(at="2026-03-23T08:00:00.000Z", path="/invoice", attempt=1, status=503),
    Arrival(at="2026-03-23T08:00:00.000Z", path="/broken", attempt=1, status=500),
    # The default backoff: 12 s, then 148 s.
    Arrival(at="2026-03-23T08:00:12.000Z", path="/broken", attempt=2, status=500),
    # The receiver asked for 90 s.
    Arrival(at="2026-03-23T08:01:30.000Z", path="/invoice", attempt=2, status=503),
    Arrival(at="2026-03-23T08:02:40.000Z", path="/broken", attempt=3, status=500),
    Arrival(at="2026-03-23T08:02:40.000Z", path="/alarm", attempt=1, status=200),
    Arrival(at="2026-03-23T08:03:58.000Z", path="/invoice", attempt=3, status=200),
    Arrival(at="2026-03-23T08:30:00.000Z", path="/report", attempt=1, status=200),
    Arrival(at="2026-03-24T08:00:00.000Z", path="/group/anna", attempt=1, status=200),
    Arrival(at="2026-03-24T08:00:00.000Z", path="/group/ben", attempt=1, status=200),
    Arrival(at="2026-03-24T08:00:00.000Z", path="/group/chloe", attempt=1, status=200),
    Arrival(at="2026-03-24T08:30:00.000Z", path="/report", attempt=1, status=200),
    Arrival(at="2026-03-25T08:30:00.000Z", path="/report", attempt=1, status=200),
    Arrival(at="2026-03-25T11:00:00.000Z", path="/reminder", attempt=1, status=200),
    Arrival(at="2026-03-26T08:30:00.000Z", path="/report", attempt=1, status=200),
    Arrival(at="2026-03-27T08:30:00.000Z", path="/report", attempt=1, status=200),
    Arrival(at="2026-03-28T08:30:00.000Z", path="/report", attempt=1, status=200),
    # Summer time began at 01:00 UTC: half past nine in Berlin is an hour earlier in UTC.
    Arrival(at="2026-03-29T07:30:00.000Z", path="/report", attempt=1, status=200),
    Arrival(at="2026-03-30T07:30:00.000Z", path="/report", attempt=1, status=200),
)
DEAD_LETTERS = ("/broken",)


class DemoReceiver:
    """Checks and remembers every request, and answers by `replies`: one per attempt, the last repeats."""

    def __init__(
        self, url: str, credentials: Credentials, dialect: Dialect, replies: Mapping[str, Sequence[Reply]]
    ) -> None:
        self._receipts: dict[tuple[str, int], str | None] = {}
        self._url = url
        self._credentials = credentials
        self._dialect = dialect
        self._replies = replies
        self._seen: Counter[str] = Counter()
        self.app = Starlette(routes=[Route("/{path:path}", self._receive, methods=["POST"])])

    def confirm(self, delivery: JournalEntry) -> CheckedDelivery:
        """An entry of the delivery journal, with what this receiver found wrong with its signature."""
        return CheckedDelivery(
            arrival=Arrival(
                at=iso(delivery.at_ms),
                path=urlsplit(delivery.url).path,
                attempt=delivery.attempt,
                status=delivery.status,
            ),
            message_id=delivery.message_id,
            problem=self._receipts.get((delivery.message_id, delivery.attempt), "never arrived"),
        )

    async def _receive(self, request: Request) -> Response:
        path, headers, prefix = request.url.path, request.headers, self._dialect.header_prefix
        message_id = headers.get(f"{prefix}Message-Id", "")
        attempt = int(headers.get(f"{prefix}Retried", "0")) + 1
        problem = self._problem(headers.get(f"{prefix}Signature", ""), path, await request.body())
        self._receipts[message_id, attempt] = problem
        if problem is not None:
            return Response(problem, 401)
        replies = self._replies.get(path, (Reply(),))
        reply = replies[min(self._seen[path], len(replies) - 1)]
        self._seen[path] += 1
        hint = {} if reply.retry_after_s is None else {"Retry-After": str(reply.retry_after_s)}
        return Response(status_code=reply.status, headers=hint)

    def _problem(self, signature: str, path: str, body: bytes) -> str | None:
        """What a receiver checks: key, issuer, time, destination and body."""
        try:
            claims = self._claims(signature)
        except jwt.InvalidTokenError as error:
            return f"invalid signature: {error}"
        if claims["sub"] != self._url + path:
            return f"the signature is for {claims['sub']}"
        digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip("=")
        if claims["body"].rstrip("=") != digest:
            return "the signature is for another body"
        return None

    def _claims(self, signature: str) -> dict[str, str]:
        try:
            return self._decoded(signature, self._credentials.current_signing_key)
        except jwt.InvalidSignatureError:
            # Signed after a rotation of the keys that this receiver does not know of yet.
            return self._decoded(signature, self._credentials.next_signing_key)

    def _decoded(self, signature: str, key: str) -> dict[str, str]:
        required = ["iss", "sub", "exp", "nbf", "body"]
        claims: dict[str, str] = jwt.decode(
            signature, key, algorithms=["HS256"], issuer=self._dialect.issuer, options={"require": required}
        )
        return claims


# Wide enough for every line, where no terminal sets a width.
_PLAIN_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """What happened."""

    deliveries: Sequence[CheckedDelivery]
    dead_letters: Sequence[str]
    wall_s: float


def console() -> Console:
    """A console with colours on a terminal only, without them if NO_COLOR is set."""
    stream = sys.stdout
    is_terminal = stream.isatty() and not runs_for_agent()
    return Console(
        file=stream,
        color_system="auto" if is_terminal and wants_colours() else None,
        force_terminal=is_terminal,
        width=None if is_terminal else _PLAIN_WIDTH,
        highlight=False,
        emoji=False,
    )


# What the timeline takes with all of its columns.
WIDTH = 79


def introduction(server_url: str, receiver_url: str) -> str:
    """What the demo is about to do, before its clock moves."""
    return (
        f"A server on {server_url} with a frozen clock, and a receiver on {receiver_url} that checks the "
        f"signature of everything it gets. Nothing leaves this machine.\n\n"
        f"It is {BEGINNING}. A welcome, an order, an invoice, a message that will fail, news to a group, "
        f"a reminder and a daily schedule are published; then {DAYS} days pass in one call.\n"
    )


def timeline(deliveries: Sequence[CheckedDelivery], *, can_tick: bool, is_narrow: bool = False) -> Table:
    """The deliveries in order, each at its own virtual time; a narrow one leaves two columns of them out."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("Virtual time (UTC)", min_width=19, no_wrap=True)
    if not is_narrow:
        table.add_column("Berlin", no_wrap=True)
    table.add_column("Message", no_wrap=not is_narrow)
    table.add_column("Try", justify="right", min_width=3, no_wrap=True)
    if not is_narrow:
        table.add_column("Destination", no_wrap=True)
    table.add_column("Status", justify="right", min_width=6, no_wrap=True)
    table.add_column("Signed", min_width=6, no_wrap=is_narrow, overflow="fold")
    zone = ZoneInfo(ZONE)
    for delivery in deliveries:
        arrival = delivery.arrival
        succeeded = arrival.status is not None and arrival.status < 300
        good = "✓" if can_tick else "yes"
        berlin = Text(f"{datetime.fromisoformat(arrival.at).astimezone(zone):%H:%M}", style="dim")
        table.add_row(
            _day_and_time(arrival.at),
            *(() if is_narrow else (berlin,)),
            Text(LABELS.get(arrival.path, delivery.message_id)),
            str(arrival.attempt),
            *(() if is_narrow else (Text(arrival.path),)),
            Text(str(arrival.status or "none"), style="green" if succeeded else "red"),
            Text(good if delivery.problem is None else delivery.problem, style="red" if delivery.problem else "green"),
        )
    return table


def mismatches(week: Week) -> list[str]:
    """What is missing and what is unexpected; empty if the week went as planned."""
    order = attrgetter("at", "path", "attempt")
    expected, found = Counter(EXPECTED), Counter(delivery.arrival for delivery in week.deliveries)
    lines = [f"missing: {_described(arrival)}" for arrival in sorted((expected - found).elements(), key=order)]
    lines += [f"unexpected: {_described(arrival)}" for arrival in sorted((found - expected).elements(), key=order)]
    lines += [f"bad signature: {_described(each.arrival)}: {each.problem}" for each in week.deliveries if each.problem]
    if tuple(week.dead_letters) != DEAD_LETTERS:
        lines.append(f"dead letters: expected {DEAD_LETTERS}, found {tuple(week.dead_letters)}")
    return lines


def summary(week: Week) -> str:
    """The sums of the week, in one line."""
    messages = len({delivery.message_id for delivery in week.deliveries})
    verified = sum(delivery.problem is None for delivery in week.deliveries)
    letters = "1 dead letter" if len(week.dead_letters) == 1 else f"{len(week.dead_letters)} dead letters"
    return (
        f"{DAYS} days in {week.wall_s:.2f} s: {len(week.deliveries)} deliveries of {messages} messages, "
        f"{verified} signatures verified, {letters} as planned"
    )


HINTS = """
Summer time began on Sunday: the report still came at 9:30 in Berlin, an hour earlier in UTC.

Next:  svc-emulator serve --clock frozen      a server of your own
       eval "$(svc-emulator env)"             the variables for your client
       svc-emulator clock advance 7d          the same week for your own messages
       svc-emulator dev                       a server for the public clients (qstash, @upstash/qstash)
The README continues from there."""


def _described(arrival: Arrival) -> str:
    return f"{arrival.at} {arrival.path} attempt {arrival.attempt} -> {arrival.status or 'no response'}"


def _day_and_time(at: str) -> str:
    moment = datetime.fromisoformat(at)
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    # Not by strftime: the table reads the same in every locale.
    return f"{days[moment.weekday()]} {moment.day:02} {months[moment.month - 1]} {moment:%H:%M:%S}"
