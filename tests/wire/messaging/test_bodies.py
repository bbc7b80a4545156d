"""Bodies of requests, chats and mistakes in them."""

from __future__ import annotations

import json
import re
import tracemalloc

import pytest
from msgspec.structs import replace

from emulator.contract import files
from emulator.contract.document import Api, operations_of
from emulator.core.commands import EndpointSelector, PublishItem, UpsertQueue
from emulator.core.errors import InvalidInput, InvalidRunMessage, Malformed, PayloadTooLarge, Refused
from emulator.core.model.messages import Response
from emulator.core.model.options import Destination, DestinationKind, MessageOptions, Method, RunOptions
from emulator.core.model.resources import Endpoint
from emulator.core.record import AccountId, GroupName, QueueName, RunId
from emulator.wire import dialect, filters
from emulator.wire.dialect import SVC, load
from emulator.wire.messaging import chat, requests
from emulator.wire.messaging.mistakes import mistake
from emulator.wire.messaging.options import is_option
from tests.wire.request_parts import refused

# -- jSON bodies (D-077, D-082) --------------------------------------------------------------------


_SVC = dialect.load("svc")
_ACCOUNT = AccountId("a")


def _batch(*items: object) -> tuple[PublishItem | Refused, ...]:
    return requests.read_batch(json.dumps(items).encode(), _SVC, "10.0.0.1")


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
    assert _batch() == ()
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
        pytest.param(b"{}", "body", id="object"),
        pytest.param(b"null", "body", id="null"),
        pytest.param(b'[{"destination":"\\ud800"}]', "[0].destination", id="half-a-surrogate-pair"),
        pytest.param(b'[{"destination":"a","headers":{"\\udc00":"1"}}]', "[0].headers", id="half-of-a-name"),
        pytest.param(b"[1]", "[0]", id="item-no-object"),
        pytest.param(b"[{}]", "[0].destination", id="no-destination"),
        pytest.param(b'[{"destination":"a"},{"destination":null}]', "[1].destination", id="null-destination"),
        pytest.param(b'[{"destination":"a","queue":1}]', "[0].queue", id="number-as-queue"),
        pytest.param(b'[{"destination":"a","headers":{"w":"1","x":1}}]', "[0].headers.x", id="number-as-header"),
        pytest.param(b'[{"destination":"a","headers":{"x":1}},', "body", id="number-as-header-then-truncated"),
    ],
)
def test_malformed_batch_is_refused_as_a_whole(body: bytes, field: str) -> None:
    with refused(field):
        requests.read_batch(body, _SVC, "10.0.0.1")


@pytest.mark.parametrize(("body", "position"), [(b'[{"\x01":1}]', 3), (b'[{"', 3)])
def test_malformed_json_is_located(body: bytes, position: int) -> None:
    with pytest.raises(InvalidInput, match=rf"^body: .*\(byte {position}\)"):
        requests.read_batch(body, _SVC, "")


def test_endpoints() -> None:
    body = (
        b'{"endpoints":[{"url":"https://a.test","name":"my endpoint"},{"url":"http://b.test/"},'
        b'{"url":"http://c","name":""}]}'
    )
    assert requests.read_endpoints(body) == (
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
        (b'{"endpoints":["https://a.test"]}', "endpoints[0]"),
        (b'{"endpoints":[{"name":"a"}]}', "endpoints[0].url"),
        (b'{"endpoints":[{"url":"https://a.test"},{"url":"b.test"}]}', "endpoints[1].url"),
        (b'{"endpoints":[{"url":"https://a.test","name":"a\\nb"}]}', "endpoints[0].name"),
    ],
)
def test_wrong_endpoints_name_the_json_field(body: bytes, field: str) -> None:
    with refused(field):
        requests.read_endpoints(body)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"endpoints":[]}', "endpoints: expected at least one endpoint"),
        (b'{"endpoints":[{"name":"a"}]}', "endpoints[0].url: expected the URL of the endpoint"),
    ],
)
def test_missing_endpoints_are_asked_for(body: bytes, text: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{re.escape(text)}$"):
        requests.read_endpoints(body)


def test_endpoints_to_remove_are_told_by_name_or_url() -> None:
    body = b'{"endpoints":[{"name":"a"},{"url":"b"},{"url":"c","name":"d"}]}'
    assert requests.read_endpoint_selectors(body) == (
        EndpointSelector(url=None, name="a"),
        EndpointSelector(url="b", name=None),
        EndpointSelector(url="c", name="d"),
    )
    with refused("endpoints[1]"):
        requests.read_endpoint_selectors(b'{"endpoints":[{"name":"a"},{"name":""}]}')


def test_group_defaults_are_kept_as_given_and_read() -> None:
    body = b'{"headers":{"svc-retries":"2","Svc-Forward-X":["1","2"],"X-Own":[],"Content-Type":["text/plain"]}}'
    found = requests.read_group_defaults(body, _SVC, _ACCOUNT, GroupName("g"))
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
        (b'{"headers":{"a":["b"],"c":"d","e":["f",null]}}', "e[1]"),
        (b'{"headers":{"Svc-Retries":"x"}}', "Svc-Retries"),
        (b'{"headers":{"Svc-Retries":["1","2"]}}', "Svc-Retries"),
        (b'{"headers":{"Svc-Cron":"* * * * *"}}', "Svc-Cron"),
    ],
)
def test_wrong_group_defaults_name_the_field_or_the_header(body: bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        requests.read_group_defaults(body, _SVC, _ACCOUNT, GroupName("g"))
    assert refusal.value.field == field
    assert refusal.value.reason.lower().startswith(("expected ", "is missing"))


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
    assert requests.read_queue(body, _ACCOUNT) == expected


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "queueName"),
        (b'{"queueName":""}', "queueName"),
        (b'{"queueName":"a/b"}', "queueName"),
        (b'{"queueName":"q","parallelism":0}', "parallelism"),
        (b'{"queueName":"q","parallelism":true}', "parallelism"),
        (b'{"queueName":"q","paused":"yes"}', "paused"),
        (b"[]", "body"),
    ],
)
def test_wrong_queue_names_the_json_field(body: bytes, field: str) -> None:
    with refused(field):
        requests.read_queue(body, _ACCOUNT)


