"""URL groups from Python."""

from __future__ import annotations

from typing import Any

import pytest

from emulator import Emulator, Endpoint, Refused
from tests.harness import emulators

A, B = "https://a.test/hook", "https://b.test/hook"


def test_a_group_grows_and_ends_with_its_last_endpoint(emu: Emulator) -> None:
    made = emu.url_groups.upsert("news", [A, Endpoint(B, "second")])
    assert (made.name, made.endpoints) == ("news", (Endpoint(A), Endpoint(B, "second")))
    assert (made.created_ms, made.headers.multi_items()) == (emulators.EPOCH_MS, [])
    assert emu.url_groups.all() == [made]
    emu.url_groups.remove("news", endpoint="second")
    assert emu.url_groups.get("news").endpoints == (Endpoint(A),)
    emu.url_groups.remove("news", url=A)
    assert emu.url_groups.all() == []


def test_default_headers_hold_for_what_is_published_to_the_group(emu: Emulator) -> None:
    emu.url_groups.upsert("news", [A])
    group = emu.url_groups.set_headers("news", {"Svc-Forward-X-Key": "1"})
    assert group.headers["svc-forward-x-key"] == "1"
    emu.publish("news", "hello")
    emu.verify(A, headers={"X-Key": "1"})
    emu.url_groups.delete("news")
    emu.url_groups.delete("news")
    assert emu.url_groups.all() == []


def test_a_refusal_has_its_status_and_field(emu: Emulator) -> None:
    with pytest.raises(Refused) as refused:
        emu.url_groups.upsert("news", ["app.test"])
    assert (refused.value.status, refused.value.field) == (400, "endpoints[0].url")
    with pytest.raises(Refused) as refused:
        emu.url_groups.remove("news")
    assert (refused.value.status, refused.value.field) == (400, "endpoints[0]")
    with pytest.raises(Refused) as refused:
        emu.url_groups.get("none")
    assert refused.value.status == 404
    upsert: Any = emu.url_groups.upsert
    with pytest.raises(TypeError, match="endpoints: expected several"):
        upsert("news", A)
