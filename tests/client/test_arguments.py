"""Arguments of the Python API, what is said of wrong ones, and what `when` and `attempts` answer."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from types import CodeType

import pytest

import emulator
from emulator import Emulator, EmulatorError
from tests.client.mistakes import mistakes

U = "https://app.test/hook"
NAMES = {"U": U, "Anything": Emulator, **{name: getattr(emulator, name) for name in ("attempts", "explore", "when")}}


def test_the_present_is_named_where_the_clock_cannot_go_back(emu: Emulator) -> None:
    emu.publish(U)
    with pytest.raises(EmulatorError) as caught:
        emu.clock.advance_to("2025-12-01T00:00:00Z")
    assert str(caught.value) == ("the clock cannot go back from 2026-01-01T00:00:00.000Z to 2025-12-01T00:00:00.000Z")


def test_a_variable_that_the_dialect_does_not_have_names_those_it_has(emu: Emulator) -> None:
    with pytest.raises(KeyError) as caught:
        emu.env["QSTASH_TOKEN"]
    assert caught.value.args[0] == (
        "QSTASH_TOKEN: the dialect svc has SVC_URL, SVC_TOKEN, SVC_CURRENT_SIGNING_KEY, SVC_NEXT_SIGNING_KEY; "
        "it is of the dialect upstash: dialect='upstash'"
    )
    with pytest.raises(KeyError, match=r"^'NOBODYS: the dialect svc has .*SVC_NEXT_SIGNING_KEY'$"):
        emu.env["NOBODYS"]
    assert emu.env.get("QSTASH_TOKEN") is None
    assert dict(emu.env)["SVC_TOKEN"] == emu.token


MISTAKES = r"""
emu.publish(None) -> TypeError: destination: expected a URL such as https://app.test/hook, or a URL
emu.publish('') -> ValueError: destination: expected a URL such as
emu.publish(U, json=object()) -> TypeError: json: expected what JSON can say, got <object
emu.schedules.create(None, '0 9 * * *') -> TypeError: destination: expected a URL such as
emu.schedules.create(U, None) -> TypeError: cron: expected a cron expression such as "0 9 * * *", got
emu.schedules.create(U, '0 9 * * *', schedule_id=5) -> TypeError: schedule_id: expected a text, got 5
emu.schedules.get(None) -> TypeError: expected the id or the name of one thing in /v2/schedules, got None
emu.queues.get(5) -> TypeError: expected the id or the name of one thing in /v2/queues, got 5
emu.explain(None) -> TypeError: expected an id or a name, got None
emu.url_groups.upsert('g', [{'url': U}]) -> TypeError: endpoints[0]: expected a URL or an emulator.Endpoint
emu.url_groups.remove('g') -> TypeError: expected which endpoint: url= or endpoint=
emu.url_groups.set_headers('g', 'Svc-Retries: 1') -> TypeError: headers: expected a mapping such as
emu.messages.all(state='DELIVERD') -> ValueError: state: expected one of 'PENDING'
emu.messages.all(state=5) -> TypeError: state: expected a state or several, got 5
emu.workflows.runs(state='FAILED') -> ValueError: state: expected one of 'RUN_STARTED',
emu.deliveries(5) -> TypeError: url: expected a text, got 5
emu.deliveries(message_id=5) -> TypeError: message_id: expected a text, got 5
emu.wait_for(U, count='1') -> TypeError: count: expected a whole number, got '1'
emu.wait_for(U, timeout='1s') -> TypeError: timeout: expected seconds of real time, such as 2.5, got '1s'
emu.wait_for(U, status='200') -> TypeError: status: expected a status such as 200, got '200'
emu.call('GET', 'v2/keys') -> ValueError: path: expected one that begins with a slash, such as /v2/keys
emu.check_receiver(print, timeout='1s') -> TypeError: timeout: expected seconds of real time, such as 1.5
emu.check_receiver(print, effect=5) -> TypeError: effect: expected a function without arguments
emu.check_receiver(print, profile='qstash') -> ValueError: profile: expected one of 'none', 'qstash-python'
emu.check_receiver(print, method=5) -> TypeError: method: expected a method such as POST, got 5
emu.check_receiver(print, path=5) -> TypeError: path: expected a text, got 5
when(None, '2026-01-01') -> TypeError: expression: expected a cron expression such as
when('0 9 * * *', '2026-01-01', count='5') -> TypeError: count: expected a whole number, got '5'
attempts(retries='5') -> TypeError: retries: expected a whole number, got '5'
explore(print, seeds=5) -> TypeError: seeds: expected several, got 5, did you mean range(5)?
explore(print, seeds='5') -> TypeError: seeds: expected several whole numbers, such as range(100), got '5'
explore(print, seeds=['5']) -> TypeError: seeds: expected whole numbers, got '5'
explore(None) -> TypeError: test: expected a function of one emulator, got None
Anything.connect('localhost:80').start() -> EmulatorError: url: expected an address such as http://
Anything.connect('not a url').start() -> EmulatorError: url: expected an address such as http://
Anything.connect('http://[::').start() -> EmulatorError: a call to http://[:: cannot be made
Anything.connect(None).start() -> EmulatorError: url: expected an address such as http://
Anything(db=5).start() -> EmulatorError: db: expected a text, got 5
Anything(host=5).start() -> EmulatorError: host: expected a text, got 5
Anything(control_token=5).start() -> EmulatorError: control_token: expected a text, got 5
Anything(allow_host=5).start() -> EmulatorError: allow_host: expected a text or several, got 5
Anything(allow_host=[5]).start() -> EmulatorError: allow_host: expected texts, got (5,)
Anything(fixtures=[1]).start() -> EmulatorError: fixtures: expected a file, or what one says as a mapping
"""


@mistakes(MISTAKES, EmulatorError)
def test_a_mistake_is_named(emu: Emulator, call: CodeType, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        eval(call, {**NAMES, "emu": emu})

    assert str(caught.value).startswith(text)
    assert emu.deliveries() == []


ANY = "https://app.example.com/*"
APP = "https://app.example.com/hook"


def test_a_rule_answers_with_json(emu: Emulator) -> None:
    emu.destinations.respond(ANY, 201, json={"id": 1}, headers={"X-Key": "a"})
    emu.publish(APP)

    response = emu.deliveries()[0].response
    assert response is not None
    assert (response.status, response.json(), response.headers["X-Key"]) == (201, {"id": 1}, "a")
    assert response.headers["Content-Type"] == "application/json"


def test_a_content_type_of_ones_own_stays(emu: Emulator) -> None:
    emu.destinations.sequence(ANY, [{"json": [], "headers": {"content-type": "application/problem+json"}}])
    emu.publish(APP)

    response = emu.deliveries()[0].response
    assert response is not None
    assert response.headers.get_list("Content-Type") == ["application/problem+json"]


WRONG = r"""
rules.sequence(ANY, '503') -> TypeError: answers: expected a list with an answer for each attempt, such as [503,
rules.sequence(ANY, 503) -> TypeError: answers: expected a list with an answer
rules.sequence(ANY, {'status': 503}) -> TypeError: answers: expected a list with an answer
rules.sequence(ANY, []) -> ValueError: answers: expected at least one,
rules.sequence(ANY, [200, '503'])
    -> TypeError: answers[1]: expected a status or a mapping such as {'status': 503}, got '503', did you mean 503?
rules.sequence(ANY, [None]) -> TypeError: answers[0]: expected a status or a mapping
rules.sequence(ANY, [{'code': 503}]) -> TypeError: answers[0]: no option is named code; there are
rules.sequence(ANY, [{'latency': 5}]) -> TypeError: answers[0]: latency: expected a duration
rules.sequence(ANY, [5]) -> ValueError: answers[0]: status: expected a number from 100 to 999, got 5
rules.respond(ANY, '200') -> TypeError: status: expected a number such as 503, got '200'
rules.respond(ANY, 1000) -> ValueError: status: expected a number from 100 to 999, got 1000
rules.respond(ANY, body={'a': 1}) -> TypeError: body: expected a text, got {'a': 1}; is json meant?
rules.respond(ANY, body='', json=1) -> TypeError: expected body or json, got both
rules.respond(ANY, json={1, 2}) -> TypeError: json: expected what JSON can say, got {1, 2}:
rules.respond(ANY, headers={'X': 1}) -> TypeError: headers: expected a mapping of texts, got 'X': 1
rules.respond(ANY, headers=['X']) -> TypeError: headers: expected a mapping of texts, got ['X']
rules.respond(ANY, times='2') -> TypeError: times: expected a whole number, got '2'
rules.respond(ANY, times=0) -> ValueError: times: expected at least 1, got 0
rules.respond(None) -> TypeError: url: expected a URL, or a glob such as https://app.test/*, got None
rules.respond(ANY, method=1) -> TypeError: method: expected a method such as POST, got 1
rules.disturb(ANY, chance=5) -> ValueError: chance: expected a number from 0 to 1, got 5, did you mean 0.05?
rules.disturb(ANY, chance='1') -> TypeError: chance: expected a number from 0 to 1, got '1'
rules.disturb(ANY) -> TypeError: expected something to do: duplicate, reorder or latency
rules.disturb(ANY, latency=['1s', '2s']) -> TypeError: latency: expected one, or a tuple of the least
rules.disturb(ANY, latency=('1s',)) -> TypeError: latency: expected one, or a tuple of the least
rules.fault(ANY, 'refuse')
    -> ValueError: fault: expected one of 'refused', 'timeout', 'reset', 'dns', 'tls', got 'refuse', did you mean
    'refused'?
rules.forward(ANY, 3000) -> TypeError: to: expected an origin such as http://127.0.0.1:3000, got 3000
"""


@mistakes(WRONG)
def test_what_no_rule_can_have_is_refused(emu: Emulator, call: CodeType, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        eval(call, {"ANY": ANY, "rules": emu.destinations})

    assert str(caught.value).startswith(text)
    assert emu.destinations.all() == []


# -- `emulator.when` and `emulator.attempts`, held against what an emulator does -------------------


BERLIN = "CRON_TZ=Europe/Berlin 30 2 * * *"


def test_a_schedule_fires_when_it_is_told() -> None:
    told = emulator.when(BERLIN, datetime(2026, 3, 27, tzinfo=UTC), count=4)
    assert [each.explanation is None for each in told] == [True, True, False, True]
    with Emulator(epoch="2026-03-27") as emu:
        emu.schedules.create("https://app.test", BERLIN)
        emu.clock.advance_to(told[-1].at)
        assert [each.at for each in emu.deliveries()] == [each.at for each in told]


@pytest.mark.parametrize("retry_delay", ["pow(2, retried) * 1000", "10s", timedelta(minutes=1), None])
def test_attempts_are_made_when_they_are_told(retry_delay: str | timedelta | None) -> None:
    told = emulator.attempts(retry_delay, retries=3)
    with Emulator(epoch="2026-01-01") as emu:
        emu.destinations.respond("https://app.test", 503)
        emu.publish("https://app.test", retries=3, retry_delay=retry_delay)
        emu.clock.advance("2d")
        epoch = datetime(2026, 1, 1, tzinfo=UTC)
        assert [each.at - epoch for each in emu.deliveries()] == [each.after for each in told]
    assert [each.delay for each in told[1:]] == [b.after - a.after for a, b in pairwise(told)]


def test_what_cannot_be_meant_is_named() -> None:
    with pytest.raises(ValueError, match=r"^expression: expected exactly 5 fields"):
        emulator.when("* *", "2026-01-01")
    with pytest.raises(ValueError, match=r"^start: expected an ISO 8601"):
        emulator.when("* * * * *", "soon")
    with pytest.raises(ValueError, match=r"^start: expected an instant after 1970"):
        emulator.when("* * * * *", "1531-09-06")
    with pytest.raises(ValueError, match=r"^count: expected 1 to 1000, got 0"):
        emulator.when("* * * * *", "2026-01-01", count=0)
    with pytest.raises(ValueError, match=r"^retry_delay: "):
        emulator.attempts("pow(2")
    with pytest.raises(ValueError, match=r"^retry_delay: expected 0 or more"):
        emulator.attempts(timedelta(seconds=-1))
    with pytest.raises(ValueError, match=r"^retries: expected 0 to 20, got 21"):
        emulator.attempts(retries=21)
    with pytest.raises(TypeError, match=r"^start: expected an instant, got the day .* did you mean \"2026-03-27T00"):
        emulator.when("* * * * *", date(2026, 3, 27))  # type: ignore[arg-type]
