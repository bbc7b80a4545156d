"""Fixtures: what a document may say, what becomes of it, and how it is told what is wrong in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from emulator import data_files, fixture_files, origins
from emulator.cli import main
from emulator.core.identifiers import world_key
from emulator.core.image import StateImage, capture
from emulator.core.model import GroupName, IndexType, Plan, QueueName, ScheduleId, TeamRole
from emulator.core.state import State
from emulator.fixture_files import FixturesError
from emulator.origins import Origin
from emulator.wire import dialect
from emulator.wire.fixture_json import Fixtures, InvalidFixtures, read_fixtures
from emulator.wire.json_fields import Json
from tests.support import EPOCH_MS, in_process, on_loop

ROOT = Path(__file__).resolve().parent.parent
SVC = dialect.load("svc")

EVERYTHING = """
accounts:
  - plan: free
    token: my-token
    budget: 25
  - customer_id: two@x.test
    plan: queue_fixed_10m
    max_queues: 3
search_indexes:
  - {name: a, type: free, region: us-central1, max_daily_queries: -1}
  - {}
vector_indexes:
  - {name: v, type: fixed, region: us-east-1, age: 2d}
team:
  - {name: Ann, email: ann@x.test, role: owner}
url_groups:
  - name: g
    endpoints:
      - {url: "https://a.test/1", name: one}
      - {url: "https://a.test/2"}
    headers: {Svc-Retries: "1", Svc-Forward-X: [a, b]}
queues:
  - {name: q, parallelism: 5, account: two@x.test, paused: true}
  - {name: r}
schedules:
  - {id: nightly, cron: "CRON_TZ=Europe/Berlin 0 3 * * *", destination: g, body: run, headers: {Svc-Retries: "2"}}
  - {id: stopped, cron: "* * * * *", destination: "https://a.test/s?x=1", paused: true, account: 2}
destinations:
  - match: {url: "https://a.test/*"}
    respond: {status: 503}
    times: 2
"""


def origin(**changes: Any) -> Origin:
    values: dict[str, Any] = {
        "world_id": "default",
        "seed": 0,
        "epoch_ms": EPOCH_MS,
        "plan": Plan.PAID,
        "secret": world_key(0, "default"),
    }
    return Origin(**{**values, **changes})


def state_of(document: Json, **changes: Any) -> State:
    return origins.first_state(origin(**changes), read_fixtures(document, SVC))


def load(tmp_path: Path, text: str, name: str = "fixtures.yaml") -> Fixtures:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return fixture_files.load(path, SVC, origin())


def problems(tmp_path: Path, text: str, name: str = "fixtures.yaml") -> list[str]:
    """Everything that is said about a file, without the file's name."""
    with pytest.raises(FixturesError) as failure:
        load(tmp_path, text, name)
    assert str(failure.value) == failure.value.problems[0]
    prefix = f"{tmp_path / name}:"
    assert all(problem.startswith(prefix) and "\n" not in problem for problem in failure.value.problems)
    return [problem.removeprefix(prefix) for problem in failure.value.problems]


# -- the built-in fixtures --------------------------------------------------------------------


def test_the_built_in_file_and_its_twin_say_the_same() -> None:
    """D-171."""
    readable = yaml.safe_load(data_files.path("fixtures", "default.yaml").read_text("utf-8"))
    assert json.loads(data_files.path("fixtures", "default.json").read_text("utf-8")) == readable


def test_the_built_in_fixtures_have_both_plans_and_regions() -> None:
    state = origins.first_state(origin(), fixture_files.built_in(SVC))
    assert [book.account.type for book in state.accounts.values()] == [Plan.PAID, Plan.FREE]
    indexes = state.search_indexes.values()
    assert {(index.type, index.region) for index in indexes} == {
        (type_, region) for type_ in (IndexType.FREE, IndexType.PAYG) for region in ("eu-west-1", "us-central1")
    }
    assert {index.type for index in state.vector_indexes.values()} == {IndexType.FREE, IndexType.PAYG}
    assert {member.role for member in state.team} >= {TeamRole.OWNER, TeamRole.DEV}
    # Clients of the service's public suites begin with an account that holds nothing.
    assert not any(book.queues or book.groups or book.schedules for book in state.accounts.values())
    assert not state.rules


