"""Every operation with its success and each of its failures: what the application answers is in the contracts.

Each scenario calls the application through `Checked`, which holds every response against the
contracts. A last test holds the other way round: whatever a contract promises, some scenario met.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.contracts.conformance import NotInContract, check_response, contract
from tests.contracts.documents import Operation, all_operations, operations
from tests.contracts.missing import without_contracts
from tests.support import Answer, Headers, InProcess, asgi_call, in_process

URL = "https://api.test/hook"
DOWN = "https://down.test/hook"
UUID = "99a4c327-31f0-490f-a594-043ade84085a"
TOO_LARGE = str(100 * 1024 * 1024 + 1)

Met = set[tuple[str, int]]


class Checked:
    """An emulator whose responses are checked; `met` collects which operations answered with which status."""

    def __init__(self, emulator: InProcess) -> None:
        self.emulator = emulator
        self.met: Met = set()

    async def call(
        self, method: str, target: str, headers: Headers = (), body: object = b"", *, token: str | None = ""
    ) -> Answer:
        """A call of the messaging API, or with `token` None of any."""
        answer = await self.emulator.call(method, target, headers, body, token=token)
        self.met.add((check_response(method, target, answer.status, answer.headers, answer.body), answer.status))
        return answer

    async def manage(
        self, method: str, target: str, body: object = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """A call of the management API with the world's own credentials."""
        username, password = self.emulator.world.login
        encoded = base64.b64encode(f"{username}:{password}".encode()).decode()
        return await self.call(
            method, target, {"Authorization": f"Basic {encoded}", **(headers or {})}, body, token=None
        )

    async def control(self, method: str, target: str, body: object = b"", headers: Headers = ()) -> Answer:
        return await self.call(method, f"/_emulator{target}", headers, body, token=None)

    async def of(self, operation: Operation, headers: dict[str, str] | None = None, query: str = "") -> Answer:
        """A call of an operation with good credentials, with the contract's own examples as parameters."""
        target = operation.path
        for parameter in operation.parameters:
            if parameter["in"] == "path":
                examples = parameter.get("examples", {})
                example = parameter["example"] if "example" in parameter else next(iter(examples.values()))["value"]
                target = target.replace(f"{{{parameter['name']}}}", str(example))
        call = {"messaging": self.call, "management": self._managed, "control": self._freely}[operation.api]
        return await call(operation.method, target + query, headers or {})

    async def _managed(self, method: str, target: str, headers: dict[str, str]) -> Answer:
        return await self.manage(method, target, b"", headers)

    async def _freely(self, method: str, target: str, headers: dict[str, str]) -> Answer:
        return await self.call(method, target, headers, token=None)


@asynccontextmanager
async def checked(met: Met, **settings: Any) -> AsyncIterator[Checked]:
    async with in_process(**settings) as emulator:
        found = Checked(emulator)
        yield found
        met |= found.met


def documented(status: int, api: str = "") -> list[Operation]:
    """The operations that can answer so, of one API or of all."""
    of_api = operations(api) if api else all_operations()
    return [operation for operation in of_api if str(status) in operation.responses]


# -- messaging: successes ---------------------------------------------------------------------


async def messages(met: Met) -> None:
    async with checked(met) as emulator:
        everything = {
            "Content-Type": "application/json",
            "Svc-Method": "PUT",
            "Svc-Timeout": "30s",
            "Svc-Retries": "2",
            "Svc-Retry-Delay": "1000 * pow(2, retried)",
            "Svc-Delay": "1h",
            "Svc-Forward-Authorization": "Bearer x",
            "Svc-Callback": "https://cb.test/ok",
            "Svc-Callback-Forward-K": "v",
            "Svc-Failure-Callback": "https://cb.test/no",
            "Svc-Failure-Callback-Forward-K": "v",
            "Svc-Redact-Fields": "body,header[Authorization]",
            "Svc-Label": "billing,eu",
            "Svc-Flow-Control-Key": "user-1",
            "Svc-Flow-Control-Value": "parallelism=2, rate=3, period=1m",
        }
        delayed = (await emulator.call("POST", f"/v2/publish/{URL}?a=b", everything, {"order": 1})).json["messageId"]
        record = (await emulator.call("GET", f"/v2/messages/{delayed}")).json
        assert record.keys() >= {"callbackHeader", "failureCallbackHeader", "labels", "period", "rate", "parallelism"}
        assert record["body"].startswith("REDACTED:")
        binary = (await emulator.call("POST", f"/v2/publish/{URL}", {"Svc-Delay": "1h"}, b"\xff\x00")).json["messageId"]
        assert "bodyBase64" in (await emulator.call("GET", f"/v2/messages/{binary}/")).json
        queued = (await emulator.call("POST", f"/v2/enqueue/q/{URL}", (), b"x")).json["messageId"]
        assert (await emulator.call("GET", f"/v2/messages/{queued}")).json["queueName"] == "q"
        await emulator.call("DELETE", f"/v2/messages/{delayed}")
        await emulator.call("DELETE", f"/v2/messages?messageIds={binary}")
        await emulator.call("DELETE", "/v2/messages", (), {"label": ["billing"], "count": 1})
        await emulator.call("DELETE", "/v2/messages", (), b"null")
        twice = {"Svc-Deduplication-Id": "order-1"}
        for path in (f"/v2/publish/{URL}", f"/v2/enqueue/q/{URL}"):
            await emulator.call("POST", path, twice)
            assert (await emulator.call("POST", path, twice)).status == 202
        batch = [{"destination": URL}, {"destination": "nobody"}, {"destination": URL, "headers": {"Svc-Retries": "x"}}]
        answers = (await emulator.call("POST", "/v2/batch", (), batch)).json
        assert [sorted(answer) for answer in answers] == [["messageId"], ["error"], ["error", "field"]]


