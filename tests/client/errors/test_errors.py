"""The same mistake is the same error, whichever call makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from emulator import Emulator, Refused, Unreachable

Call = Callable[[Emulator, Any], object]

# Calls about one thing, by its id or name.
CALLS: dict[str, Call] = {
    "messages.get": lambda world, name: world.messages.get(name),
    "messages.cancel": lambda world, name: world.messages.cancel(name),
    "explain": lambda world, name: world.explain(name),
    "queues.get": lambda world, name: world.queues.get(name),
    "queues.pause": lambda world, name: world.queues.pause(name),
    "queues.resume": lambda world, name: world.queues.resume(name),
    "schedules.get": lambda world, name: world.schedules.get(name),
    "schedules.explain": lambda world, name: world.schedules.explain(name),
    "schedules.pause": lambda world, name: world.schedules.pause(name),
    "schedules.resume": lambda world, name: world.schedules.resume(name),
    "schedules.delete": lambda world, name: world.schedules.delete(name),
    "dead_letters.get": lambda world, name: world.dead_letters.get(name),
    "dead_letters.retry": lambda world, name: world.dead_letters.retry(name),
    "dead_letters.delete": lambda world, name: world.dead_letters.delete(name),
    "url_groups.get": lambda world, name: world.url_groups.get(name),
    "url_groups.remove": lambda world, name: world.url_groups.remove(name, url="https://app.test"),
    "url_groups.set_headers": lambda world, name: world.url_groups.set_headers(name, {}),
    "flow_control.get": lambda world, name: world.flow_control.get(name),
    "snapshots.restore": lambda world, name: world.snapshots.restore(name),
    "snapshots.delete": lambda world, name: world.snapshots.delete(name),
    "destinations.remove": lambda world, name: world.destinations.remove(name),
    "workflows.run": lambda world, name: world.workflows.run(name),
    "workflows.explain": lambda world, name: world.workflows.explain(name),
    "workflows.cancel": lambda world, name: world.workflows.cancel(name),
    "workflows.resume": lambda world, name: world.workflows.resume(name),
    "workflows.restart": lambda world, name: world.workflows.restart(name),
    "workflows.retry_failure_function": lambda world, name: world.workflows.retry_failure_function(name),
    "verify_run": lambda world, name: world.verify_run(name, state="RUN_SUCCESS"),
}
# The service does not mind a name that does not exist.
TOLERANT: dict[str, Call] = {
    "queues.delete": lambda world, name: world.queues.delete(name),
    "url_groups.delete": lambda world, name: world.url_groups.delete(name),
    "flow_control.pause": lambda world, name: world.flow_control.pause(name),
    "flow_control.resume": lambda world, name: world.flow_control.resume(name),
    "flow_control.reset": lambda world, name: world.flow_control.reset(name),
    "flow_control.unpin": lambda world, name: world.flow_control.unpin(name),
}
ALL = CALLS | TOLERANT


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_does_not_exist_is_refused_with_404(server: Emulator, call: Call) -> None:
    with server.new_world() as world, pytest.raises(Refused, match=r"nothing not found$") as caught:
        call(world, "nothing")
    assert caught.value.status == 404


@pytest.mark.parametrize("call", ALL.values(), ids=ALL)
def test_an_id_that_is_none_or_empty_is_an_error_before_any_call_leaves(server: Emulator, call: Call) -> None:
    """D-486."""
    with server.new_world() as world:
        world.destinations.respond("https://kept.test/*", 503)
        for given, error in ((None, TypeError), (7, TypeError), ("", ValueError)):
            with pytest.raises(error, match=r"^expected (an id or a name|the id or the name of one thing in \S+), got"):
                call(world, given)
        assert world.refused() == []
        assert len(world.destinations.all()) == 1


@pytest.mark.parametrize("name", ["url", "message_id", "label"])
def test_an_empty_filter_does_not_list_everything(server: Emulator, name: str) -> None:
    """D-486."""
    with server.new_world() as world:
        with pytest.raises(ValueError, match=f"^{name}: expected a text that is not empty$"):
            world.deliveries(**{name: ""})  # type: ignore[arg-type]
        if name != "message_id":
            with pytest.raises(ValueError, match=f"^{name}: expected a text that is not empty$"):
                world.messages.all(**{name: ""})  # type: ignore[arg-type]


@pytest.mark.parametrize("call", ALL.values(), ids=ALL)
def test_an_emulator_that_is_closed_is_unreachable(server: Emulator, call: Call) -> None:
    """D-486."""
    closed = server.new_world()
    with closed:
        pass
    with pytest.raises(Unreachable, match=r"^this emulator is not running"):
        call(closed, "nothing")


def test_an_account_without_a_name_is_not_the_built_in_one(server: Emulator) -> None:
    with server.new_world() as world, pytest.raises(ValueError, match=r"^expected an id or a name, got an empty text$"):
        world.change_account("", max_requests_per_day_hard=2)
