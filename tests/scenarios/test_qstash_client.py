"""The public Python client, synchronous and asynchronous, drives every resource it has."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from qstash import AsyncQStash, QStash
from qstash import Receiver as Verifier
from qstash.errors import QStashError, SignatureError
from qstash.log import LogState
from qstash.schedule import ScheduleState

from tests.harness.emulators import EPOCH_MS, Receiver, Server, control, receiver, server
from tests.harness.loops import on_loop

pytestmark = pytest.mark.slow

# Stands for the internet: rules forward it to a receiver on this machine.
APP = "https://app.example.com"
DOWN = "https://down.example.com"
CLIENTS = pytest.mark.parametrize("kind", [QStash, AsyncQStash], ids=["sync", "async"])


@pytest.fixture(scope="module")
def emulator(http_server: str) -> Iterator[Server]:
    with server(dialect="upstash", server=http_server) as running:
        yield running


@pytest.fixture
def hooks(emulator: Server) -> Iterator[Receiver]:
    """What arrives at the application; the client's own receiver verifies all of it afterwards."""
    control(emulator, "POST", "/reset")
    with receiver() as running:
        control(emulator, "POST", "/destinations", {"match": {"url": f"{APP}/*"}, "forward_to": running.url})
        rule = {"match": {"url": f"{DOWN}/*"}, "respond": {"status": 502, "body": "Bad Gateway"}}
        control(emulator, "POST", "/destinations", rule)
        yield running
        verifier = Verifier(emulator.current_signing_key, emulator.next_signing_key)
        for received in running.requests:
            signature, body = received.headers["upstash-signature"], received.body.decode()
            verifier.verify(signature=signature, body=body, url=f"{APP}{received.path}")
            with pytest.raises(SignatureError):
                verifier.verify(signature=signature, body=body + "x", url=f"{APP}{received.path}")
            assert received.headers["user-agent"] == "Upstash-QStash"


