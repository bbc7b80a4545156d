"""Destination rules: which one decides an attempt, what it says, and how often."""

from __future__ import annotations

import pytest

from emulator.core import commands, message_facts
from emulator.core.errors import InvalidInput
from emulator.core.model.messages import Message
from emulator.core.model.options import Method
from emulator.core.model.resources import Fault, ScriptedAnswer, ScriptedResponse
from emulator.core.record import RuleId
from emulator.core.rules import destination_rules
from emulator.core.rules.destination_rules import Chaos, chaos_rules
from tests.harness.simulations import DAY, World, always, answered, rule

URL = "https://api.example.com/hook"
TEAPOT = ScriptedResponse(status=418)


def message(url: str = URL, method: Method = Method.POST) -> Message:
    world = World()
    return world.messages[world.publish(url, method=method)]


@pytest.mark.parametrize(
    ("pattern", "url", "expected"),
    [
        pytest.param(URL, URL, True, id="exact"),
        pytest.param(URL, URL + "/", False, id="exact-is-exact"),
        pytest.param("https://api.example.com/*", URL, True, id="rest-of-the-path"),
        pytest.param("https://api.example.com/*", "https://api.example.com/", True, id="star-matches-nothing"),
        pytest.param("https://api.example.com/*", "https://api.example.com/a/b?c=d", True, id="star-passes-slashes"),
        pytest.param("https://api.example.com/*", "https://api.example.org/x", False, id="another-host"),
        pytest.param("*", URL, True, id="everything"),
        pytest.param("https://*.example.com/*", URL, True, id="several-stars"),
        pytest.param("*/b/*/d", "https://api.test/a/b/c/d", True, id="stars-among-slashes"),
        pytest.param("**/a/**/d", "https://api.test/a/b/c/d", True, id="double-stars"),
        pytest.param("*/b/*/b/*", "https://api.test/a/b/c/d", False, id="once-is-not-twice"),
        pytest.param("https://h.test/a*", "https://h.test/a", True, id="a-star-at-the-end-matches-nothing"),
        pytest.param("https://api?example.com/*", URL, False, id="only-the-star-is-special"),
        pytest.param("https://api.example.com/a.c*", "https://api.example.com/abc", False, id="a-dot-is-a-dot"),
        pytest.param("https://h.test/*", "https://h.test/*", True, id="a-star-in-the-url-itself"),
        pytest.param("https://h.test/[a]*", "https://h.test/[a]b", True, id="brackets-are-brackets"),
        pytest.param("*hook", "https://h.test/hook?x", False, id="to-the-very-end"),
    ],
)
def test_a_rule_is_about_an_exact_url_or_a_glob(pattern: str, url: str, expected: bool) -> None:
    assert destination_rules.matches(rule(pattern), message(url)) is expected


def test_a_rule_may_be_about_one_method() -> None:
    only_put = rule(URL, method=Method.PUT)
    assert destination_rules.matches(only_put, message(method=Method.PUT))
    assert not destination_rules.matches(only_put, message(method=Method.POST))


def test_the_first_rule_that_matches_decides() -> None:
    world = World()
    first = world.add_rule("https://api.example.com/*", responses=(TEAPOT,))
    world.add_rule(URL, responses=(ScriptedResponse(status=500),))
    world.publish(URL)
    (started,) = world.all(message_facts.AttemptStarted)
    assert started.answer == ScriptedAnswer(rule_id=first, respond=TEAPOT)


def test_a_rule_that_is_used_up_leaves_attempts_to_the_next() -> None:
    world = World(answering=always(answered(503)))
    first = world.add_rule(URL, responses=(TEAPOT,), times=2)
    second = world.add_rule("https://*", fault=Fault.RESET, times=1)
    world.publish(URL, max_retries=3, retry_delay="1000")
    world.run_until(DAY)
    answers = [fact.answer for fact in world.all(message_facts.AttemptStarted)]
    assert [None if each is None else each.rule_id for each in answers] == [first, first, second, None]
    assert [each.used for each in world.simulation.state.rules.values()] == [2, 1]


def test_a_sequence_gives_one_response_to_each_attempt_and_repeats_the_last() -> None:
    world = World(answering=always(answered(503)))
    responses = tuple(ScriptedResponse(status=status) for status in (500, 502, 204))
    world.add_rule(URL, responses=responses, is_sequence=True)
    world.publish(URL, max_retries=4, retry_delay="1000")
    world.run_until(DAY)
    statuses = [
        fact.answer.respond.status
        for fact in world.all(message_facts.AttemptStarted)
        if fact.answer is not None and fact.answer.respond is not None
    ]
    assert statuses == [500, 502, 204, 204, 204]


def test_the_latency_of_a_response_of_a_sequence_is_its_own() -> None:
    world = World()
    responses = (ScriptedResponse(latency_ms=3_000), ScriptedResponse(latency_ms=0))
    world.add_rule(URL, responses=responses, is_sequence=True)
    first, second = world.publish(URL), world.publish(URL)
    world.run_until(DAY)
    ended = {fact.message_id: fact.at_ms - world.began_ms for fact in world.all(message_facts.MessageDelivered)}
    assert ended == {first: 3_000, second: 0}


