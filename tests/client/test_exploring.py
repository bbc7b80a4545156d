"""One test under many seeds, shrunk to the disturbances that it cannot bear; D-424."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from emulator import AsyncEmulator, Emulator, explore
from emulator.client.exploring import fewest

URL = "https://app.test/hook"

pytestmark = pytest.mark.slow


def publishes_once(emulator: Emulator) -> None:
    """A receiver that cannot bear a delivery that comes twice."""
    bodies: list[bytes] = []
    emulator.mount("https://app.test", lambda request: bodies.append(request.body))
    for number in range(4):
        emulator.publish(URL, str(number), delay="1m")
    emulator.clock.drain()
    assert len(bodies) == len(set(bodies))


def test_a_failing_seed_is_shrunk_and_told_with_the_call_that_repeats_it() -> None:
    with pytest.raises(AssertionError) as failure:
        explore(publishes_once)
    (note,) = failure.value.__notes__
    first, *remaining, last = note.splitlines()
    assert first.startswith("It fails under seed ")
    assert " with 1 of " in first
    assert len(remaining) == 1
    assert "duplicate of attempt" in remaining[0]
    call = last.removeprefix("Repeat it: ")
    with pytest.raises(AssertionError) as again:
        eval(call, {"explore": explore, "publishes_once": publishes_once})
    # The same failure, by the one disturbance that is left.
    assert again.value.args == failure.value.args
    assert again.value.__notes__[0].splitlines()[1] == remaining[0]


def test_worlds_differ_in_the_order_of_simultaneous_deliveries() -> None:
    orders: set[str] = set()

    def test(emulator: Emulator) -> None:
        for name in "abc":
            emulator.publish(f"https://app.test/{name}", delay="1m")
        emulator.clock.drain()
        orders.add("".join(each.url[-1] for each in emulator.deliveries() if each.attempt == 1 and each.succeeded))

    explore(test, seeds=range(20))
    assert {"abc", "acb"} < orders


def test_a_test_that_bears_everything_passes_and_every_seed_was_tried() -> None:
    tried: list[str] = []

    def test(emulator: Emulator) -> None:
        tried.append(emulator.token)

    explore(test, seeds=(3, 4, 5), chaos=1)
    assert len(set(tried)) == 3


def test_a_coroutine_function_gets_an_emulator_with_awaits() -> None:
    async def test(emulator: AsyncEmulator) -> None:
        await emulator.publish(URL, retries=0)
        await emulator.clock.drain()
        assert all(each.succeeded for each in await emulator.deliveries())

    with pytest.raises(AssertionError) as failure:
        explore(test, chaos=1)
    assert "instead of a delivery" in failure.value.__notes__[0]


def test_a_failure_without_chaos_says_so() -> None:
    def test(emulator: Emulator) -> None:
        raise ValueError("always")

    with pytest.raises(ValueError, match="always") as failure:
        explore(test)
    assert failure.value.__notes__[0].startswith("It fails under seed 0, and without any of 0 disturbances.")


@pytest.mark.parametrize("needed", [set(), {"3"}, {"1", "8"}, {"1", "2", "3"}])
def test_disturbances_are_spared_until_none_can_be(needed: set[str]) -> None:
    met = {str(number): "did" for number in range(9)}

    def run(spared: Sequence[str]) -> Mapping[str, str] | None:
        left = {mark: did for mark, did in met.items() if mark not in spared}
        return left if needed <= left.keys() else None

    spared, remaining = fewest(met, run)
    assert set(remaining) == needed
    assert set(spared) == met.keys() - needed
