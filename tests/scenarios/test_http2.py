"""HTTP/2, which hypercorn speaks: with prior knowledge, and over TLS with clients that offer it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator

import httpx
import pytest

from tests.harness.certificates import CertificateFiles
from tests.harness.emulators import Server, control, receiver, server
from tests.harness.loops import PATIENCE_S, on_loop
from tests.scenarios.raw_http import Http2

pytestmark = pytest.mark.slow

DESTINATION = "https://api.example.com/hook"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Server]:
    with server(server="hypercorn") as running:
        yield running


@pytest.fixture(autouse=True)
def _fresh(request: pytest.FixtureRequest) -> None:
    if "emulator" in request.fixturenames:
        control(request.getfixturevalue("emulator"), "POST", "/reset")


@pytest.fixture
def http2(emulator: Server) -> Iterator[Http2]:
    with Http2(emulator) as connection:
        yield connection


def urls(emulator: Server) -> list[str]:
    return [each["url"] for each in control(emulator, "GET", "/deliveries")["deliveries"]]


@on_loop
async def test_a_real_client_publishes_over_one_encrypted_connection(certificate: CertificateFiles) -> None:
    with receiver() as hooks, server(server="hypercorn", tls_cert=certificate.cert, tls_key=certificate.key) as running:
        async with httpx.AsyncClient(
            http1=False,
            http2=True,
            verify=ssl.create_default_context(cafile=certificate.ca),
            limits=httpx.Limits(max_connections=1),
            timeout=PATIENCE_S,
            trust_env=False,
        ) as client:

            async def publish(number: int) -> tuple[str, str]:
                answer = await client.post(
                    f"{running.url}/v2/publish/{hooks.url}/{number}",
                    headers={"Authorization": f"Bearer {running.token}"},
                    content=b"x" * 100_000,
                )
                assert answer.status_code == 200, answer.text
                return answer.http_version, answer.json()["messageId"]

            answers = await asyncio.gather(*(publish(number) for number in range(50)))
        assert {version for version, _ in answers} == {"HTTP/2"}
        received = hooks.wait_for(50)
    assert {request.headers["svc-message-id"] for request in received} == {message_id for _, message_id in answers}
    assert {request.path for request in received} == {f"/{number}" for number in range(50)}
    assert all(len(request.body) == 100_000 for request in received)


def test_uvicorn_offers_encrypted_clients_the_older_version(certificate: CertificateFiles) -> None:
    with (
        server(tls_cert=certificate.cert, tls_key=certificate.key) as running,
        httpx.Client(
            http2=True, verify=ssl.create_default_context(cafile=certificate.ca), trust_env=False, timeout=PATIENCE_S
        ) as client,
    ):
        assert client.get(f"{running.url}/_emulator/health").http_version == "HTTP/1.1"


def test_a_client_with_prior_knowledge_needs_no_encryption(emulator: Server) -> None:
    with httpx.Client(http1=False, http2=True, trust_env=False, timeout=PATIENCE_S) as client:
        answer = client.get(f"{emulator.url}/_emulator/health")
    assert (answer.http_version, answer.json()["status"]) == ("HTTP/2", "ok")


def test_requests_under_way_at_once_do_not_wait_for_each_other(emulator: Server, http2: Http2) -> None:
    waiting = http2.ask("POST", f"/v2/publish/{DESTINATION}", is_whole=False)
    others = [http2.ask("POST", f"/v2/publish/{DESTINATION}/{number}") for number in range(20)]
    assert {answer.status for answer in http2.answers(*others).values()} == {200}
    http2.send(waiting, b"at last", is_last=True)
    assert http2.answer(waiting).status == 200
    assert urls(emulator)[-1] == DESTINATION


def test_events_are_streamed_beside_other_requests(http2: Http2) -> None:
    events = http2.ask("GET", "/_emulator/stream")
    # The answer has begun once its head is there; from then on everything is sent.
    http2.head_of(events)
    sent = http2.answer(http2.ask("POST", f"/v2/publish/{DESTINATION}")).json["messageId"]
    assert b"event: " in http2.body_with(events, sent.encode())
    http2.reset(events)
    assert http2.answer(http2.ask("GET", "/_emulator/health")).status == 200


def test_the_control_api_is_closed_to_other_hosts(http2: Http2) -> None:
    """D-150: over HTTP/2 the host stands in `:authority`."""
    refused = http2.answer(http2.ask("GET", "/_emulator/health", authority="page.example.com"))
    assert refused.status == 403
    foreign = http2.answer(http2.ask("GET", "/_emulator/health", [("origin", "http://page.example.com")]))
    assert foreign.status == 403
    own = http2.answer(http2.ask("GET", "/_emulator/health", [("origin", "http://127.0.0.1")]))
    assert own.status == 200


def test_a_raw_destination_reaches_the_emulator_untouched(emulator: Server, http2: Http2) -> None:
    destination = "https://x.test//a/../b%2F%41?q=%20"
    assert http2.answer(http2.ask("POST", f"/v2/publish/{destination}&svc-delay=0s")).status == 200
    assert urls(emulator) == [destination]
    assert http2.answer(http2.ask("POST", "/v2/publish/https://x.test/a#b")).status == 400


def test_an_empty_query_of_a_destination_is_kept(emulator: Server, http2: Http2) -> None:
    """D-797."""
    for destination in ("https://x.test/?", "https://x.test/", "https://x.test?"):
        assert http2.answer(http2.ask("POST", f"/v2/publish/{destination}")).status == 200
    assert urls(emulator) == ["https://x.test/?", "https://x.test/", "https://x.test?"]


def test_an_answer_that_comes_early_leaves_the_connection_alone(http2: Http2) -> None:
    """What is still sent after the answer belongs to no stream any more, and must end no other."""
    early = http2.ask("POST", "/nowhere", is_whole=False)
    http2.send(early, b"x" * 1000, is_last=False)
    # Once this later request is answered, so has been the earlier.
    assert http2.answer(http2.ask("GET", "/_emulator/health")).status == 200
    http2.send(early, b"x" * 1000, is_last=True)
    assert http2.answer(http2.ask("GET", "/_emulator/health")).status == 200


def test_a_publish_that_is_taken_back_half_way_is_not_published(emulator: Server, http2: Http2) -> None:
    """D-230."""
    taken_back = http2.ask("POST", f"/v2/publish/{DESTINATION}", is_whole=False)
    http2.send(taken_back, b"only this", is_last=False)
    http2.reset(taken_back)
    assert http2.answer(http2.ask("GET", "/_emulator/health")).status == 200
    assert urls(emulator) == []


def test_a_connection_lasts_for_any_number_of_requests(http2: Http2) -> None:
    """Hypercorn would close one after a thousand."""
    statuses = [http2.answer(http2.ask("GET", "/nowhere")).status for _ in range(1_010)]
    assert set(statuses) == {404}


def test_a_head_answer_has_no_body(http2: Http2) -> None:
    answer = http2.answer(http2.ask("HEAD", "/v2/queues"))
    assert (answer.status, answer.headers["allow"], answer.body) == (405, "GET, POST", b"")
