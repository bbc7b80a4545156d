"""The public names of the Python API can be imported, and the examples in their docstrings are true."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

import emulator

# Fields in ms that are no instants.
_LENGTHS = {
    ("AdvanceReport", "wall_ms"),
    ("ClockStatus", "slipped_ms"),
    ("Delivery", "duration_ms"),
    ("Delivery", "took_ms"),
    ("FlowControlKey", "period_ms"),
    ("ReceiverReport", "took_ms"),
    ("Schedule", "delay_ms"),
    ("Schedule", "timeout_ms"),
}


@pytest.mark.parametrize(
    "module",
    [
        "emulator",
        "emulator.client.when",
        "emulator.client.sync.emulator",
        "emulator.client.sync.world",
        "emulator.client.sync.clock",
        "emulator.client.sync.destinations",
        "emulator.client.sync.messages",
        "emulator.client.sync.resources",
        "emulator.client.worlds_of_tests",
    ],
)
def test_every_example_in_a_docstring_is_true(module: str) -> None:
    # The examples of its parts use the class by its name, as users do.
    names = {"Emulator": emulator.Emulator, "datetime": datetime, "UTC": UTC}
    failed, tried = doctest.testmod(importlib.import_module(module), extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 0) == (0, True)


def test_all_that_is_promised_can_be_imported() -> None:
    aliases = {"Answer", "Application", "Duration", "Instant", "StepExpected"}
    assert set(emulator.__all__) <= set(dir(emulator))
    for name in emulator.__all__:
        found = getattr(emulator, name)
        assert name in aliases or found.__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Emulater'"):
        emulator.Emulater  # type: ignore[attr-defined]  # noqa: B018


ROOT = Path(__file__).parents[1]
SHOWN = [
    ROOT / "svc_emulator_pytest.py",
    *(ROOT / "emulator" / name for name in ("__init__.py", "django.py", "pytest_plugin.py", "testcontainers.py")),
    *sorted((ROOT / "emulator" / "client").rglob("*.py")),
]


_INSTANTS = [
    (name, field)
    for name in emulator.__all__
    for field in getattr(getattr(emulator, name), "__annotations__", {})
    if field.endswith("_ms") and (name, field) not in _LENGTHS
]


@pytest.mark.parametrize(("name", "field"), _INSTANTS)
def test_every_instant_of_a_record_is_a_datetime_too(name: str, field: str) -> None:
    """D-485: without `_ms` in its name; `from` cannot be one."""
    kind = getattr(emulator, name)
    twin = vars(kind)[{"from_ms": "from_"}.get(field, field.removesuffix("_ms"))]
    made = twin.__get__(SimpleNamespace(**{field: 1_767_225_600_250}), kind)
    assert made == datetime(2026, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
    assert made.tzinfo is UTC
    if "None" in str(kind.__annotations__[field]):
        assert twin.__get__(SimpleNamespace(**{field: None}), kind) is None


def test_twins_are_read_of_what_an_emulator_answers() -> None:
    with emulator.Emulator(epoch="2026-01-01T00:00:00Z") as world:
        world.queues.upsert("mails")
        world.schedules.create("https://app.test/daily", cron="0 8 * * *", schedule_id="daily")
        world.publish("https://app.test/hook", delay="1h")
        report = world.clock.advance("2h")
        [status] = world.messages.all()
        schedule = world.schedules.get("daily")
        start = datetime(2026, 1, 1, tzinfo=UTC)
        assert (report.from_, report.to) == (start, start + timedelta(hours=2))
        assert (status.created, status.next, status.ended) == (start, None, start + timedelta(hours=1))
        assert (schedule.last, schedule.next) == (None, start + timedelta(hours=8))
        assert world.queues.get("mails").created == start
        assert world.clock.status().next_due == start + timedelta(hours=8)


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_docstrings_that_an_editor_shows_cite_no_decision(path: Path) -> None:
    """The numbers are for those who change the code, and stand in comments."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, documented)]
    texts = [ast.get_docstring(node) or "" for node in nodes]
    assert [text for text in texts if re.search(r"\bD-[0-9]{3}\b", text)] == []


def test_public_names_cite_no_decision_wherever_they_are_defined() -> None:
    public = [getattr(emulator, name) for name in emulator.__all__]
    members = [member for found in public if isinstance(found, type) for member in vars(found).values()]
    texts = [str(inspect.getdoc(each)) for each in (*public, *members)]
    assert [text for text in texts if re.search(r"\bD-[0-9]{3}\b", text)] == []
