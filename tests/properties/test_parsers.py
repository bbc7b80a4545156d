"""Every parser of what comes from outside, given anything: a value or a refusal, in bounded time and memory.

What each grammar accepts is proved beside its module. Here is what all of them have in common: bytes that are
nearly right (valid samples with bits turned, cut and spliced), and inputs far larger than any client would send.
`FUZZ_MAX_EXAMPLES` is how many examples each parser gets (the nightly run gives thousands).
"""

from __future__ import annotations

import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.contract import files
from emulator.control import clock as clock_json
from emulator.control import deliveries as delivery_json
from emulator.control import upcoming as upcoming_json
from emulator.control import worlds as world_json
from emulator.core.errors import Malformed, Refused
from emulator.core.language import cron, expressions
from emulator.core.model.resources import Plan
from emulator.core.record import AccountId, FlowKey, GroupName
from emulator.core.rules import retries
from emulator.core.world_setup import WorldSetup
from emulator.fixtures import document as fixture_json
from emulator.fixtures import files as fixture_files
from emulator.fixtures.document import InvalidFixtures
from emulator.wire import accounts, dialect, filters, names, parts, redaction, times, urls
from emulator.wire import destination_rules as rule_json
from emulator.wire.messaging import flow_control, requests
from emulator.wire.messaging import options as message_options
from emulator.wire.query_reader import control_query
from tests.harness.simulations import make_account

MAX_EXAMPLES = int(os.environ.get("FUZZ_MAX_EXAMPLES", "60"))
LARGE = 256 * 1024
# A parser that looks at each byte a constant number of times needs a fiftieth of this; one that looks at each
# byte again for each other byte would need minutes.
MAX_CPU_S = 20.0
# For an eighth of `LARGE`, so five hundred bytes for each byte of input.
MAX_MEMORY = 16 * 1024 * 1024

_SVC = dialect.load("svc")
_REFUSALS = (
    Malformed,
    Refused,
    InvalidFixtures,
    fixture_files.FixturesError,
    files.UnreadableContract,
)
_NOW_MS = 1_767_225_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    """A parser behind bytes, and inputs that it accepts: what examples are made of."""

    name: str
    parse: Callable[[bytes], object]
    samples: Sequence[bytes]
    max_memory: int = MAX_MEMORY

    def try_on(self, given: bytes) -> None:
        """Parse, and take a refusal for an answer. Anything else is a fault of the parser."""
        try:
            self.parse(given)
        except _REFUSALS:
            return


def _of_text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda given: parse(given.decode("utf-8", "replace"))