def test_dead_letter_ids() -> None:
    assert filters.read_dead_letter_ids(b'{"dlqIds":["1-0","2-0"]}') == ("1-0", "2-0")
    assert filters.read_dead_letter_ids(b'{"dlqIds":[]}') == ()
    for nothing in (b"", b"null", b"{}", b'{"dlqIds":null}'):
        assert filters.read_dead_letter_ids(nothing) is None
    with pytest.raises(InvalidInput):
        filters.read_dead_letter_ids(b"\t")


@pytest.mark.parametrize(
    ("body", "field"),
    [(b'{"dlqIds":"1-0"}', "dlqIds"), (b'{"dlqIds":[1]}', "dlqIds[0]"), (b'{"ids":[]}', "ids"), (b"[]", "body")],
)
def test_wrong_dead_letter_ids_name_the_json_field(body: bytes, field: str) -> None:
    """An unknown name is refused: without ids, all dead letters would be meant."""
    with refused(field):
        filters.read_dead_letter_ids(body)


def test_large_batch_is_read_without_holding_a_copy_of_every_body_twice() -> None:
    """A call may carry 100 MB (interface document, Limits 5), so the texts go as their bytes come."""
    item = json.dumps({"destination": "https://a.test", "body": "x" * 1_000_000})
    body = f"[{','.join([item] * 8)}]".encode()
    tracemalloc.start()
    try:
        items = requests.read_batch(body, _SVC, "10.0.0.1")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(items) == 8
    assert peak < 1.5 * len(body)


def test_a_batch_of_too_many_items_is_refused_before_they_are_read() -> None:
    """D-811: a run of as many steps as there may be publishes them in one batch."""
    item = b'{"destination":"t"}'
    assert len(requests.read_batch(b"[" + b",".join([item] * 25_000) + b"]", _SVC, "10.0.0.1")) == 25_000
    with pytest.raises(PayloadTooLarge, match="body: expected at most 25000 items, got 25001"):
        requests.read_batch(b"[" + b",".join([item] * 25_001) + b"]", _SVC, "10.0.0.1")


# -- chat completions: canned, as a stream, and where a server takes them --------------------------


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434/v1/chat/completions"),
        ("http://localhost:11434/", "http://localhost:11434/v1/chat/completions"),
        ("http://localhost:1234/v1", "http://localhost:1234/v1/chat/completions"),
        ("http://localhost:1234/api/v1/", "http://localhost:1234/api/v1/chat/completions"),
        ("http://localhost:1234/v1/chat/completions", "http://localhost:1234/v1/chat/completions"),
    ],
)
def test_a_base_url_says_where_completions_are(base: str, url: str) -> None:
    """D-311."""
    assert chat.completions_url(base) == url
    with pytest.raises(Malformed):
        chat.completions_url(base.removeprefix("http://"))


