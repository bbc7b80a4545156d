"""The commands about what a world holds: messages, deliveries, schedules, queues, groups, dead letters, rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.shell import DOWN, URL, invoke, printed, publish, read, refused, rule, said, service
from tests.harness import emulators
from tests.harness.loops import PATIENCE_S

pytestmark = pytest.mark.slow


# -- `svc-emulator messages`, `show`, `cancel`, `deliveries`, `refused` ----------------------------


def test_messages_are_listed_with_the_newest_last(server: emulators.Server) -> None:
    assert printed(server, "messages") == "no messages\n"
    rule(server, DOWN, respond={"status": 503})
    failing = publish(server, DOWN, Svc_Retries="2", Svc_Retry_Delay="10000")
    later = publish(server, URL, Svc_Delay="1h", Svc_Label="red")

    assert printed(server, "messages").splitlines() == [
        "ID ENDS   CREATED                   STATE     TRIES  DESTINATION                         LAST",
        f"{failing[-8:]}  2026-01-01T00:00:00.000Z  RETRYING  1/3    POST {DOWN}  "
        "503; next at 2026-01-01T00:00:10.000Z",
        f"{later[-8:]}  2026-01-01T00:00:00.000Z  PENDING   0/6    POST {URL}   next at 2026-01-01T01:00:00.000Z",
    ]
    assert [row["message_id"] for row in read(server, "messages", "--state", "retrying")["messages"]] == [failing]
    assert [row["message_id"] for row in read(server, "messages", "--label", "red")["messages"]] == [later]
    assert [row["message_id"] for row in read(server, "messages", "--to", "https://down*")["messages"]] == [failing]
    assert "there are older ones" in printed(server, "messages", "--limit", "1")


def test_show_has_what_was_sent_and_what_came_back(server: emulators.Server) -> None:
    rule(server, DOWN, respond={"status": 503, "headers": {"Retry-After": "10"}, "body": "busy"}, times=1)
    message_id = publish(server, DOWN, b'{"order": 7}', Svc_Label="red")
    emulators.control(server, "POST", "/clock/advance", {"by": "10s"})

    lines = printed(server, "show", message_id[-4:]).splitlines()

    assert lines[:3] == [message_id, f"POST {DOWN}", "DELIVERED at 2026-01-01T00:00:10.000Z, 2 of 6 attempts"]
    first, second = (
        lines.index("attempt 1 at 2026-01-01T00:00:00.000Z (rule)"),
        lines.index("attempt 2 at 2026-01-01T00:00:10.000Z (capture)"),
    )
    assert "labels: red" in lines[:first]
    assert f"> Svc-Message-Id: {message_id}" in lines[first:second]
    assert '> {"order": 7}' in lines[first:second]
    answer = lines.index("< 503")
    assert lines[answer : answer + 4] == ["< 503", "< Retry-After: 10", "<", "< busy"]
    assert lines[-2:] == ["< 200", "<"]
    found = read(server, "show", "red")
    assert (found["message"]["message_id"], len(found["deliveries"])) == (message_id, 2)


def test_bodies_that_are_no_text_or_very_long_are_shown_so_that_they_can_be_read(server: emulators.Server) -> None:
    publish(server, URL, bytes(range(250, 256)) * 100, Svc_Label="binary")
    publish(server, URL, b"x" * 5000, Svc_Label="long")
    publish(server, URL, "a\n\x1b[31mred\u202eevil".encode(), Svc_Label="hostile")

    binary, long = printed(server, "show", "binary"), printed(server, "show", "long")
    assert "> 00000000  fa fb fc fd fe ff fa fb fc fd fe ff fa fb fc fd  ................" in binary
    assert "> ... 600 bytes in all: --full shows them" in binary
    assert "> 00000250  " in printed(server, "show", "binary", "--full")
    assert ("> " + "x" * 4000 + "\n> ... 5000 characters in all: --full shows them\n") in long
    assert ("> " + "x" * 5000 + "\n") in printed(server, "show", "long", "--full")
    hostile = invoke(server, "show", "hostile", color=True).stdout
    assert "> a\n> \\x1b[31mred\\u202eevil\n" in hostile


def test_a_message_that_waits_is_cancelled_and_one_that_has_ended_is_not(server: emulators.Server) -> None:
    waiting = publish(server, URL, Svc_Delay="1h")
    assert printed(server, "cancel", waiting[-8:]) == f"{waiting} to {URL}: CANCELED\n"
    assert f"message {waiting} has ended: CANCELED at 2026-01-01" in refused(server, "cancel", waiting)


def test_deliveries_are_the_newest_with_the_last_at_the_end(server: emulators.Server) -> None:
    assert printed(server, "deliveries") == "no deliveries\n"
    rule(server, DOWN, respond={"status": 503})
    rule(server, "https://gone.test/", fault="dns")
    ok, down = publish(server, URL), publish(server, DOWN, Svc_Retries="0")
    gone = publish(server, "https://gone.test/", Svc_Retries="0")
    lines = printed(server, "deliveries").splitlines()
    assert lines[0].split() == ["STARTED", "ID", "ENDS", "TRY", "DESTINATION", "RESULT", "VIA"]
    assert [line.split()[1] for line in lines[1:]] == [ok[-8:], down[-8:], gone[-8:]]
    assert lines[2].split()[-2:] == ["503", "rule"]
    assert [each["message_id"] for each in read(server, "deliveries", "--failed")["deliveries"]] == [gone, down]
    assert [each["message_id"] for each in read(server, "deliveries", "--succeeded")["deliveries"]] == [ok]
    assert [each["message_id"] for each in read(server, "deliveries", "--to", "https://down*")["deliveries"]] == [down]
    newest, *rest = printed(server, "deliveries", "--limit", "1").splitlines()[1:]
    assert newest.split()[1] == gone[-8:]
    assert rest == ["there are older ones: --limit lists more"]


def test_refused_calls_are_listed_with_the_reason(server: emulators.Server) -> None:
    assert printed(server, "refused") == "no refused calls\n"
    headers = {"Authorization": f"Bearer {server.token}", "Svc-Delay": "soon"}
    httpx.post(f"{server.url}/v2/publish/{URL}", headers=headers, timeout=PATIENCE_S, trust_env=False, verify=False)
    line = printed(server, "refused").splitlines()[1]
    assert " 400 " in line
    assert "POST /v2/publish/" in line
    assert "Svc-Delay" in line


# -- `svc-emulator publish` -------------------------------------------------------------------------


def test_a_message_is_published_with_its_options(server: emulators.Server) -> None:
    """D-760."""
    lines = printed(
        server,
        *("publish", URL, "--body", '{"user": 7}', "--delay", "1h", "--retries", "2", "--label", "red", "--label", "b"),
        *("--header", "Svc-Forward-X-Tenant: a"),
    ).splitlines()
    [message] = read(server, "messages")["messages"]
    assert lines == [
        f"{message['message_id']} to {URL}",
        "Waits for its first attempt at 2026-01-01T01:00:00.000Z, 1h after it was made.",
    ]
    assert (message["labels"], message["max_attempts"]) == (["red", "b"], 3)
    emulators.control(server, "POST", "/clock/advance", {"by": "1h"})
    [delivery] = emulators.control(server, "GET", "/deliveries")["deliveries"]
    assert delivery["body"] == '{"user": 7}'
    assert (delivery["headers"]["X-Tenant"], delivery["headers"]["Content-Type"]) == (["a"], ["application/json"])


def test_what_is_published_may_be_a_file_a_group_s_or_in_a_queue(server: emulators.Server, tmp_path: Path) -> None:
    """D-760."""
    (tmp_path / "body.bin").write_bytes(b"\xff\x00")
    service(server, "POST", "topics/news/endpoints", {"endpoints": [{"url": URL}, {"url": DOWN}]})
    made = read(server, "publish", "news", "--body", f"@{tmp_path}/body.bin", "--header", "Content-Type: image/png")
    assert [each["url"] for each in made["published"]] == [URL, DOWN]
    for each in emulators.control(server, "GET", "/deliveries")["deliveries"]:
        assert (each["body_base64"], each["headers"]["Content-Type"]) == ("/wA=", ["image/png"])
    again = [printed(server, "publish", URL, "--queue", "jobs", "--deduplication-id", "a") for _ in range(2)]
    assert [": published before, nothing is sent (deduplicated)" in each for each in again] == [False, True]
    assert [row["name"] for row in read(server, "queues")["queues"]] == ["jobs"]


@pytest.mark.parametrize(
    ("options", "said_of_it"),
    [
        (("--delay", "60"), "--delay: expected a duration such as 10s"),
        (("--retry-delay", "foo(1)"), "--retry-delay: expected 'retried' or one of the functions"),
        (("--queue", "jobs", "--delay", "1h"), "--delay: a queue ignores it"),
        (("--body", "@nowhere"), "--body: nowhere: No such file"),
        (("--header", "Svc-Delay"), "--header: expected a name and a value"),
        (("--delay", "1h", "--header", "Svc-Delay: 2h"), "--delay: expected the keyword or the header Svc-Delay"),
    ],
)
def test_a_wrong_option_of_a_publish_is_named(
    server: emulators.Server, options: tuple[str, ...], said_of_it: str
) -> None:
    result = invoke(server, "publish", URL, *options)
    assert result.exit_code == 2, result.output
    assert said_of_it in said(result)
    assert result.stderr.endswith(" publish --help\n")
    assert read(server, "messages")["messages"] == []


# -- `svc-emulator schedules`, `queues`, `flow-control`, `groups`, `dead-letters` ------------------


def test_schedules_are_listed_paused_resumed_and_deleted(server: emulators.Server) -> None:
    assert printed(server, "schedules") == "no schedules\n"
    cron = "CRON_TZ=Europe/Berlin 30 9 * * *"
    service(server, "POST", f"schedules/{URL}", Svc_Cron=cron, Svc_Schedule_Id="daily")
    assert printed(server, "schedules", "--firings", "2").splitlines() == [
        "ID     CRON                              DESTINATION                   NEXT                      LAST",
        f"daily  {cron}  {URL}  2026-01-01T08:30:00.000Z  not yet",
        "",
        "daily (Europe/Berlin):",
        "  2026-01-01T08:30:00.000Z  2026-01-01T09:30:00+01:00",
        "  2026-01-02T08:30:00.000Z  2026-01-02T09:30:00+01:00",
    ]
    emulators.control(server, "POST", "/clock/advance", {"by": "9h"})
    assert printed(server, "schedules").splitlines()[1].endswith("2026-01-01T08:30:00.000Z success")
    assert printed(server, "schedules", "pause", "daily") == f"schedule daily to {URL} is paused\n"
    assert printed(server, "schedules").split()[-3] == "paused"
    assert "fires next at 2026-01-02T08:30:00.000Z" in printed(server, "schedules", "resume", "daily")
    assert printed(server, "schedules", "delete", "daily") == f"schedule daily to {URL} deleted\n"
    assert read(server, "schedules") == {"schedules": []}


def test_queues_show_who_waits(server: emulators.Server) -> None:
    assert printed(server, "queues") == "no queues\n"
    service(server, "POST", "queues", {"queueName": "billing", "parallelism": 2})
    service(server, "POST", "queues/billing/pause")
    ids = [service(server, "POST", f"enqueue/billing/{URL}")["messageId"] for _ in range(4)]
    assert printed(server, "queues").splitlines() == [
        "NAME     STATE   SLOTS  LAG  WAITING",
        f"billing  paused  0/2    4    4: {' '.join(each[-8:] for each in ids[:3])} ...",
    ]


def test_flow_control_keys_show_their_limits(server: emulators.Server) -> None:
    assert printed(server, "flow-control") == "no flow control keys\n"
    limits = "rate=1, period=1m, parallelism=5"
    ids = [publish(server, URL, Svc_Flow_Control_Key="k", Svc_Flow_Control_Value=limits) for _ in range(2)]
    service(server, "POST", "flowControl/k/pin?parallelism=3")
    assert printed(server, "flow-control").splitlines() == [
        "KEY  STATE  PARALLELISM  RATE        LAG  WAITING",
        f"k    runs   0/3 pinned   1/1 per 1m  1    1: {ids[1][-8:]}",
    ]


def test_a_queue_is_made_set_paused_and_resumed(server: emulators.Server) -> None:
    """D-760."""
    assert "queue billing not found" in refused(server, "queues", "pause", "billing")
    assert printed(server, "queues", "set", "billing") == "queue billing runs, 1 slot, 0 messages\n"
    paused = printed(server, "queues", "set", "billing", "--parallelism", "3", "--paused")
    assert paused == "queue billing is paused, 3 slots, 0 messages\n"
    service(server, "POST", f"enqueue/billing/{URL}")
    # What is not said stays as it is.
    still = printed(server, "queues", "set", "billing", "--parallelism", "2")
    assert still == "queue billing is paused, 2 slots, 1 message\n"
    assert printed(server, "queues", "resume", "billing").startswith("queue billing runs, 2 slots, ")
    assert len(emulators.control(server, "GET", "/deliveries")["deliveries"]) == 1
    assert read(server, "queues", "pause", "billing")["paused"] is True


def test_a_flow_control_key_is_paused_pinned_and_reset(server: emulators.Server) -> None:
    """D-760."""
    pinned = printed(server, "flow-control", "pin", "a b/c", "--rate", "1", "--period", "1d", "--parallelism", "2")
    assert pinned == "key a b/c runs, parallelism 0/2 pinned, rate 0/1 per 1d pinned, 0 messages waiting\n"
    for _ in range(2):
        publish(server, URL, Svc_Flow_Control_Key="a b/c", Svc_Flow_Control_Value="rate=9")
    assert read(server, "flow-control")["keys"][0]["rate_count"] == 1
    assert read(server, "flow-control", "reset", "a b/c")["waiting"] == 0
    assert len(emulators.control(server, "GET", "/deliveries")["deliveries"]) == 2
    assert "is paused" in printed(server, "flow-control", "pause", "a b/c")
    assert " runs, " in printed(server, "flow-control", "resume", "a b/c")
    assert "pinned" not in printed(server, "flow-control", "unpin", "a b/c")
    for action in ("resume", "unpin", "reset"):
        missed = invoke(server, "flow-control", action, "other")
        assert missed.stderr.splitlines() == [
            "svc-emulator: flow control key other not found",
            "next: svc-emulator flow-control list",
        ]
    wrong = invoke(server, "flow-control", "pin", "k")
    assert (wrong.exit_code, "expected at least one of --parallelism, --rate and --period" in wrong.stderr) == (2, True)


def test_groups_show_their_endpoints(server: emulators.Server) -> None:
    assert printed(server, "groups") == "no URL groups\n"
    service(
        server, "POST", "topics/news/endpoints", {"endpoints": [{"url": URL}, {"url": "https://b.test", "name": "b"}]}
    )
    assert printed(server, "groups").splitlines() == [
        "NAME  ENDPOINT  URL",
        f"news            {URL}",
        "      b         https://b.test",
    ]


def test_dead_letters_are_listed_retried_and_deleted(server: emulators.Server) -> None:
    assert printed(server, "dead-letters") == printed(server, "dead-letters", "list") == "no dead letters\n"
    rule(server, DOWN, respond={"status": 503}, times=3)
    ids = [publish(server, DOWN, Svc_Retries="0") for _ in range(3)]
    letters = [each["dead_letter_id"] for each in read(server, "dead-letters")["dead_letters"]][::-1]

    heading, *lines = printed(server, "dead-letters").splitlines()
    assert heading.split() == ["ID", "FAILED", "OF", "DESTINATION", "LAST"]
    assert [line.split()[0] for line in lines] == letters
    assert lines[0].endswith(f"message {ids[0][-8:]}  {DOWN}  was answered 503 by rule_1 ({DOWN})")

    made = read(server, "dead-letters", "retry", ids[0][-8:])["retried"]
    assert [each["dead_letter_id"] for each in made] == letters[:1]
    assert read(server, "show", made[0]["message_id"])["message"]["state"] == "DELIVERED"
    assert printed(server, "dead-letters", "delete", letters[1]) == "1 dead letter deleted\n"
    assert len(read(server, "dead-letters", "retry", "--all")["retried"]) == 1
    assert printed(server, "dead-letters", "retry", "--all") == "no dead letters\n"


def test_all_retries_no_letter_that_it_has_made_itself(server: emulators.Server) -> None:
    rule(server, DOWN, respond={"status": 503})
    for _ in range(2):
        publish(server, DOWN, Svc_Retries="0")
    assert len(read(server, "dead-letters", "retry", "--all")["retried"]) == 2
    assert printed(server, "dead-letters", "delete", "--all") == "2 dead letters deleted\n"


def test_nothing_is_done_if_one_of_several_is_not_found(server: emulators.Server) -> None:
    rule(server, DOWN, respond={"status": 503})
    message_id = publish(server, DOWN, Svc_Retries="0")
    assert invoke(server, "dead-letters", "delete", message_id, "zzzz").exit_code == 1
    assert len(read(server, "dead-letters")["dead_letters"]) == 1


@pytest.mark.parametrize("arguments", [(), ("abcd", "--all")])
def test_ids_or_all_are_expected(server: emulators.Server, arguments: tuple[str, ...]) -> None:
    result = invoke(server, "dead-letters", "retry", *arguments)
    assert (result.exit_code, said(result)) == (2, "svc-emulator: expected ids of dead letters, or --all\n")


# -- `destinations` against a real server ----------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "rule", "text"),
    [
        ([], {"respond": {"status": 200}}, "any method GLOB: answer 200"),
        (
            ["--status", "503", "--header", "Retry-After: 10", "--body", "busy", "--latency", "2s", "--times", "2"],
            {"respond": {"status": 503, "headers": {"Retry-After": "10"}, "body": "busy", "latency": "2s"}, "times": 2},
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
    assert read(server, "destinations") == {"destinations": []}


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
