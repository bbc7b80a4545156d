"""Workflows of the PyPI client in FastAPI. PAUSE_S is how long each of them sleeps, in seconds."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from upstash_workflow import AsyncWorkflowContext  # type: ignore[import-untyped]  # it comes without types
from upstash_workflow.fastapi import Serve  # type: ignore[import-untyped]  # as above

from tests.scenarios.workflow_apps.third_parties import answer

PAUSE_S = int(os.environ["PAUSE_S"])


def create_app(origin: str) -> FastAPI:
    app = FastAPI()
    serve = Serve(app)
    counts: Counter[str] = Counter()
    ended: list[tuple[str, Any]] = []
    failures: list[dict[str, Any]] = []

    @app.middleware("http")
    async def count(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        counts[request.url.path] += 1
        return await call_next(request)

    @app.post("/seen")
    async def seen() -> dict[str, Any]:
        return {"counts": counts, "ended": ended, "failures": failures}

    @app.api_route("/third-party", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    async def third_party(request: Request) -> Response:
        given = await request.json() if await request.body() else None
        status, body, headers = answer(request.method, given, request.headers.get("X-Answer"))
        return Response(body, status, headers)

    async def failed(context: AsyncWorkflowContext[Any], status: int, message: str, headers: dict[str, Any]) -> None:
        payload = context.request_payload
        failures.append({"run": context.workflow_run_id, "payload": payload, "status": status, "message": message})

    @serve.post("/steps")  # type: ignore[untyped-decorator]  # as above
    async def steps(context: AsyncWorkflowContext[Any]) -> None:
        async def greet() -> str:
            return f"Hello {context.request_payload['name']} ☂"

        name = await context.run("greet", greet)
        shouted = await context.run("shout", name.upper)
        await context.run("end", lambda: ended.append(("steps", shouted)))

    @serve.post("/sleeps")  # type: ignore[untyped-decorator]  # as above
    async def sleeps(context: AsyncWorkflowContext[Any]) -> None:
        await context.run("one", lambda: 1)
        await context.sleep_until("until", context.request_payload["until"])
        await context.run("two", lambda: 2)
        await context.sleep("sleep", PAUSE_S)
        await context.run("three", lambda: 3)
        ended.append(("sleeps", context.headers.get("x-tenant")))

    async def call(context: AsyncWorkflowContext[Any], method: str, **more: Any) -> Any:
        return await context.call(f"{method} call", url=f"{origin}/third-party", method=method, **more)

    @serve.post("/calls")  # type: ignore[untyped-decorator]  # as above
    async def calls(context: AsyncWorkflowContext[Any]) -> None:
        posted = await call(context, "POST", body={"order": 7}, headers={"X-Answer": "42"})
        await context.sleep("sleep", f"{PAUSE_S}s")
        got = await call(context, "GET")
        patched = await call(context, "PATCH", retries=1)
        put = await call(context, "PUT")
        deleted = await call(context, "DELETE")
        answers = [posted, got, patched, put, deleted]
        ended.append(("calls", [[each.status, each.body] for each in answers]))

    @serve.post("/three-calls")  # type: ignore[untyped-decorator]  # as above
    async def three_calls(context: AsyncWorkflowContext[Any]) -> None:
        statuses = [(await call(context, method)).status for method in ("POST", "GET", "PUT")]
        ended.append(("three-calls", statuses))

    async def failing(context: AsyncWorkflowContext[Any]) -> None:
        async def fail() -> None:
            raise ValueError(f"no luck for {context.request_payload['name']}")

        await context.run("fail", fail)

    for retries in (0, 1):
        serve.post(f"/failing-{retries}", retries=retries, failure_function=failed)(failing)
    return app


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(create_app(origin), log_level="warning"))
        print(f"listening on {origin}", flush=True)
        server.run([listener])
