"""A user's tests that call every public method, for type checkers as much as for pytest.

tests/test_wheel.py copies this file into a project of its own; it is not collected here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import assert_type

import httpx
import pytest

import emulator as package
from emulator import (
    AdvanceReport,
    Answer,
    Application,
    AsyncEmulator,
    Attempt,
    BatchMessage,
    Chaos,
    CheckResult,
    ClockStatus,
    Credentials,
    DeadLetter,
    DeadLetterFilters,
    Delivery,
    Dialect,
    Duration,
    Emulator,
    EmulatorError,
    EmulatorWarning,
    Endpoint,
    Event,
    EventFilters,
    Expected,
    Filters,
    Firing,
    FlowControl,
    FlowControlKey,
    HandlerError,
    HistoryNotKept,
    HistoryWarning,
    Instant,
    Interface,
    Message,
    MessageOptions,
    MessageStatus,
    NotAnEmulator,
    Options,
    Published,
    PublishedMessage,
    PublishOptions,
    Queue,
    ReceiverOptions,
    ReceiverReport,
    Refused,
    RefusedCall,
    Request,
    Response,
    RunDeadLetter,
    RunFailure,
    Schedule,
    ScheduleOptions,
    Snapshot,
    StepExpected,
    Unreachable,
    UrlGroup,
    Verdict,
    Via,
    WorkflowRun,
    WorkflowStep,
    attempts,
    explore,
    partial,
    when,
)

APP = "https://app.test/hook"


def answer(request: Request) -> Response:
    return Response(201, headers=httpx.Headers({"X-Method": request.method}), body=request.body)


def no_content(request: Request) -> Answer:
    return 204


APPLICATIONS: list[Application] = [answer, no_content]


def day_of(emulator: Emulator, start: Instant, length: Duration) -> None:
    emulator.clock.advance_to(start)
    emulator.clock.advance(length)


def test_publishing(emulator: Emulator) -> None:
    limits: FlowControl = {"key": "a", "parallelism": 2, "rate": 10, "period": timedelta(minutes=1)}
    options: PublishOptions = {
        "delay": "1h",
        "retries": 2,
        "retry_delay": "1m",
        "timeout": "30s",
        "flow_control": limits,
    }
    emulator.mount("https://app.test", answer, interface=Interface.FUNCTION)
    published = emulator.publish(APP, json={"user": 7}, headers={"Svc-Forward-X-Key": "1"}, **options)
    assert_type(published, Published)
    [message] = published.messages
    assert_type(message, PublishedMessage)
    assert_type(published.message_ids, tuple[str, ...])
    assert (published.message_id, published.deduplicated, message.url) == (published, False, APP)
    later = emulator.publish(
        APP,
        b"hello",
        not_before=datetime(2026, 3, 29, tzinfo=UTC),
        callback="https://cb.test/",
        failure_callback="https://cb.test/",
        content_based_deduplication=True,
        label=["a", "b"],
        redact="body",
        method="PUT",
    )
    emulator.publish(APP, queue="mail", deduplication_id="one", label="a")
    assert_type(emulator.messages.get(later), Message)
    assert_type(emulator.messages.all(state="live", url=APP), list[MessageStatus])
    emulator.messages.cancel(later)
    wanted: Filters = {"label": "a", "since": datetime(2026, 1, 1, tzinfo=UTC)}
    assert_type(emulator.messages.cancel_all(**wanted), int)
    assert_type(emulator.call("GET", "/v2/keys"), httpx.Response)


def test_the_rest_of_the_service(emulator: Emulator) -> None:
    batch: list[BatchMessage] = [{"destination": APP, "json": {"user": 7}}, {"destination": APP, "delay": "1h"}]
    published = emulator.publish_batch(batch)
    assert_type(published, list[Published])
    wanted: EventFilters = {"message_id": published[0], "state": "DELIVERED"}
    assert_type(emulator.events(**wanted), list[Event])
    assert_type(emulator.logs(url=APP), list[Event])
    assert_type(emulator.sign(APP, json={"user": 7}), dict[str, str])
    assert_type(emulator.signing_keys.current, str)
    emulator.signing_keys.rotate()
    emulator.flow_control.pin("api", parallelism=1, rate=2, period="1m")
    emulator.flow_control.unpin("api", parallelism=False)
    emulator.flow_control.pause("api")
    emulator.flow_control.resume("api")
    emulator.flow_control.reset("api")
    assert_type(emulator.flow_control.all("a"), list[FlowControlKey])
    assert_type(emulator.flow_control.get("api"), FlowControlKey)
    emulator.destinations.respond(APP, json={"id": 1})
    assert emulator.signing_keys.next


def test_clock_and_deliveries(emulator: Emulator) -> None:
    emulator.mount("https://app.test", answer)
    emulator.publish(APP, "json")
    assert_type(emulator.clock.now(), datetime)
    assert_type(emulator.clock.status(), ClockStatus)
    assert_type(emulator.clock.advance("1d", max_deliveries=10), AdvanceReport)
    assert emulator.clock.advance("1d", undoable=True).stopped is None
    assert_type(emulator.clock.undo(), ClockStatus)
    assert emulator.clock.advance_to(datetime(2026, 4, 1, tzinfo=UTC)).deliveries == 0
    day_of(emulator, "2026-04-02", timedelta(days=1))
    for number, application in enumerate(APPLICATIONS):
        emulator.mount(f"https://app{number}.test", application)
    assert emulator.clock.next().stopped is None
    assert emulator.clock.drain(timedelta(days=1)).idle
    assert emulator.clock.set("2026-05-01").rate == 0
    assert emulator.clock.rate(60).rate == 60
    assert emulator.clock.rate(0).in_flight == 0
    [delivery] = emulator.wait_for(APP, status=201, count=1, timeout=5)
    assert_type(delivery, Delivery)
    assert_type(delivery.via, Via)
    assert_type(delivery.response, Response | None)
    assert (delivery.via, delivery.status, delivery.succeeded, delivery.error) == (Via.MOUNT, 201, True, None)
    expected: Expected = {"at": "0s", "status": 201, "body": b"json", "signed_with": "current"}
    emulator.verify(APP, **expected)
    assert emulator.deliveries(url=APP, outcome="failed") == []
    assert "1 attempt" in emulator.timeline()
    assert emulator.explain(delivery.message_id)
    assert emulator.upcoming(until="2026-06-01")
    assert "sha256" in emulator.trace()
    assert_type(emulator.redeliver(emulator.deliveries()[-1]), Delivery)
    emulator.clear_deliveries()
    emulator.unmount("https://app.test")


def test_receivers(emulator: Emulator) -> None:
    options: ReceiverOptions = {"json": {"a": 1}, "effect": APPLICATIONS.__len__, "callbacks": True, "timeout": 5}
    assert emulator.check_receiver(answer, path="/hook", interface="function").requests == 32
    report = emulator.check_receiver(answer, **options)
    assert_type(report, ReceiverReport)
    assert_type(report["valid"], CheckResult)
    assert (report.passed, report["valid"].verdict) == (False, Verdict.PASSED)
    assert report["wrong-key"] in report.failures
    with pytest.raises(AssertionError, match="wrong-key"):
        report.raise_for_failures()


def test_destinations(emulator: Emulator) -> None:
    rule_id = emulator.destinations.respond(APP, 503, headers={"Retry-After": "1"}, body="busy", latency="1s", times=1)
    assert_type(rule_id, str)
    emulator.destinations.sequence(APP, [500, {"status": 200}])
    emulator.destinations.forward("https://other.test/*", "http://127.0.0.1:3000", method="POST")
    emulator.destinations.fault("https://third.test/*", "refused", times=2)
    emulator.destinations.add({"match": {"url": APP}, "respond": {"status": 204}})
    emulator.destinations.disturb(APP, chance=0.5, duplicate=True, reorder="1s", latency=(0, "5s"))
    assert len(emulator.destinations.all()) == 6
    emulator.destinations.remove(rule_id)
    emulator.destinations.clear()


def test_what_the_service_keeps(emulator: Emulator) -> None:
    options: ScheduleOptions = {"queue": "mail", "retries": 0}
    daily = emulator.schedules.create(APP, "0 9 * * *", "hello", schedule_id="daily", **options)
    assert_type(daily, Schedule)
    assert_type(emulator.schedules.all(), list[Schedule])
    emulator.schedules.pause("daily")
    emulator.schedules.resume("daily")
    assert emulator.schedules.explain("daily")
    emulator.schedules.delete(emulator.schedules.get("daily").schedule_id)

    assert_type(emulator.queues.upsert("mail", parallelism=2, paused=True), Queue)
    assert_type(emulator.queues.all(), list[Queue])
    emulator.queues.pause("mail")
    emulator.queues.resume("mail")
    assert emulator.queues.get("mail").lag == 0
    emulator.queues.delete("mail")

    group = emulator.url_groups.upsert("news", [APP, Endpoint("https://b.test", "second")])
    assert_type(group, UrlGroup)
    assert_type(emulator.url_groups.all(), list[UrlGroup])
    emulator.url_groups.remove("news", endpoint="second")
    emulator.url_groups.set_headers("news", {"Svc-Retries": "0"})
    assert_type(emulator.publish_to_group("news", delay="1m"), list[str])
    assert emulator.url_groups.get("news").endpoints[0].url == APP
    emulator.url_groups.delete("news")

    emulator.destinations.fault(APP, "reset")
    for _ in range(4):
        emulator.publish(APP, retries=0)
    filters: DeadLetterFilters = {"url": APP, "status": 0}
    letters = emulator.dead_letters.all(**filters)
    assert_type(letters, list[DeadLetter])
    emulator.destinations.clear()
    again: MessageOptions = {"delay": "10s"}
    assert_type(emulator.dead_letters.retry(letters[0].dead_letter_id, **again), Published)
    assert emulator.dead_letters.get(letters[1].dead_letter_id).response is None
    emulator.dead_letters.delete(letters[1].dead_letter_id)
    assert_type(emulator.dead_letters.retry_all(status=0), list[str])
    assert emulator.dead_letters.delete_all() == 0


def test_the_world_as_a_whole(emulator: Emulator, emulator_server: Emulator, tmp_path: Path) -> None:
    assert_type(emulator.credentials, Credentials)
    assert_type(emulator.dialect, Dialect)
    assert_type(emulator.env, dict[str, str])
    saved = emulator.snapshots.save("before")
    assert_type(saved, Snapshot)
    emulator.snapshots.export_to(tmp_path / "before.db", "before")
    emulator.snapshots.import_from(tmp_path / "before.db", "after")
    emulator.snapshots.restore("before")
    assert len(emulator.snapshots.all()) == 2
    emulator.snapshots.delete("before")
    assert emulator.accounts()[0] == emulator.change_account()
    emulator.reset({"queues": [{"name": "mail"}]})
    assert httpx.get(f"{emulator.url}/v2/keys", params={"queue_token": emulator.token}, trust_env=False).is_success
    with emulator.new_world(
        seed=7, epoch="2026-01-01", rate=0, plan="free", token="a-token-of-mine", chaos=0.5
    ) as other:
        assert (other.world != emulator_server.world, other.token) == (True, "a-token-of-mine")
    with emulator.fork(id="what-if", token="the-token-of-a-fork") as forked:
        assert_type(forked, Emulator)
        assert (forked.world, forked.clock.now()) == ("what-if", emulator.clock.now())
    assert AsyncEmulator.sharing(emulator).session is emulator.session
    with pytest.raises(Refused) as refused:
        emulator.clock.advance("soon")
    assert (refused.value.status, refused.value.field) == (400, "by")


def test_what_expressions_come_to() -> None:
    firings = when("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28", count=2)
    assert_type(firings, list[Firing])
    assert (firings[0].at.hour, firings[0].explanation) == (1, None)
    ladder = attempts(timedelta(seconds=10), retries=2)
    assert_type(ladder, list[Attempt])
    assert [each.after.seconds for each in ladder] == [0, 10, 20]


def test_what_was_refused(emulator: Emulator) -> None:
    with pytest.raises(Refused):
        emulator.call("GET", "/v2/queues/bad!name")
    [call] = emulator.refused()
    assert_type(call, RefusedCall)
    assert (call.status, call.field) == (400, "queueName")


def test_a_workflow_run(emulator: Emulator) -> None:
    emulator.destinations.respond(APP, status=200)
    headers = {"Svc-Workflow-RunId": "wfr_1", "Svc-Workflow-Url": APP}
    emulator.publish(APP, body=b"{}", headers={**headers, "Svc-Workflow-Init": "true"})
    assert_type(emulator.workflows.runs(APP, state="RUN_STARTED", label="red", text="1"), list[WorkflowRun])
    assert_type(emulator.workflows.dead_letters(APP), list[RunDeadLetter])
    assert_type(emulator.workflows.run("wfr_1").failure, RunFailure | None)
    assert_type(emulator.workflows.run("wfr_1").steps, tuple[WorkflowStep, ...])
    assert emulator.workflows.explain("wfr_1")["state"] == "RUN_STARTED"
    steps: list[StepExpected] = []
    emulator.verify_run("wfr_1", state="RUN_STARTED", steps=steps)
    assert_type(emulator.workflows.cancel("wfr_1"), None)
    for act in (emulator.workflows.resume, emulator.workflows.restart, emulator.workflows.retry_failure_function):
        with pytest.raises(EmulatorError, match="wfr_1"):
            act("wfr_1")
    with pytest.raises(EmulatorError, match="paid"):
        emulator.workflows.notify("paid", json={"amount": 7}, run_id="wfr_1")


def test_a_server_of_its_own() -> None:
    options: Options = {"seed": 7, "dialect": "upstash", "epoch": datetime(2026, 1, 1, tzinfo=UTC)}
    server = Emulator(**options)
    server.start()
    with Emulator.connect(server.url) as same, pytest.raises(EmulatorError, match="mount needs an emulator in this"):
        same.mount("https://app.test", answer)
    with pytest.raises((Unreachable, NotAnEmulator)):
        Emulator.connect("http://127.0.0.1:9").start()
    server.close()


def test_what_an_application_raised(emulator: Emulator) -> None:
    def fails(request: Request) -> Answer:
        raise LookupError(request.url)

    emulator.mount("https://app.test", fails)
    emulator.publish(APP, b'{"user": {"id": 7, "name": "Ada"}}', retries=0)
    emulator.publish("https://other.test/", retries=0)
    emulator.verify(APP, body_json=partial({"user": {"id": 7}}), status=500)
    emulator.verify_order([APP, {"url": "https://other.test/", "status": 200}])
    [error] = emulator.handler_errors
    assert_type(error, HandlerError)
    assert isinstance(error.error, LookupError)
    assert_type(error.at, datetime | None)


def test_the_time_of_the_process(emulator: Emulator) -> None:
    pytest.importorskip("time_machine")
    with emulator.follow_time():
        assert datetime.now(UTC) == emulator.clock.now()


def test_warnings_and_errors_have_names_to_filter_by() -> None:
    kinds: list[type[Exception]] = [EmulatorWarning, HistoryNotKept, HistoryWarning]
    assert [kind.__module__.partition(".")[0] for kind in kinds] == ["emulator"] * 3


def test_under_many_seeds() -> None:
    def publishes(emulator: Emulator) -> None:
        emulator.publish(APP, retries=0)
        for each in emulator.deliveries():
            assert_type(each.chaos, Chaos | None)
            assert each.chaos is None or each.chaos.did

    explore(publishes, seeds=range(2), chaos=0.5, without=["1.1"])


def test_with_awaits() -> None:
    async def keep(call: Callable[[AsyncEmulator], Awaitable[None]]) -> None:
        async with AsyncEmulator() as emulator:
            await call(emulator)

    async def day(emulator: AsyncEmulator) -> None:
        published = await emulator.publish(APP, delay=timedelta(hours=1))
        assert_type(published, Published)
        assert_type(await emulator.clock.advance("1d"), AdvanceReport)
        assert_type(await emulator.queues.upsert("mail"), Queue)
        assert_type(await emulator.schedules.create(APP, "0 9 * * *"), Schedule)
        assert_type(await emulator.dead_letters.all(), list[DeadLetter])
        assert_type(await emulator.url_groups.all(), list[UrlGroup])
        assert_type(await emulator.messages.all(), list[MessageStatus])
        await emulator.verify(APP, message_id=published, at="1h")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(emulator.asgi), base_url=emulator.url) as client:
            assert (await client.get("/_emulator/health")).is_success

    asyncio.run(keep(day))
    assert "Emulator" in dir(package)