def _of_latin(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda given: parse(given.decode("latin-1"))


def _of_json(read: Callable[[Any], object]) -> Callable[[bytes], object]:
    """JSON decoded as the control API decodes it; what is no JSON is refused there."""

    def parse(given: bytes) -> object:
        try:
            content = msgspec.json.decode(given)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return read(content)

    return parse


def _request(
    *, path: bytes = b"/", query: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = (), body: bytes = b""
) -> parts.RequestParts:
    return parts.read_parts(
        method="DELETE", raw_path=path, query_string=query, raw_headers=headers, body=body, client_ip="127.0.0.1"
    )


def _of_query(read: Callable[[parts.RequestParts], object]) -> Callable[[bytes], object]:
    return lambda given: read(_request(query=given))


def _of_body(read: Callable[[parts.RequestParts], object]) -> Callable[[bytes], object]:
    return lambda given: read(_request(body=given))


def _of_header(name: bytes, read: Callable[[parts.RequestParts], object]) -> Callable[[bytes], object]:
    return lambda given: read(_request(headers=[(name, given)]))


def _of_file(suffix: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A parser of files behind the bytes of one."""

    def parse(given: bytes) -> object:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"given{suffix}"
            file.write_bytes(given)
            return read(file)

    return parse


_SETUP = WorldSetup(id="w", seed=1, epoch_ms=_NOW_MS, rate=0.0, plan=Plan.PAID)


def _fixtures_file(file: Path) -> object:
    return fixture_files.load(file, _SVC, _SETUP)


def _options(request: parts.RequestParts) -> object:
    return message_options.read_options(request, _SVC, kind=message_options.RequestKind.PUBLISH)


def _option_lines(given: bytes) -> object:
    """A header block: `name: value` lines."""
    lines = [line.partition(b":") for line in given.split(b"\n")]
    return _options(_request(headers=[(name.strip().lower(), value.strip()) for name, _, value in lines]))


def _hint(given: bytes) -> object:
    text = given.decode("latin-1")
    return [retries.response_hint([(reason.value, text)], _NOW_MS) for reason in retries.RetryReason]


def _expression(text: str) -> object:
    return expressions.parse(text).evaluate(3)


def _schedule(text: str) -> object:
    return cron.parse(text).next_after(_NOW_MS)


def _destination(text: str) -> object:
    rest_of_path, mark, query = text.partition("?")
    return urls.read_destination(rest_of_path, query if mark else None, _SVC)


def _account_id() -> AccountId:
    return make_account().id


_RULE = b'{"match":{"url":"https://a.test/*","method":"post"},"sequence":[{"status":503,"headers":{"A":["b"]}},{}],"times":2}'
_WORLD = (
    b'{"id":"w","seed":7,"epoch":"2026-01-01T00:00:00Z","rate":0.5,"plan":"free","fixtures":{"queues":[{"name":"q"}]}}'
)
_FIXTURES = (
    b'{"accounts":[{"customer_id":"a@b.test","type":"free","max_topics":1}],'
    b'"search_indexes":[{"name":"i","type":"payg","region":"eu-west-1"}],'
    b'"team":[{"name":"A","email":"a@b.test","role":"admin"}],"queues":[{"name":"q","parallelism":2,"paused":true}],'
    b'"url_groups":[{"name":"g","endpoints":[{"url":"https://a.test","name":"one"}],"headers":{"Svc-Retries":"1"}}],'
    b'"schedules":[{"cron":"* * * * *","destination":"g","body":"x","headers":{"Svc-Delay":"1s"}}],'
    b'"destinations":[{"match":{"url":"*"},"fault":"dns"}]}'
)
_OPTIONS = (
    b"svc-delay: 1d2h\nsvc-retries: 3\nsvc-retry-delay: pow(2, retried)\nsvc-callback: https://a.test\n"
    b"svc-callback-forward-a: b\nsvc-callback-failure-callback: http://b.test\nsvc-flow-control-key: k\n"
    b"svc-flow-control-value: rate=1, period=1m\nsvc-redact-fields: body,header[A]\nsvc-label: a,b\n"
    b"svc-timeout: 10s\nsvc-method: PUT\nsvc-forward-x: y\ncontent-type: text/plain"
)
_FILTERS = b"url=https://a.test,http://b.test&label=a&label=b,c&state=active&fromDate=1&toDate=2&count=5&cursor=1-2&order=latestFirst"

PARSERS = (
    Parser(name="duration", parse=_of_text(times.parse_duration_ms), samples=[b"1d10h30m5s", b"0s"]),
    Parser(name="period", parse=_of_text(times.parse_period_s), samples=[b"60", b"1h30m"]),
    Parser(
        name="control duration", parse=_of_text(times.parse_control_duration_ms), samples=[b"1w1d2h3m4s5ms", b"0ms"]
    ),
    Parser(name="instant", parse=_of_text(times.read_instant_ms), samples=[b"2026-01-01T00:00:00.5Z", b"2026-01-01"]),
    Parser(
        name="cron",
        parse=_of_text(_schedule),
        samples=[b"*/10 0-6,22 1 JAN MON-FRI", b"CRON_TZ=Europe/Berlin 0 2 ? * 0"],
    ),
    Parser(
        name="retry expression",
        parse=_of_text(_expression),
        samples=[b"min(max(1e3, retried), pow(2, retried) / -sqrt(abs(4)))", b"1+2*3-4"],
    ),
    Parser(
        name="backoff hint", parse=_hint, samples=[b"120", b"1m2.5s", b"Wed, 21 Oct 2026 07:28:00 GMT", b"1767225600"]
    ),
    Parser(
        name="redaction",
        parse=_of_text(redaction.parse_redaction),
        samples=[b"body, headers", b"header[ A ],headers[b]"],
    ),
    Parser(
        name="flow control value",
        parse=_of_text(flow_control.parse_flow_control_value),
        samples=[b"parallelism=1, rate=2,period=1h30m"],
    ),
    Parser(
        name="pin",
        parse=_of_query(lambda request: flow_control.read_pin(request, _SVC, _account_id(), FlowKey("k"))),
        samples=[b"parallelism=3&rate=10&period=60"],
    ),
    Parser(
        name="unpin",
        parse=_of_query(lambda request: flow_control.read_unpin(request, _SVC, _account_id(), FlowKey("k"))),
        samples=[b"parallelism=true&rate=False"],
    ),
    Parser(name="flow key", parse=_of_latin(names.read_flow_key), samples=[b"user-1", b"a%2Fb%C3%A9"]),
    Parser(name="name", parse=_of_text(names.parse_name), samples=[b"my-queue_1.x"]),
    Parser(name="free text", parse=_of_text(names.parse_free_text), samples=[b"a b"]),
    Parser(
        name="destination",
        parse=_of_latin(_destination),
        samples=[b"https://[2001:db8::1]:80/a/../b?x=1&svc-delay=1s&queue_token=t", b"http://a.b.test./", b"group"],
    ),
    Parser(
        name="target",
        parse=_of_text(urls.read_target.__wrapped__),
        samples=["http://u:p@0x7f.1:80/ä?q".encode(), "https://ＡＢ。test/".encode(), b"http://[::1%25eth0]:443"],
    ),
    Parser(name="options", parse=_option_lines, samples=[_OPTIONS]),
    Parser(
        name="options in the query",
        parse=_of_query(_options),
        samples=[b"svc-delay=1d&svc-callback=https%3A%2F%2Fa.test&svc-callback-retries=1&x=y", b"svc-forward-a=b"],
    ),
    Parser(
        name="event query",
        parse=_of_query(lambda request: filters.read_event_query(request, _SVC, _account_id())),
        samples=[_FILTERS],
    ),
    Parser(
        name="dead letter query",
        parse=_of_query(lambda request: filters.read_dead_letter_query(request, _SVC, _account_id())),
        samples=[b"dlqIds=1-2,3-4&responseStatus=503&source=workflow&topicName=g", b"count=100&order=earliestFirst"],
    ),
    Parser(
        name="dead letter body",
        parse=_of_body(lambda request: filters.read_dead_letter_query(request, _SVC, _account_id())),
        samples=[b'{"dlqIds":["1-2"]}', b"null"],
    ),
    Parser(
        name="cancellation",
        parse=_of_body(lambda request: filters.read_cancellation(request, _SVC, _account_id())),
        samples=[b'{"messageIds":["a"],"label":"x","fromDate":1,"count":2}', b"{}"],
    ),
    Parser(
        name="batch",
        parse=lambda given: requests.read_batch(given, _SVC, "127.0.0.1"),
        samples=[
            b'[{"destination":"https://a.test","headers":{"Svc-Delay":"1s","Svc-Callback":"http://b.test"},"body":"x"},'
            b'{"destination":"g","queue":"q","body":null}]'
        ],
    ),
    Parser(
        name="endpoints",
        parse=requests.read_endpoints,
        samples=[b'{"endpoints":[{"url":"http://a.test","name":"n"}]}'],
    ),
    Parser(
        name="endpoint selectors",
        parse=requests.read_endpoint_selectors,
        samples=[b'{"endpoints":[{"url":"http://a.test"},{"name":"n"}]}'],
    ),
    Parser(
        name="group defaults",
        parse=lambda given: requests.read_group_defaults(given, _SVC, _account_id(), GroupName("g")),
        samples=[b'{"headers":{"Svc-Retries":"3","Svc-Forward-A":["b","c"],"Content-Type":"text/plain"}}'],
    ),
    Parser(
        name="queue",
        parse=lambda given: requests.read_queue(given, _account_id()),
        samples=[b'{"queueName":"q","parallelism":2,"paused":true}'],
    ),
    Parser(
        name="new search index",
        parse=lambda given: accounts.read_new_search_index(given, "me"),
        samples=[b'{"name":"n","region":"eu-west-1","type":"payg"}'],
    ),
    Parser(name="plan", parse=lambda given: accounts.read_plan(given, _SVC), samples=[b'{"plan_name":"paid"}']),
    Parser(name="budget", parse=accounts.read_new_budget, samples=[b'{"budget":100}']),
    Parser(
        name="account changes",
        parse=_of_json(lambda value: accounts.read_account_changes(value, make_account(), _SVC)),
        samples=[b'{"type":"free","reserved_price":1.5,"enterprise":{"enabled":true},"reserved_type":"enterprise:x"}'],
    ),
    Parser(
        name="rule",
        parse=_of_json(rule_json.read_rule),
        samples=[_RULE, b'{"match":{"url":"*"},"respond":{"body_base64":"YQ=="}}'],
    ),
    Parser(name="world", parse=_of_json(lambda value: world_json.read_world(value, _SETUP)), samples=[_WORLD]),
    Parser(name="reset", parse=_of_json(world_json.read_reset), samples=[b'{"fixtures":{"queues":[]}}']),
    Parser(
        name="fixtures",
        parse=_of_json(lambda value: fixture_json.read_fixtures(value, _SVC)),
        samples=[_FIXTURES],
    ),
    Parser(
        name="fixtures in YAML",
        parse=_of_file(".yaml", _fixtures_file),
        samples=[
            b"queues:\n  - name: q\n    parallelism: 2\nurl_groups:\n- {name: g, endpoints: [{url: 'https://a.test'}]}\n"
        ],
    ),
    Parser(
        name="fixtures in JSON",
        parse=_of_file(".json", _fixtures_file),
        samples=[b'{"queues": [{"name": "q", "paused": true}], "team": []}'],
    ),
    Parser(
        name="contract to compare with",
        parse=_of_file(".yaml", files.read),
        # Whatever has a place in YAML is an object with two marks at first, be it a single character.
        max_memory=4 * MAX_MEMORY,
        samples=[
            b"openapi: 3.1.0\npaths:\n  /a: {get: {responses: {'200': {description: x}}}}\n",
            b'{"openapi": "3.0.3", "paths": {}}',
        ],
    ),
    Parser(
        name="clock change",
        parse=_of_json(clock_json.read_clock_change),
        samples=[b'{"rate":60,"now":"2026-01-01T00:00:00Z"}', b'{"now":1}'],
    ),
    Parser(
        name="advance",
        parse=_of_json(clock_json.read_advance),
        samples=[b'{"by":"1d","max_deliveries":5}', b'{"to":5}'],
    ),
    Parser(name="drain", parse=_of_json(clock_json.read_drain), samples=[b'{"horizon":"30d"}']),
    Parser(
        name="delivery query",
        parse=_of_query(
            lambda request: delivery_json.read_delivery_query(control_query(request.query, *delivery_json.PARAMETERS))
        ),
        samples=[b"url=https://*&message_id=m&outcome=failed&limit=10&cursor=1-2"],
    ),
    Parser(
        name="upcoming query",
        parse=_of_query(lambda request: upcoming_json.read_upcoming(request.query)),
        samples=[b"until=2026-01-01T00:00:00Z", b"until=1767225600000&limit=10"],
    ),
    Parser(
        name="basic credentials",
        parse=_of_header(b"authorization", parts.basic_credentials),
        samples=[b"Basic dXNlcjpwYXNz"],
    ),
    Parser(
        name="bearer token",
        parse=_of_header(b"authorization", lambda request: parts.bearer_token(request, _SVC)),
        samples=[b"Bearer token"],
    ),
    Parser(
        name="accept",
        parse=_of_header(b"accept", parts.check_accepts_json),
        samples=[b"text/html;q=0.5, */*;q=0.1"],
    ),
    Parser(
        name="content type",
        parse=_of_header(b"content-type", parts.check_is_json),
        samples=[b"application/vnd.api+json; charset=utf-8"],
    ),
)
_IDS = [parser.name for parser in PARSERS]


def test_samples_are_accepted() -> None:
    """Else the examples below would be made of rubbish only."""
    refused = []
    for parser in PARSERS:
        for sample in parser.samples:
            try:
                parser.parse(sample)
            except _REFUSALS as refusal:
                refused.append((parser.name, sample, refusal))
    assert not refused


_TOKENS = st.sampled_from(
    [
        *(b"0", b"-1", b"1e999", b"9" * 25, b"-0", b"1.0", b"0x10", b"\xd9\xa3", b"\xc2\xb2", b"_"),
        *(b"null", b"true", b"[]", b"{}", b'""', b'"', b"\\ud800", b"\\u0000", b"[", b"]", b"{", b"}", b":", b","),
        *(
            b" ",
            b"\t",
            b"\r\n",
            b"\x00",
            b"\x1c",
            b"\x7f",
            b"\x85",
            b"\xc2\xa0",
            b"\xe2\x80\xa8",
            b"\xff",
            b"\xed\xa0\x80",
        ),
        *(
            b"%",
            b"%00",
            b"%ff",
            b"%F0%9F",
            b"&",
            b"=",
            b"+",
            b"#",
            b"?",
            b"/",
            b"//",
            b"..",
            b"@",
            b"(",
            b")",
            b"*",
            b";",
        ),
    ]
)


@st.composite
def _nearly_right(draw: st.DrawFn, samples: Sequence[bytes]) -> bytes:
    """A sample with bits turned, pieces cut out, doubled, put elsewhere, or replaced by what parsers stumble over."""
    text = draw(st.sampled_from(list(samples)))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text) - 1))
        text = text[:place] + bytes([text[place] ^ (1 << draw(st.integers(0, 7)))]) + text[place + 1 :]
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        piece = draw(_TOKENS | st.binary(max_size=6) | st.just(text[start:end] * 2))
        text = text[:start] + piece + text[end:]
    return text


@pytest.mark.slow
@pytest.mark.parametrize("parser", PARSERS, ids=_IDS)
def test_any_bytes_give_a_value_or_a_refusal(parser: Parser) -> None:
    @settings(max_examples=MAX_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(_nearly_right(parser.samples) | st.binary(max_size=64) | st.text(max_size=40).map(str.encode))
    def check(text: bytes) -> None:
        parser.try_on(text)

    check()


def _large_inputs(samples: Sequence[bytes], size: int) -> list[bytes]:
    """Each sample endlessly repeated, alone and inside itself, and repetitions of single characters."""
    repeated = [sample * (size // len(sample)) for sample in samples]
    inside = [
        sample[:middle] + sample[middle:] * (size // len(sample))
        for sample in samples
        for middle in (len(sample) // 3, len(sample) // 2)
    ]
    characters = [character * size for character in (b"0", b"9", b"a", b" ", b",", b"(", b"[", b"-", b"%", b"=", b"&")]
    nested = [b"[" * size, b'{"a":' * (size // 5), b'{"endpoints":' + b"[" * size, b"-(" * (size // 2)]
    padded = [b" " * size + samples[0], samples[0] + b"\t" * size, samples[0] + b"," * size, samples[0] + b"9" * size]
    pairs = [
        b"&".join(b"p%d=%d" % (n, n) for n in range(size // 12)),
        b'{"a":1,' * 9 + b'"b":"' + b"\\u00e9" * (size // 6),
    ]
    return [*repeated, *inside, *characters, *nested, *padded, *pairs]


@pytest.mark.slow
@pytest.mark.parametrize("parser", PARSERS, ids=_IDS)
def test_large_inputs_take_bounded_time(parser: Parser) -> None:
    for given_bytes in _large_inputs(parser.samples, LARGE):
        started = time.process_time()
        parser.try_on(given_bytes)
        took_s = time.process_time() - started
        assert took_s < MAX_CPU_S, (given_bytes[:60], len(given_bytes), took_s)


@pytest.mark.slow
@pytest.mark.parametrize("parser", PARSERS, ids=_IDS)
def test_large_inputs_take_bounded_memory(parser: Parser) -> None:
    # Watching every allocation is slow, so the inputs are smaller, and only the repetitions of what is valid.
    for given_bytes in _large_inputs(parser.samples, LARGE // 8)[: len(parser.samples) * 3]:
        tracemalloc.start()
        try:
            parser.try_on(given_bytes)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < parser.max_memory, (given_bytes[:60], len(given_bytes), peak)
