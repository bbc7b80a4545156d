"""The messages, dead letters and workflow runs of an emulator."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest

from emulator import AsyncEmulator, Emulator, EmulatorError, Refused
from tests.harness.emulators import EPOCH, EPOCH_MS
from tests.harness.loops import on_loop

URL = "https://app.test/hook"
HOUR_MS = 3_600_000


def test_the_list_tells_where_each_message_stands(emu: Emulator) -> None:
    emu.destinations.respond(URL, 503, body="busy", times=2)
    failed = emu.publish(URL, retries=0, label="orders")
    retried = emu.publish(URL, retries=2, retry_delay="1h")
    waiting = emu.publish("https://other.test/", delay="2h", method="PUT")
    oldest, middle, newest = emu.messages.all()
    assert [newest.message_id, middle.message_id, oldest.message_id] == [waiting, retried, failed]
    assert (newest.state, newest.attempts, newest.method) == ("PENDING", 0, "PUT")
    assert newest.next_ms == EPOCH_MS + 2 * HOUR_MS
    assert (middle.state, middle.attempts, middle.max_attempts, middle.last_status) == ("RETRYING", 1, 3, 503)
    assert middle.next_ms == EPOCH_MS + HOUR_MS
    assert (oldest.state, oldest.labels, oldest.ended_ms) == ("FAILED", ("orders",), EPOCH_MS)
    [letter] = emu.dead_letters.all()
    assert oldest.dead_letter_id == letter.dead_letter_id
    assert emu.messages.all(state="live") == [middle, newest]
    assert emu.messages.all(state=["FAILED", "RETRYING"]) == [oldest, middle]
    assert emu.messages.all(url="https://other.test/*") == [newest]
    assert emu.messages.all(label="orders") == [oldest]
    with pytest.raises(ValueError, match=r"state: expected one of 'PENDING', .*, got 'LOST'"):
        emu.messages.all(state="lost")  # type: ignore[arg-type]


def test_messages_are_listed_by_queue_and_schedule(emu: Emulator) -> None:
    emu.queues.upsert("mail", paused=True)
    queued = emu.publish(URL, queue="mail")
    made = emu.schedules.create(URL, "0 * * * *")
    emu.clock.advance("1h")
    assert [each.message_id for each in emu.messages.all(queue="mail")] == [queued]
    [fired] = emu.messages.all(schedule_id=made.schedule_id)
    assert (fired.state, fired.schedule_id, fired.queue) == ("DELIVERED", made.schedule_id, None)


def test_all_messages_are_listed_however_many(emu: Emulator) -> None:
    emu.call("POST", "/v2/batch", json=[{"destination": URL}] * 1_100)
    emu.clock.advance(0)
    assert len({each.message_id for each in emu.messages.all()}) == 1_100


def test_a_message_is_shown_as_the_service_does(emu: Emulator) -> None:
    message_id = emu.publish(URL, json={"user": 7}, delay="1h", headers={"Svc-Forward-X-Key": "1"}, retries=2)
    message = emu.messages.get(message_id)
    assert (message.message_id, message.url, message.json()) == (message_id, URL, {"user": 7})
    assert (message.created_ms, message.not_before_ms) == (EPOCH_MS, EPOCH_MS + HOUR_MS)
    assert (message.max_retries, message.queue, message.flow_control) == (2, None, None)
    assert message.headers["x-key"] == "1"
    assert emu.messages.get(emu.publish(URL, b"\xff\x00")).body == b"\xff\x00"
    emu.messages.cancel(message_id)
    with pytest.raises(Refused) as refused:
        emu.messages.cancel(message_id)
    assert refused.value.status == 404


def test_messages_are_cancelled_by_what_they_have_in_common(emu: Emulator) -> None:
    emu.url_groups.upsert("news", [URL])
    for destination in ("news", URL):
        emu.publish(destination, delay="1h", flow_control={"key": "a"})
    emu.publish("https://other.test/", delay="1h")
    assert emu.messages.cancel_all(url_group="news") == 1
    assert emu.messages.cancel_all(url=URL, flow_control_key="a", since="2026-01-01") == 1
    assert emu.messages.cancel_all() == 1
    assert {each.state for each in emu.messages.all()} == {"CANCELED"}


def fail(emu: Emulator, count: int = 1, **options: Any) -> list[str]:
    """Publish so many messages that fail; their ids."""
    emu.destinations.respond(URL, 503, headers={"X-Why": "busy"}, body="busy")
    made = [emu.publish(URL, "hello", retries=0, **options) for _ in range(count)]
    emu.destinations.clear()
    return list(made)


def test_a_dead_letter_shows_the_message_and_its_last_response_if_there_was_one(emu: Emulator) -> None:
    [message_id] = fail(emu, label="orders")
    [letter] = emu.dead_letters.all()
    assert emu.dead_letters.get(letter.dead_letter_id) == letter
    assert (letter.message_id, letter.url, letter.text, letter.labels) == (message_id, URL, "hello", ("orders",))
    assert letter.created_ms == EPOCH_MS
    assert letter.response is not None
    assert (letter.response.status, letter.response.text, letter.response.headers["x-why"]) == (503, "busy", "busy")
    emu.destinations.fault(URL, "refused")
    emu.publish(URL, retries=0)
    [without] = emu.dead_letters.all(status=0)
    assert without.response is None


def test_one_is_retried_with_other_options(emu: Emulator) -> None:
    fail(emu)
    [letter] = emu.dead_letters.all()
    again = emu.dead_letters.retry(letter.dead_letter_id, delay="1h", headers={"Svc-Forward-X-Key": "1"})
    assert (emu.dead_letters.all(), [each.url for each in again.messages]) == ([], [URL])
    emu.clock.advance("1h")
    emu.verify(URL, message_id=again, at="1h", body="hello", status=200)


def test_all_that_fit_are_retried_once_however_many(emu: Emulator) -> None:
    """More than one page; those that fail again become new dead letters, which are left alone."""
    fail(emu, 103, label="orders")
    [other] = fail(emu, 1, label="other")
    emu.destinations.respond(URL, 503)
    made = emu.dead_letters.retry_all(label="orders")
    emu.clock.advance(0)
    assert len(set(made)) == 103
    assert {letter.message_id for letter in emu.dead_letters.all()} == {other, *made}


def test_all_that_fit_are_deleted(emu: Emulator) -> None:
    fail(emu, 101, label="orders")
    fail(emu, 2, label="other")
    assert emu.dead_letters.delete_all(label="orders") == 101
    [first, _] = emu.dead_letters.all()
    emu.dead_letters.delete(first.dead_letter_id)
    assert len(emu.dead_letters.all(since=EPOCH, until=EPOCH_MS)) == 1
    assert emu.dead_letters.all(since="2026-01-02") == []
    assert emu.dead_letters.delete_all() == 1


FLOW = "https://app.test/flow"


@pytest.fixture
def ended(emu: Emulator) -> Emulator:
    """A world with a run `wfr_one` that greeted, slept a day and returned."""
    emu.destinations.respond(FLOW, status=200, headers={"Svc-Workflow-Sdk-Version": "1"})
    send(emu, {"user": 7}, init="true")
    send(emu, step(1, "greet", out='"hello"'))
    send(emu, step(2, "nap", stepType="SleepFor", sleepFor=86_400), delay="1d")
    emu.clock.advance("1d")
    emu.call("DELETE", "/v2/workflows/runs/wfr_one?cancel=false", json={"ok": True})
    return emu


def send(emu: Emulator, body: Any, *, init: str = "false", delay: str = "0s", retries: str = "3") -> None:
    headers = {
        "Svc-Workflow-RunId": "wfr_one",
        "Svc-Workflow-Init": init,
        "Svc-Workflow-Url": FLOW,
        "Svc-Delay": delay,
        "Svc-Retries": retries,
    }
    emu.publish(FLOW, json=body, headers=headers)


def step(number: int, name: str, **more: Any) -> dict[str, Any]:
    return {"stepId": number, "stepName": name, "stepType": "Run", "concurrent": 1, **more}


def failure(emu: Emulator, **expected: Any) -> str:
    with pytest.raises(AssertionError) as failed:
        emu.verify_run("wfr_one", **expected)
    return str(failed.value)


def test_a_run_has_its_steps_its_state_and_its_result(ended: Emulator) -> None:
    run = ended.workflows.run("wfr_one")
    assert (run.id, run.url, run.state, run.result) == ("wfr_one", FLOW, "RUN_SUCCESS", {"ok": True})
    assert (run.payload, str(run.created)) == ('{"user": 7}', "2026-01-01 00:00:00+00:00")
    assert [(step.name, step.type, step.state, step.out) for step in run.steps] == [
        ("greet", "Run", "STEP_SUCCESS", "hello"),
        ("nap", "SleepFor", "STEP_SUCCESS", None),
    ]
    assert [(step.at_ms - EPOCH_MS, step.ended_ms) for step in run.steps] == [(0, EPOCH_MS), (0, EPOCH_MS + 86_400_000)]


def test_runs_are_listed_by_url_and_state(ended: Emulator) -> None:
    [run] = ended.workflows.runs(FLOW, state="RUN_SUCCESS")
    assert (run.id, run.steps, run.summary, run.failure) == ("wfr_one", (), None, None)
    assert ended.workflows.runs("https://app.test/*", text="ONE") == [run]
    assert ended.workflows.runs(state="RUN_FAILED") == ended.workflows.runs(label="red") == []
    assert ended.workflows.runs("https://app.test/other") == []
    assert ended.workflows.dead_letters() == []


def test_a_failed_run_has_a_dead_letter_with_the_call_that_failed(emu: Emulator) -> None:
    emu.destinations.respond(FLOW, status=500, body="no money")
    send(emu, {}, init="true", retries="0")
    [letter] = emu.workflows.dead_letters(FLOW)
    assert (letter.workflow_run_id, letter.where, letter.step) == ("wfr_one", "the first call of the endpoint", None)
    assert (letter.last_status, letter.excerpt, letter.actions) == (500, "no money", ("resume", "restart", "delete"))
    failure = emu.workflows.run("wfr_one").failure
    assert failure is not None
    assert (failure.message_id, failure.excerpt) == (letter.message_id, "no money")
    assert emu.workflows.dead_letters(text="other") == []
    assert emu.dead_letters.all() == []


def test_a_failed_run_is_resumed_restarted_or_its_failure_function_called_again(emu: Emulator) -> None:
    """D-693."""
    down = emu.destinations.respond("https://app.test/*", status=500)
    headers = {"Svc-Retries": "0", "Svc-Failure-Callback": "https://app.test/failed"}
    for _ in range(2):
        emu.call("POST", f"/v2/trigger/{FLOW}", json={"user": 7}, headers=headers)
    # The failure functions are given up too.
    emu.clock.drain()
    emu.destinations.remove(down)
    first, second = emu.workflows.runs(state="RUN_FAILED")
    emu.workflows.retry_failure_function(first.id)
    assert emu.deliveries(url="https://app.test/failed")[-1].response.status == 200  # type: ignore[union-attr]
    with pytest.raises(EmulatorError, match=f"^no failure function of run {first.id} has failed$"):
        emu.workflows.retry_failure_function(first.id)
    resumed, restarted = emu.workflows.resume(first.id), emu.workflows.restart(second.id)
    runs = {run.id: (run.state, run.payload) for run in emu.workflows.runs(state="RUN_STARTED")}
    assert runs == dict.fromkeys((resumed, restarted), ("RUN_STARTED", '{"user": 7}'))
    for act in (emu.workflows.resume, emu.workflows.restart, emu.workflows.retry_failure_function):
        with pytest.raises(EmulatorError, match=f"^run {first.id} has been resumed, restarted or deleted already$"):
            act(first.id)
        with pytest.raises(EmulatorError, match=f"^run {resumed} has not failed: RUN_STARTED$"):
            act(resumed)
    emu.workflows.cancel(resumed)
    assert emu.workflows.run(resumed).state == "RUN_CANCELED"
    with pytest.raises(EmulatorError, match=f"^run {resumed} has ended: RUN_CANCELED$"):
        emu.workflows.cancel(resumed)


def test_a_run_is_notified_of_what_it_waits_for_and_a_lost_event_is_an_error(emu: Emulator) -> None:
    """D-693."""
    emu.destinations.respond(FLOW, status=200)
    with pytest.raises(EmulatorError, match=r"^no run waits for paid: an event without run_id is not kept$"):
        emu.workflows.notify("paid")
    send(emu, {}, init="true")
    assert emu.workflows.notify("later", run_id="wfr_one") == []
    waiting = {"stepId": 1, "stepName": "payment", "stepType": "Wait", "concurrent": 1}
    given = {"url": FLOW, "timeout": "1d", "timeoutUrl": FLOW, "timeoutHeaders": {}, "step": waiting}
    of_run = {"Svc-Workflow-RunId": "wfr_one", "Svc-Workflow-Init": "false", "Svc-Workflow-Url": FLOW}
    emu.call("POST", "/v2/wait/paid", json=given, headers=of_run)
    assert emu.workflows.run("wfr_one").waiting[0].startswith('step "payment" waits for the event paid')
    assert emu.workflows.notify("paid", json={"amount": 7}) == ["wfr_one"]
    assert emu.workflows.run("wfr_one").waiting == ()
    emu.workflows.cancel("wfr_one")
    with pytest.raises(
        EmulatorError, match=r"^run wfr_one has ended: RUN_CANCELED; the event paid is not kept for it$"
    ):
        emu.workflows.notify("paid", run_id="wfr_one")
    for given_id, error in (("", ValueError), (None, TypeError)):
        with pytest.raises(error, match=r"^expected the id or the name of one thing in /v2/notify, got"):
            emu.workflows.notify(given_id)  # type: ignore[arg-type]


def test_a_run_that_sleeps_says_until_when(emu: Emulator) -> None:
    emu.destinations.respond(FLOW, status=200)
    send(emu, {}, init="true")
    send(emu, step(1, "nap", stepType="SleepFor", sleepFor=60), delay="1m")
    assert emu.workflows.run("wfr_one").waiting == ('step "nap" sleeps until 2026-01-01T00:01:00.000Z',)
    assert [each["kind"] for each in emu.workflows.explain("wfr_one")["reasons"]] == ["started", "waiting"]


def test_a_run_as_expected_is_verified(ended: Emulator) -> None:
    ended.verify_run(
        "wfr_one",
        state="RUN_SUCCESS",
        result={"ok": ANY},
        steps=["greet", {"name": "nap", "type": "SleepFor", "at": "0s", "ended": "2026-01-02T00:00:00Z", "out": None}],
    )
    ended.verify_run("wfr_one")


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"state": "RUN_FAILED"}, "expected RUN_FAILED, got RUN_SUCCESS"),
        ({"result": {"ok": False}}, "$.ok: expected false, got true"),
        ({"result": None}, '$: expected null, got {"ok": true}'),
        ({"steps": ["greet"]}, 'step 2: unexpected, got "nap" (SleepFor, STEP_SUCCESS)'),
        ({"steps": ["greet", "nap", "bye"]}, 'step 3: expected "bye", not there so far'),
        ({"steps": ["hi", "nap"]}, 'step 1: name: expected "hi", got "greet"'),
        ({"steps": [{"out": 1}, "nap"]}, 'step 1: out: expected 1, got "hello"'),
        (
            {"steps": ["greet", {"ended": "2d"}]},
            "step 2: ended: expected +2d, got +1d (2026-01-02T00:00:00.000Z)",
        ),
    ],
)
def test_a_failure_says_what_differs(ended: Emulator, expected: dict[str, Any], said: str) -> None:
    assert said in failure(ended, **expected)


def test_a_failure_shows_the_run_and_its_course(ended: Emulator) -> None:
    assert failure(ended, state="RUN_FAILED", result=1).splitlines() == [
        "Expected run wfr_one in the state RUN_FAILED and with the result 1; it differs in state and result.",
        "",
        f"{FLOW}, begun 2026-01-01T00:00:00.000Z. Ended at 2026-01-02T00:00:00.000Z with success, after 2 steps.",
        "",
        "  state   expected RUN_FAILED, got RUN_SUCCESS",
        '  result  $: expected 1, got {"ok": true}',
        "",
        f"2026-01-01T00:00:00.000Z  started  {FLOW} with 11 bytes",
        '2026-01-01T00:00:00.000Z  step  step 1 "greet" (Run) done: "hello"',
        '2026-01-02T00:00:00.000Z  step  step 2 "nap" (SleepFor) done, begun at 2026-01-01T00:00:00.000Z',
        '2026-01-02T00:00:00.000Z  success  returned {"ok": true}',
    ]


@on_loop
async def test_the_asynchronous_face_is_the_same() -> None:
    async with AsyncEmulator(epoch=EPOCH) as emulator:
        headers = {"Svc-Workflow-RunId": "wfr_one", "Svc-Workflow-Init": "true"}
        await emulator.publish(FLOW, json={}, headers=headers)
        [run] = await emulator.workflows.runs()
        assert (await emulator.workflows.run(run.id)).state == "RUN_STARTED"
        await emulator.verify_run(run.id, state="RUN_STARTED", steps=[])
