"""Identifiers, and the keys of a world that they follow from."""

from __future__ import annotations

import re
from hashlib import sha256
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.core import record
from emulator.core.errors import Malformed
from emulator.core.model.resources import Plan
from emulator.core.world_setup import WorldSetup, parse_name_in_files, parse_token, parse_world_name

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
BASE58 = f"[{ALPHABET}]"
WORLD = record.world_key(0)
KEY = bytes.fromhex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")

keys = st.binary(min_size=1, max_size=64)
numbers = st.integers(0, 10**18)


def decoded(text: str) -> bytes:
    """The bytes that base58 characters stand for, without zeros in front."""
    value = 0
    for character in text:
        value = value * 58 + ALPHABET.index(character)
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def checked(text: str) -> bytes:
    """The content of a Base58Check text, its checksum verified."""
    content, checksum = decoded(text)[:-4], decoded(text)[-4:]
    assert sha256(sha256(content).digest()).digest()[:4] == checksum
    return content


@pytest.mark.parametrize(
    "published",
    [
        pytest.param("7c8F3D7T64XecBkStgxwpDNuho1R", id="schedule"),
        pytest.param("7kYjw48mhY7kAjqNGcy6cr29RJ6r", id="signing-key"),
        pytest.param("5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs", id="next-signing-key"),
    ],
)
def test_published_identifiers_have_the_form_that_ours_are_held_to(published: str) -> None:
    """D-060."""
    assert (len(published), checked(published)[0], len(checked(published))) == (28, 1, 17)


@given(keys, st.text(st.characters(codec="utf-8"), max_size=20), numbers)
def test_short_id_is_28_characters_with_version_and_checksum(key: bytes, kind: str, number: int) -> None:
    """D-060."""
    text = record.short_id(key, kind, number)
    assert re.fullmatch(BASE58 + "{28}", text)
    assert checked(text)[0] == 1
    assert len(checked(text)) == 17


@given(keys, numbers)
def test_frequent_identifiers_have_the_length_and_letters_of_the_service(key: bytes, number: int) -> None:
    """D-060."""
    assert re.fullmatch("msg_" + BASE58 + "{53}", record.message_id(key, number))
    assert re.fullmatch("jwt_" + BASE58 + "{28}", record.jwt_id(key, number))


# Written out, so that a change of the derivation shows: it would give every stored world other identifiers.
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (record.world_key(0).hex(), "eb1e58071d01708ab270210ec51b948cff63263da354f987f15a58a288033b13"),
        (record.world_key(1, "a").hex(), "ce3df91bfc4e49bc14a2a48f9c689ba5caf55c5bb4e6d66ecb7d1c9060bc2edd"),
        (record.message_id(WORLD, 1), "msg_7YoJxEGjEauorhHjnrVdyUU8oZsJjt4Rtxn9QyeFUkkoZoM9KCHJe"),
        (record.schedule_id(WORLD, 1), "scd_74cPLPLY15sid3bMn5m1ibeqREXU"),
        (record.signing_key(WORLD, 1), "sig_7wjuJuV3ZbNttfF6HGLgtVjscTJN"),
        (record.jwt_id(WORLD, 1), "jwt_n5AAbCA2Dd12hsVGpzrDHhALDE9d"),
        (record.uuid(WORLD, "search index", 1), "17cc9332-d7ad-432d-801e-6ffdc56e767c"),
        (record.token_text(WORLD, "password", 1, 32), "UXDhNRqyaJCMNitSUAGnuh7JDZJYuc9h"),
    ],
)
def test_identifiers_stay_the_same_from_version_to_version(made: str, expected: str) -> None:
    assert made == expected


def test_numbers_kinds_and_keys_tell_identifiers_apart() -> None:
    other_key = record.world_key(1)
    made = [
        *(record.message_id(KEY, number) for number in range(500)),
        *(record.schedule_id(KEY, number) for number in range(500)),
        *(record.jwt_id(KEY, number) for number in range(500)),
        *(record.jwt_id(other_key, number) for number in range(500)),
        record.short_id(KEY, "a/1", 2),
        record.short_id(KEY, "a", 12),
        record.uuid(KEY, "a", 1),
        record.uuid(KEY, "b", 1),
        record.token_text(KEY, "a", 1, 20),
        record.token_text(KEY, "a", 11, 20),
    ]
    assert len({text[4:] for text in made}) == 2006


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param((1, ""), (2, ""), id="seed"),
        pytest.param((1, ""), (1, "a"), id="scope"),
        pytest.param((1, "1"), (11, ""), id="seed-and-scope-do-not-run-together"),
        pytest.param((-1, ""), (1, ""), id="sign"),
    ],
)
def test_seed_and_scope_tell_world_keys_apart(left: tuple[int, str], right: tuple[int, str]) -> None:
    assert record.world_key(*left) != record.world_key(*right)


def test_world_key_is_long_enough_to_be_a_key() -> None:
    assert len(record.world_key(0, "\u00fc\udc80")) == 32