async def groups(met: Met) -> None:
    async with checked(met) as emulator:
        endpoints = {"endpoints": [{"url": "https://a.test", "name": "a b"}, {"url": "https://b.test"}]}
        await emulator.call("POST", "/v2/topics/g/endpoints", (), endpoints)
        await emulator.call("GET", "/v2/topics/g")
        headers = {"headers": {"Svc-Retries": "1", "Svc-Forward-K": ["v", "w"]}}
        assert "headers" in (await emulator.call("PATCH", "/v2/topics/g", (), headers)).json
        assert len((await emulator.call("GET", "/v2/topics/")).json) == 1
        published = (await emulator.call("POST", "/v2/publish/g", {"Svc-Content-Based-Deduplication": "True"})).json
        assert [item["url"] for item in published] == ["https://a.test", "https://b.test"]
        again = await emulator.call("POST", "/v2/publish/g", {"Svc-Content-Based-Deduplication": "True"})
        assert again.status == 202
        await emulator.call("POST", "/v2/enqueue/q/g")
        await emulator.call("POST", "/v2/batch", (), [{"destination": "g", "body": None, "queue": None}])
        await emulator.call("GET", f"/v2/messages/{published[0]['messageId']}")
        await emulator.call("DELETE", "/v2/topics/g/endpoints", (), {"endpoints": [{"name": "a b"}]})
        await emulator.call("DELETE", "/v2/topics/g")


