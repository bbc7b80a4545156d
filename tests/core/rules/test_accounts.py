"""Accounts: signing keys, and limits that change while the world goes on."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.core import commands
from emulator.core.errors import NotFound
from emulator.core.model import AccountId, SigningKeys
from tests.core.worlds import World, make_account


def test_rotating_makes_the_next_key_the_current_one_and_a_fresh_one_the_next() -> None:
    world = World()
    first = world.do(commands.RotateSigningKeys(account_id=world.account_id))
    assert first.current == "sig_next"
    assert first.next.startswith("sig_")
    assert len(first.next) == 32
    second = world.do(commands.RotateSigningKeys(account_id=world.account_id))
    assert second.current == first.next
    assert second.next not in (first.current, first.next)
    assert world.book.account.signing_keys == second


def test_rotated_keys_are_the_same_in_every_run() -> None:
    replies = {World().do(commands.RotateSigningKeys(account_id=World().account_id)).next for _ in range(2)}
    assert len(replies) == 1


def test_a_changed_record_counts_from_this_instant_on() -> None:
    world = World()
    world.change_account(max_retries=1, signing_keys=SigningKeys(current="a", next="b"))
    assert world.book.account.max_retries == 1
    assert world.book.account.signing_keys.current == "a"


def test_an_account_nobody_has_is_not_found() -> None:
    world = World()
    stranger = replace(make_account(), id=AccountId("nobody"))
    for command in (
        commands.ChangeAccount(account=stranger),
        commands.RotateSigningKeys(account_id=stranger.id),
    ):
        with pytest.raises(NotFound) as refusal:
            world.do(command)
        assert refusal.value.text == "account nobody not found"
    assert world.facts == []