@pytest.mark.parametrize(
    ("answer", "duration_ms", "times_out"),
    [
        pytest.param(None, 0, False, id="no-rule"),
        pytest.param(ScriptedAnswer(rule_id=RuleId("r"), latency_ms=4_999), 4_999, False, id="below-the-timeout"),
        pytest.param(ScriptedAnswer(rule_id=RuleId("r"), latency_ms=5_000), 5_000, False, id="the-timeout-itself"),
        pytest.param(ScriptedAnswer(rule_id=RuleId("r"), latency_ms=5_001), 5_000, True, id="above-the-timeout"),
        pytest.param(ScriptedAnswer(rule_id=RuleId("r"), fault=Fault.TIMEOUT), 5_000, True, id="staged-timeout"),
        pytest.param(ScriptedAnswer(rule_id=RuleId("r"), fault=Fault.DNS), 0, False, id="another-fault"),
    ],
)
def test_how_long_an_attempt_takes(answer: ScriptedAnswer | None, duration_ms: int, times_out: bool) -> None:
    assert destination_rules.virtual_duration_ms(answer, 5_000) == duration_ms
    assert destination_rules.times_out(answer, 5_000) is times_out


# -- adding and removing ----------------------------------------------------------------------


def test_rules_are_numbered_and_numbers_are_not_given_twice() -> None:
    world = World()
    first, second = world.add_rule(URL), world.add_rule(URL)
    world.do(commands.RemoveRules(rule_id=second))
    assert (first, second, world.add_rule(URL)) == ("rule_1", "rule_2", "rule_3")
    assert list(world.simulation.state.rules) == ["rule_1", "rule_3"]
    world.do(commands.RemoveRules(rule_id=None))
    assert world.simulation.state.rules == {}


def test_rules_are_tried_in_the_order_they_are_put_in() -> None:
    """D-328."""
    world = World()
    first = world.add_rule(URL, responses=(TEAPOT,), times=1)
    second = world.add_rule(URL, fault=Fault.RESET)
    world.do(commands.OrderRules(rule_ids=(second, first)))
    world.publish(URL)
    assert [fact.answer.rule_id for fact in world.all(message_facts.AttemptStarted) if fact.answer] == [second]
    assert [rule.used for rule in world.simulation.state.rules.values()] == [1, 0]


@pytest.mark.parametrize("ids", [(), ("rule_1",), ("rule_1", "rule_2", "rule_2"), ("rule_1", "rule_9")])
def test_an_order_names_each_rule_once(ids: tuple[str, ...]) -> None:
    """D-328."""
    world = World()
    world.add_rule(URL)
    world.add_rule(URL)
    with pytest.raises(InvalidInput) as refusal:
        world.do(commands.OrderRules(rule_ids=tuple(RuleId(each) for each in ids)))
    assert refusal.value.field == "ids"
    assert list(world.simulation.state.rules) == ["rule_1", "rule_2"]


def test_an_order_of_no_rules_is_refused_with_those_that_there_are() -> None:
    """D-328."""
    world = World()
    with pytest.raises(InvalidInput, match=r"^ids: expected each of no rules once, got rule_1$"):
        world.do(commands.OrderRules(rule_ids=(RuleId("rule_1"),)))
    world.add_rule(URL)
    with pytest.raises(InvalidInput, match=r"^ids: expected each of rule_1 once, got none$"):
        world.do(commands.OrderRules(rule_ids=()))


# -- what is left to chance -------------------------------------------------------------------


def decided(seed: int, **changes: object) -> list[ScriptedAnswer | None]:
    """What a rule says for the first attempts of forty messages."""
    world = World(seed=seed, answering=None)
    world.add_rule("*", **changes)
    for _ in range(40):
        world.publish(URL, delay_ms=1_000)
    world.run_for(DAY)
    started = {each.message_id: each.answer for each in world.all(message_facts.AttemptStarted) if each.number == 1}
    return [started[message_id] for message_id in world.messages]


def test_a_chance_is_a_function_of_the_seed() -> None:
    """D-420."""
    first, again, other = (decided(seed, fault=Fault.RESET, chance=0.5) for seed in (1, 1, 2))
    assert first == again != other
    assert 10 <= sum(each is not None for each in first) <= 30


def test_chance_0_meets_nothing_and_chance_1_everything() -> None:
    """D-420."""
    assert decided(1, fault=Fault.RESET, chance=0.0) == [None] * 40
    assert None not in decided(1, fault=Fault.RESET, chance=1.0)


def test_what_an_attempt_meets_does_not_depend_on_other_messages() -> None:
    """D-420."""
    everything = decided(1, fault=Fault.RESET, chance=0.5)
    spared = decided(1, fault=Fault.RESET, chance=0.5, exempt_attempts=tuple(f"{number}.1" for number in range(1, 21)))
    assert spared == [None] * 20 + everything[20:]


