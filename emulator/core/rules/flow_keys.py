"""Flow control keys under the user's hand: pause, pin, unpin, reset."""

from __future__ import annotations

from emulator.core.commands import PinFlow, ResetFlow, SetFlowPaused, UnpinFlow
from emulator.core.decision import Decision, account_state
from emulator.core.errors import NotFound
from emulator.core.facts import FlowCountersReset, FlowKeyChanged
from emulator.core.model import AccountId, FlowKey, FlowState
from emulator.core.rules.attempts import admit_by_key
from emulator.core.rules.flow_control import DEFAULT_PERIOD_MS
from emulator.core.state_view import StateView


def flow_key(state: StateView, account_id: AccountId, key: FlowKey) -> FlowState:
    """A key's books. Raises NotFound for a key that no message and no pin has named yet."""
    flow = account_state(state, account_id).flow_keys.get(key)
    if flow is None:
        raise NotFound(f"flow control key {key} not found")
    return flow


def set_flow_paused(state: StateView, command: SetFlowPaused) -> Decision[None]:
    """Pause or resume a key. Its rate period runs on meanwhile, and the count is kept (D-041)."""
    flow = flow_key(state, command.account_id, command.key)
    if flow.paused != command.paused:
        yield _changed(flow, paused=command.paused)
        yield from admit_by_key(state, command.account_id, command.key)


def pin_flow(state: StateView, command: PinFlow) -> Decision[None]:
    """Fix limits against those of later messages; a new key is made. Pinning a rate starts its period again (D-025)."""
    owner = account_state(state, command.account_id)
    flow = owner.flow_keys.get(command.key)
    if flow is None:
        flow = FlowState(
            key=command.key,
            account_id=command.account_id,
            parallelism=None,
            rate=None,
            period_ms=DEFAULT_PERIOD_MS,
            active=0,
            rate_count=0,
            window_start_ms=0,
            paused=False,
            pinned_parallelism=False,
            pinned_rate=False,
        )
    pins_rate = command.rate is not None or command.period_ms is not None
    yield FlowKeyChanged(
        account_id=command.account_id,
        key=command.key,
        parallelism=flow.parallelism if command.parallelism is None else command.parallelism,
        rate=flow.rate if command.rate is None else command.rate,
        period_ms=flow.period_ms if command.period_ms is None else command.period_ms,
        paused=flow.paused,
        pinned_parallelism=flow.pinned_parallelism or command.parallelism is not None,
        pinned_rate=flow.pinned_rate or pins_rate,
    )
    if pins_rate:
        yield FlowCountersReset(account_id=command.account_id, key=command.key, at_ms=state.now_ms, parallelism=False)
    yield from admit_by_key(state, command.account_id, command.key)


def unpin_flow(state: StateView, command: UnpinFlow) -> Decision[None]:
    """Let later messages set the limits again; the numbers stay until one does."""
    flow = flow_key(state, command.account_id, command.key)
    yield FlowKeyChanged(
        account_id=command.account_id,
        key=command.key,
        parallelism=flow.parallelism,
        rate=flow.rate,
        period_ms=flow.period_ms,
        paused=flow.paused,
        pinned_parallelism=flow.pinned_parallelism and not command.parallelism,
        pinned_rate=flow.pinned_rate and not command.rate,
    )


def reset_flow(state: StateView, command: ResetFlow) -> Decision[None]:
    """Start the rate period again at this instant, with its count at 0, and let the line move (D-041)."""
    flow_key(state, command.account_id, command.key)
    yield FlowCountersReset(
        account_id=command.account_id,
        key=command.key,
        at_ms=state.now_ms,
        parallelism=command.parallelism,
    )
    yield from admit_by_key(state, command.account_id, command.key)


def _changed(flow: FlowState, *, paused: bool) -> FlowKeyChanged:
    return FlowKeyChanged(
        account_id=flow.account_id,
        key=flow.key,
        parallelism=flow.parallelism,
        rate=flow.rate,
        period_ms=flow.period_ms,
        paused=paused,
        pinned_parallelism=flow.pinned_parallelism,
        pinned_rate=flow.pinned_rate,
    )
