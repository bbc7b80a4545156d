"""Arguments of the Python API, what is said of wrong ones, and what `when` and `attempts` answer."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from types import CodeType

import pytest

import emulator
from emulator import Emulator, EmulatorError, Refused, Unreachable
from tests.client.mistakes import mistakes

U = "https://app.test/hook"
NAMES = {
    **{each.__name__: each for each in (Emulator, date, datetime, timedelta)},
    **{name: getattr(emulator, name) for name in ("attempts", "explore", "when")},
    "U": U,
}


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
emu.publish(U, {'user': 7}) -> TypeError: body: expected bytes or a text, got {'user': 7}; is json meant?
emu.publish(U, headers={'Svc-Retries': 3}) -> TypeError: headers: Svc-Retries: expected a text, got 3
emu.publish(U, headers={'Svc-Label': 'grün'}) -> ValueError: headers: Svc-Label: expected a text in ASCII, got 'grün'
emu.publish(U, 'x', json=1) -> TypeError: expected body or json, got both
emu.publish('https://app.example.com/\n') -> EmulatorError: a call to http://127.0.0.1:
emu.publish_batch(U) -> TypeError: messages: expected a list of messages, got 'https://app.test/hook'
emu.publish_batch([U]) -> TypeError: messages[0]: expected a message such as {'destination': 'https://app.test'}, got
emu.publish_batch([{'destination': U}, {'url': U}]) -> TypeError: messages[1]: no option is named url
emu.publish_batch([{'body': 'x'}]) -> TypeError: messages[0]: expected a destination, got none
emu.publish_batch([{'destination': None}]) -> TypeError: messages[0]: destination: expected a URL such as
emu.publish_batch([{'destination': U, 'delay': 5}]) -> TypeError: messages[0]: delay: expected a duration such as
emu.publish_batch([{'destination': U, 'body': b'\xff'}]) -> ValueError: messages[0]: body: a batch takes text alone
emu.publish_batch([{'destination': U, 'queue': 'q', 'delay': '1h'}])
    -> ValueError: messages[0]: delay: a queue ignores it
emu.clock.advance(until='idle', days=1) -> TypeError: until: expected alone, without a length
emu.clock.advance('1d', horizon='1d') -> TypeError: horizon: expected only beside until
emu.sign('app', 'hello') -> ValueError: url: expected a URL such as https://app.test/hook, got 'app'
emu.events(stat='DELIVERED') -> TypeError: no option is named stat, did you mean state
emu.logs(state='DELIVERD') -> ValueError: state: expected one of 'CREATED',
emu.dead_letters.all(lable='a') -> TypeError: no option is named lable, did you mean label?
emu.dead_letters.all(status='503') -> TypeError: status: expected a status, got '503'
emu.dead_letters.all(label=7) -> TypeError: label: expected a text, got 7
emu.dead_letters.all(label='') -> ValueError: label: expected a text that is not empty
emu.dead_letters.all(since='yesterday') -> ValueError: since: expected an ISO 8601 time
emu.schedules.create(U, '0 9 * * *', not_before=1) -> TypeError: no option is named not_before
emu.url_groups.upsert('news', U) -> TypeError: endpoints: expected several
emu.flow_control.pin('api') -> TypeError: expected at least one of parallelism, rate and period
emu.flow_control.pin('api', parallelism='2') -> TypeError: parallelism: expected a whole number, got '2'
emu.flow_control.pin('api', rate=True) -> TypeError: rate: expected a whole number, got True
emu.flow_control.pin('api', rate=2, period=10) -> TypeError: period: expected a duration such as "1d2h30m"
emu.verify_run('wfr_one', state='DONE') -> ValueError: state: expected one of RUN_STARTED
emu.verify_run('wfr_one', steps='greet') -> TypeError: steps: expected a list of steps
emu.verify_run('wfr_one', steps=[1]) -> TypeError: steps[0]: expected a step's name
emu.verify_run('wfr_one', steps=[{'nam': 'greet'}]) -> TypeError: steps[0]: unknown 'nam', did you mean name?
emu.verify_run('wfr_one', steps=[{'at': 'soon'}]) -> ValueError: steps[0]: at:
emu.mount('https://app.test', lambda: None) -> TypeError: expected an ASGI application
emu.mount('https://app.test', 200) -> TypeError: expected an application to mount, got 200
emu.mount('https://app.test', dict) -> TypeError: cannot see what <class 'dict'> takes: say interface=
emu.mount('https://app.test', print, interface='cgi') -> ValueError: interface: expected one of 'asgi', 'wsgi'
emu.wait_for(U, count=0) -> ValueError: count: expected at least 1, got 0
emu.check_receiver('jobs.test') -> ValueError: target: expected a URL
emu.check_receiver(print, efect=len) -> TypeError: no option is named efect, did you mean effect?
emu.check_receiver(print, method='HEAD') -> ValueError: method: expected GET, POST
emu.check_receiver(print, method=5) -> TypeError: method: expected a method such as POST, got 5
emu.check_receiver(print, timeout=0) -> ValueError: timeout: expected seconds
emu.check_receiver(print, timeout='1s') -> TypeError: timeout: expected seconds of real time, such as 1.5, got '1s'
emu.check_receiver(print, timeout=float('nan')) -> ValueError: timeout: expected seconds, an hour at most, got nan
emu.check_receiver(print, effect_delay=timedelta(1)) -> TypeError: effect_delay: expected seconds of real time
emu.check_receiver(print, effect=5) -> TypeError: effect: expected a function without arguments that returns the state
emu.check_receiver(print, effect=len) -> TypeError: effect: expected a function without arguments
emu.check_receiver(print, callbacks='no') -> TypeError: callbacks: expected True or False, got 'no'
emu.check_receiver(print, path=5) -> TypeError: path: expected a text, got 5
emu.check_receiver(print, path='hook') -> ValueError: path: expected one that begins with a slash
emu.check_receiver(print, profile='php')
    -> ValueError: profile: expected one of 'none', 'qstash-python', 'qstash-npm', got 'php'
emu.check_receiver(print, body=b'a', json=1) -> TypeError: expected body or json, got both
emu.destinations.sequence(U, '503') -> TypeError: answers: expected a list with an answer for each attempt, such as [
emu.destinations.sequence(U, 503) -> TypeError: answers: expected a list with an answer
emu.destinations.sequence(U, {'status': 503}) -> TypeError: answers: expected a list with an answer
emu.destinations.sequence(U, []) -> ValueError: answers: expected at least one,
emu.destinations.sequence(U, [200, '503'])
    -> TypeError: answers[1]: expected a status or a mapping such as {'status': 503}, got '503', did you mean 503?
emu.destinations.sequence(U, [None]) -> TypeError: answers[0]: expected a status or a mapping
emu.destinations.sequence(U, [{'code': 503}]) -> TypeError: answers[0]: no option is named code; there are
emu.destinations.sequence(U, [{'latency': 5}]) -> TypeError: answers[0]: latency: expected a duration
emu.destinations.sequence(U, [5]) -> ValueError: answers[0]: status: expected a number from 100 to 999, got 5
emu.destinations.respond(U, '200') -> TypeError: status: expected a number such as 503, got '200'
emu.destinations.respond(U, 1000) -> ValueError: status: expected a number from 100 to 999, got 1000
emu.destinations.respond(U, body={'a': 1}) -> TypeError: body: expected a text, got {'a': 1}; is json meant?
emu.destinations.respond(U, body='', json=1) -> TypeError: expected body or json, got both
emu.destinations.respond(U, json={1, 2}) -> TypeError: json: expected what JSON can say, got {1, 2}:
emu.destinations.respond(U, headers={'X': 1}) -> TypeError: headers: expected a mapping of texts, got 'X': 1
emu.destinations.respond(U, headers=['X']) -> TypeError: headers: expected a mapping of texts, got ['X']
emu.destinations.respond(U, times='2') -> TypeError: times: expected a whole number, got '2'
emu.destinations.respond(U, times=0) -> ValueError: times: expected at least 1, got 0
emu.destinations.respond(None) -> TypeError: url: expected a URL, or a glob such as https://app.test/*, got None
emu.destinations.respond(U, method=1) -> TypeError: method: expected a method such as POST, got 1
emu.destinations.disturb(U, chance=5) -> ValueError: chance: expected a number from 0 to 1, got 5, did you mean 0.05?
emu.destinations.disturb(U, chance='1') -> TypeError: chance: expected a number from 0 to 1, got '1'
emu.destinations.disturb(U) -> TypeError: expected something to do: duplicate, reorder or latency
emu.destinations.disturb(U, latency=['1s', '2s']) -> TypeError: latency: expected one, or a tuple of the least
emu.destinations.disturb(U, latency=('1s',)) -> TypeError: latency: expected one, or a tuple of the least
emu.destinations.fault(U, 'refuse')
    -> ValueError: fault: expected one of 'refused', 'timeout', 'reset', 'dns', 'tls', got 'refuse', did you mean
    'refused'?
emu.destinations.forward(U, 3000) -> TypeError: to: expected an origin such as http://127.0.0.1:3000, got 3000
when(None, '2026-01-01') -> TypeError: expression: expected a cron expression such as
when('0 9 * * *', '2026-01-01', count='5') -> TypeError: count: expected a whole number, got '5'
attempts(retries='5') -> TypeError: retries: expected a whole number, got '5'
explore(print, seeds=5) -> TypeError: seeds: expected several, got 5, did you mean range(5)?
explore(print, seeds='5') -> TypeError: seeds: expected several whole numbers, such as range(100), got '5'
explore(print, seeds=['5']) -> TypeError: seeds: expected whole numbers, got '5'
explore(None) -> TypeError: test: expected a function of one emulator, got None
Emulator.connect('localhost:80').start() -> EmulatorError: url: expected an address such as http://
Emulator.connect('not a url').start() -> EmulatorError: url: expected an address such as http://
Emulator.connect('http://[::').start() -> EmulatorError: a call to http://[:: cannot be made
Emulator.connect(None).start() -> EmulatorError: url: expected an address such as http://
Emulator(db=5).start() -> EmulatorError: db: expected a text, got 5
Emulator(host=5).start() -> EmulatorError: host: expected a text, got 5
Emulator(control_token=5).start() -> EmulatorError: control_token: expected a text, got 5
Emulator(allow_host=5).start() -> EmulatorError: allow_host: expected a text or several, got 5
Emulator(allow_host=[5]).start() -> EmulatorError: allow_host: expected texts, got (5,)
Emulator(fixtures=[1]).start() -> EmulatorError: fixtures: expected a file, or what one says as a mapping
Emulator(epcoh='2026-01-01') -> TypeError: no option is named epcoh, did you mean epoch
Emulator(epoch='tomorrow').start() -> EmulatorError: epoch: expected an ISO 8601 time
Emulator(clock='fast').start() -> EmulatorError: clock: expected 'realtime', 'frozen' or a rate
Emulator(plan='gold').start() -> EmulatorError: plan: expected one of free, paid
Emulator(dialect='nowhere.toml').start() -> EmulatorError: dialect:
Emulator(seed='7').start() -> EmulatorError: seed: expected a whole number, got '7'
Emulator(strict='no').start() -> EmulatorError: strict: expected true or false, got 'no'
Emulator(fixtures='nowhere.yaml').start() -> EmulatorError: nowhere.yaml: cannot be read
Emulator(fixtures={'queues': [{'nmae': 'a'}]}).start() -> EmulatorError: fixtures: queues[0].nmae
Emulator(db='/nonexistent/state.db').start() -> EmulatorError: /nonexistent/state.db
Emulator(host='192.0.2.1').start() -> EmulatorError: cannot listen on 192.0.2.1
Emulator(settle='60').start() -> EmulatorError: settle: expected a time such as 30s
Emulator(settle=0).start() -> EmulatorError: settle: expected seconds, a timedelta or a text such as 30s
Emulator(settle=True).start() -> EmulatorError: settle: expected seconds, a timedelta or a text such as 30s
Emulator(settle=[5]).start() -> EmulatorError: settle: expected seconds, a timedelta or a text such as 30s
Emulator(settle=timedelta(0)).start() -> EmulatorError: settle: expected seconds, a timedelta or a text such as 30s
Emulator.connect('http://127.0.0.1:1').start() -> Unreachable: no emulator answers at http://127.0.0.1:1
when('* *', '2026-01-01') -> ValueError: expression: expected exactly 5 fields
when('* * * * *', 'soon') -> ValueError: start: expected an ISO 8601
when('* * * * *', '1531-09-06') -> ValueError: start: expected an instant after 1970
when('* * * * *', '2026-01-01', count=0) -> ValueError: count: expected 1 to 1000, got 0
when('* * * * *', date(2026, 3, 27)) -> TypeError: start: expected an instant, got the day
attempts('pow(2') -> ValueError: retry_delay:
attempts(timedelta(seconds=-1)) -> ValueError: retry_delay: expected 0 or more
attempts(retries=21) -> ValueError: retries: expected 0 to 20, got 21
"""