def test_a_start_with_the_built_in_fixtures_imports_neither_faker_nor_a_yaml_parser() -> None:
    script = """
import asyncio, sys
from emulator import bootstrap
from emulator.settings import Settings
async def main():
    await (await bootstrap.start(Settings())).close()
asyncio.run(main())
print(sorted({"faker", "yaml"} & sys.modules.keys()))
"""
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# -- what a document becomes ------------------------------------------------------------------


def test_everything_a_document_says_is_there(tmp_path: Path) -> None:
    state = origins.first_state(origin(), load(tmp_path, EVERYTHING))
    first, second = state.accounts.values()
    assert (first.account.type, first.account.token, first.account.budget) == (Plan.FREE, "my-token", 25)
    assert first.account.max_topics == 1
    assert (second.account.customer_id, second.account.reserved_type) == ("two@x.test", "queue_fixed_10m")
    assert second.account.max_queues == 3
    one, two = state.search_indexes.values()
    assert (one.name, one.type, one.region, one.max_daily_queries) == ("a", IndexType.FREE, "us-central1", -1)
    assert (two.type, two.region) == (IndexType.PAYG, "eu-west-1")
    (vector,) = state.vector_indexes.values()
    assert (vector.name, vector.type, vector.region) == ("v", IndexType.FIXED, "us-east-1")
    assert vector.creation_time == EPOCH_MS // 1000 - 2 * 86_400
    assert [index.profile_number for index in (one, two, vector)] == [1, 2, 3]
    (member,) = state.team
    assert (member.name, member.email, member.role) == ("Ann", "ann@x.test", TeamRole.OWNER)
    group = first.groups[GroupName("g")]
    assert [(each.url, each.name) for each in group.endpoints] == [
        ("https://a.test/1", "one"),
        ("https://a.test/2", None),
    ]
    assert group.defaults.max_retries == 1
    assert group.defaults.forwarded == (("X", "a"), ("X", "b"))
    assert list(first.queues) == ["r"]
    queue = second.queues[QueueName("q")]
    assert (queue.parallelism, queue.paused) == (5, True)
    nightly = first.schedules[ScheduleId("nightly")]
    assert nightly.next_ms == EPOCH_MS + 2 * 3_600_000
    assert (nightly.schedule.body, nightly.schedule.options.max_retries) == (b"run", 2)
    assert second.schedules[ScheduleId("stopped")].paused
    (rule,) = state.rules.values()
    assert (rule.rule_id, rule.url, rule.times) == ("rule_1", "https://a.test/*", 2)


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    as_json = json.dumps(yaml.safe_load(EVERYTHING), indent="\t")
    assert load(tmp_path, as_json, "fixtures.json") == load(tmp_path, EVERYTHING)


def test_an_empty_document_is_a_world_with_its_built_in_account_alone(tmp_path: Path) -> None:
    for text in ("", "# nothing", "{}", "accounts:\nteam: []"):
        state = origins.first_state(origin(), load(tmp_path, text))
        (book,) = state.accounts.values()
        assert (book.account.type, book.account.customer_id) == (Plan.PAID, "default@emulator.example")
        assert not state.search_indexes


@pytest.mark.parametrize(
    ("document", "plan", "reserved"),
    [
        ({}, Plan.PAID, "queue_fixed_1m"),
        ({"plan": "paid"}, Plan.PAID, "queue_fixed_1m"),
        ({"type": "paid"}, Plan.PAID, "queue_fixed_1m"),
        ({"plan": "payg"}, Plan.PAID, ""),
        ({"plan": "payg", "type": "paid"}, Plan.PAID, ""),
        ({"type": "free"}, Plan.FREE, ""),
        ({"plan": "queue_fixed_100m"}, Plan.PAID, "queue_fixed_100m"),
        ({"plan": "free", "reserved_type": "enterprise:x"}, Plan.FREE, "enterprise:x"),
    ],
)
def test_a_plan_or_a_type_brings_the_limits(document: dict[str, Json], plan: Plan, reserved: str) -> None:
    account = next(iter(state_of({"accounts": [document]}).accounts.values())).account
    assert (account.type, account.reserved_type) == (plan, reserved)


def test_the_first_account_follows_the_settings_unless_the_document_says_otherwise() -> None:
    def plan_of(document: dict[str, Json]) -> Plan:
        state = state_of({"accounts": [document]}, plan=Plan.FREE)
        return next(iter(state.accounts.values())).account.type

    assert plan_of({}) is Plan.FREE
    assert plan_of({"plan": "paid"}) is Plan.PAID


