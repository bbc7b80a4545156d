"""JSON bodies (D-077, D-082)."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.core.commands import EndpointSelector, PublishItem, UpsertQueue
from emulator.core.errors import InvalidInput, Refused
from emulator.core.model.names import AccountId, GroupName, QueueName
from emulator.core.model.options import Destination, DestinationKind, MessageOptions, Method
from emulator.core.model.resources import Endpoint
from emulator.wire import dialect
from emulator.wire.messaging import bodies as json_bodies

_SVC = dialect.load("svc")
_ACCOUNT = AccountId("a")


def _batch(*items: object) -> tuple[PublishItem | Refused, ...]:
    return json_bodies.read_batch(json.dumps(items).encode(), _SVC, "10.0.0.1")


def _item(text: str, *, options: MessageOptions, body: bytes = b"", queue: str | None = None) -> PublishItem:
    kind = DestinationKind.URL if "://" in text else DestinationKind.GROUP
    return PublishItem(
        destination=Destination(kind=kind, text=text),
        body=body,
        options=options,
        caller_ip="10.0.0.1",
        queue=None if queue is None else QueueName(queue),
    )


def test_batch_items_have_options_of_their_own() -> None:
    found = _batch(
        {"destination": "https://a.test/?svc-x=1", "headers": None, "body": None, "queue": None},
        {
            "destination": "orders",
            "headers": {"svc-method": "PUT", "Content-Type": "text/plain", "SVC-Forward-X": "é", "X-Own": "1"},
            "body": "hé",
            "queue": "q1",
            "unknown": {"a": [1]},
        },
        {"destination": "https://c.test", "queue": ""},
    )
    assert found == (
        _item("https://a.test/?svc-x=1", options=MessageOptions()),
        _item(
            "orders",
            options=MessageOptions(
                method=Method.PUT,
                content_type="text/plain",
                forwarded=(("X", "é"),),
                incoming=(("X-Own", "1"),),
            ),
            body="hé".encode(),
            queue="q1",
        ),
        _item("https://c.test", options=MessageOptions()),
    )


def test_empty_batch() -> None:
    assert _batch() == ()


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({"destination": "a.test/x"}, "destination"),
        ({"destination": ""}, "destination"),
        ({"destination": "g", "headers": {"svc-delay": "5x"}}, "Svc-Delay"),
        ({"destination": "g", "headers": {"svc-delay": "5s", "Svc-Delay": "5s"}}, "Svc-Delay"),
        ({"destination": "g", "headers": {"Svc-Cron": "* * * * *"}}, "Svc-Cron"),
        ({"destination": "g", "headers": {"Svc-Forward-X": "a\nb"}}, "Svc-Forward-X"),
        ({"destination": "g", "queue": "a b"}, "queue"),
    ],
)
def test_item_that_cannot_be_is_refused_by_itself(item: dict[str, object], field: str) -> None:
    first, refused, last = _batch({"destination": "a"}, item, {"destination": "b"})
    assert first == _item("a", options=MessageOptions())
    assert last == _item("b", options=MessageOptions())
    assert isinstance(refused, InvalidInput)
    assert refused.field == field


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param(b"", "body", id="empty"),
        pytest.param(b" \n", "body", id="blank"),
        pytest.param(b"{}", "body", id="object"),
        pytest.param(b"null", "body", id="null"),
        pytest.param(b"[", "body", id="truncated"),
        pytest.param(b"[] x", "body", id="trailing"),
        pytest.param(b"[{'a': 1}]", "body", id="quotes"),
        pytest.param(b"\xff", "body", id="not-utf-8"),
        pytest.param(b'[{"destination":"\xff"}]', "body", id="not-utf-8-inside"),
        pytest.param(b'[{"destination":"\\ud800"}]', "body", id="half-a-surrogate-pair"),
        pytest.param(b'[{"destination":"a","x":' + b"[" * 100_000, "body", id="100-kB-of-brackets"),
        pytest.param(b"[1]", "[0]", id="item-no-object"),
        pytest.param(b"[null]", "[0]", id="item-null"),
        pytest.param(b"[{}]", "[0].destination", id="no-destination"),
        pytest.param(b'[{"destination":"a"},{"destination":null}]', "[1].destination", id="null-destination"),
        pytest.param(b'[{"destination":5}]', "[0].destination", id="number-as-destination"),
        pytest.param(b'[{"destination":"a","body":{}}]', "[0].body", id="object-as-body"),
        pytest.param(b'[{"destination":"a","queue":1}]', "[0].queue", id="number-as-queue"),
        pytest.param(b'[{"destination":"a","headers":[]}]', "[0].headers", id="array-as-headers"),
        pytest.param(b'[{"destination":"a","headers":{"w":"1","x":1}}]', "[0].headers.x", id="number-as-header"),
        pytest.param(b'[{"destination":"a","headers":{"x\\n":["1"]}}]', "[0].headers.'x\\n'", id="array-as-header"),
        # What is wrong with a header is looked for in all of the document, which nobody has read to its end yet.
        pytest.param(b'[{"destination":"a","headers":{"x":1}},', "body", id="number-as-header-then-truncated"),
        pytest.param(b'[{"destination":"a","headers":{"x":1}},' + b"[" * 100_000, "body", id="then-brackets"),
        pytest.param(b'[{"destination":"a","headers":{"x":1}},"\xff"]', "body", id="then-not-utf-8"),
        pytest.param(b'[{"destination":"a","headers":{"x":1}},1e999]', "[1]", id="then-out-of-range"),
    ],
)
def test_malformed_batch_is_refused_as_a_whole(body: bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        json_bodies.read_batch(body, _SVC, "10.0.0.1")
    assert caught.value.field == field


@pytest.mark.parametrize(("body", "position"), [(b'[{"\x01":1}]', 3), (b'[{"', 3)])
def test_malformed_json_is_located(body: bytes, position: int) -> None:
    with pytest.raises(InvalidInput, match=rf"^body: .*\(byte {position}\)"):
        json_bodies.read_batch(body, _SVC, "")


def test_endpoints() -> None:
    body = (
        b'{"endpoints":[{"url":"https://a.test","name":"my endpoint"},{"url":"http://b.test/"},'
        b'{"url":"http://c","name":""}]}'
    )
    assert json_bodies.read_endpoints(body) == (
        Endpoint(url="https://a.test", name="my endpoint"),
        Endpoint(url="http://b.test/", name=None),
        Endpoint(url="http://c", name=None),
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{}", "endpoints"),
        (b'{"endpoints":[]}', "endpoints"),
        (b'{"endpoints":{}}', "endpoints"),
        (b'{"endpoints":["https://a.test"]}', "endpoints[0]"),
        (b'{"endpoints":[{"name":"a"}]}', "endpoints[0].url"),
        (b'{"endpoints":[{"url":1}]}', "endpoints[0].url"),
        (b'{"endpoints":[{"url":"https://a.test"},{"url":"b.test"}]}', "endpoints[1].url"),
        (b'{"endpoints":[{"url":"https://a.test","name":"a\\nb"}]}', "endpoints[0].name"),
    ],
)
def test_wrong_endpoints_name_the_json_field(body: bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        json_bodies.read_endpoints(body)
    assert caught.value.field == field


def test_endpoints_to_remove_are_told_by_name_or_url() -> None:
    body = b'{"endpoints":[{"name":"a"},{"url":"b"},{"url":"c","name":"d"}]}'
    assert json_bodies.read_endpoint_selectors(body) == (
        EndpointSelector(url=None, name="a"),
        EndpointSelector(url="b", name=None),
        EndpointSelector(url="c", name="d"),
    )
    with pytest.raises(InvalidInput) as caught:
        json_bodies.read_endpoint_selectors(b'{"endpoints":[{"name":"a"},{"name":""}]}')
    assert caught.value.field == "endpoints[1]"


def test_group_defaults_are_kept_as_given_and_read() -> None:
    body = b'{"headers":{"svc-retries":"2","Svc-Forward-X":["1","2"],"X-Own":[],"Content-Type":["text/plain"]}}'
    found = json_bodies.read_group_defaults(body, _SVC, _ACCOUNT, GroupName("g"))
    assert found.headers == (
        ("svc-retries", ("2",)),
        ("Svc-Forward-X", ("1", "2")),
        ("X-Own", ()),
        ("Content-Type", ("text/plain",)),
    )
    assert found.defaults == MessageOptions(
        content_type="text/plain", forwarded=(("X", "1"), ("X", "2")), max_retries=2
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "headers"),
        (b'{"headers":null}', "headers"),
        (b'{"headers":{"a":1}}', "a"),
        (b'{"headers":{"a":"1","b":["2"],"c":null}}', "c"),
        (b'{"headers":{"a":["b",1]}}', "a[1]"),
        (b'{"headers":{"a":["b"],"c":"d","e":["f",null]}}', "e[1]"),
        (b'{"headers":{"Svc-Retries":"x"}}', "Svc-Retries"),
        (b'{"headers":{"Svc-Retries":["1","2"]}}', "Svc-Retries"),
        (b'{"headers":{"Svc-Cron":"* * * * *"}}', "Svc-Cron"),
    ],
)
def test_wrong_group_defaults_name_the_field_or_the_header(body: bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        json_bodies.read_group_defaults(body, _SVC, _ACCOUNT, GroupName("g"))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            b'{"queueName":"q","parallelism":2,"paused":true}',
            UpsertQueue(account_id=_ACCOUNT, name=QueueName("q"), parallelism=2, paused=True),
        ),
        (
            b'{"queueName":"q","parallelism":null}',
            UpsertQueue(account_id=_ACCOUNT, name=QueueName("q"), parallelism=None, paused=None),
        ),
    ],
)
def test_queue(body: bytes, expected: UpsertQueue) -> None:
    assert json_bodies.read_queue(body, _ACCOUNT) == expected


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "queueName"),
        (b'{"queueName":""}', "queueName"),
        (b'{"queueName":"a/b"}', "queueName"),
        (b'{"queueName":1}', "queueName"),
        (b'{"queueName":"q","parallelism":0}', "parallelism"),
        (b'{"queueName":"q","parallelism":-1}', "parallelism"),
        (b'{"queueName":"q","parallelism":1.5}', "parallelism"),
        (b'{"queueName":"q","parallelism":"2"}', "parallelism"),
        (b'{"queueName":"q","parallelism":true}', "parallelism"),
        (b'{"queueName":"q","parallelism":99999999999999999999999999}', "parallelism"),
        (b'{"queueName":"q","paused":"yes"}', "paused"),
        (b"[]", "body"),
    ],
)
def test_wrong_queue_names_the_json_field(body: bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        json_bodies.read_queue(body, _ACCOUNT)
    assert caught.value.field == field


def test_dead_letter_ids() -> None:
    assert json_bodies.read_dead_letter_ids(b'{"dlqIds":["1-0","2-0"]}') == ("1-0", "2-0")
    assert json_bodies.read_dead_letter_ids(b'{"dlqIds":[]}') == ()
    for nothing in (b"", b"null", b"{}", b'{"dlqIds":null}'):
        assert json_bodies.read_dead_letter_ids(nothing) is None
    with pytest.raises(InvalidInput):
        json_bodies.read_dead_letter_ids(b"\t")


@pytest.mark.parametrize(
    ("body", "field"),
    [(b'{"dlqIds":"1-0"}', "dlqIds"), (b'{"dlqIds":[1]}', "dlqIds[0]"), (b'{"ids":[]}', "ids"), (b"[]", "body")],
)
def test_wrong_dead_letter_ids_name_the_json_field(body: bytes, field: str) -> None:
    """An unknown name is refused: without ids, all dead letters would be meant."""
    with pytest.raises(InvalidInput) as caught:
        json_bodies.read_dead_letter_ids(body)
    assert caught.value.field == field


@pytest.mark.slow
@pytest.mark.parametrize(
    "read",
    [
        lambda body: json_bodies.read_batch(body, _SVC, ""),
        json_bodies.read_endpoints,
        json_bodies.read_endpoint_selectors,
        lambda body: json_bodies.read_group_defaults(body, _SVC, _ACCOUNT, GroupName("g")),
        lambda body: json_bodies.read_queue(body, _ACCOUNT),
        json_bodies.read_dead_letter_ids,
        json_bodies.read_cancel_filters,
    ],
)
def test_any_bytes_give_a_value_or_a_refusal(read: object) -> None:
    assert callable(read)
    names = st.sampled_from(["destination", "headers", "body", "queue", "endpoints", "url", "name", "queueName"])
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(), inner, max_size=3),
        max_leaves=8,
    )

    @settings(deadline=None)
    @given(st.one_of(st.binary(), values.map(lambda value: json.dumps(value).encode())))
    def check(body: bytes) -> None:
        with suppress(Refused):
            read(body)

    check()


def test_large_batch_is_read_without_holding_a_copy_of_every_body_twice() -> None:
    """A call may carry 100 MB (interface document, Limits 5), so the texts go as their bytes come."""
    item = json.dumps({"destination": "https://a.test", "body": "x" * 1_000_000})
    body = f"[{','.join([item] * 8)}]".encode()
    tracemalloc.start()
    try:
        items = json_bodies.read_batch(body, _SVC, "10.0.0.1")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(items) == 8
    assert peak < 1.5 * len(body)