@mistakes(MISTAKES, EmulatorError, Unreachable)
def test_a_mistake_is_named_in_one_line_and_nothing_happens(
    emu: Emulator, call: CodeType, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught:
        eval(call, {**NAMES, "emu": emu})

    assert (type(caught.value), str(caught.value)[: len(text)]) == (kind, text)
    assert "\n" not in str(caught.value)
    assert (emu.messages.all(), emu.destinations.all()) == ([], [])


NUMBERS = r"""
emu.clock.advance(86400) -> TypeError: by: expected .* got 86400 without a unit, did .* "86400s"
emu.clock.advance(1.5) -> TypeError: did you mean timedelta\(seconds=1.5\)\?
emu.clock.advance('60') -> Refused: got '60', did you mean 60s?
emu.clock.advance(True) -> TypeError: by: .* got True
emu.clock.advance() -> TypeError: or keywords such as days=1, got neither
emu.clock.advance('1d', days=1) -> TypeError: or keywords such as days=1, got both
emu.clock.advance(day=1) -> TypeError: no option is named day, did you mean days
emu.clock.advance(days=-1) -> ValueError: by: expected 0 or more
emu.clock.drain(60) -> TypeError: horizon: .* did you mean "60s"
emu.clock.advance_to(1767225600) -> ValueError: to: .* number 1767225600, did you mean "2026-01-01T
emu.clock.advance_to(date(2027, 1, 2)) -> TypeError: to: .* the day .* mean "2027-01-02T00:00:00Z"
emu.clock.advance_to(datetime(2027, 1, 2)) -> ValueError: to: .* time zone.*replace\(tzinfo=UTC\)
emu.clock.set(1767225600.5) -> TypeError: now: expected a datetime with a time zone, or ISO 8601
emu.upcoming(until=60) -> ValueError: until: .* did you mean "1970-01-01T00:01:00.000Z"
emu.messages.cancel_all(since=60) -> ValueError: since: .* number 60
emu.new_world(epoch=datetime(2026, 1, 1)) -> ValueError: epoch: .* time zone
Emulator(epoch=datetime(2026, 1, 1)).start() -> ValueError: epoch: .
Emulator(epoch=1767225600).start() -> ValueError: epoch: .
emu.destinations.respond(U, latency=5) -> TypeError: latency: .* did you mean "5s"
emu.destinations.fault(U, 'reset', latency=5) -> TypeError: latency: .* without a unit
emu.destinations.sequence(U, [{'latency': 5}]) -> TypeError: answers\[0\]: latency: .* a unit
emu.destinations.disturb(U, duplicate=5) -> TypeError: duplicate: .* without a unit
emu.destinations.disturb(U, latency=('1s', 5)) -> TypeError: latency\[1\]: .* without a unit
emu.verify(U, at=86400) -> TypeError: at: .* did you mean "86400s"
"""


@mistakes(NUMBERS, Refused)
def test_a_number_or_a_time_of_no_zone_is_refused_with_what_was_meant(
    emu: Emulator, call: CodeType, kind: type[Exception], text: str
) -> None:
    """Durations (D-500), instants (D-501) and naive datetimes (D-502)."""
    with pytest.raises(kind, match=text):
        eval(call, {**NAMES, "emu": emu})


@pytest.mark.parametrize("given", ["Content-Type", "content-type"])
def test_a_rule_answers_with_json_of_a_content_type_of_its_own_if_it_names_one(given: str, emu: Emulator) -> None:
    emu.destinations.respond("https://json.test/", 201, json={"id": 1}, headers={"X-Key": "a"})
    emu.destinations.sequence(U, [{"json": [], "headers": {given: "application/problem+json"}}])
    emu.publish("https://json.test/")
    emu.publish(U)

    first, own = (each.response for each in emu.deliveries())
    assert first is not None
    assert (first.status, first.json(), first.headers["X-Key"]) == (201, {"id": 1}, "a")
    assert first.headers["Content-Type"] == "application/json"
    assert own is not None
    assert own.headers.get_list("Content-Type") == ["application/problem+json"]


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