def test_a_suspended_account_may_have_what_it_made_before() -> None:
    state = state_of({"accounts": [{"state": "suspended"}], "queues": [{"name": "q"}]})
    (book,) = state.accounts.values()
    assert book.account.state == "suspended"
    assert list(book.queues) == ["q"]


# -- what is invented -------------------------------------------------------------------------

UNSAID: dict[str, Json] = {
    "accounts": [{}, {}, {}],
    "search_indexes": [{}, {}],
    "vector_indexes": [{}],
    "team": [{}, {}],
}


def image(**changes: Any) -> StateImage:
    return capture(state_of(UNSAID, **changes))


def test_what_nobody_said_is_invented_from_the_seed() -> None:
    assert image() == image()
    other = image(seed=1, secret=world_key(1, "default"))
    for mine, others in zip(image().search_indexes, other.search_indexes, strict=True):
        assert mine.name != others.name
        assert mine.id != others.id
    names = [
        *(each.account.customer_id for each in image().accounts),
        *(index.name for index in image().search_indexes),
        *(index.name for index in image().vector_indexes),
        *(text for member in image().team for text in (member.name, member.email)),
    ]
    assert len(set(names)) == len(names)
    assert all(name and name.isprintable() for name in names)
    assert all(member.email.split("@")[1] in ("example.com", "example.org", "example.net") for member in image().team)


def test_what_is_invented_depends_on_its_own_place_only() -> None:
    alone = state_of({"search_indexes": [{}]})
    with_others = state_of({**UNSAID, "accounts": [{}, {"customer_id": "x"}], "search_indexes": [{}, {"name": "n"}]})
    assert next(iter(alone.search_indexes.values())) == next(iter(with_others.search_indexes.values()))


def test_everything_is_older_than_the_world() -> None:
    state = state_of(UNSAID)
    ages = [
        EPOCH_MS // 1000 - created
        for created in (
            *(book.account.creation_time for book in state.accounts.values()),
            *(index.creation_time for index in state.search_indexes.values()),
            *(index.creation_time for index in state.vector_indexes.values()),
        )
    ]
    assert all(30 * 86_400 <= age <= 400 * 86_400 for age in ages)
    assert len(set(ages)) == len(ages)