class Client:
    """Either client: `await client.message.publish(...)` works on both."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found) or inspect.isclass(found):
            return Client(found)

        async def call(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return call


@contextlib.asynccontextmanager
async def connected(kind: type[QStash] | type[AsyncQStash], emulator: Server) -> AsyncIterator[Client]:
    client = kind(emulator.token, base_url=emulator.url, retry=False)
    try:
        yield Client(client)
    finally:
        inner = client.http._client
        if isinstance(inner, httpx.AsyncClient):
            await inner.aclose()
        else:
            inner.close()


@CLIENTS
@on_loop
async def test_publishing(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        plain = await client.message.publish(
            url=f"{APP}/plain", body="hi", content_type="text/plain", method="PUT", headers={"X-Team": "t"}
        )
        json = await client.message.publish_json(url=f"{APP}/json", body={"a": [1]})
        null = await client.message.publish_json(url=f"{APP}/null")
        assert [received.path for received in hooks.requests] == ["/plain", "/json", "/null"]
        first, second, third = hooks.requests
        assert (first.method, first.body, first.headers["x-team"]) == ("PUT", b"hi", "t")
        assert first.headers["upstash-message-id"] == plain.message_id
        assert (second.json, second.headers["content-type"]) == ({"a": [1]}, "application/json")
        assert third.body == b"null"
        assert not plain.deduplicated
        # Readable straight after the publish, although it has been delivered.
        message = await client.message.get(json.message_id)
        assert (message.url, message.body, message.method) == (f"{APP}/json", '{"a": [1]}', "POST")
        assert message.flow_control is None
        assert null.message_id != json.message_id


@CLIENTS
@on_loop
async def test_every_publish_option(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        sent = await client.message.publish(
            url=f"{APP}/options",
            body="secret",
            headers={"Authorization": "Bearer x", "Plain": "p"},
            callback_headers={"timeout": "30s", "Upstash-Callback-Forward-K": "v"},
            failure_callback_headers={"retries": "0"},
            retries=2,
            retry_delay="7000 * retried",
            callback=f"{APP}/told",
            failure_callback=f"{APP}/failed",
            delay="10d",
            content_based_deduplication=False,
            timeout=60,
            flow_control={"key": "k", "parallelism": 3, "rate": 4, "period": "1h30m3s"},
            label="a label",
            redact={"body": True, "header": ["Authorization"]},
        )
        message = await client.message.get(sent.message_id)
        assert (message.max_retries, message.retry_delay_expression) == (2, "7000 * retried")
        assert (message.callback, message.failure_callback) == (f"{APP}/told", f"{APP}/failed")
        assert message.callback_headers == {"K": ["v"]}
        assert message.not_before == EPOCH_MS + 864_000_000
        assert message.label == "a label"
        assert (message.flow_control.key, message.flow_control.parallelism) == ("k", 3)
        assert (message.flow_control.rate, message.flow_control.period) == (4, 5403)
        assert message.body.startswith("REDACTED:")
        assert message.headers["Plain"] == ["p"]
        assert message.headers["Authorization"][0].startswith("REDACTED:")
        control(emulator, "POST", "/clock/advance", {"by": "10d"})
        delivered, told = hooks.requests
        assert (delivered.body, delivered.headers["authorization"]) == (b"secret", "Bearer x")
        assert (told.path, told.headers["k"], told.json["status"]) == ("/told", "v", 200)
        later = await client.message.publish(url=f"{APP}/later", not_before=EPOCH_MS // 1000 + 2_000_000)
        assert (await client.message.get(later.message_id)).not_before == EPOCH_MS + 2_000_000_000


@CLIENTS
@on_loop
async def test_deduplication(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        first = await client.message.publish(url=f"{APP}/d", deduplication_id="d")
        again = await client.message.publish(url=f"{APP}/d", deduplication_id="d")
        assert (again.message_id, again.deduplicated) == (first.message_id, True)
        for expected in (False, True):
            sent = await client.message.publish(url=f"{APP}/c", body="x", content_based_deduplication=True)
            assert sent.deduplicated is expected
        assert len(hooks.requests) == 2


@CLIENTS
@on_loop
async def test_batch_and_enqueue(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        await client.url_group.upsert_endpoints(
            url_group="g", endpoints=[{"url": f"{APP}/one"}, {"url": f"{APP}/two", "name": "two"}]
        )
        results = await client.message.batch(
            [
                {"url": f"{APP}/b", "body": "b", "retries": 0, "content_type": "text/plain"},
                {"url_group": "g", "body": "g"},
                {"url": f"{APP}/q", "queue": "q"},
            ]
        )
        assert results[0].message_id
        assert [item.url for item in results[1]] == [f"{APP}/one", f"{APP}/two"]
        (json,) = await client.message.batch_json([{"url": f"{APP}/j", "body": {"j": 1}}])
        queued = await client.message.enqueue(queue="q", url=f"{APP}/e", body="e")
        queued_json = await client.message.enqueue_json(queue="q", url=f"{APP}/ej", body={"e": 1})
        fanned = await client.message.enqueue(queue="q", url_group="g")
        assert len(fanned) == 2
        assert len({json.message_id, queued.message_id, queued_json.message_id}) == 3
        paths = [received.path for received in hooks.wait_for(9)]
        # What a call publishes leaves at once (D-538), and a queue one after another.
        assert sorted(paths[:4]) == ["/b", "/one", "/q", "/two"]
        assert paths[4:] == ["/j", "/e", "/ej", "/one", "/two"]


@CLIENTS
@on_loop
async def test_cancelling(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        ids = [(await client.message.publish(url=f"{APP}/x", delay="1h")).message_id for _ in range(4)]
        await client.message.cancel(ids[0])
        with pytest.raises(QStashError, match=f"message {ids[0]} not found"):
            await client.message.cancel(ids[0])
        assert await client.message.cancel_many(ids[1:3]) == 2
        assert await client.message.cancel_all() == 1
        assert await client.message.cancel_all() == 0
        control(emulator, "POST", "/clock/advance", {"by": "1d"})
        assert hooks.requests == []


@CLIENTS
@on_loop
async def test_schedules(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        made = await client.schedule.create(
            destination=f"{APP}/cron",
            cron="*/10 * * * *",
            body="tick",
            content_type="text/plain",
            headers={"Test-Header": "v"},
            retries=1,
            retry_delay="1000",
            callback=f"{APP}/told",
            failure_callback=f"{APP}/failed",
            delay="10s",
            timeout=9,
            queue="q",
            label="l",
            flow_control={"key": "k", "rate": 9},
        )
        schedule = await client.schedule.get(made)
        assert (schedule.cron, schedule.destination, schedule.body) == ("*/10 * * * *", f"{APP}/cron", "tick")
        assert schedule.headers == {"Content-Type": ["text/plain"], "Test-Header": ["v"]}
        assert (schedule.retries, schedule.delay, schedule.timeout, schedule.queue) == (1, 10, 9, "q")
        assert (schedule.label, schedule.retry_delay_expression, schedule.paused) == ("l", "1000", False)
        assert (schedule.flow_control.key, schedule.flow_control.rate) == ("k", 9)
        assert await client.schedule.list() == [schedule]
        named = await client.schedule.create_json(
            destination=f"{APP}/json", cron="0 0 1 1 *", body={"a": 1}, schedule_id="mine", method="PATCH"
        )
        assert named == "mine"
        control(emulator, "POST", "/clock/advance", {"by": "10m10s"})
        assert [received.path for received in hooks.requests] == ["/cron", "/told"]
        assert list((await client.schedule.get(made)).last_schedule_states.values()) == [ScheduleState.SUCCESS]
        await client.schedule.pause(made)
        assert (await client.schedule.get(made)).paused is True
        await client.schedule.resume(made)
        assert (await client.schedule.get(made)).paused is False
        for schedule_id in (made, "mine"):
            await client.schedule.delete(schedule_id)
        assert await client.schedule.list() == []
        with pytest.raises(QStashError, match="status: 404"):
            await client.schedule.get(made)
        with pytest.raises(QStashError, match="Upstash-Cron: Invalid cron expression"):
            await client.schedule.create(destination=f"{APP}/cron", cron="nonsense")


@CLIENTS
@on_loop
async def test_url_groups(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        await client.url_group.delete("g")
        endpoints = [{"url": f"{APP}/one", "name": "one"}, {"url": f"{APP}/two"}]
        await client.url_group.upsert_endpoints(url_group="g", endpoints=endpoints)
        group = await client.url_group.get("g")
        assert [(each.url, each.name) for each in group.endpoints] == [(f"{APP}/one", "one"), (f"{APP}/two", None)]
        assert await client.url_group.list() == [group]
        sent = await client.message.publish_json(url_group="g", body={"to": "all"})
        assert [item.url for item in sent] == [f"{APP}/one", f"{APP}/two"]
        assert [received.json for received in hooks.requests] == [{"to": "all"}] * 2
        message = await client.message.get(sent[0].message_id)
        assert (message.url_group, message.endpoint) == ("g", "one")
        await client.url_group.remove_endpoints(url_group="g", endpoints=[{"name": "one"}, {"url": f"{APP}/two"}])
        assert await client.url_group.list() == []
        with pytest.raises(QStashError, match="topic g not found"):
            await client.message.publish(url_group="g")


@CLIENTS
@on_loop
async def test_queues(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        await client.queue.upsert("q", parallelism=2, paused=True)
        await client.message.enqueue(queue="q", url=f"{APP}/q")
        queue = await client.queue.get("q")
        assert (queue.name, queue.parallelism, queue.paused, queue.lag) == ("q", 2, True, 1)
        assert (queue.created_at, queue.updated_at) == (EPOCH_MS, EPOCH_MS)
        assert await client.queue.list() == [queue]
        await client.queue.resume("q")
        hooks.wait_for(1)
        await client.queue.pause("q")
        assert (await client.queue.get("q")).paused is True
        await client.queue.delete("q")
        assert await client.queue.list() == []


@CLIENTS
@on_loop
async def test_the_dead_letter_queue(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        for number in range(4):
            await client.message.publish(url=f"{DOWN}/{number}", body="b", retries=0, label=f"l{number}")
        page = await client.dlq.list(count=3)
        rest = await client.dlq.list(cursor=page.cursor)
        assert (len(page.messages), len(rest.messages), rest.cursor) == (3, 1, None)
        first = page.messages[0]
        assert (first.url, first.response_status, first.response_body) == (f"{DOWN}/0", 502, "Bad Gateway")
        assert await client.dlq.get(first.dlq_id) == first
        for choice, found in (
            ({"label": "l2"}, 1),
            ({"url": f"{DOWN}/1"}, 1),
            ({"message_id": first.message_id}, 1),
            ({"response_status": 502}, 4),
            ({"response_status": 500}, 0),
            ({"queue": "q"}, 0),
            ({"url_group": "g"}, 0),
            ({"schedule_id": "s"}, 0),
            ({"caller_ip": "127.0.0.1"}, 4),
            ({"from_time": EPOCH_MS, "to_time": EPOCH_MS}, 4),
        ):
            assert len((await client.dlq.list(filter=choice)).messages) == found, choice
        await client.dlq.delete(first.dlq_id)
        with pytest.raises(QStashError, match="status: 404"):
            await client.dlq.delete(first.dlq_id)
        assert await client.dlq.delete_many([entry.dlq_id for entry in page.messages]) == 2
        assert len((await client.dlq.list()).messages) == 1


@CLIENTS
@on_loop
async def test_logs(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        good = await client.message.publish(url=f"{APP}/good", body="x", label="good", retry_delay="5000")
        bad = await client.message.publish(url=f"{DOWN}/bad", retries=0)
        gone = await client.message.publish(url=f"{APP}/never", delay="1h")
        await client.message.cancel(gone.message_id)
        logs = (await client.log.list()).logs
        assert len(logs) == 3 + 4 + 3
        assert {log.state for log in logs} == set(LogState) - {LogState.RETRY, LogState.IN_PROGRESS}
        (delivered,) = (await client.log.list(filter={"state": LogState.DELIVERED})).logs
        assert (delivered.message_id, delivered.label) == (good.message_id, "good")
        assert (delivered.retry_delay_expression, delivered.body_base64) == ("5000", "eA==")
        both = await client.log.list(filter={"message_ids": [good.message_id, bad.message_id]})
        assert len(both.logs) == 7
        first = await client.log.list(count=6)
        second = await client.log.list(cursor=first.cursor)
        assert (len(first.logs), len(second.logs), second.cursor) == (6, 4, None)
        (error,) = (await client.log.list(filter={"state": LogState.ERROR})).logs
        assert error.response_status == 502


@CLIENTS
@on_loop
async def test_flow_control(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        flow = {"key": "a key/1", "parallelism": 2, "rate": 1, "period": "1d"}
        for _ in range(2):
            await client.message.publish(url=f"{APP}/flow", flow_control=flow)
        info = await client.flow_control.get("a key/1")
        assert (info.key, info.wait_list_size, info.parallelism_max) == ("a key/1", 1, 2)
        assert (info.rate_max, info.rate_count, info.rate_period) == (1, 1, 86_400)
        await client.flow_control.pause("a key/1")
        assert (await client.flow_control.get("a key/1")).is_paused is True
        await client.flow_control.reset_rate("a key/1")
        assert (await client.flow_control.get("a key/1")).rate_count == 0
        await client.flow_control.pin("a key/1", {"parallelism": 5, "rate": 10, "period": 60})
        pinned = await client.flow_control.get("a key/1")
        assert (pinned.is_pinned_parallelism, pinned.is_pinned_rate, pinned.rate_max) == (True, True, 10)
        await client.flow_control.unpin("a key/1", {"parallelism": True, "rate": True})
        await client.flow_control.resume("a key/1")
        assert len(hooks.wait_for(2)) == 2
        with pytest.raises(QStashError, match="status: 404"):
            await client.flow_control.get("none")
        everything = await client.flow_control.get_global_parallelism()
        assert (everything.parallelism_max, everything.parallelism_count) == (200, 0)


@CLIENTS
@on_loop
async def test_signing_keys(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        keys = await client.signing_key.get()
        assert (keys.current, keys.next) == (emulator.current_signing_key, emulator.next_signing_key)
        rotated = await client.signing_key.rotate()
        assert rotated.current == keys.next
        # A receiver with the old pair still accepts this, by its next key; the fixture checks it.
        await client.message.publish(url=f"{APP}/rotated", body="x")
        assert len(hooks.requests) == 1


@CLIENTS
@on_loop
async def test_errors(kind: type[QStash], emulator: Server, hooks: Receiver) -> None:
    async with connected(kind, emulator) as client:
        with pytest.raises(QStashError, match=r'status: 400, body: .*"field":"destination"'):
            await client.message.publish(url="not a url")
        with pytest.raises(QStashError, match=r'"field":"Upstash-Retry-Delay"'):
            await client.message.publish(url=f"{APP}/x", retry_delay="foo(1)")
        with pytest.raises(QStashError, match=r'"field":"Upstash-Callback-Delay"'):
            await client.message.publish(url=f"{APP}/x", callback=f"{APP}/y", callback_headers={"Delay": "5s"})
    async with connected(kind, replace(emulator, token="wrong")) as other_client:
        with pytest.raises(QStashError, match=r"status: 401, body: .*unable to authenticate: invalid token"):
            await other_client.message.publish(url=f"{APP}/x")
