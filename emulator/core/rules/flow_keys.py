"""Commands on flow control keys: pause, pin, unpin, reset."""

from __future__ import annotations

from emulator.core.commands import PinFlow, ResetFlow, SetFlowPaused, UnpinFlow
from emulator.core.decision import Decision, account_state
from emulator.core.errors import NotFound
from emulator.core.facts import FlowCountersReset
from emulator.core.model.names import AccountId, FlowKey
from emulator.core.model.resources import FlowState
from emulator.core.rules import flow_control
from emulator.core.rules.attempts import admit_by_key
from emulator.core.state_view import StateView


def flow_key(state: StateView, account_id: AccountId, key: FlowKey) -> FlowState:
    """What a key allows and has let through. Raises NotFound for a key that no message and no pin has named yet."""
    flow = account_state(state, account_id).flow_keys.get(key)
    if flow is None:
        raise NotFound(f"flow control key {key} not found")
    return flow


def set_flow_paused(state: StateView, command: SetFlowPaused) -> Decision[None]:
    """Pause or resume a key. Its rate period runs on meanwhile, and the count is kept (D-041)."""
    flow = flow_key(state, command.account_id, command.key)
    if flow.paused != command.paused:
        yield flow_control.change(flow, paused=command.paused)
        yield from admit_by_key(state, command.account_id, command.key)


def pin_flow(state: StateView, command: PinFlow) -> Decision[None]:
    """Fix limits against those of later messages; a new key is made. Pinning a rate starts its period again (D-025)."""
    account_id, key = command.account_id, command.key
    flow = account_state(state, account_id).flow_keys.get(key) or FlowState(key=key, account_id=account_id)
    pinned = ("parallelism", "rate", "period_ms")
    limits = {name: value for name in pinned if (value := getattr(command, name)) is not None}
    pins_rate = "rate" in limits or "period_ms" in limits
    yield flow_control.change(
        flow,
        **limits,
        pinned_parallelism=flow.pinned_parallelism or "parallelism" in limits,
        pinned_rate=flow.pinned_rate or pins_rate,
    )
    if pins_rate:
        yield FlowCountersReset(account_id=account_id, key=key, at_ms=state.now_ms, parallelism=False)
    yield from admit_by_key(state, account_id, key)


def unpin_flow(state: StateView, command: UnpinFlow) -> Decision[None]:
    """Let later messages set the limits again; the numbers stay until one does."""
    flow = flow_key(state, command.account_id, command.key)
    yield flow_control.change(
        flow,
        pinned_parallelism=flow.pinned_parallelism and not command.parallelism,
        pinned_rate=flow.pinned_rate and not command.rate,
    )


def reset_flow(state: StateView, command: ResetFlow) -> Decision[None]:
    """Start the rate period again at this instant, with its count at 0, and start those that wait (D-041)."""
    flow_key(state, command.account_id, command.key)
    yield FlowCountersReset(
        account_id=command.account_id,
        key=command.key,
        at_ms=state.now_ms,
        parallelism=command.parallelism,
    )
    yield from admit_by_key(state, command.account_id, command.key)
