"""Bulk operations on dead letters, page after page: the first page fixes where the last one ends (D-781)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.api.workflow.calls import FLOW, begin
from tests.harness.emulators import Answer, InProcess, in_process, with_emulator
from tests.harness.loops import on_loop

DOWN = "https://down.test"
# Calls by which each operation means messages, and by which it means runs.
RETRY, RESUME, RESTART = "POST /v2/dlq/retry", "POST /v2/workflows/dlq/resume", "POST /v2/workflows/dlq/restart"
DELETE, DELETE_RUNS = "DELETE /v2/dlq", "DELETE /v2/workflows/dlq"


async def fail(emulator: InProcess, count: int, path: str = "/a") -> None:
    """So many messages that fail at once, in one batch and one millisecond."""
    headers = {"Svc-Retries": "0"}
    items = [{"destination": f"{DOWN}{path}", "headers": headers, "body": str(number)} for number in range(count)]
    for start in range(0, count, 100):
        answer = await emulator.post("/v2/batch", {"Content-Type": "application/json"}, items[start : start + 100])
        assert answer.status == 200


async def fail_runs(emulator: InProcess, count: int) -> None:
    await emulator.rule(FLOW, respond={"status": 500})
    for number in range(count):
        await begin(emulator, f"wfr_{number:03}", **{"Svc-Retries": "0"})


async def call(emulator: InProcess, operation: str, query: str = "") -> Answer:
    method, _, path = operation.partition(" ")
    return await emulator.call(method, f"{path}{query and '?'}{query}")


async def pages(emulator: InProcess, operation: str, query: str = "", most: int = 20) -> list[Any]:
    """The loop that clients are shown: until there is no cursor."""
    answers: list[Any] = []
    cursor = ""
    while len(answers) < most:
        answer = await call(emulator, operation, f"{query}{cursor and f'&cursor={quote(cursor)}'}")
        assert answer.status in (200, 201), answer.body
        answers.append(answer.json)
        cursor = answer.json.get("cursor")
        if not cursor:
            return answers
    raise AssertionError(f"no end after {most} pages")


def handled(answers: list[Any]) -> list[int]:
    """How many entries each page handled."""
    return [
        answer["deleted"] if "deleted" in answer else len(answer.get("responses", answer.get("workflowRuns")))
        for answer in answers
    ]


async def left(emulator: InProcess, queue: str = "/v2/dlq") -> list[Any]:
    found: list[Any] = []
    cursor = ""
    while cursor is not None:
        answer = (await emulator.get(f"{queue}?{cursor and f'cursor={cursor}'}")).json
        found += answer["messages"]
        cursor = answer.get("cursor")
    return found


@pytest.mark.parametrize("order", ["earliestFirst", "latestFirst"])
@pytest.mark.parametrize("clock", ["frozen", "realtime"])
@on_loop
async def test_retrying_what_fails_again_at_once_comes_to_its_end(clock: str, order: str) -> None:
    """D-781."""
    async with in_process(clock=clock) as emulator:
        await emulator.rule(f"{DOWN}/*", respond={"status": 500})
        await fail(emulator, 120)
        await emulator.world.driver.settle()
        before = [entry["dlqId"] for entry in await left(emulator)]
        answers = await pages(emulator, RETRY, f"count=50&order={order}")
        await emulator.world.driver.settle()
        after = await left(emulator)
        assert handled(answers) == [50, 50, 20]
        # Each was published again once, and failed again.
        assert sorted(entry["body"] for entry in after) == sorted(map(str, range(120)))
        assert not {entry["dlqId"] for entry in after} & set(before)


@pytest.mark.parametrize("operation", [RESUME, RESTART])
@with_emulator()
async def test_runs_that_fail_again_at_once_come_to_their_end(emulator: InProcess, operation: str) -> None:
    """D-781."""
    await fail_runs(emulator, 7)
    assert handled(await pages(emulator, operation, "count=3")) == [3, 3, 1]
    assert len(await left(emulator, "/v2/workflows/dlq")) == 7
    # The next loop is another operation.
    assert handled(await pages(emulator, operation, "count=4")) == [4, 3]


@pytest.mark.parametrize(("operation", "make"), [(DELETE, fail), (DELETE_RUNS, fail_runs)])
@with_emulator()
async def test_a_deletion_leaves_what_came_after_its_first_page(emulator: InProcess, operation: str, make: Any) -> None:
    await emulator.rule(f"{DOWN}/*", respond={"status": 500})
    await make(emulator, 3)
    first = (await call(emulator, operation, "count=2")).json
    await make(emulator, 2)
    rest = await call(emulator, operation, f"count=2&cursor={first['cursor']}")
    assert (first["deleted"], rest.json) == (2, {"deleted": 1})
    assert len(await left(emulator, operation.partition(" ")[2])) == 2


@pytest.mark.parametrize(
    ("query", "count"),
    [("label=none", 0), ("fromDate=0&toDate=99999999999999", 5), (f"url={DOWN}/a", 5), ("responseStatus=500", 5)],
)
@with_emulator()
async def test_filters_hold_on_every_page(emulator: InProcess, query: str, count: int) -> None:
    await emulator.rule(f"{DOWN}/*", respond={"status": 500})
    await fail(emulator, 5)
    await fail(emulator, 3, "/b")
    counts = handled(await pages(emulator, RETRY, f"{query}&count=2"))
    assert sum(counts) == (8 if count and "url" not in query else count)


@with_emulator()
async def test_entries_that_are_gone_meanwhile_shorten_the_operation(emulator: InProcess) -> None:
    await emulator.rule(f"{DOWN}/*", respond={"status": 500})
    await fail(emulator, 5)
    letters = await left(emulator)
    first = (await call(emulator, RETRY, "count=2")).json
    for entry in letters[2:4]:
        assert (await emulator.delete(f"/v2/dlq/{entry['dlqId']}")).status == 200
    second = (await call(emulator, RETRY, f"count=2&cursor={first['cursor']}")).json
    assert (handled([first, second]), second["cursor"]) == ([2, 1], "")
    # A page may be repeated after a lost answer: nothing is done twice.
    again = (await call(emulator, RETRY, f"count=2&cursor={first['cursor']}")).json
    assert (handled([again]), again["cursor"]) == ([0], "")


@with_emulator()
async def test_pages_of_ids_and_other_sizes_of_pages(emulator: InProcess) -> None:
    """The size of a page is no filter, and overrides are none."""
    await emulator.rule(f"{DOWN}/*", respond={"status": 500})
    await fail(emulator, 5)
    ids = ",".join(entry["dlqId"] for entry in await left(emulator))
    first = (await call(emulator, RETRY, f"dlqIds={ids}&count=2&label=ignored")).json
    second = await emulator.post(f"/v2/dlq/retry?dlqIds={ids}&cursor={first['cursor']}", {"Svc-Delay": "1h"})
    assert handled([first, second.json]) == [2, 3]


async def _cursor_of(emulator: InProcess, operation: str, query: str) -> str:
    cursor: str = (await call(emulator, operation, query)).json["cursor"]
    return cursor


@with_emulator()
async def test_a_cursor_that_is_not_of_the_page_before_is_refused(emulator: InProcess) -> None:
    """D-781: of another filter, order, operation or listing, of another account, changed, or none at all."""
    await emulator.rule(f"{DOWN}/*", respond={"status": 500})
    await fail(emulator, 6)
    await fail_runs(emulator, 2)
    cursor = await _cursor_of(emulator, RETRY, f"count=1&url={DOWN}/a")
    at_ms, position, end, check = cursor.split("-")
    of_list = (await emulator.get("/v2/dlq?count=1")).json["cursor"]
    before = await left(emulator)
    for operation, query in (
        (RETRY, f"cursor={cursor}"),
        (RETRY, f"cursor={cursor}&url={DOWN}/b"),
        (RETRY, f"cursor={cursor}&url={DOWN}/a&order=latestFirst"),
        (DELETE, f"cursor={cursor}&url={DOWN}/a"),
        (RESUME, f"cursor={await _cursor_of(emulator, DELETE_RUNS, 'count=1')}"),
        *(
            (each, f"cursor={text}&url={DOWN}/a")
            for each in (RETRY, DELETE)
            for text in (
                of_list,
                f"{at_ms}-{position}-{int(end) + 1000}-{check}",
                f"{at_ms}-0-{end}-{check}",
                f"{cursor}-1",
                f"{at_ms}-{position}-{end}",
                f"0{cursor}",
                "9" * 17,
                "x",
                "-",
                "-1-1-1-1",
                "null",
                "%00",
                "%D9%A1-1-1-1",
            )
        ),
    ):
        answer = await call(emulator, operation, query)
        assert (answer.status, answer.json["field"]) == (400, "cursor"), (query, answer.body)
        assert answer.json["error"].startswith("cursor: expected the cursor of the page before"), answer.body
    # A listing refuses that of an operation too.
    assert (await emulator.get(f"/v2/dlq?cursor={cursor}")).json["field"] == "cursor"
    assert await left(emulator) == before
    assert len((await call(emulator, RETRY, f"cursor={cursor}&url={DOWN}/a")).json["responses"]) == 5


@pytest.mark.parametrize("query", ["cursor=1-1", "cursor="])
@pytest.mark.parametrize("path", ["/v2/messages", "/v2/workflows/runs"])
@with_emulator()
async def test_bulk_cancellations_have_no_cursor(emulator: InProcess, path: str, query: str) -> None:
    """What is cancelled makes nothing that could be cancelled: `count` again and again comes to an end."""
    answer = await emulator.delete(f"{path}?{query}")
    assert (answer.status, answer.json["field"]) == (400, "cursor")


@on_loop
async def test_a_cursor_outlives_the_server(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")
    async with in_process(db=db) as emulator:
        await emulator.rule(f"{DOWN}/*", respond={"status": 500})
        await fail(emulator, 5)
        cursor = await _cursor_of(emulator, RETRY, "count=2")
    async with in_process(db=db) as emulator:
        answers = [(await call(emulator, RETRY, f"count=2&cursor={cursor}")).json]
        answers.append((await call(emulator, RETRY, f"count=2&cursor={answers[0]['cursor']}")).json)
        assert (handled(answers), answers[1]["cursor"]) == ([2, 1], "")
        assert len(await left(emulator)) == 5


@asynccontextmanager
async def _destinations(fates: list[bool]) -> AsyncIterator[InProcess]:
    """Destinations by their number, which fail or succeed when they are called again."""
    async with in_process() as emulator:
        await emulator.rule(f"{DOWN}/*", respond={"status": 500})
        for number in range(len(fates)):
            await emulator.publish(f"{DOWN}/{number}", {"Svc-Retries": "0"})
        await emulator.control("DELETE", "/destinations")
        for number, fails in enumerate(fates):
            await emulator.rule(f"{DOWN}/{number}", respond={"status": 500 if fails else 200})
        yield emulator


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    fates=st.lists(st.booleans(), max_size=30),
    size=st.integers(1, 12),
    latest_first=st.booleans(),
    meanwhile=st.integers(0, 3),
    operation=st.sampled_from((RETRY, DELETE)),
)
@example(fates=[True] * 5, size=2, latest_first=False, meanwhile=0, operation=RETRY)
def test_every_loop_handles_each_entry_once_and_ends(
    fates: list[bool], size: int, latest_first: bool, meanwhile: int, operation: str
) -> None:
    """Whatever fails again, and whatever else fails between two pages (D-781)."""

    async def loop() -> None:
        async with _destinations(fates) as emulator:
            query = f"count={size}&order={'latestFirst' if latest_first else 'earliestFirst'}"
            before = {entry["dlqId"] for entry in await left(emulator)}
            attempts_before = len(await emulator.deliveries())
            calls, cursor, count = 0, "", 0
            while calls == 0 or cursor:
                answer = (await call(emulator, operation, f"{query}{cursor and f'&cursor={cursor}'}")).json
                calls, cursor, count = calls + 1, answer.get("cursor"), count + sum(handled([answer]))
                assert calls <= -(-len(fates) // size) + 1
                await emulator.rule(f"{DOWN}/other", respond={"status": 500})
                for _ in range(meanwhile):
                    await emulator.publish(f"{DOWN}/other", {"Svc-Retries": "0"})
            assert count == len(fates)
            after = await left(emulator)
            assert not before & {entry["dlqId"] for entry in after}
            again = [each["url"] for each in (await emulator.deliveries())[attempts_before:]]
            own = sorted(url for url in again if not url.endswith("/other"))
            assert own == (sorted(f"{DOWN}/{n}" for n in range(len(fates))) if operation == RETRY else [])
            failed = sum(fates) if operation == RETRY else 0
            assert len(after) == failed + calls * meanwhile

    asyncio.run(loop())
