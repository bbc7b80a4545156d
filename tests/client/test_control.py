"""The control API over HTTP: how requests are built, and what responses mean."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from emulator.client.control import Answer, ControlApi, answer_of, segment, trusted
from emulator.client.errors import EmulatorError, NotAnEmulator, Refused, Unreachable

API = ControlApi(url="http://127.0.0.1:1", world="mine", token="secret")


def request(path: str, **given: str) -> httpx.Request:
    with httpx.Client() as http:
        return API.request(http, "POST", path, {"by": 1}, query={"a": "b"}, headers=given)


def test_a_control_call_names_its_world_and_carries_the_control_token() -> None:
    found = request("clock/advance")

    assert str(found.url) == "http://127.0.0.1:1/_emulator/clock/advance?world=mine&a=b"
    assert (found.headers["Authorization"], found.content) == ("Bearer secret", b'{"by": 1}')


@pytest.mark.parametrize("path", ["health", "worlds", "worlds/mine"])
def test_a_call_about_the_server_names_no_world(path: str) -> None:
    assert str(request(path).url) == f"http://127.0.0.1:1/_emulator/{path}?a=b"


def test_the_control_token_is_for_the_control_api_only() -> None:
    found = request("/v2/publish/https://app.test/a?b=c", Authorization="Bearer token")

    assert found.url.path == "/v2/publish/https://app.test/a"
    assert found.headers["Authorization"] == "Bearer token"
    assert "Authorization" not in request("/v2/dlq").headers


def response(status: int, text: str) -> Answer:
    return answer_of(httpx.Response(status, text=text, request=request("clock")))


def test_a_refusal_has_the_text_and_the_field_of_the_server() -> None:
    with pytest.raises(Refused, match=r"^no such instant$") as refused:
        API.read(response(400, '{"error": "no such instant", "field": "to"}'))

    assert (refused.value.status, refused.value.field) == (400, "to")


@pytest.mark.parametrize(
    ("status", "text"), [(200, "<html>"), (200, ""), (200, "[]"), (404, "<html>"), (500, "[]"), (302, "{}")]
)
def test_what_no_emulator_answers_is_another_program(status: int, text: str) -> None:
    with pytest.raises(NotAnEmulator, match=f"is no emulator: it answered {status} to /_emulator/clock") as error:
        API.read(response(status, text))

    assert error.value.status == status


def test_an_answer_without_content_is_none() -> None:
    assert API.read(response(204, "")) is None
    assert API.read(response(200, '{"now_ms": 1}')) == {"now_ms": 1}


def test_failures_of_the_network_keep_their_cause() -> None:
    cause = httpx.ConnectError("refused")

    with (
        pytest.raises(Unreachable, match=r"no emulator answers at http://127.0.0.1:1: refused") as error,
        API.failures(),
    ):
        raise cause

    assert error.value.__cause__ is cause


def test_a_file_without_certificates_is_trusted_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "prose.pem").write_text("nothing")

    with pytest.raises(EmulatorError, match=r"prose.pem: holds no certificate in PEM form"):
        trusted(str(tmp_path / "prose.pem"))
    with pytest.raises(EmulatorError, match="x: cannot be read: No such file"):
        trusted(str(tmp_path / "x"))


def test_a_name_is_one_segment_of_a_path() -> None:
    assert segment("a/b?c") == "a%2Fb%3Fc"


def test_every_control_call_carries_the_token_that_its_worlds_maker_chose() -> None:
    """A load balancer sends them by it to the server that has the world (D-433)."""
    with httpx.Client() as http:
        for token, world_token, expected in (
            (None, None, (None, None)),
            ("secret", None, ("Bearer secret", None)),
            (None, "of-the-world", ("Bearer of-the-world", None)),
            ("secret", "of-the-world", ("Bearer of-the-world", "secret")),
        ):
            api = ControlApi(url="http://127.0.0.1", world="w", token=token, world_token=world_token)
            for path in ("worlds", "clock"):
                headers = api.request(http, "POST", path).headers
                assert (headers.get("Authorization"), headers.get("Emulator-Control-Token")) == expected
