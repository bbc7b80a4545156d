"""`destinations` against a real server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.shell import DOWN, invoke, printed, publish, read
from tests.harness import emulators

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("arguments", "rule", "text"),
    [
        ([], {"respond": {"status": 200}}, "any method GLOB: answer 200"),
        (
            ["--status", "503", "--header", "Retry-After: 10", "--body", "busy", "--latency", "2s", "--times", "2"],
            {
                "respond": {"status": 503, "headers": {"Retry-After": "10"}, "body": "busy", "latency": "2s"},
                "times": 2,
            },
            "any method GLOB: answer 503 after 2s, 2 times",
        ),
        (
            ["--fault", "dns", "--latency", "1s"],
            {"fault": "dns", "latency": "1s"},
            "any method GLOB: fault dns after 1s",
        ),
        (
            ["--forward-to", "http://127.0.0.1:3000", "--method", "put"],
            {"forward_to": "http://127.0.0.1:3000"},
            "PUT GLOB: forward to http://127.0.0.1:3000",
        ),
        (
            ["--duplicate", "--reorder", "--latency", "2s", "--chance", "0.5"],
            {"duplicate": True, "reorder": True, "latency": "2s", "chance": 0.5},
            "any method GLOB: answer after 2s, duplicate, reorder (chance 0.5)",
        ),
        (
            ["--status", "503", "--chance", "0.25"],
            {"respond": {"status": 503}, "chance": 0.25},
            "any method GLOB: answer 503 (chance 0.25)",
        ),
    ],
)
def test_a_rule_is_added_as_it_was_said(
    server: emulators.Server, arguments: list[str], rule: dict[str, Any], text: str
) -> None:
    glob = "https://down.*"
    lines = printed(server, "destinations", "add", glob, *arguments)
    (found,) = read(server, "destinations")["destinations"]
    assert lines == f"{found['id']}: {text.replace('GLOB', glob)}\n"
    assert {name: value for name, value in found.items() if name not in ("id", "match", "used")} == rule


def test_rules_are_listed_with_how_often_they_decided_and_removed(server: emulators.Server) -> None:
    assert printed(server, "destinations") == "no destination rules\n"
    printed(server, "destinations", "add", DOWN, "--status", "503", "--times", "2")
    printed(server, "destinations", "add", "https://two.test/*", "--fault", "reset")
    publish(server, DOWN)
    assert printed(server, "destinations", "list").splitlines() == [
        "ID      METHOD  URL                            DOES         USED",
        f"rule_1  any     {DOWN}  answer 503   1 of 2",
        "rule_2  any     https://two.test/*             fault reset  0",
    ]
    assert printed(server, "destinations", "remove", DOWN, "le_2") == "2 destination rules removed\n"
    printed(server, "destinations", "add", DOWN)
    assert printed(server, "destinations", "remove", "--all") == "1 destination rule removed\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--header", "oops"], "--header: expected a name and a value"),
        (["--fault", "dns", "--status", "500"], "expected an answer, --fault or --forward-to"),
        (["--fault", "nope"], "'nope' is not one of 'refused', 'timeout'"),
    ],
)
def test_a_rule_that_contradicts_itself_is_wrong_usage(
    server: emulators.Server, arguments: list[str], text: str
) -> None:
    result = invoke(server, "destinations", "add", DOWN, *arguments)
    assert result.exit_code == 2
    assert text in result.stderr