# -- what is wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "body"),
        ("text", "body"),
        ({"queue": []}, "queue"),
        ({"queues": {}}, "queues"),
        ({"queues": "q"}, "queues"),
        ({"queues": [1]}, "queues[0]"),
        ({"accounts": [{"plan": "gold"}]}, "accounts[0].plan"),
        ({"accounts": [{"type": "gold"}]}, "accounts[0].type"),
        ({"accounts": [{"plan": "free", "type": "paid"}]}, "accounts[0].type"),
        ({"accounts": [{"budgett": 1}]}, "accounts[0].budgett"),
        ({"accounts": [{"budget": 19}]}, "accounts[0].budget"),
        ({"accounts": [{"max_parallelism": 0}]}, "accounts[0].max_parallelism"),
        ({"accounts": [{"max_topics": "x"}]}, "accounts[0].max_topics"),
        ({"accounts": [{"id": "a/b"}]}, "accounts[0].id"),
        ({"accounts": [{"age": "1x"}]}, "accounts[0].age"),
        ({"accounts": [{"age": "1d", "creation_time": 1}]}, "accounts[0].age"),
        ({"accounts": [{"token": "t"}, {"token": "t"}]}, "accounts[1].token"),
        ({"accounts": [{"token": "t"}, {"read_only_token": "t"}]}, "accounts[1].read_only_token"),
        ({"accounts": [{"token": "t", "read_only_token": "t"}]}, "accounts[0].read_only_token"),
        ({"accounts": [{"customer_id": "c"}, {"customer_id": "c"}]}, "accounts[1].customer_id"),
        ({"accounts": [{"id": "c"}, {"id": "c"}]}, "accounts[1].id"),
        ({"accounts": [{"current_signing_key": ""}]}, "accounts[0].current_signing_key"),
        ({"search_indexes": [{"type": "paid"}]}, "search_indexes[0].type"),
        ({"search_indexes": [{"region": "us-east-1"}]}, "search_indexes[0].region"),
        ({"search_indexes": [{"name": ""}]}, "search_indexes[0].name"),
        ({"search_indexes": [{"name": "x" * 257}]}, "search_indexes[0].name"),
        ({"search_indexes": [{"max_vector_count": -1}]}, "search_indexes[0].max_vector_count"),
        ({"search_indexes": [{"throughput_vector": []}]}, "search_indexes[0].throughput_vector"),
        ({"search_indexes": [{"input_enrichment_enabled": "yes"}]}, "search_indexes[0].input_enrichment_enabled"),
        ({"search_indexes": [{"id": "i"}], "vector_indexes": [{"id": "i"}]}, "vector_indexes[0].id"),
        ({"vector_indexes": [{"token": "t"}]}, "vector_indexes[0].token"),
        ({"team": [{"role": "king"}]}, "team[0].role"),
        ({"team": [{"email": "nobody"}]}, "team[0].email"),
        ({"team": [{"email": "a@b"}, {"email": "a@b"}]}, "team[1].email"),
        ({"url_groups": [{"endpoints": [{"url": "https://a.test"}]}]}, "url_groups[0].name"),
        ({"url_groups": [{"name": "g"}]}, "url_groups[0].endpoints"),
        ({"url_groups": [{"name": "g", "endpoints": []}]}, "url_groups[0].endpoints"),
        ({"url_groups": [{"name": "g", "endpoints": [{"name": "n"}]}]}, "url_groups[0].endpoints[0].url"),
        ({"url_groups": [{"name": "g", "endpoints": [{"url": "a.test"}]}]}, "url_groups[0].endpoints[0].url"),
        (
            {"url_groups": [{"name": "g", "endpoints": [{"url": "https://a.test"}], "headers": []}]},
            "url_groups[0].headers",
        ),
        (
            {"url_groups": [{"name": "g", "endpoints": [{"url": "https://a.test"}], "headers": {"svc-delay": "x"}}]},
            "url_groups[0].headers.svc-delay",
        ),
        ({"queues": [{"name": "a b"}]}, "queues[0].name"),
        ({"queues": [{"name": "q"}, {"name": "q"}]}, "queues[1].name"),
        ({"queues": [{"name": "q", "parallelism": 0}]}, "queues[0].parallelism"),
        ({"queues": [{"name": "q", "paused": "no"}]}, "queues[0].paused"),
        ({"queues": [{"name": "q", "account": 2}]}, "queues[0].account"),
        ({"queues": [{"name": "q", "account": "who"}]}, "queues[0].account"),
        ({"schedules": [{"destination": "g"}]}, "schedules[0].cron"),
        ({"schedules": [{"cron": "* * * * *"}]}, "schedules[0].destination"),
        ({"schedules": [{"cron": "* * * *", "destination": "g"}]}, "schedules[0].cron"),
        ({"schedules": [{"cron": "* * * * *", "destination": "ftp://x"}]}, "schedules[0].destination"),
        ({"schedules": [{"cron": "* * * * *", "destination": "api/llm"}]}, "schedules[0].destination"),
        ({"schedules": [{"cron": "* * * * *", "destination": "g", "body": 1}]}, "schedules[0].body"),
        (
            {"schedules": [{"cron": "* * * * *", "destination": "g", "headers": {"Svc-Cron": "x"}}]},
            "schedules[0].headers.Svc-Cron",
        ),
        (
            {"schedules": [{"cron": "* * * * *", "destination": "g", "headers": {"Svc-Retries": "x"}}]},
            "schedules[0].headers.Svc-Retries",
        ),
        (
            {"schedules": [{"cron": "* * * * *", "destination": "g", "headers": {"Svc-Retries": 1}}]},
            "schedules[0].headers.Svc-Retries",
        ),
        ({"destinations": [7]}, "destinations[0]"),
        ({"destinations": [{"respond": {}}]}, "destinations[0].match"),
        ({"destinations": [{"match": {"url": "x"}, "respond": {"status": 1}}]}, "destinations[0].respond.status"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_named_by_its_path(document: Json, field: str) -> None:
    """D-170."""
    with pytest.raises(InvalidFixtures) as invalid:
        read_fixtures(document, SVC)
    assert [problem.field for problem in invalid.value.problems] == [field]


@pytest.mark.parametrize(
    ("document", "field", "text"),
    [
        ({"queues": [{"name": "q", "parallelism": 11}]}, "queues[0]", "maxParallelism"),
        ({"accounts": [{"max_queues": 1}], "queues": [{"name": "a"}, {"name": "b"}]}, "queues[1]", "maxQueues"),
        (
            {
                "accounts": [{"plan": "free"}],
                "url_groups": [{"name": name, "endpoints": [{"url": "https://a.test"}]} for name in ("a", "b")],
            },
            "url_groups[1]",
            "maxTopics",
        ),
        (
            {"schedules": [{"cron": "* * * * *", "destination": "g", "headers": {"Svc-Retries": "21"}}]},
            "schedules[0]",
            "maxRetries",
        ),
    ],
)
def test_the_limits_of_the_account_hold_for_fixtures_too(document: Json, field: str, text: str) -> None:
    with pytest.raises(InvalidFixtures) as invalid:
        state_of(document)
    (problem,) = invalid.value.problems
    assert problem.field == field
    assert text in problem.reason


# -- files ------------------------------------------------------------------------------------


def test_every_problem_of_a_file_has_its_line(tmp_path: Path) -> None:
    text = """\
accounts:
  - plan: free
    customer_id: one
  - budgett: 3
    plan: free

queues:
  - name: q
    account: two
  - {name: r, parallelism: 5,
     paused: maybe}
schedules:
  - id: x
    destination: https://a.test
    headers:
      Svc-Retries: "1"
      svc-retries: "2"
"""
    assert [problem.partition(": ")[0] + problem.partition(": ")[2][:30] for problem in problems(tmp_path, text)] == [
        "4accounts[1].budgett: unknown, ",
        "9queues[0].account: expected th",
        "11queues[1].paused: expected tru",
        "13schedules[0].cron: is missing",
    ]


def test_what_a_command_refuses_has_the_line_of_its_entry(tmp_path: Path) -> None:
    text = "accounts:\n  - plan: free\nqueues:\n  - name: a\n  - name: b\n    parallelism: 3\n"
    assert problems(tmp_path, text) == ["5: queues[1]: quota maxParallelism exceeded, current limit: 2"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("queues: [1", "1: is not YAML: "),
        ("queues:\n  - name: a\n - b", "3: is not YAML: "),
        ("queues: []\n---\nqueues: []", "2: is not YAML: "),
        ("queues: []\nqueues: []", "2: queues: is given twice"),
        ("queues:\n  - name: a\n    name: b", "3: queues[0].name: is given twice"),
        ("queues: &a\n  - *a", "1: queues[0]: contains itself"),
        ("queues: !!python/name:os.system", "1: queues: has the tag"),
        ("queues: !own [1]", "1: queues: has the tag"),
        ("team: !own {a: 1}", "1: team: has the tag"),
        ("queues:\n  - name: !!int x", "2: queues[0].name: expected a value of the kind int"),
        ("? [a]\n: 1", "1: document: expected a text as a key"),
        ("<<: 1", "1: document: "),
        ("just a text", "1: body: expected an object"),
        ("\x00", " is not YAML: "),
        ("queues:\n  " + "[" * 100_000, "2: document: too many nested values"),
    ],
)
def test_what_is_no_usable_yaml_is_told_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = problems(tmp_path, text)
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"queues": [}', "1: is not JSON: "),
        ('{"queues": [],\n "queues": []}', "2: queues: is given twice"),
        ('{\n\t"queues": [\n\t\t{"name": "a b"}\n\t]\n}', "3: queues[0].name: expected"),
        ("", "1: is not JSON: "),
        ("[" * 100_000, " is not JSON: too many nested values"),
        ("[" * 200 + "]" * 200, "1: document: too many nested values"),
        ('{"queues": ' + "9" * 5_000 + "}", " is not JSON: a number has too many digits"),
    ],
)
def test_what_is_no_usable_json_is_told_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = problems(tmp_path, text, "fixtures.json")
    assert found.startswith(problem)


