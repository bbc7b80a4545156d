"""The week of the demo: what is published, how the receiver answers, what has to arrive when.

The expected instants are written out, not computed, so that a mistake in the engine cannot change both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
class Delivery:
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
