"""How states are read and counted."""

from __future__ import annotations

import asyncio

import pytest

from emulator.conformance.effects import EffectUnreadable, amount, read_url
from tests.harness import emulators


@pytest.mark.parametrize(
    ("state", "counted"),
    [
        (3, 3),
        (b"7", 7),
        ('{"mails": ["a", "b"], "charged": 1.5, "name": "x"}', 3.5),
        ([1, [2, 3]], 2),
        ({"a", "b"}, 2),
        ({"name": "x"}, None),
        ("three mails", None),
        (None, None),
        (True, None),
        (object, None),
    ],
)
def test_a_state_is_counted_by_its_numbers_and_lists(state: object, counted: float | None) -> None:
    assert amount(state) == counted


def test_a_url_that_does_not_show_a_state_is_an_error() -> None:
    with emulators.http_server(lambda received: (404, {}, b"")) as url:
        read = read_url(f"{url}/state")
        with pytest.raises(EffectUnreadable, match="/state answered 404, expected 2xx"):
            asyncio.run(read())  # type: ignore[arg-type]  # it is a coroutine
    with pytest.raises(EffectUnreadable, match="cannot be read"):
        asyncio.run(read())  # type: ignore[arg-type]