def test_aliases_cannot_fill_the_memory(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (found,) = problems(tmp_path, "\n".join(lines))
    assert "is too large" in found


def test_anchors_and_merge_keys_are_understood(tmp_path: Path) -> None:
    text = "queues:\n  - &q {name: a, parallelism: 3}\n  - {<<: *q, name: b}\n"
    queues = load(tmp_path, text).queues
    assert [(queue.name, queue.parallelism) for queue in queues] == [("a", 3), ("b", 3)]


def test_a_date_is_the_text_it_was_written_as(tmp_path: Path) -> None:
    assert load(tmp_path, "search_indexes:\n  - name: 2026-01-01\n").search_indexes[0].name == "2026-01-01"


def test_a_file_that_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    for content in (None, b"\xff\xfe\x00"):
        path = tmp_path / "x.yaml"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(FixturesError, match=r"x\.yaml: (cannot be read|is not a UTF-8 text file)"):
            fixture_files.load(path, SVC, origin())


# -- the command ------------------------------------------------------------------------------


def test_check_says_what_a_good_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(EVERYTHING, "utf-8")
    result = CliRunner().invoke(main, ["fixtures", "check", str(path)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"{path}: good: accounts 2, search indexes 2, vector indexes 1, team members 1, URL groups 1, queues 2, "
        "schedules 2, destination rules 1\n"
    )


def test_check_says_everything_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("team:\n  - role: king\nqueues:\n  - {}\n", "utf-8")
    result = CliRunner().invoke(main, ["fixtures", "check", str(path)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        f"{path}:2: team[0].role: expected one of owner, admin, dev, finance",
        f"{path}:4: queues[0].name: is missing",
    ]


def test_check_counts_the_limits_of_the_plan_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("queues:\n  - {name: q, parallelism: 3}\n", "utf-8")
    assert CliRunner().invoke(main, ["fixtures", "check", str(path)]).exit_code == 0
    result = CliRunner().invoke(main, ["fixtures", "check", str(path), "--plan", "free"])
    assert (result.exit_code, result.stderr) == (
        1,
        f"{path}:2: queues[0]: quota maxParallelism exceeded, current limit: 2\n",
    )


def test_a_server_with_wrong_fixtures_does_not_start(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("team:\n  - role: king\nqueues:\n  - {}\n", "utf-8")
    result = CliRunner().invoke(main, ["serve", "--port", "0", "--fixtures", str(path)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"svc-emulator: {path}:2: team[0].role: expected one of owner, admin, dev, finance\n"


# -- worlds -----------------------------------------------------------------------------------


@on_loop
async def test_a_world_begins_with_its_fixtures_and_a_reset_brings_them_back() -> None:
    async with in_process() as emulator:
        fixtures = yaml.safe_load(EVERYTHING)
        answer = await emulator.control("POST", "/worlds", {"id": "w", "epoch": EPOCH_MS, "fixtures": fixtures})
        assert answer.status == 201
        queue = answer.json["credentials"]["queue"]
        assert queue["token"] == "my-token"
        assert len(answer.json["credentials"]["search_index_ids"]) == 2
        before = capture(emulator.emulation.worlds.get("w").state)  # type: ignore[arg-type]  # it is the State itself
        schedules = (await emulator.get("/v2/schedules", token="my-token")).json
        assert [schedule["scheduleId"] for schedule in schedules] == ["nightly"]
        await emulator.delete("/v2/schedules/nightly", token="my-token")
        await emulator.control("DELETE", "/destinations?world=w")
        reset = await emulator.control("POST", "/reset?world=w")
        assert reset.json["credentials"] == answer.json["credentials"]
        assert capture(emulator.emulation.worlds.get("w").state) == before  # type: ignore[arg-type]  # see above


@on_loop
async def test_the_schedules_and_rules_of_fixtures_work() -> None:
    async with in_process() as emulator:
        fixtures = {
            "schedules": [{"cron": "0 * * * *", "destination": "https://a.test/x", "headers": {"Svc-Retries": "0"}}],
            "destinations": [{"match": {"url": "https://a.test/*"}, "respond": {"status": 418}}],
        }
        assert (await emulator.control("POST", "/reset", {"fixtures": fixtures})).status == 200
        report = await emulator.advance("2h")
        assert (report["schedules_fired"], report["failed"]) == (2, 2)
        assert [each["response"]["status"] for each in await emulator.deliveries()] == [418, 418]


@on_loop
async def test_fixtures_of_a_reset_become_the_world_s() -> None:
    """D-173."""
    async with in_process() as emulator:
        credentials = emulator.world.credentials()
        answer = await emulator.control("POST", "/reset", {"fixtures": {"queues": [{"name": "q"}]}})
        queue = answer.json["credentials"]["queue"]
        assert (queue["token"], queue["account_id"]) == (credentials.token, credentials.account_id)
        assert answer.json["credentials"]["search_index_ids"] == []
        for _ in range(2):
            assert [queue["name"] for queue in (await emulator.get("/v2/queues")).json] == ["q"]
            await emulator.delete("/v2/queues/q")
            assert (await emulator.control("POST", "/reset")).status == 200


@pytest.mark.parametrize(("method", "target"), [("POST", "/worlds"), ("POST", "/reset")])
@on_loop
async def test_wrong_fixtures_are_400_with_their_path_and_change_nothing(method: str, target: str) -> None:
    async with in_process() as emulator:
        await emulator.publish("https://x.test")
        before = emulator.image()
        for fixtures, field in (
            ({"queues": [{"nam": "q"}]}, "fixtures.queues[0].nam"),
            ({"queues": [{"name": "q", "parallelism": 99}]}, "fixtures.queues[0]"),
            ([], "fixtures"),
        ):
            answer = await emulator.control(method, target, {"fixtures": fixtures})
            assert (answer.status, answer.json["field"]) == (400, field)
        assert emulator.image() == before
        assert len((await emulator.control("GET", "/worlds")).json["worlds"]) == 1


@on_loop
async def test_no_two_worlds_have_one_token_or_id() -> None:
    """D-172."""
    async with in_process() as emulator:
        for fixtures in (
            {"accounts": [{"token": "same"}]},
            {"accounts": [{"id": "same"}]},
            {"search_indexes": [{"id": "same"}]},
            {"vector_indexes": [{"id": "same"}]},
        ):
            assert (await emulator.control("POST", "/worlds", {"id": "one", "fixtures": fixtures})).status == 201
            for target in ("/worlds", "/reset"):
                answer = await emulator.control("POST", target, {"fixtures": fixtures})
                assert (answer.status, answer.json.keys()) == (409, {"error"})
                assert "same belongs to the world one" in answer.json["error"]
            assert (await emulator.control("POST", "/reset?world=one", {"fixtures": fixtures})).status == 200
            assert (await emulator.control("DELETE", "/worlds/one")).status == 204


@on_loop
async def test_further_worlds_take_the_server_s_file_but_not_its_ids_and_tokens(tmp_path: Path) -> None:
    """D-172."""
    path = tmp_path / "fixtures.yaml"
    path.write_text(
        """
accounts:
  - {id: mine, token: my-token, read_only_token: my-other, current_signing_key: sig_1, budget: 30}
search_indexes:
  - {id: my-index, name: named}
queues:
  - {name: q}
""",
        "utf-8",
    )
    async with in_process(fixtures=str(path)) as emulator:
        credentials = emulator.world.credentials()
        assert (credentials.account_id, credentials.token, credentials.read_only_token) == (
            "mine",
            "my-token",
            "my-other",
        )
        assert credentials.search_index_ids == ("my-index",)
        other = (await emulator.control("POST", "/worlds", {"id": "other"})).json["credentials"]
        assert other["queue"]["current_signing_key"] == credentials.current_signing_key == "sig_1"
        assert {"mine", "my-token", "my-other", "my-index"}.isdisjoint(
            (*other["queue"].values(), *other["search_index_ids"])
        )
        world = emulator.emulation.worlds.get("other")
        assert world.account().budget == 30
        assert [index.name for index in world.state.search_indexes.values()] == ["named"]
        queues = (await emulator.get("/v2/queues", token=other["queue"]["token"])).json
        assert [queue["name"] for queue in queues] == ["q"]


@on_loop
async def test_a_database_keeps_its_world_whatever_the_fixtures_say_later(tmp_path: Path) -> None:
    path = tmp_path / "fixtures.yaml"
    path.write_text("queues:\n  - name: q\n", "utf-8")
    settings: dict[str, Any] = {"db": str(tmp_path / "state.db"), "fixtures": str(path)}
    async with in_process(**settings) as emulator:
        await emulator.delete("/v2/queues/q")
        indexes = emulator.world.credentials().search_index_ids
    path.write_text("queues:\n  - name: r\nsearch_indexes:\n  - {}\n", "utf-8")
    async with in_process(**settings) as emulator:
        assert (await emulator.get("/v2/queues")).json == []
        assert emulator.world.credentials().search_index_ids == indexes
        fixtures = {"queues": [{"name": "s"}]}
        await emulator.control("POST", "/reset", {"fixtures": fixtures})
    async with in_process(**settings) as emulator:
        assert [queue["name"] for queue in (await emulator.get("/v2/queues")).json] == ["s"]


@on_loop
async def test_the_team_shows_in_the_control_api() -> None:
    """D-168."""
    async with in_process() as emulator:
        assert (await emulator.control("GET", "/team")).json["team"][0] == {
            "name": "Ada Example",
            "email": "ada@emulator.example",
            "role": "owner",
        }
