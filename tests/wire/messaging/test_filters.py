"""Query parameters that choose and page (D-078)."""

from __future__ import annotations

import pytest

from emulator.core.commands import CancelMessages
from emulator.core.model.messages import EventState, MessageFilter
from emulator.core.record import AccountId
from emulator.queries.history import DeadLetterQuery, EventQuery
from emulator.wire import dialect, filters
from tests.wire.request_parts import refused, request

_SVC = dialect.load("svc")
_ACCOUNT = AccountId("account")


def _cancellation(query: str = "", body: bytes = b"") -> CancelMessages:
    return filters.read_cancellation(request(query=query, body=body, method="DELETE"), _SVC, _ACCOUNT)


def _events(query: str = "") -> EventQuery:
    return filters.read_event_query(request(query=query, method="GET"), _SVC, _ACCOUNT)


def _dead_letters(query: str = "", *, body: bytes = b"", method: str = "GET") -> DeadLetterQuery | None:
    return filters.read_dead_letter_query(request(query=query, body=body, method=method), _SVC, _ACCOUNT)


# --- bulk cancel --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", MessageFilter()),
        ("queue_token=t&svc-retries=3", MessageFilter()),
        ("label=a&label=b,c", MessageFilter(labels=("a", "b", "c"))),
        ("label=a,a,%20b&label=b", MessageFilter(labels=("a", "b"))),
        ("topicName=g&queueName=q&scheduleId=s", MessageFilter(url_groups=("g",), queues=("q",), schedule_ids=("s",))),
        ("url=https://a.test/?x=1,2", MessageFilter(urls=("https://a.test/?x=1,2",))),
        ("url=https://a.test/,http://b.test/", MessageFilter(urls=("https://a.test/", "http://b.test/"))),
        ("host=a.test,b.test:81&path=/a,b,/c", MessageFilter(hosts=("a.test", "b.test:81"), paths=("/a,b", "/c"))),
        ("flowControlKey=k%20k", MessageFilter(flow_keys=("k k",))),
        ("callerIp=1.1.1.1&callerIP=::1", MessageFilter(caller_ips=("1.1.1.1", "::1"))),
        ("fromDate=0&toDate=9007199254740991", MessageFilter(from_ms=0, to_ms=9_007_199_254_740_991)),
        ("messageIds=msg_1,msg_2&label=a&fromDate=5", MessageFilter(message_ids=("msg_1", "msg_2"))),
    ],
)
def test_cancel_filters(query: str, wanted: MessageFilter) -> None:
    assert _cancellation(query) == CancelMessages(account_id=_ACCOUNT, wanted=wanted, count=None)
    assert _cancellation(f"{query}&count=500").count == 500
    assert _cancellation(f"{query}&count=").count is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            b'{"messageIds":["a","b"],"label":"x"}',
            CancelMessages(account_id=_ACCOUNT, wanted=MessageFilter(message_ids=("a", "b")), count=None),
        ),
        (b'{"messageIds":[]}', CancelMessages(account_id=_ACCOUNT, wanted=MessageFilter(), count=None)),
        (b"", CancelMessages(account_id=_ACCOUNT, wanted=MessageFilter(), count=None)),
        (b"null", CancelMessages(account_id=_ACCOUNT, wanted=MessageFilter(), count=None)),
        (
            b'{"topicName":"g","label":["a","b"],"fromDate":5,"count":2}',
            CancelMessages(
                account_id=_ACCOUNT, wanted=MessageFilter(url_groups=("g",), labels=("a", "b"), from_ms=5), count=2
            ),
        ),
    ],
)
def test_cancel_filters_in_a_body(body: bytes, expected: CancelMessages) -> None:
    """D-082: older clients send a body, some an empty one."""
    assert _cancellation(body=body) == expected


@pytest.mark.parametrize("name", ["label", "topicName", "callerIP", "host"])
def test_an_empty_list_of_a_filter_does_not_cancel_everything(name: str) -> None:
    """D-082."""
    with refused(name):
        _cancellation(body=f'{{"{name}":[]}}'.encode())


@pytest.mark.parametrize(
    ("query", "body", "field"),
    [
        ("labels=a", b"", "labels"),
        ("messageId=a", b"", "messageId"),
        ("label=", b"", "label"),
        ("label=,%20,", b"", "label"),
        ("messageIds=a&label=", b"", "label"),
        ("messageIds=a&fromDate=soon", b"", "fromDate"),
        ("count=0", b"", "count"),
        ("count=501", b"", "count"),
        ("count=1&count=2", b"", "count"),
        ("fromDate=9007199254740992", b"", "fromDate"),
        ("toDate=-1", b"", "toDate"),
        ("", b'{"labels":["a"]}', "labels"),
        ("", b'{"messageIds":[1]}', "messageIds[0]"),
        ("", b'{"fromDate":"x"}', "fromDate"),
        ("", b'{"count":0}', "count"),
        ("", b"[]", "body"),
    ],
)
def test_wrong_cancel_filter_is_named(query: str, body: bytes, field: str) -> None:
    """A misspelt or empty filter must not cancel everything."""
    with refused(field):
        _cancellation(query, body)


