"""What is refused in one way whatever it is about, and what changes nothing because it is so already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core import commands
from emulator.core.commands import EndpointSelector
from emulator.core.errors import Forbidden, InvalidInput, LimitReached, NotFound, Refused
from emulator.core.model.options import Destination, DestinationKind, MessageOptions
from emulator.core.model.resources import Endpoint
from emulator.core.plans import PlanName
from emulator.core.record import AccountId, FlowKey, GroupName, IndexId, QueueName, RuleId, ScheduleId
from tests.harness.simulations import ACCOUNT_ID, World, always, answered, callback, flow, make_account

URL = "https://api.example.com/hook"
Act = Callable[[World], object]


def refused(world: World, act: Act) -> Refused:
    """The refusal of an act, which left the world as it was."""
    before, count = world.snapshot(), len(world.facts)
    with pytest.raises(Refused) as refusal:
        act(world)
    assert (world.snapshot(), len(world.facts)) == (before, count)
    return refusal.value


# -- what is not there ------------------------------------------------------------------------

NOBODY, QUEUE, KEY, GROUP, TIMED, INDEX = (
    AccountId("nobody"), QueueName("q"), FlowKey("k"), GroupName("team"), ScheduleId("s"), IndexId("none"),
)  # fmt: skip
HERE: dict[str, Any] = {"account_id": ACCOUNT_ID}
ABSENT = "account nobody not found"
ITEM = commands.PublishItem(
    destination=Destination(kind=DestinationKind.URL, text=URL), body=b"", options=MessageOptions(), caller_ip=""
)


def test_the_answer_of_an_api_needs_a_callback_that_hears_it() -> None:
    """D-085."""
    destination = Destination(kind=DestinationKind.API, text="api/llm", url="https://llm.test/v1")
    item = replace(ITEM, destination=destination)
    refusal = refused(World(), lambda world: world.do(commands.Publish(**HERE, item=item)))
    assert isinstance(refusal, InvalidInput)
    assert refusal.field == "Svc-Callback"
    heard = replace(item, options=MessageOptions(callback=callback("https://app.test/heard")))
    assert len(World().do(commands.Publish(**HERE, item=heard)).accepted.messages) == 1


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (commands.ChangeAccount(account=replace(make_account(), id=NOBODY)), ABSENT),
        (commands.RotateSigningKeys(account_id=NOBODY), ABSENT),
        (commands.RotateToken(account_id=NOBODY), ABSENT),
        (commands.SetPlan(account_id=NOBODY, plan=PlanName.PAYG), ABSENT),
        (commands.AmendAccount(account_id=NOBODY, budget=0), ABSENT),
        (commands.Publish(account_id=NOBODY, item=ITEM), ABSENT),
        (commands.SetQueuePaused(**HERE, name=QUEUE, paused=True), "queue q not found"),
        (commands.SetFlowPaused(**HERE, key=KEY, paused=False), "flow control key k not found"),
        (commands.UnpinFlow(**HERE, key=KEY, parallelism=True, rate=True), "flow control key k not found"),
        (commands.ResetFlow(**HERE, key=KEY, parallelism=True), "flow control key k not found"),
        (
            commands.RemoveEndpoints(**HERE, name=GROUP, selectors=(EndpointSelector(url=URL, name=None),)),
            "topic team not found",
        ),
        (
            commands.SetGroupDefaults(**HERE, name=GROUP, headers=(), defaults=MessageOptions()),
            "topic team not found",
        ),
        (commands.SetSchedulePaused(**HERE, schedule_id=TIMED, paused=True), "schedule s not found"),
        (commands.DeleteSchedule(**HERE, schedule_id=TIMED), "schedule s not found"),
        (commands.RemoveRules(rule_id=RuleId("rule_9")), "destination rule rule_9 not found"),
        (commands.ChangeSearchIndex(index_id=INDEX, name="x"), "search index none not found"),
        (commands.ResetSearchIndexPassword(index_id=INDEX), "search index none not found"),
        (commands.ChangeSearchIndex(index_id=INDEX, customer_id="x"), "search index none not found"),
        (commands.DeleteSearchIndex(index_id=INDEX), "search index none not found"),
    ],
    ids=lambda given: "" if isinstance(given, str) else type(given).__name__,
)
def test_what_is_not_there_is_not_found(command: commands.Command[object], text: str) -> None:
    refusal = refused(World(), lambda world: world.do(command))
    assert isinstance(refusal, NotFound)
    assert refusal.text == text


# -- who may not, and how many there may be ---------------------------------------------------


@pytest.mark.parametrize("changes", [{"active": False}, {"state": "suspended"}], ids=["inactive", "suspended"])
@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda world: world.publish(URL), id="publish"),
        pytest.param(lambda world: world.retry_dead_letters(*world.dead_letter_ids()), id="retry"),
        pytest.param(lambda world: world.make_group("team", URL), id="group"),
        pytest.param(lambda world: world.write_queue("q"), id="queue"),
        pytest.param(lambda world: world.write_schedule("* * * * *", URL), id="schedule"),
    ],
)
def test_an_account_that_is_not_active_makes_nothing(act: Act, changes: dict[str, Any]) -> None:
    """Decision D-029."""
    world = World(answering=always(answered(500)))
    world.publish(URL, max_retries=0)
    world.change_account(**changes)
    assert isinstance(refused(world, act), Forbidden)


@pytest.mark.parametrize(
    ("limit", "make"),
    [
        pytest.param("max_queues", lambda world, name: world.write_queue(name), id="queue"),
        pytest.param("max_queues", lambda world, name: world.enqueue(name, URL), id="queue-by-its-first-message"),
        pytest.param(
            "max_topics", lambda world, name: world.make_group(name, URL, f"{URL}/{len(world.facts)}"), id="group"
        ),
        pytest.param(
            "max_endpoints_per_topic",
            lambda world, name: world.make_group(
                "team", Endpoint(url=f"https://{name}.test/", name="x" if world.owner.groups else None)
            ),
            id="endpoint-that-gets-a-name",
        ),
        pytest.param(
            "max_schedules",
            lambda world, name: world.write_schedule("* * * * *", URL, schedule_id=name),
            id="schedule",
        ),
    ],
)
def test_one_too_many_is_refused_but_an_existing_one_is_written_again(
    limit: str, make: Callable[[World, str], object]
) -> None:
    limits: dict[str, Any] = {limit: 1}
    world = World(make_account(**limits))
    make(world, "one")
    refusal = refused(world, lambda world: make(world, "two"))
    assert isinstance(refusal, LimitReached)
    first, *others = limit.split("_")
    assert refusal.text == f"quota {first}{''.join(map(str.title, others))} exceeded, current limit: 1"
    make(world, "one")


# -- what is so already -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda world: world.pause_key("k"), id="pause-key"),
        pytest.param(lambda world: world.pause_schedule(TIMED), id="pause-schedule"),
        pytest.param(lambda world: world.pause_schedule(TIMED, paused=False), id="resume-schedule"),
        pytest.param(
            lambda world: world.do(commands.SetQueuePaused(**HERE, name=QUEUE, paused=True)), id="pause-queue"
        ),
        # D-034.
        pytest.param(lambda world: world.delete_queue("q"), id="delete-queue"),
        pytest.param(lambda world: world.do(commands.DeleteUrlGroup(**HERE, name=GROUP)), id="delete-group"),
        pytest.param(lambda world: world.do(commands.RemoveRules(rule_id=None)), id="remove-rules"),
        pytest.param(
            lambda world: world.do(commands.OrderRules(rule_ids=tuple(world.simulation.state.rules))), id="order-rules"
        ),
    ],
)
def test_what_is_so_already_changes_nothing(act: Act) -> None:
    world = World()
    world.publish(URL, flow_control=flow("k", parallelism=1))
    world.write_schedule("* * * * *", URL, schedule_id=TIMED)
    world.write_queue("q")
    world.make_group("team", URL)
    world.add_rule(URL)
    act(world)
    before, count = world.snapshot(), len(world.facts)
    act(world)
    assert (world.snapshot(), len(world.facts)) == (before, count)
