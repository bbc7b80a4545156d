"""The names on the wire, and the files that define them (D-081)."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.wire import dialect
from emulator.wire.dialect import DialectCredentials, DialectError, Environment

_GOOD = """
header_prefix = "X-My-"
token_parameter = "my_token"
issuer = "Me"
user_agent = "Me/1.0 (test)"
queue_segment = "mine"
[environment]
url = "MY_URL"
token = "MY_TOKEN"
current_signing_key = "MY_CURRENT"
next_signing_key = "MY_NEXT"
"""


def test_svc_is_the_document_as_written() -> None:
    svc = dialect.SVC
    assert svc is dialect.load("svc")
    assert (svc.name, svc.header_prefix, svc.lower_prefix) == ("svc", "Svc-", "svc-")
    assert (svc.token_parameter, svc.issuer, svc.queue_segment) == ("queue_token", "Svc", "queue")
    assert dict(svc.fields) == {}
    assert svc.credentials is None


def test_upstash_has_the_names_of_the_public_clients() -> None:
    upstash = dialect.load("upstash")
    assert (upstash.header_prefix, upstash.token_parameter) == ("Upstash-", "qstash_token")
    assert (upstash.issuer, upstash.user_agent, upstash.queue_segment) == ("Upstash", "Upstash-QStash", "qstash")
    assert upstash.environment == Environment(
        url="QSTASH_URL",
        token="QSTASH_TOKEN",
        current_signing_key="QSTASH_CURRENT_SIGNING_KEY",
        next_signing_key="QSTASH_NEXT_SIGNING_KEY",
    )
    assert upstash.credentials == DialectCredentials(
        token="eyJVc2VySUQiOiJkZWZhdWx0VXNlciIsIlBhc3N3b3JkIjoiZGVmYXVsdFBhc3N3b3JkIn0=",
        current_signing_key="sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r",
        next_signing_key="sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs",
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("metrics_enabled", "prometheus_enabled"),
        ("integration_email", "vercel_email"),
        ("daily_queue_messages", "daily_qstash_messages"),
        ("queue_fixed_10m", "qstash_fixed_10m"),
        ("customer_id", "customer_id"),
    ],
)
def test_fields_and_enum_values_are_renamed(name: str, expected: str) -> None:
    assert dialect.load("upstash").wire_name(name) == expected
    assert dialect.SVC.wire_name(name) == name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Svc-Callback-Delay", "Upstash-Callback-Delay"),
        ("Upstash-Delay", "Upstash-Delay"),
        ("destination", "destination"),
        ("upstash-delay", "upstash-delay"),
        ("metrics_enabled", "prometheus_enabled"),
    ],
)
def test_field_at_fault_is_named_in_the_dialect(name: str, expected: str) -> None:
    assert dialect.load("upstash").rename_field_at_fault(name) == expected


def test_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(_GOOD, encoding="utf-8")
    mine = dialect.load(str(path))
    assert (mine.name, mine.lower_prefix, mine.user_agent) == ("mine", "x-my-", "Me/1.0 (test)")
    assert mine.header("message-id") == "X-My-Message-Id"
    assert mine.credentials is None
    assert mine.llm_url == "https://svc.example/llm/v1/chat/completions"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(_GOOD.replace('issuer = "Me"', ""), "issuer: this key is missing", id="missing"),
        pytest.param(_GOOD.replace('issuer = "Me"', "issuer = 3"), "issuer: expected printable", id="type"),
        pytest.param(_GOOD.replace('"X-My-"', '"X-My"'), "header_prefix: expected letters", id="prefix"),
        pytest.param(_GOOD.replace('"my_token"', '"my token"'), "token_parameter: expected letters", id="parameter"),
        pytest.param('llm_url = "nowhere"\n' + _GOOD, "llm_url: expected a URL", id="url-of-the-model"),
        pytest.param("earlier_signing_keys = 3\n" + _GOOD, "earlier_signing_keys: expected an array", id="keys"),
        pytest.param(
            'earlier_signing_keys = ["a", ""]\n' + _GOOD, "earlier_signing_keys[2]: expected printable", id="key"
        ),
        pytest.param('isuer = "Me"\n' + _GOOD, "isuer: unknown key", id="unknown"),
        pytest.param(_GOOD.replace("[environment]", "[other]"), "other: unknown key", id="unknown-table"),
        pytest.param(_GOOD.split("[env", maxsplit=1)[0], "environment: this table is missing", id="no-environment"),
        pytest.param(
            "environment = 3\n" + _GOOD.split("[env", maxsplit=1)[0], "environment: expected a table", id="no-table"
        ),
        pytest.param(_GOOD.replace('url = "MY_URL"', ""), "environment.url: this key is missing", id="missing-inner"),
        pytest.param(_GOOD.replace('"MY_URL"', '"MY URL"'), "environment.url: expected the name", id="variable"),
        pytest.param(_GOOD + 'ur = "X"\n', "environment.ur: unknown key", id="unknown-inner"),
        pytest.param(_GOOD + "[fields]\nid = 3\n", "fields.id: expected letters", id="rename"),
        pytest.param(
            _GOOD + '[fields]\nid = "x"\nname = "x"\n', "fields.id: another field has the same name", id="collision"
        ),
        pytest.param(_GOOD + '[credentials]\ntoken = "t"\n', "credentials.current_signing_key", id="credentials"),
        pytest.param("a = [", "is not a TOML file", id="syntax"),
        pytest.param(f"a = {'1' * 5000}", "is not a TOML file", id="huge-number"),
        pytest.param(f"a = {'[' * 100_000}", "is not a TOML file", id="deep"),
        pytest.param(_GOOD.replace('"Me"', f"0x{'f' * 5000}"), "issuer: expected", id="huge-number-in-hexadecimal"),
    ],
)
def test_wrong_file_is_told_in_one_line_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DialectError) as caught:
        dialect.load(str(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("segment", ["queues", "Search", "flowControl", "keys"])
def test_a_queue_segment_does_not_hide_another_path(tmp_path: Path, segment: str) -> None:
    """D-176."""
    path = tmp_path / "mine.toml"
    path.write_text(_GOOD.replace('"mine"', f'"{segment}"'), encoding="utf-8")
    with pytest.raises(DialectError, match=f"queue_segment: {segment} is part of another path"):
        dialect.load(str(path))


def test_unreadable_files_are_told(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    with pytest.raises(DialectError, match="cannot be read"):
        dialect.load(str(path))
    path.write_bytes(b"\xff")
    with pytest.raises(DialectError, match="UTF-8"):
        dialect.load(str(path))
    with pytest.raises(DialectError, match="unknown dialect 'klingon': expected svc, upstash"):
        dialect.load("klingon")


@pytest.mark.parametrize(
    ("name", "is_own"),
    [
        ("queue_token", True),
        ("Queue_Token", True),
        ("svc-delay", True),
        ("SVC-delay", True),
        ("svc", False),
        ("a", False),
    ],
)
def test_the_service_s_own_query_parameters(name: str, is_own: bool) -> None:
    assert dialect.SVC.is_own_parameter(name) is is_own


@pytest.mark.parametrize(
    "key", ["sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r", "sig_5NoELc3EFnZn4DVS5bDs2Nk4b7Ua", "sig_7W3ZNbfKWk5NWwEs3U4ixuQ7fxwE"]
)
def test_published_signing_keys_are_known_as_such(key: str) -> None:
    """D-804."""
    assert dialect.publisher_of_key(key) == "upstash"
    assert dialect.publisher_of(key) is None
    assert dialect.publisher_of_key(f"{key}x") is None