def test_a_latency_is_drawn_from_its_range() -> None:
    """D-420."""
    drawn = [each.latency_ms for each in decided(1, latency_ms=100, latest_ms=103) if each is not None]
    assert len(drawn) == 40
    assert set(drawn) == {100, 101, 102, 103}


def test_a_rule_that_only_disturbs_leaves_the_answer_to_the_next() -> None:
    """D-420."""
    world = World()
    world.add_rule("*", duplicate_ms=0, latency_ms=5)
    world.add_rule("*", responses=(TEAPOT,))
    world.publish(URL)
    (started,) = world.all(message_facts.AttemptStarted)
    assert started.answer is not None
    assert started.answer.respond == TEAPOT
    assert (started.answer.latency_ms, started.answer.duplicate_ms) == (5, 0)
    assert [each.used for each in world.simulation.state.rules.values()] == [1, 1]


def test_the_latency_of_a_response_is_drawn_from_its_range_too() -> None:
    """D-420."""
    answers = decided(1, responses=(ScriptedResponse(status=200, latency_ms=100, latest_ms=103),))
    assert {answer.latency_ms for answer in answers if answer is not None} == {100, 101, 102, 103}


@pytest.mark.parametrize(
    ("changes", "queue", "expected"),
    [
        pytest.param({"reorder_ms": 0}, None, True, id="reordered"),
        pytest.param({"reorder_ms": 0}, "q", False, id="in-a-queue"),
        pytest.param({"duplicate_ms": 0}, None, False, id="duplicated"),
        pytest.param({"duplicate_ms": 0}, "q", False, id="duplicated-in-a-queue"),
    ],
)
def test_what_a_rule_did_to_an_attempt_says_whether_it_was_put_back(
    changes: dict[str, int], queue: str | None, expected: bool
) -> None:
    """D-422."""
    world = World()
    world.add_rule("*", chance=1.0, responses=(TEAPOT,), **changes)
    if queue is None:
        world.publish(URL, max_retries=0)
    else:
        world.enqueue(queue, URL, max_retries=0)
    (started,) = world.all(message_facts.AttemptStarted)
    assert started.answer is not None
    assert started.answer.disturbance is not None
    assert started.answer.disturbance.is_postponed is expected


def order(seed: int, **changes: object) -> list[str]:
    world = World(seed=seed)
    world.add_rule("*", **changes)
    for name in "abcd":
        world.publish(f"https://api.example.com/{name}", delay_ms=1_000)
    world.run_for(DAY)
    return [world.messages[each.message_id].url[-1] for each in world.all(message_facts.AttemptStarted)]


def test_simultaneous_deliveries_leave_in_an_order_of_the_seed() -> None:
    """D-422."""
    orders = {seed: "".join(order(seed, reorder_ms=0)) for seed in range(40)}
    assert orders == {seed: "".join(order(seed, reorder_ms=0)) for seed in range(40)}
    assert all(sorted(each) == ["a", "b", "c", "d"] for each in orders.values())
    assert len(set(orders.values())) > 10


def test_a_delivery_may_be_put_back_for_a_while() -> None:
    """D-422."""
    world = World()
    world.add_rule("*", reorder_ms=2_000)
    world.publish(URL, delay_ms=1_000)
    world.run_for(DAY)
    (postponed,) = world.all(message_facts.DeliveryPostponed)
    (started,) = world.all(message_facts.AttemptStarted)
    assert world.began_ms + 1_000 < started.at_ms == postponed.due_ms <= world.began_ms + 3_000


def test_messages_of_a_queue_keep_their_order() -> None:
    """D-422."""
    world = World()
    world.write_queue("q")
    world.add_rule("*", reorder_ms=0)
    world.enqueue("q", URL)
    assert world.all(message_facts.DeliveryPostponed) == []


# -- chaos --------------------------------------------------------------------------------------


def test_no_chaos_is_no_rule() -> None:
    """D-423."""
    assert chaos_rules(Chaos()) == ()


def test_a_level_stands_for_these_rules() -> None:
    """D-423."""
    found = [
        (rule.chance, rule.duplicate_ms, rule.reorder_ms, rule.latest_ms, len(rule.responses), rule.fault)
        for rule in chaos_rules(Chaos(level=0.2))
    ]
    assert found == [
        (0.2, 0, None, None, 0, None),
        (0.2, None, 0, None, 0, None),
        (0.2, None, None, 5_000, 0, None),
        (0.1, None, None, None, 1, None),
        (0.05, None, None, None, 0, Fault.REFUSED),
        (0.05, None, None, None, 0, Fault.TIMEOUT),
    ]


@pytest.mark.parametrize("level", [0.1, 0.5])
def test_about_as_many_attempts_fail_as_the_level_says(level: float) -> None:
    """D-423."""
    world = World()
    for each in chaos_rules(Chaos(level=level)):
        world.do(commands.AddRule(rule=each))
    for number in range(400):
        world.publish(f"https://api.example.com/{number}", delay_ms=1_000)
    world.run_for(DAY)
    first = [each.answer for each in world.all(message_facts.AttemptStarted) if each.number == 1]
    share = sum(answer is not None and answer.decides for answer in first) / 400
    assert level * 0.6 < share < level * 1.4
