"""Flow control keys: what they allow, and what counts against it."""

from __future__ import annotations

from msgspec.structs import asdict, replace

from emulator.core import facts
from emulator.core.contents import Contents
from emulator.core.model.messages import TimerKind
from emulator.core.model.resources import FlowState
from emulator.core.state_view import subject_of
from emulator.core.wait_list import WaitList


def flow_key_changed(contents: Contents, fact: facts.FlowKeyChanged) -> None:
    owner = contents.accounts[fact.account_id]
    owner.flow_wait_lists.setdefault(fact.key, WaitList())
    old = owner.flow_keys.get(fact.key) or FlowState(key=fact.key, account_id=fact.account_id)
    change_flow(contents, old, **asdict(fact))


def flow_counters_reset(contents: Contents, fact: facts.FlowCountersReset) -> None:
    flow = contents.accounts[fact.account_id].flow_keys[fact.key]
    active = 0 if fact.parallelism else flow.active
    change_flow(contents, flow, active=active, rate_count=0, window_start_ms=fact.at_ms)
    contents.timers.disarm(TimerKind.RATE_WINDOW, subject_of(fact.account_id, fact.key))
    if not fact.parallelism:
        return
    # An attempt that is under way now no longer counts: its end must not free the slot of a later one.
    for progress in list(contents.messages.values()):
        message = progress.message
        key = None if message.flow_control is None else message.flow_control.key
        if progress.holds_key_slot and key == fact.key and message.account_id == fact.account_id:
            contents.messages[message.message_id] = replace(progress, holds_key_slot=False)


def rate_window_opened(contents: Contents, fact: facts.RateWindowOpened) -> None:
    flow = contents.accounts[fact.account_id].flow_keys[fact.key]
    change_flow(contents, flow, rate_count=0, window_start_ms=fact.at_ms)
    contents.timers.disarm(TimerKind.RATE_WINDOW, subject_of(fact.account_id, fact.key))


def count_dispatch(contents: Contents, flow: FlowState, at_ms: int) -> None:
    is_new_window = flow.window_start_ms == 0 or at_ms >= flow.window_start_ms + flow.period_ms
    change_flow(
        contents,
        flow,
        active=flow.active + 1,
        rate_count=1 if is_new_window else flow.rate_count + 1,
        window_start_ms=at_ms if is_new_window else flow.window_start_ms,
    )


def change_flow(contents: Contents, flow: FlowState, **changes: object) -> None:
    changed = replace(flow, **changes)
    contents.accounts[flow.account_id].flow_keys[flow.key] = changed
    # Arming depends on the count, so it follows every change of it.
    arm_rate_window(contents, changed)


def arm_rate_window(contents: Contents, flow: FlowState) -> None:
    """The end of the rate period is work while a message waits for it, and nothing otherwise."""
    wait_list = contents.accounts[flow.account_id].flow_wait_lists[flow.key]
    waits = len(wait_list) > 0 and flow.rate is not None and flow.window_start_ms > 0
    is_used_up = waits and not flow.paused and flow.rate_count >= (flow.rate or 0)
    due_ms = flow.window_start_ms + flow.period_ms if is_used_up else None
    contents.timers.set(TimerKind.RATE_WINDOW, subject_of(flow.account_id, flow.key), due_ms)