def test_every_name_is_what_it_has_always_been() -> None:
    """D-060, D-260: what a seed gives stays the same from version to version, as recorded runs and snapshots need."""
    assert record.world_key(7, "w").hex() == "d3075ef63b5b8310323478569f9effe73e6b3cdca2f0d5e99eb566811bf4e9f5"
    assert record.event_key(7, 1000).hex() == "1e6f870ef4ea09db95ad56c8ce1f800efc96e046ece9d160fe01f4db292c9d8b"
    assert record.token_key("t").hex() == "e39d4a944da60751280b58b426267e917c16d714f3ad943c22b5818907152d1b"
    assert record.message_id(KEY, 1) == "msg_7YoJxGDFjGC53oPyaSAbM442yP5M8AaPTNE2Amd6vonMhGR5BjL36"
    assert record.schedule_id(KEY, 1) == "scd_5zwKtN4jB7jCHvWazTrec1nf3fHr"
    assert record.run_id(KEY, 1) == "wfr_8FCRctEsTrH3UHJMs3HwH"
    assert record.signing_key(KEY, 1) == "sig_5ur9kD1DYsrvFrnAuVzW9NNkBFLT"
    assert record.jwt_id(KEY, 1) == "jwt_T67RK9fp4s2ZwSQ3xBhaoafgDvz4"
    assert record.draw(KEY, "p", 1) == 0.3724749656745133
    assert record.uuid(KEY, "k", 1) == "3613ebca-14e4-4c7d-b0d4-681bee8fc739"
    assert record.token_text(KEY, "k", 1, 40) == "8hPbSaKGyaJUmKnwbJ8w9Xfe5fL6MWhSLDKWuKsy"
    assert record.queue_token("u", "p") == "eyJVc2VySUQiOiJ1IiwiUGFzc3dvcmQiOiJwIn0="


@given(keys, numbers)
def test_uuid_has_the_shape_of_a_random_one(key: bytes, number: int) -> None:
    text = record.uuid(key, "search index", number)
    assert (UUID(text).version, UUID(text).variant, str(UUID(text))) == (4, RFC_4122, text)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 28, 40, 64, 1000])
def test_token_text_has_the_length_asked_for(length: int) -> None:
    assert re.fullmatch(f"{BASE58}{{{length}}}", record.token_text(KEY, "password", 1, length))


def test_token_text_uses_the_whole_alphabet() -> None:
    assert set(record.token_text(KEY, "password", 1, 2000)) == set(ALPHABET)


def test_dead_letter_id_is_the_moment_and_a_number() -> None:
    """D-060."""
    assert record.dead_letter_id(1_725_323_658_779, 0) == "1725323658779-0"


def test_queue_token_is_base64_of_the_user_and_password() -> None:
    """D-051."""
    published = "eyJVc2VySUQiOiJkZWZhdWx0VXNlciIsIlBhc3N3b3JkIjoiZGVmYXVsdFBhc3N3b3JkIn0="
    assert record.queue_token("defaultUser", "defaultPassword") == published


# -- what a world is made from ------------------------------------------------------------------

SETUP = WorldSetup(id="w", seed=7, epoch_ms=1, rate=0.0, plan=Plan.PAID)


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "0", "a" * 64])
def test_names_of_worlds_and_snapshots(name: str) -> None:
    """D-128."""
    assert parse_world_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/b", ".hidden", "-a", "a" * 65, "ä", "a b", "a\n"])
def test_names_that_could_not_stand_in_a_path_or_name_a_file_are_malformed(name: str) -> None:
    """D-128."""
    with pytest.raises(Malformed, match="expected at most 64"):
        parse_world_name(name)


def test_the_secret_key_differs_by_seed_and_by_id() -> None:
    keys = {each.secret_key for each in (SETUP, replace(SETUP, id="x"), replace(SETUP, seed=8))}
    assert len(keys) == 3
    assert SETUP.secret_key == replace(SETUP, epoch_ms=2, rate=1.0, plan=Plan.FREE).secret_key


def test_the_event_key_differs_by_seed_and_by_epoch_and_not_by_id() -> None:
    """D-060."""
    keys = {each.event_key for each in (SETUP, replace(SETUP, epoch_ms=2), replace(SETUP, seed=8))}
    assert len(keys) == 3
    assert SETUP.event_key == replace(SETUP, id="x", rate=1.0, plan=Plan.FREE).event_key


def test_a_world_without_a_given_epoch_begins_at_the_wall_clock_and_never_twice_at_one_instant() -> None:
    """D-261."""
    assert SETUP.beginning(5) is SETUP
    open_setup = replace(SETUP, epoch_is_given=False)
    assert [open_setup.beginning(now_ms).epoch_ms for now_ms in (5, 1, 0)] == [5, 2, 0]


@pytest.mark.parametrize("name", ["con", "CON", "con.db", "Con.tar.gz", "lpt1", "name.", "a.b."])
def test_a_name_that_windows_reserves_is_refused(name: str) -> None:
    """D-305."""
    with pytest.raises(Malformed, match=f"^expected a name that a file can have on every system, .* '{name}'$"):
        parse_name_in_files(name)


@pytest.mark.parametrize("name", ["a", "con-1", "a.con", "falcon", "a.b"])
def test_a_name_that_every_system_takes_is_kept(name: str) -> None:
    """D-305."""
    assert parse_name_in_files(name) == name


def test_a_token_that_is_none_is_refused_with_what_one_is() -> None:
    """D-432."""
    assert parse_token("abcd-._~+/12==") == "abcd-._~+/12=="
    for text in ("short", "with space", "a=bcdefgh", "x" * 257):
        with pytest.raises(Malformed, match=r"^expected 8 to 256 letters, digits and -\._~\+/ with nothing but ="):
            parse_token(text)
