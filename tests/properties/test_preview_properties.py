"""A preview is a promise: the clock advance that follows keeps it, whatever was published and scheduled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulator.control import upcoming
from emulator.control.upcoming import UpcomingQuery
from emulator.core import message_facts, resource_facts
from tests.harness.simulations import DAY, EPOCH_MS, World, always, answered

URL, DOWN = "https://up.test/a", "https://down.test/b"
CRONS = (
    "*/7 * * * *",
    "0 */2 * * *",
    "*/20 * * * *",
    "CRON_TZ=Europe/Berlin 30 2 * * *",
    "CRON_TZ=America/St_Johns 0 9 * * 1-5",
    "CRON_TZ=Australia/Lord_Howe */30 1-3 * * *",
)
# Instants around which zones change their offset, and an ordinary one.
STARTS = (EPOCH_MS, 1_774_742_400_000, 1_775_307_600_000, 1_792_879_200_000)


@given(
    start_ms=st.sampled_from(STARTS),
    crons=st.lists(st.sampled_from(CRONS), max_size=4),
    delays_ms=st.lists(st.integers(1, 2 * DAY), max_size=5),
    retry_delays_ms=st.lists(st.integers(0, 2 * DAY), max_size=5),
    paused=st.integers(0, 4),
    until_ms=st.integers(0, 2 * DAY),
)
def test_an_advance_does_exactly_what_the_preview_listed(
    start_ms: int, crons: list[str], delays_ms: list[int], retry_delays_ms: list[int], paused: int, until_ms: int
) -> None:
    world = World(answering=always(answered(500)), now_ms=start_ms)
    schedules = [world.write_schedule(cron, URL, schedule_id=f"s{number}") for number, cron in enumerate(crons)]
    if paused < len(schedules):
        world.pause_schedule(schedules[paused])
    for delay_ms in retry_delays_ms:
        world.publish(DOWN, retry_delay=str(delay_ms))
    for delay_ms in delays_ms:
        world.publish(URL, delay_ms=delay_ms)
    world.answering = always(answered())
    last_ms = start_ms + until_ms
    found = upcoming.preview(world.simulation.state, UpcomingQuery(until_ms=last_ms, limit=10_000))
    began = len(world.facts)

    world.run_until(until_ms)

    done = world.facts[began:]
    fired = [("fires", fact.schedule_id, fact.at_ms) for fact in done if isinstance(fact, resource_facts.ScheduleFired)]
    known = {message_id for message_id, message in world.messages.items() if message.source.schedule_id is None}
    started = [
        ("starts", fact.message_id, fact.at_ms)
        for fact in done
        if isinstance(fact, message_facts.AttemptStarted) and fact.message_id in known
    ]
    promised = [
        ("fires", item.schedule_id, item.at_ms)
        if isinstance(item, upcoming.ScheduleFiring)
        else ("starts", item.message_id, item.at_ms)
        for item in found.items
        if isinstance(item, upcoming.ScheduleFiring | upcoming.FirstAttempt | upcoming.Retry)
    ]
    assert [each for each in promised if each[0] == "fires"] == fired
    assert [each for each in promised if each[0] == "starts"] == started
    assert not found.truncated