# --- events -------------------------------------------------------------------------------------


def test_event_query_by_default() -> None:
    assert _events() == _events("cursor=") == EventQuery(account_id=_ACCOUNT, count=1000, latest_first=True)
    logs = filters.read_event_query(request(), _SVC, _ACCOUNT, maximum=filters.MAX_LOGS)
    assert logs == EventQuery(account_id=_ACCOUNT, count=100, latest_first=True)


def test_event_query_with_everything() -> None:
    query = (
        "count=5&cursor=1686652644442-12&order=earliestFirst&messageId=m1&messageIds=m2&messageIds=m3&state=delivered"
        "&url=http://a&host=b&path=/c&topicName=d&scheduleId=e&queueName=f&label=g&flowControlKey=h&callerIp=i"
        "&fromDate=1&toDate=2&api=llm&groupBy=messageId&unheard=of"
    )
    assert _events(query) == EventQuery(
        account_id=_ACCOUNT,
        count=5,
        cursor="1686652644442-12",
        latest_first=False,
        message_ids=("m1", "m2", "m3"),
        states=(EventState.DELIVERED,),
        urls=("http://a",),
        hosts=("b",),
        paths=("/c",),
        url_groups=("d",),
        schedule_ids=("e",),
        queues=("f",),
        labels=("g",),
        flow_keys=("h",),
        caller_ips=("i",),
        from_ms=1,
        to_ms=2,
    )


@pytest.mark.parametrize(
    ("query", "states", "in_progress"),
    [
        ("state=CANCELED", (EventState.CANCELED,), False),
        ("state=CANCELLED", (EventState.CANCELED,), False),
        ("state=in_progress", (), True),
        ("state=ERROR,IN_PROGRESS&state=FAILED", (EventState.ERROR, EventState.FAILED), True),
    ],
)
def test_states(query: str, states: tuple[EventState, ...], *, in_progress: bool) -> None:
    """D-013: both spellings of CANCELED, and IN_PROGRESS, which is no state of an entry."""
    assert (_events(query).states, _events(query).in_progress) == (states, in_progress)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("count=1001", "count"),
        ("count=0", "count"),
        ("cursor=1-2-3", "cursor"),
        ("cursor=" + "1" * 40 + "-1", "cursor"),
        ("order=newest", "order"),
        ("state=DONE", "state"),
        ("state=", "state"),
    ],
)
def test_wrong_event_parameter_is_named(query: str, field: str) -> None:
    with refused(field):
        _events(query)


# --- the dead letter queue ----------------------------------------------------------------------


def test_dead_letter_query_by_default() -> None:
    assert _dead_letters("source=workflow") is None
    assert _dead_letters() == DeadLetterQuery(account_id=_ACCOUNT, count=100, latest_first=False)


def test_dead_letter_query_with_everything() -> None:
    query = (
        "count=1&cursor=5-6&order=latestFirst&dlqIds=1-0,2-0&messageId=m&url=http://a&topicName=b&scheduleId=c"
        "&queueName=d&label=e&flowControlKey=f&callerIp=g&responseStatus=500,0&responseStatus=999&fromDate=1&toDate=2"
        "&api=llm&svc-retries=3&queue_token=t"
    )
    assert _dead_letters(query) == DeadLetterQuery(
        account_id=_ACCOUNT,
        count=1,
        cursor="5-6",
        latest_first=True,
        dead_letter_ids=("1-0", "2-0"),
        message_ids=("m",),
        urls=("http://a",),
        url_groups=("b",),
        schedule_ids=("c",),
        queues=("d",),
        labels=("e",),
        flow_keys=("f",),
        caller_ips=("g",),
        response_statuses=(500, 0, 999),
        from_ms=1,
        to_ms=2,
    )


def test_deletion_may_list_ids_in_its_body() -> None:
    found = _dead_letters("dlqIds=3-0", body=b'{"dlqIds":["1-0"]}', method="DELETE")
    assert found is not None
    assert found.dead_letter_ids == ("3-0", "1-0")
    # The bodies of other requests are not read.
    assert _dead_letters(body=b"not json", method="POST") == _dead_letters(method="POST")


def test_deletion_of_an_empty_list_deletes_nothing() -> None:
    """D-082."""
    assert _dead_letters(body=b'{"dlqIds":[]}', method="DELETE") is None
    assert _dead_letters(body=b"", method="DELETE") is not None


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("host=a.test", "host"),
        ("nonsense=1", "nonsense"),
        ("count=101", "count"),
        ("responseStatus=5xx", "responseStatus"),
        ("responseStatus=1000", "responseStatus"),
        ("source=queue", "source"),
        ("dlqIds=", "dlqIds"),
        ("cursor=x", "cursor"),
        ("order=up", "order"),
    ],
)
def test_wrong_dead_letter_parameter_is_named(query: str, field: str) -> None:
    with refused(field):
        _dead_letters(query)
