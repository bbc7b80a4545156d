"""A workflow run held against an expectation, and the text of what differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, TypeAlias

from emulator.client.control import segment
from emulator.client.records import WorkflowRun, WorkflowStep, read_run
from emulator.client.session import Session
from emulator.client.verify.differences import json_differences, shown
from emulator.client.verify.expectations import NOTHING, counted, listed, read_moment
from emulator.core.language.text import near
from emulator.core.model.workflows import RunState
from emulator.wire.redaction import is_redacted
from emulator.wire.times import format_duration, iso

# A step by its name, or by what of it is expected: name, type, state, out, and when it began (`at`) and was
# done (`ended`), each as a duration since the run began, or an instant.
StepExpected: TypeAlias = str | Mapping[str, Any]

_KNOWN: Final = ("name", "type", "state", "out", "at", "ended")
# The last lines of the run's course that are shown.
_LINES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExpectation:
    """Read by `run_expectation`; None is anything, and `result` is NOTHING then."""

    state: str | None = None
    result: Any = NOTHING
    steps: tuple[Mapping[str, Any], ...] | None = None

    def __str__(self) -> str:
        parts = [] if self.state is None else [f"in the state {self.state}"]
        if self.result is not NOTHING:
            parts.append(f"with the result {shown(self.result)}")
        if self.steps is not None:
            parts.append(f"with {counted(len(self.steps), 'step')}")
        return listed(parts) if parts else "to exist"


def run_expectation(*, state: str | None, result: Any, steps: Sequence[StepExpected] | None) -> RunExpectation:
    """The keywords of `verify_run`, read. Raises: ValueError and TypeError that name the one to blame."""
    if state is not None and state not in tuple(RunState):
        raise ValueError(f"state: expected one of {', '.join(RunState)}, got {state!r}")
    if isinstance(steps, str | bytes) or not isinstance(steps, Sequence | None):
        raise TypeError(f"steps: expected a list of steps, got {steps!r}")
    read = None if steps is None else tuple(_step(f"steps[{at}]", each) for at, each in enumerate(steps))
    return RunExpectation(state=state, result=result, steps=read)


def _step(where: str, value: object) -> Mapping[str, Any]:
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, Mapping):
        raise TypeError(f"{where}: expected a step's name, or a mapping, got {value!r}")
    for key in value:
        if key not in _KNOWN:
            close = near(str(key), _KNOWN)
            hint = f"did you mean {close[0]}?" if close else f"expected {listed(_KNOWN)}"
            raise TypeError(f"{where}: unknown {key!r}, {hint}")
    return {
        key: read_moment(f"{where}: {key}", each) if key in ("at", "ended") else each for key, each in value.items()
    }


async def run_difference(session: Session, run_id: str, expectation: RunExpectation) -> str | None:
    """The text of a failed `verify_run`; None if the run meets the expectation. Raises Refused for no such run."""
    run = read_run(await session.control("GET", f"runs/{segment(run_id)}", query={"redact": "false"}))
    findings = {name: lines for name, lines in _findings(expectation, run, run) if lines}
    if not findings:
        return None
    # Once more as everybody is shown it, and so is what led to it (D-779).
    as_shown = read_run(await session.control("GET", f"runs/{segment(run_id)}"))
    findings = {name: lines for name, lines in _findings(expectation, run, as_shown) if lines}
    explanation = await session.control("GET", f"runs/{segment(run_id)}/explain")
    return _text(expectation, run, findings, explanation["reasons"])


# -- comparing --------------------------------------------------------------------------------


def _findings(expectation: RunExpectation, run: WorkflowRun, as_shown: WorkflowRun) -> Iterator[tuple[str, list[str]]]:
    """The differences by keyword; of what is redacted in the run as it is shown only that there are some."""
    if expectation.state not in (None, run.state):
        yield "state", [f"expected {expectation.state}, got {run.state}"]
    if expectation.result is not NOTHING:
        yield "result", [*_value_differences(expectation.result, run.result, as_shown.result)]
    if expectation.steps is not None:
        yield "steps", [*_step_differences(expectation.steps, run, as_shown)]


def _value_differences(expected: Any, got: Any, as_shown: Any, path: str = "$") -> Iterator[str]:
    lines = json_differences(expected, got, path)
    if not is_redacted(as_shown):
        yield from lines
    elif any(lines):
        yield f"{path}: differs, and is redacted; emulator.workflows.run(id) has the original"


def _step_differences(expected: Iterable[Mapping[str, Any]], run: WorkflowRun, as_shown: WorkflowRun) -> Iterator[str]:
    outs = {index: step.out for index, step in enumerate(as_shown.steps, start=1)}
    for number, (wanted, step) in enumerate(zip_longest(expected, run.steps), start=1):
        if step is None:
            yield f"step {number}: expected {_named(wanted)}, not there so far"
        elif wanted is None:
            yield f'step {number}: unexpected, got "{step.name}" ({step.type}, {step.state})'
        else:
            yield from (f"step {number}: {line}" for line in _one_step(wanted, step, run, outs.get(number)))


def _named(wanted: Mapping[str, Any] | None) -> str:
    return "a step" if not wanted or "name" not in wanted else f'"{wanted["name"]}"'


def _one_step(wanted: Mapping[str, Any], step: WorkflowStep, run: WorkflowRun, out_as_shown: Any) -> Iterator[str]:
    for key, value in wanted.items():
        if key in ("at", "ended"):
            got_ms = step.at_ms if key == "at" else step.ended_ms
            if got_ms != value.since(run.created_ms):
                got = "not so far" if got_ms is None else f"+{format_duration(got_ms - run.created_ms)} ({iso(got_ms)})"
                yield f"{key}: expected {value}, got {got}"
        else:
            as_shown = out_as_shown if key == "out" else None
            yield from _value_differences(value, getattr(step, key), as_shown, key)


# -- the text ---------------------------------------------------------------------------------


def _text(
    expectation: RunExpectation,
    run: WorkflowRun,
    findings: Mapping[str, list[str]],
    reasons: Sequence[Mapping[str, Any]],
) -> str:
    """A sentence; the run and what differs; its course."""
    width = max(map(len, findings))
    lines = [f"Expected run {run.id} {expectation}; it differs in {listed(findings)}."]
    lines += ["", f"{run.url}, begun {iso(run.created_ms)}. {run.summary}", ""]
    for name, differences in findings.items():
        for label, line in zip_longest([name], differences, fillvalue=""):
            lines.append(f"  {label:{width}}  {line}")
    lines.append("")
    if len(reasons) > _LINES:
        lines.append(f"({len(reasons) - _LINES} more before)")
    lines += [f"{each['at']}  {each['kind'].replace('_', ' ')}  {each['text']}" for each in reasons[-_LINES:]]
    return "\n".join(lines)
