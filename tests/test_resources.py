"""The data files as a source checkout has them; tests/test_wheel.py looks at an installed wheel."""

from __future__ import annotations

import base64
import tomllib
from pathlib import Path
from typing import Any

import pytest

from emulator import resources

ROOT = Path(__file__).resolve().parent.parent


def read_dialect(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.path("fixtures", "dialects", f"{name}.toml").read_text("utf-8"))


@pytest.mark.parametrize("directory", ["contracts", "fixtures"])
def test_checkout_data_stands_beside_the_package(directory: str) -> None:
    assert resources.path(directory) == ROOT / directory
    assert resources.path(directory).is_dir()


@pytest.mark.parametrize("name", ["svc", "upstash"])
def test_built_in_dialect_names_everything_it_can_rename(name: str) -> None:
    dialect = read_dialect(name)

    assert set(dialect) - {"credentials", "users", "earlier_signing_keys"} == {
        "header_prefix",
        "token_parameter",
        "issuer",
        "user_agent",
        "queue_segment",
        "llm_url",
        "environment",
        "fields",
    }
    assert set(dialect["environment"]) == {"url", "token", "current_signing_key", "next_signing_key"}


def test_svc_dialect_renames_nothing() -> None:
    assert read_dialect("svc")["fields"] == {}


def test_upstash_token_is_the_published_local_development_account() -> None:
    """D-051, D-052."""
    token = read_dialect("upstash")["credentials"]["token"]

    assert base64.b64decode(token, validate=True) == b'{"UserID":"defaultUser","Password":"defaultPassword"}'