def test_a_canned_completion_has_the_shape_that_clients_read() -> None:
    answer = chat.canned(b'{"model":"m","messages":[]}', message_id="msg_abc", at_ms=1_767_225_600_999)
    assert (answer.status, answer.headers) == (200, (("Content-Type", "application/json"),))
    assert json.loads(answer.body) == {
        "id": "chatcmpl-abc",
        "object": "chat.completion",
        "created": 1_767_225_600,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "This is the emulator's canned completion: no model was asked.",
                },
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


@pytest.mark.parametrize("request_body", [b"", b"[]", b"\xff", b'{"model":1}', b'{"model":""}', b"[" * 100_000])
def test_any_request_has_a_canned_completion(request_body: bytes) -> None:
    answer = chat.canned(request_body, message_id="msg_abc", at_ms=0)
    assert json.loads(answer.body)["model"] == "emulator"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b"\xff", "body"),
        (b"[" * 100_000, "body"),
        (b"{}", "messages"),
        (b'{"messages":"hello"}', "messages"),
        (b'{"messages":[],"stream":"yes"}', "stream"),
    ],
)
def test_what_is_no_chat_request_is_named(body: bytes, field: str) -> None:
    with refused(field):
        chat.read_wants_stream(body)


def test_a_stream_is_asked_for() -> None:
    assert chat.read_wants_stream(b'{"messages":[],"stream":true}') is True
    assert chat.read_wants_stream(b'{"messages":[],"stream":false}') is False
    assert chat.read_wants_stream(b'{"messages":[],"stream":null}') is False


def test_a_completion_becomes_events() -> None:
    whole = {
        "id": "c1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "whale"}, "finish_reason": "length"}],
    }
    headers = (("content-type", "application/json"), ("X-RateLimit-Limit-Requests", "5"))
    answer = chat.as_stream(Response(status=200, headers=headers, body=json.dumps(whole).encode()))
    assert answer.headers == (("Content-Type", "text/event-stream"), ("X-RateLimit-Limit-Requests", "5"))
    first, last, end, rest = answer.body.decode().split("\n\n")
    assert json.loads(first.removeprefix("data: ")) == {
        "id": "c1",
        "created": 7,
        "model": "m",
        "object": "chat.completion.chunk",
        "choices": [
            {
                "index": 0,
                "delta": {"role": "assistant", "content": "whale"},
                "logprobs": None,
                "finish_reason": None,
            }
        ],
    }
    assert json.loads(last.removeprefix("data: "))["choices"] == [
        {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}
    ]
    assert (end, rest) == ("data: [DONE]", "")
    # As compact as the service has it.
    assert first.startswith('data: {"id":"c1","created":7,')


def test_each_choice_of_a_completion_becomes_events_of_its_index() -> None:
    whole = {"choices": [{"index": 1, "message": {"content": "b"}}, {}, "none"]}
    answer = chat.as_stream(Response(status=299, headers=(), body=json.dumps(whole).encode()))
    events = [json.loads(text.removeprefix("data: ")) for text in answer.body.decode().split("\n\n")[:-2]]
    parts = [event["choices"][0] for event in events]
    assert [(part["index"], part["delta"], part["finish_reason"]) for part in parts] == [
        (1, {"content": "b"}, None),
        (1, {}, "stop"),
        (0, {}, None),
        (0, {}, "stop"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        Response(status=500, headers=(), body=b'{"choices":[]}'),
        Response(status=300, headers=(), body=b'{"choices":[]}'),
        Response(status=199, headers=(), body=b'{"choices":[]}'),
        Response(status=200, headers=(("Content-Type", "text/event-stream"),), body=b"data: [DONE]\n\n"),
        Response(status=200, headers=(), body=b'{"choices":"none"}'),
        Response(status=200, headers=(), body=b""),
    ],
)
def test_what_is_no_completion_stays_as_it_is(answer: Response) -> None:
    assert chat.as_stream(answer) == answer


def test_the_limits_of_a_model_are_passed_on() -> None:
    headers = (
        ("Content-Type", "a/b"),
        ("Retry-After", "3"),
        ("X-RateLimit-Reset-Tokens", "53s"),
        ("Set-Cookie", "a=b"),
        ("Transfer-Encoding", "chunked"),
    )
    assert [name for name, _ in chat.passed_on(headers)] == ["Content-Type", "Retry-After", "X-RateLimit-Reset-Tokens"]


# -- invocations of workflows ----------------------------------------------------------------------


INVOCATION = {
    "body": "payload",
    "headers": {"Svc-Retries": "1"},
    "workflowRunId": "wfr_1",
    "workflowRunCreatedAt": 5,
    "workflowUrl": "https://app.test/flow",
    "step": {"stepId": 1},
}