async def schedules(met: Met) -> None:
    async with checked(met) as emulator:
        headers = {
            "Svc-Cron": "CRON_TZ=Europe/Berlin 0 9 * * MON-FRI",
            "Svc-Schedule-Id": "nightly",
            "Svc-Delay": "10s",
            "Svc-Timeout": "1m",
            "Svc-Queue-Name": "q",
            "Svc-Label": "a",
            "Svc-Callback": "https://cb.test/ok",
        }
        await emulator.call("POST", f"/v2/schedules/{URL}", headers, b"report")
        made = (await emulator.call("POST", "/v2/schedules/nobody", {"Svc-Cron": "* * * * *"})).json["scheduleId"]
        await emulator.call("POST", f"/v2/schedules/{URL}", {"Svc-Cron": "*/5 * * * *", "Svc-Forward-A": "b"}, b"\xff")
        await emulator.control("POST", "/clock/advance", {"by": "10m"})
        await emulator.call("POST", f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Delay": "1h"})
        await emulator.control("POST", "/clock/advance", {"by": "1m"})
        records = (await emulator.call("GET", "/v2/schedules")).json
        assert any("lastScheduleStates" in record for record in records)
        assert "error" in (await emulator.call("GET", f"/v2/schedules/{made}")).json
        for method in ("POST", "PATCH"):
            await emulator.call(method, "/v2/schedules/nightly/pause")
            assert (await emulator.call("GET", "/v2/Schedules/nightly")).json["isPaused"] is True
            await emulator.call(method, "/v2/schedules/nightly/resume")
        await emulator.call("DELETE", "/v2/schedules/nightly")


async def queues(met: Met) -> None:
    async with checked(met) as emulator:
        await emulator.call("POST", "/v2/queues", (), {"queueName": "q", "parallelism": 2, "paused": True})
        await emulator.call("POST", f"/v2/enqueue/q/{URL}")
        assert (await emulator.call("GET", "/v2/queues/q")).json["lag"] == 1
        await emulator.call("GET", "/v2/queues")
        await emulator.call("POST", "/v2/queues/q/resume")
        await emulator.call("POST", "/v2/queues/q/pause")
        await emulator.call("DELETE", "/v2/queues/q")


async def flow_control(met: Met) -> None:
    async with checked(met) as emulator:
        flow = {"Svc-Flow-Control-Key": "user/1", "Svc-Flow-Control-Value": "parallelism=1, rate=1, period=1d"}
        await emulator.control("POST", "/destinations", {"match": {"url": URL}, "respond": {"latency": "1h"}})
        for _ in range(2):
            await emulator.call("POST", f"/v2/publish/{URL}", flow)
        for key in ("user%2F1", "user/1"):
            assert (await emulator.call("GET", f"/v2/flowControl/{key}")).json["waitListSize"] == 1
        assert (await emulator.call("GET", "/v2/globalParallelism")).json["parallelismCount"] == 1
        await emulator.call("GET", "/v2/flowControl?search=user")
        for action in ("pause", "pin?rate=5&period=1h", "unpin?rate=true", "reset", "resetRate", "resume"):
            assert (await emulator.call("POST", f"/v2/flowControl/user%2F1/{action}")).status == 200
        await emulator.call("POST", "/v2/flowControl/%C3%A9/pin?parallelism=3")
        assert len((await emulator.call("GET", "/v2/FlowControl")).json) == 2


async def history(met: Met) -> None:
    async with checked(met) as emulator:
        await emulator.control(
            "POST", "/destinations", {"match": {"url": DOWN}, "respond": {"status": 502, "body": "oh"}}
        )
        await emulator.control("POST", "/destinations", {"match": {"url": f"{DOWN}/2"}, "fault": "refused"})
        rule = {
            "match": {"url": f"{DOWN}/3"},
            "respond": {"status": 500, "body_base64": "/wA=", "headers": {"A": ["b", "c"]}},
        }
        await emulator.control("POST", "/destinations", rule)
        failing = {
            "Svc-Retries": "0",
            "Svc-Label": "a",
            "Content-Type": "text/plain",
            "Svc-Callback": "https://cb.test",
        }
        for destination in (DOWN, f"{DOWN}/2", f"{DOWN}/3"):
            await emulator.call("POST", f"/v2/publish/{destination}", failing, b"body")
        await emulator.call("POST", f"/v2/publish/{DOWN}", {"Svc-Retries": "1", "Svc-Retry-Delay": "1000"})
        await emulator.control("POST", "/clock/drain")
        await emulator.call("POST", f"/v2/publish/{URL}", {"Svc-Delay": "1h"})
        await emulator.call("DELETE", "/v2/messages")
        events = (await emulator.call("GET", "/v2/events")).json["events"]
        assert {event["state"] for event in events} == {
            "CREATED", "ACTIVE", "RETRY", "ERROR", "DELIVERED", "FAILED", "CANCEL_REQUESTED", "CANCELED",
        }  # fmt: skip
        assert "cursor" in (await emulator.call("GET", "/v2/logs?count=2&order=earliestFirst")).json
        first = (await emulator.call("GET", "/v2/dlq?count=1")).json
        await emulator.call("GET", f"/v2/dlq?cursor={first['cursor']}&order=earliestFirst")
        dead = [entry["dlqId"] for entry in (await emulator.call("GET", "/v2/dlq")).json["messages"]]
        for dead_letter in dead:
            await emulator.call("GET", f"/v2/dlq/{dead_letter}")
        await emulator.call("POST", f"/v2/dlq/retry/{dead[0]}", {"Svc-Delay": "1h"})
        await emulator.call("POST", "/v2/dlq/retry?count=1", {"Svc-Delay": "1h", "Svc-Label": "again"})
        await emulator.call("DELETE", f"/v2/dlq/{dead[2]}")
        await emulator.call("DELETE", "/v2/dlq", (), {"dlqIds": dead[:3]})
        await emulator.call("DELETE", "/v2/dlq?count=100")


async def signing_keys(met: Met) -> None:
    async with checked(met) as emulator:
        before = (await emulator.call("GET", "/v2/keys")).json
        after = (await emulator.call("POST", "/v2/keys/rotate")).json
        assert after["current"] == before["next"]
        await emulator.call("POST", "/v2/rotate")


# -- messaging: failures ----------------------------------------------------------------------


async def bad_messaging_input(met: Met) -> None:
    async with checked(met) as emulator:
        for method, target, headers, body in (
            ("POST", "/v2/publish/example.com/x", {}, b""),
            ("POST", "/v2/publish/https%3A%2F%2Fx.test", {}, b""),
            ("POST", f"/v2/publish/{URL}?svc-delay=5x", {}, b""),
            ("POST", f"/v2/publish/{URL}", {"Svc-Cron": "* * * * *"}, b""),
            ("POST", f"/v2/publish/{URL}", {"Svc-Callback": URL, "Svc-Callback-Delay": "1s"}, b""),
            ("POST", f"/v2/enqueue/a%20b/{URL}", {}, b""),
            ("POST", f"/v2/schedules/{URL}", {}, b""),
            ("POST", f"/v2/schedules/{URL}", {"Svc-Cron": "* * *"}, b""),
            ("POST", "/v2/batch", {}, b"{}"),
            ("POST", "/v2/batch", {}, b"\xff"),
            ("POST", "/v2/queues", {}, {"queueName": "a b"}),
            ("POST", "/v2/topics/g/endpoints", {}, {"endpoints": []}),
            ("PATCH", "/v2/topics/g", {}, {"headers": {"Svc-Delay": "soon"}}),
            ("DELETE", "/v2/messages?label", {}, b""),
            ("DELETE", "/v2/messages?labels=x", {}, b""),
            ("GET", "/v2/events?state=DONE", {}, b""),
            ("GET", "/v2/dlq?cursor=x", {}, b""),
            ("DELETE", "/v2/dlq", {}, {"ids": []}),
            ("POST", "/v2/flowControl/k/pin", {}, b""),
        ):
            answer = await emulator.call(method, target, headers, body)
            assert (answer.status, "field" in answer.json) == (400, True), (target, answer.body)


async def unknown_things(met: Met) -> None:
    async with checked(met) as emulator:
        for operation in documented(404):
            assert operation.api != "control" or operation.parameters, operation.id
            if operation.id in ("publishMessage", "enqueueMessage"):
                path = operation.path.replace("{queueName}", "q").replace("{destination}", "nobody")
                answer = await emulator.call("POST", path)
            elif operation.id == "removeEndpoints":
                answer = await emulator.call("DELETE", "/v2/topics/g/endpoints", (), {"endpoints": [{"name": "x"}]})
            elif operation.id == "setUrlGroupDefaults":
                answer = await emulator.call("PATCH", "/v2/topics/g", (), {"headers": {}})
            elif operation.id in MANAGEMENT_BODIES:
                path, body = MANAGEMENT_BODIES[operation.id]
                answer = await emulator.manage(operation.method, path, body)
            elif operation.id in ("getContract", "getReference"):
                continue
            elif operation.api == "control":
                bodies: dict[str, object] = {
                    "setClock": {"rate": 0},
                    "advanceClock": {"by": 0},
                    "addRule": {"match": {"url": URL}, "fault": "dns"},
                    "changeWorldAccount": {"budget": 0},
                    "saveSnapshot": {"name": "s"},
                }
                path = operation.path.replace("{id}", "nobody").replace("{name}", "nothing")
                named = any(parameter["name"] == "world" for parameter in operation.parameters)
                body = bodies.get(operation.id, b"")
                answer = await emulator.call(
                    operation.method, path + ("?world=nobody" if named else ""), (), body, token=None
                )
                if "{id}" in path and named:
                    assert (await emulator.call(operation.method, path, (), body, token=None)).status == 404
            else:
                answer = await emulator.of(operation, query="?rate=1" if operation.id.startswith("pin") else "")
            assert answer.status == 404, (operation.id, answer.status, answer.body)
        for target in ("/", "/v2/nothing", "/_emulator/nothing", "/v1/publish/https://x.test", "/v2/queue"):
            assert (await emulator.call("GET", target)).status == 404


MANAGEMENT_BODIES: dict[str, tuple[str, object]] = {
    "transferSearchIndex": (f"/v2/search/{UUID}/transfer", {"target_account": "team-1"}),
    "renameSearchIndex": (f"/v2/search/{UUID}/rename", {"name": "other"}),
    "setPlan": (f"/v2/queue/set-plan/{UUID}", {"plan_name": "paid"}),
    "setBudget": (f"/v2/queue/update-budget/{UUID}", {"budget": 100}),
    "moveToTeam": ("/v2/queue/move-to-team", {"queue_id": UUID, "target_team_id": "team-1"}),
}


async def contracts_that_are_missing(met: Met) -> None:
    async with without_contracts() as bare:
        emulator = Checked(bare)
        await emulator.control("GET", "/contract")
        await emulator.control("GET", "/reference")
        met |= emulator.met


async def wrong_methods(met: Met) -> None:
    async with checked(met) as emulator:
        for path in {operation.path for operation in all_operations()}:
            (first, *_) = (operation for operation in all_operations() if operation.path == path)
            for method in ("TRACE", "PUT"):
                if not any(each.method == method and each.path == path for each in all_operations()):
                    token = "" if first.api == "messaging" else None
                    target = path.replace("{", "").replace("}", "")
                    assert (await emulator.call(method, target, token=token)).status == 405
        # A percent-encoded slash makes a destination of it, which no method but POST takes.
        for method in ("GET", "DELETE"):
            assert (await emulator.call(method, "/v2/schedules/a%2Fb")).status == 405
            assert (await emulator.call(method, "/v2/schedules/https://x.test/a")).status == 405


async def headers_that_are_no_utf8(met: Met) -> None:
    async with checked(met) as emulator:
        for operation in all_operations():
            answer = await emulator.of(operation, {"X-Odd": "\udcff"})
            assert (answer.status, answer.json["field"]) == (400, "X-Odd"), operation.id


async def wrong_credentials(met: Met) -> None:
    async with checked(met, control_token="s3cret") as emulator:
        for operation in all_operations():
            if operation.security:
                for headers in ({}, {"Authorization": "Bearer nobody"}, {"Authorization": "Basic bm86Ym9keQ=="}):
                    answer = await emulator.call(operation.method, _path(operation), headers, token=None)
                    assert answer.status == 401, operation.id


def _path(operation: Operation) -> str:
    return operation.path.replace("{", "").replace("}", "")


async def forbidden(met: Met) -> None:
    async with checked(met) as emulator:
        for operation in documented(403, "messaging"):
            if operation.method != "GET":
                answer = await emulator.call(
                    operation.method, _path(operation), token=emulator.emulator.read_only_token
                )
                assert answer.status == 403, operation.id
        for operation in documented(403, "control"):
            answer = await emulator.call(
                operation.method, _path(operation), {"Origin": "https://evil.example.com"}, token=None
            )
            assert answer.status == 403, operation.id
        account_id = emulator.emulator.world.account().id
        await emulator.control("PUT", f"/accounts/{account_id}", {"state": "suspended"})
        for operation in documented(403, "messaging"):
            assert (await emulator.of(operation)).status == 403, operation.id


async def too_large(met: Met) -> None:
    async with checked(met, plan="free") as emulator:
        for operation in documented(413):
            headers = [("Host", "127.0.0.1"), ("Content-Length", TOO_LARGE)]
            target = _path(operation)
            app = emulator.emulator.emulation.app
            answer = await asgi_call(app, operation.method, target.encode(), headers, b"", "127.0.0.1")
            assert answer.status == 413, operation.id
            name = check_response(operation.method, target, answer.status, answer.headers, answer.body)
            emulator.met.add((name, answer.status))
        answer = await emulator.call("POST", f"/v2/publish/{URL}", (), b"x" * 1_048_577)
        assert answer.status == 413


async def limits(met: Met) -> None:
    async with checked(met) as emulator:

        async def limit(**fields: int) -> None:
            account_id = emulator.emulator.world.account().id
            assert (await emulator.control("PUT", f"/accounts/{account_id}", fields)).status == 200

        await emulator.control("POST", "/destinations", {"match": {"url": DOWN}, "fault": "refused"})
        await emulator.call("POST", f"/v2/publish/{DOWN}", {"Svc-Retries": "0"})
        dead_letter = (await emulator.call("GET", "/v2/dlq")).json["messages"][0]["dlqId"]
        await limit(max_queues=0, max_schedules=0, max_topics=0)
        for target, headers, body in (
            (f"/v2/publish/{URL}", {"Svc-Queue-Name": "q"}, b""),
            (f"/v2/enqueue/q/{URL}", {}, b""),
            (f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *"}, b""),
            ("/v2/topics/g/endpoints", {}, {"endpoints": [{"url": URL}]}),
            ("/v2/queues", {}, {"queueName": "q"}),
        ):
            assert (await emulator.call("POST", target, headers, body)).status == 412, target
        await limit(max_requests_per_day_hard=0, max_queues=10)
        for target in (f"/v2/publish/{URL}", f"/v2/enqueue/q/{URL}", f"/v2/dlq/retry/{dead_letter}", "/v2/dlq/retry"):
            answer = await emulator.call("POST", target)
            assert (answer.status, answer.headers["ratelimit-remaining"]) == (429, "0"), target
        await limit(max_requests_per_second=0)
        for operation in documented(429, "messaging"):
            if operation.id not in ("publishMessage", "enqueueMessage"):
                answer = await emulator.of(operation)
                assert (answer.status, answer.headers["burst-ratelimit-limit"]) == (429, "0"), operation.id


async def not_emulated(met: Met) -> None:
    async with checked(met) as emulator:
        for operation in documented(501):
            path = operation.path.replace("{queueName}", "q").replace("{destination}", "api/llm")
            headers = {"Svc-Cron": "* * * * *"} if operation.id == "createSchedule" else {}
            assert (await emulator.call("POST", path, headers)).status == 501


async def a_world_that_ends(met: Met) -> None:
    async with checked(met) as emulator:
        # As it is for the moment in which a world is being reset or removed.
        account_id = emulator.emulator.world.account().id
        await emulator.emulator.world.close()
        for operation in documented(409):
            if operation.id == "createWorld":
                continue  # Another world has nothing to do with this one.
            path = operation.path.replace("{id}", account_id if "/accounts/" in operation.path else "default")
            if operation.method == "POST":
                path = path.replace("{destination}", URL)
            path = path.replace("{", "").replace("}", "")
            headers = {"Svc-Cron": "* * * * *"} if operation.id == "createSchedule" else {}
            body = BODIES.get(operation.id, b"")
            if operation.api == "management":
                answer = await emulator.manage(operation.method, path, body)
            else:
                token = "" if operation.api == "messaging" else None
                answer = await emulator.call(operation.method, path, headers, body, token=token)
            assert answer.status == 409, (operation.id, answer.status, answer.body)


BODIES: dict[str, object] = {
    "publishBatch": [],
    "setUrlGroupDefaults": {"headers": {}},
    "addEndpoints": {"endpoints": [{"url": URL}]},
    "removeEndpoints": {"endpoints": [{"url": URL}]},
    "upsertQueue": {"queueName": "q"},
    "setClock": {"rate": 0},
    "advanceClock": {"by": 0},
    "addRule": {"match": {"url": URL}, "fault": "dns"},
    "changeWorldAccount": {"budget": 0},
    "saveSnapshot": {"name": "s"},
    "importSnapshot": "no snapshot",
}


# -- control ----------------------------------------------------------------------------------


async def clock(met: Met) -> None:
    async with checked(met) as emulator:
        await emulator.control("GET", "/health")
        await emulator.call("POST", f"/v2/schedules/{URL}", {"Svc-Cron": "0 * * * *"})
        await emulator.call("POST", f"/v2/publish/{URL}", {"Svc-Delay": "1m"})
        assert (await emulator.control("GET", "/clock")).json["next_due_ms"] is not None
        await emulator.control("POST", "/clock/next")
        await emulator.control("POST", "/clock/advance", {"by": "1h"})
        assert "stopped" in (await emulator.control("POST", "/clock/advance", {"by": "1d", "max_deliveries": 2})).json
        await emulator.control("POST", "/clock/advance", {"to": "2026-01-03T00:00:00Z"})
        await emulator.control("POST", "/clock/drain")
        assert (await emulator.control("POST", "/clock/drain", {"horizon": "1d"})).json["idle"] is True
        await emulator.control("PUT", "/clock", {"rate": 60})
        await emulator.control("PUT", "/clock", {"rate": 0.5, "now": "2026-03-01"})
        for target, method, body in (
            ("/clock", "PUT", {}),
            ("/clock", "PUT", {"rate": -1}),
            ("/clock/advance", "POST", {"by": 1, "to": 1}),
            ("/clock/advance", "POST", b"{"),
            ("/clock/drain", "POST", {"horizon": "soon"}),
            ("/destinations", "POST", {"match": {"url": URL}}),
            ("/worlds", "POST", {"id": "a/b"}),
            ("/worlds", "POST", {"fixtures": {"queues": [{"name": "a b"}]}}),
            ("/reset", "POST", {"fixture": {}}),
            ("/deliveries?limit=0", "GET", b""),
            ("/contract?format=xml", "GET", b""),
        ):
            answer = await emulator.control(method, target, body)
            assert (answer.status, "field" in answer.json) == (400, True), (target, answer.body)


async def deliveries_and_rules(met: Met) -> None:
    async with checked(met) as emulator:
        rules: tuple[dict[str, object], ...] = (
            {"respond": {"status": 503, "headers": {"Retry-After": "10"}, "body": "busy", "latency": "2s"}, "times": 2},
            {"sequence": [{"status": 500, "body_base64": "/wA="}, {}]},
            {"forward_to": "http://127.0.0.1:3000", "latency": 5},
            {"fault": "refused", "latency": "1m"},
        )
        for rule in rules:
            made = await emulator.control("POST", "/destinations", {"match": {"url": DOWN, "method": "post"}, **rule})
            assert made.status == 201
        assert len((await emulator.control("GET", "/destinations")).json["destinations"]) == 4
        await emulator.call("POST", f"/v2/publish/{DOWN}", {"Svc-Redact-Fields": "body"}, b"\xff")
        await emulator.control("POST", "/clock/advance", {"by": "20s"})
        await emulator.control("DELETE", f"/destinations/{made.json['id']}")
        await emulator.control("DELETE", "/destinations")
        await emulator.control("POST", "/destinations", {"match": {"url": f"{DOWN}*"}, "fault": "dns"})
        for path in ("/1", "/2"):
            await emulator.call("POST", f"/v2/publish/{DOWN}{path}", {"Svc-Retries": "0"}, b"text")
        await emulator.call("POST", f"/v2/publish/{URL}", (), b"text")
        page = (await emulator.control("GET", "/deliveries?limit=1&outcome=failed&redact=true")).json
        rest = (await emulator.control("GET", f"/deliveries?cursor={page['cursor']}&url={DOWN}*")).json["deliveries"]
        assert {delivery["response"] is None for delivery in rest} == {True, False}
        everything = (await emulator.control("GET", "/deliveries")).json["deliveries"]
        assert {delivery["via"] for delivery in everything} == {"rule", "capture"}
        await emulator.control("GET", "/trace")
        await emulator.control("DELETE", "/deliveries")


async def previews(met: Met) -> None:
    async with checked(met) as emulator:
        rules: dict[str, dict[str, object]] = {
            "slow": {"respond": {"latency": "5s"}},
            "silent": {"fault": "timeout"},
            "busy": {"respond": {"status": 503}},
        }
        for name, rule in rules.items():
            url = f"https://{name}.test/"
            await emulator.control("POST", "/destinations", {"match": {"url": url}, **rule})
            await emulator.call("POST", f"/v2/publish/{url}", {"Svc-Deduplication-Id": name, "Svc-Timeout": "30s"})
        limited = {"Svc-Flow-Control-Key": "k", "Svc-Flow-Control-Value": "rate=1, period=1m"}
        for _ in range(2):
            held = (await emulator.call("POST", f"/v2/publish/{URL}", limited)).json["messageId"]
        await emulator.call("POST", f"/v2/publish/{URL}", {"Svc-Delay": "1h"})
        await emulator.call("POST", f"/v2/schedules/{URL}", {"Svc-Cron": "CRON_TZ=Asia/Kolkata 0 * * * *"})
        await emulator.control("POST", "/destinations", {"match": {"url": DOWN}, "fault": "refused"})
        failed = (await emulator.call("POST", f"/v2/publish/{DOWN}", {"Svc-Retries": "0"})).json["messageId"]
        account_id = emulator.emulator.world.account().id
        await emulator.control("PUT", f"/accounts/{account_id}", {"state": "passive"})
        kinds = {item["kind"] for item in (await emulator.control("GET", "/upcoming?until=2027-01-01")).json["items"]}
        assert len(kinds) == 10, kinds
        await emulator.control("GET", "/upcoming?limit=1")
        assert (await emulator.control("GET", "/upcoming?limit=0")).status == 400
        for message_id in (held, failed):
            assert (await emulator.control("GET", f"/messages/{message_id}/explain")).status == 200


async def stream(met: Met) -> None:
    async with checked(met) as emulator:
        await emulator.call("POST", f"/v2/publish/{URL}", (), b"text")
        everything = await emulator.control("GET", "/stream?from=start&follow=false")
        last_id = everything.body.decode().split("id: ")[-1].partition("\n")[0]
        assert b"event: attempt" in everything.body
        rest = await emulator.control("GET", "/stream?follow=false&redact=true", headers={"Last-Event-ID": last_id})
        assert b"event: attempt" not in rest.body
        await emulator.control("GET", "/stream?follow=false&last_event_id=00000000-7")
        for wrong in ("follow=perhaps", "from=yesterday", "last_event_id=7"):
            assert (await emulator.control("GET", f"/stream?{wrong}")).status == 400


async def worlds(met: Met) -> None:
    async with checked(met) as emulator:
        await emulator.control("POST", "/worlds")
        fixtures = {
            "accounts": [{"plan": "free", "id": "own", "enterprise": {"enabled": True}}],
            "queues": [{"name": "q"}],
        }
        wanted = {"id": "w", "seed": 7, "epoch": "2026-02-01", "rate": 0, "plan": "free", "fixtures": fixtures}
        assert (await emulator.control("POST", "/worlds", wanted)).status == 201
        assert (await emulator.control("POST", "/worlds", {"id": "w"})).status == 409
        await emulator.control("GET", "/worlds")
        await emulator.control("GET", "/worlds/w")
        await emulator.control("GET", "/credentials?world=w")
        accounts = (await emulator.control("GET", "/accounts?world=w")).json["accounts"]
        assert accounts[0]["enterprise"] == {"enabled": True}
        changed = await emulator.control(
            "PUT", "/accounts/own?world=w", {"state": "suspended", "reserved_type": "enterprise:x"}
        )
        assert changed.json["modifying_state"]
        await emulator.control("GET", "/team")
        await emulator.control("POST", "/reset", {"fixtures": {}})
        await emulator.control("POST", "/reset?world=w")
        await emulator.control("DELETE", "/worlds/w")
        assert (await emulator.control("DELETE", "/worlds/default")).status == 409


async def snapshots(met: Met) -> None:
    async with checked(met) as emulator:
        await emulator.call("POST", f"/v2/publish/{URL}", {"Svc-Delay": "1h"})
        assert (await emulator.control("POST", "/snapshots", {"name": "a.b"})).json["pending"] == 1
        assert (await emulator.control("POST", "/snapshots", {"name": "a.b"})).status == 409
        file = (await emulator.control("GET", "/snapshots/a.b/file")).body
        for status in (201, 200):
            assert (await emulator.control("PUT", "/snapshots/c/file", file)).status == status
        assert len((await emulator.control("GET", "/snapshots")).json["snapshots"]) == 2
        await emulator.control("POST", "/snapshots/c/restore")
        await emulator.control("DELETE", "/snapshots/c")
        for method, target in (
            ("POST", "/snapshots/c/restore"),
            ("DELETE", "/snapshots/c"),
            ("GET", "/snapshots/c/file"),
        ):
            assert (await emulator.control(method, target)).status == 404
        bad: tuple[tuple[str, str, object], ...] = (
            ("POST", "/snapshots", {"name": "a b"}),
            ("POST", "/snapshots/a%20b/restore", b""),
            ("DELETE", "/snapshots/a%20b", b""),
            ("GET", "/snapshots/a%20b/file", b""),
            ("PUT", "/snapshots/c/file", b"no database"),
            ("PUT", "/snapshots/c/file", b""),
        )
        for method, target, body in bad:
            answer = await emulator.control(method, target, body)
            assert (answer.status, "field" in answer.json) == (400, True), (target, answer.body)


async def contract_and_reference(met: Met) -> None:
    async with checked(met) as emulator:
        await emulator.control("GET", "/contract")
        await emulator.control("GET", "/contract?format=yaml&api=messaging")
        await emulator.control("GET", "/contract", headers={"Accept": "application/yaml"})
        await emulator.control("GET", "/reference?api=control")
        assert (await emulator.control("GET", "/contract", headers={"Accept": "text/html"})).status == 406


async def control_conflicts(met: Met) -> None:
    async with checked(met) as emulator:
        await emulator.call("POST", f"/v2/publish/{URL}")
        assert (await emulator.control("PUT", "/clock", {"now": "2025-01-01"})).status == 409
        token = (await emulator.control("GET", "/accounts")).json["accounts"][1]["token"]
        account_id = emulator.emulator.world.account().id
        assert (await emulator.control("PUT", f"/accounts/{account_id}", {"token": token})).status == 409
        await emulator.control("POST", "/worlds", {"fixtures": {"accounts": [{"token": token}]}})
        assert (await emulator.control("POST", "/reset", {"fixtures": {"accounts": [{"token": "x"}]}})).status == 200


# -- management -------------------------------------------------------------------------------


async def search_indexes(met: Met) -> None:
    async with checked(met) as emulator:
        wanted = {"name": "mySearchIndex", "region": "eu-west-1", "type": "payg"}
        made = (await emulator.manage("POST", "/v2/search", wanted)).json["id"]
        assert {index["type"] for index in (await emulator.manage("GET", "/v2/search")).json} >= {"free", "payg"}
        await emulator.manage("GET", f"/v2/search/{made}")
        for period in ("1h", "3h", "12h", "1d", "3d", "7d", "30d"):
            await emulator.manage("GET", f"/v2/search/{made}/stats?period={period}")
        await emulator.manage("GET", "/v2/search/stats")
        await emulator.manage("POST", f"/v2/search/{made}/reset-password")
        await emulator.manage("POST", f"/v2/search/{made}/rename", {"name": "other"})
        await emulator.manage("POST", f"/v2/search/{made}/transfer", {"target_account": "team-1"})
        await emulator.manage("DELETE", f"/v2/search/{made}")
        vector = (await emulator.control("GET", "/credentials")).json["vector_index_ids"][0]
        await emulator.manage("GET", f"/v2/vector/index/{vector}/stats?period=30d")
        await emulator.manage("GET", "/v2/vector/index/stats")
        for method, target, body in (
            ("POST", "/v2/search", {**wanted, "type": "fixed"}),
            ("POST", "/v2/search", b""),
            ("POST", "/v2/search", b"["),
            ("GET", f"/v2/vector/index/{vector}/stats?period=2h", b""),
        ):
            assert (await emulator.manage(method, target, body)).status == 400
        for operation in documented(406, "management"):
            assert (await emulator.of(operation, {"Accept": "text/html"})).status == 406


async def queue_accounts(met: Met) -> None:
    async with checked(met) as emulator:
        await emulator.call("POST", f"/v2/publish/{URL}")
        mine = (await emulator.manage("GET", "/v2/queue/user")).json["id"]
        await emulator.manage("GET", f"/v2/queue/user/{mine}")
        await emulator.manage("GET", "/v2/queue/users")
        for period in ("1h", "30d"):
            await emulator.manage("GET", f"/v2/queue/stats/{mine}?period={period}")
        await emulator.manage("POST", f"/v2/queue/rotate-token/{mine}")
        for plan in ("paid", "queue_fixed_1m", "queue_fixed_10m", "queue_fixed_100m"):
            await emulator.manage("POST", f"/v2/queue/set-plan/{mine}", {"plan_name": plan})
            await emulator.manage("GET", f"/v2/queue/user/{mine}")
        await emulator.manage("PATCH", f"/v2/queue/update-budget/{mine}", {"budget": 100})
        await emulator.manage("POST", f"/v2/queue/enable-prodpack/{mine}")
        await emulator.manage("POST", f"/v2/queue/disable-prodpack/{mine}")
        await emulator.manage("POST", "/v2/queue/move-to-team", {"queue_id": mine, "target_team_id": "team-1"})
        await emulator.call("GET", "/v2/queue/ipv4", token=None)


# -- the tests --------------------------------------------------------------------------------

Scenario = Callable[[Met], Awaitable[None]]

SCENARIOS: tuple[Scenario, ...] = (
    messages,
    groups,
    schedules,
    queues,
    flow_control,
    history,
    signing_keys,
    bad_messaging_input,
    unknown_things,
    contracts_that_are_missing,
    wrong_methods,
    headers_that_are_no_utf8,
    wrong_credentials,
    forbidden,
    too_large,
    limits,
    not_emulated,
    a_world_that_ends,
    clock,
    deliveries_and_rules,
    previews,
    stream,
    worlds,
    snapshots,
    contract_and_reference,
    control_conflicts,
    search_indexes,
    queue_accounts,
)


@functools.cache
def met_by(scenario: Scenario) -> frozenset[tuple[str, int]]:
    """What a scenario meets; run once, whichever test asks first."""
    met: Met = set()

    async def main() -> None:
        async with asyncio.timeout(60):
            await scenario(met)

    asyncio.run(main())
    return frozenset(met)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_responses_are_those_of_the_contracts(scenario: Scenario) -> None:
    assert met_by(scenario)


@pytest.mark.slow
def test_every_status_of_every_operation_was_met() -> None:
    met = frozenset[tuple[str, int]]().union(*map(met_by, SCENARIOS))
    promised = {(operation.id, int(status)) for operation in all_operations() for status in operation.responses}
    assert sorted(promised - met) == []


# -- the check itself -------------------------------------------------------------------------

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "status", "headers", "body"),
    [
        pytest.param("GET", "/v2/keys", 200, JSON, {"current": "a"}, id="a field is missing"),
        pytest.param("GET", "/v2/keys", 200, JSON, {"current": "a", "next": "b", "last": "c"}, id="an unknown field"),
        pytest.param("GET", "/v2/keys", 200, JSON, {"current": "a", "next": 1}, id="a field of another type"),
        pytest.param("GET", "/v2/keys", 201, JSON, {"current": "a", "next": "b"}, id="another status"),
        pytest.param("GET", "/v2/keys", 200, {}, {"current": "a", "next": "b"}, id="no content type"),
        pytest.param("GET", "/v2/keys", 200, {**JSON, "X-New": "1"}, {"current": "a", "next": "b"}, id="a new header"),
        pytest.param("GET", "/v2/keys", 401, JSON, {"error": "x"}, id="a header is missing"),
        pytest.param("GET", "/v2/keys", 400, JSON, {"message": "x"}, id="another error shape"),
        pytest.param("POST", "/v2/queues/q/pause", 200, JSON, {}, id="a body where there is none"),
        pytest.param("GET", "/v2/nothing", 200, JSON, {}, id="an operation that there is not"),
        pytest.param("PUT", "/v2/keys", 405, {**JSON, "Allow": "PUT"}, {"error": "x"}, id="other methods in Allow"),
    ],
)  # fmt: skip
def test_a_response_that_is_not_in_the_contract_is_noticed(
    method: str, path: str, status: int, headers: dict[str, str], body: object
) -> None:
    with pytest.raises(NotInContract):
        check_response(method, path, status, headers, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/v2/publish/https://x.test/a?b=c", "publishMessage"),
        ("POST", "/v2/schedules/https://x.test/pause", "createSchedule"),
        ("POST", "/v2/schedules/x/pause", "pauseSchedule"),
        ("GET", "/v2/schedules/x", "getSchedule"),
        ("GET", "/V2/Queues/", "listQueues"),
        ("POST", "/v2/dlq/retry", "retryDeadLetters"),
        ("GET", "/v2/search/stats", "getSearchSummary"),
    ],
)
def test_a_request_means_the_operation_with_the_most_fixed_words(method: str, path: str, name: str) -> None:
    operation = contract().find(method, path.partition("?")[0]).operation
    assert operation is not None
    assert operation.id == name