def invocation(**changes: object) -> PublishItem:
    """A publish that starts a run for another one, as its body says it."""
    fields = {name: value for name, value in {**INVOCATION, **changes}.items() if value is not None}
    workflow = RunOptions(run_id=RunId("wfr_2"), is_init=True, invokes=True)
    return PublishItem(
        destination=Destination(kind=DestinationKind.URL, text="https://app.test/child"),
        body=json.dumps(fields).encode(),
        options=MessageOptions(workflow=workflow),
        caller_ip="",
    )


def test_an_invocation_has_the_payload_and_the_invoker_of_its_body() -> None:
    item = requests.with_invoker(invocation(), SVC)
    assert item.body == b"payload"
    assert item.invoker is not None
    assert (item.invoker.run_id, item.invoker.run_created_ms) == ("wfr_1", 5)
    assert (item.invoker.url, item.invoker.step) == ("https://app.test/flow", b'{"stepId":1}')
    assert item.invoker.options.max_retries == 1


def test_what_invokes_nothing_stays_as_it_is() -> None:
    plain = replace(invocation(), options=MessageOptions(workflow=RunOptions(run_id=RunId("wfr_2"))))
    assert requests.with_invoker(plain, SVC) is plain


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"workflowRunId": "a\u0001"}, "workflowRunId"),
        ({"workflowRunId": None}, "workflowRunId"),
        ({"workflowUrl": "nowhere"}, "workflowUrl"),
        ({"step": [1]}, "step"),
        ({"headers": {"Svc-Retries": "x"}}, "Svc-Retries"),
    ],
)
def test_a_wrong_invocation_names_the_field(changes: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidRunMessage) as refusal:
        requests.with_invoker(invocation(**changes), SVC)
    assert refusal.value.field == field


# -- names that are probably mistaken for options --------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("svc-rtries", "Svc-Rtries: unknown, did you mean Svc-Retries?"),
        ("svc-callback-retires", "Svc-Callback-Retires: unknown, did you mean Svc-Callback-Retries?"),
        ("svc-foo", "Svc-Foo: unknown"),
        ("svc-" + "q" * 76, "Svc-Q" + "q" * 75 + ": unknown"),
        ("svc-" + "q" * 77, "Svc-Q" + "q" * 75 + "...: unknown"),
        ("scv-delay", "Scv-Delay: unknown, did you mean Svc-Delay?"),
        ("svc_retry_delay", "Svc_retry_delay: unknown, did you mean Svc-Retry-Delay?"),
        ("upstash-delay", "Upstash-Delay: is of the dialect upstash, this server speaks svc, did you mean Svc-Delay?"),
        ("upstash-x", "Upstash-X: is of the dialect upstash, this server speaks svc"),
    ],
)
def test_a_mistaken_name_is_told_with_what_was_meant(name: str, text: str) -> None:
    """D-334."""
    assert mistake(name, SVC) == text


@pytest.mark.parametrize(
    "name",
    [
        *("svc-delay", "svc-forward-x", "svc-callback-forward-x", "svc-callback-failure-callback-retries"),
        *("host", "accept", "content-type", "authorization", "user-agent", "x-delay", "idempotency-key", "x"),
        *("svc-workflow-sdk-version", "svc-failure-callback-workflow-sdk-version", "svc-workflow-invoke-count"),
        *("svc-telemetry-sdk", "upstash-telemetry-sdk", "svc-emulator-contract", "traceparent", "retry-after"),
    ],
)
def test_other_names_say_nothing(name: str) -> None:
    assert mistake(name, SVC) is None


def test_names_are_those_of_the_dialect() -> None:
    upstash = load("upstash")
    assert mistake("upstash-delay", upstash) is None
    assert mistake("svc-delay", upstash) == (
        "Svc-Delay: is of the dialect svc, this server speaks upstash, did you mean Upstash-Delay?"
    )


def test_options_are_those_of_the_contract() -> None:
    """A header that the contract names is none that is warned of, and the other way round."""
    found = files.documents((Api.MESSAGING,), SVC)
    names = {name for each in operations_of(Api.MESSAGING, found[Api.MESSAGING]) for name in each.headers}
    own = {name.removeprefix("svc-").removesuffix("*") for name in names if name.startswith("svc-")}
    assert {name for name in own if not is_option(name + "x" * name.endswith("-"))} <= {
        "callback-",
        "failure-callback-",
        # Workflow clients may say more than has an effect; a name similar to one that has is reported.
        "workflow-",
    }
    assert mistake("svc-workflow-runidd", SVC) == "Svc-Workflow-Runidd: unknown, did you mean Svc-Workflow-Runid?"
