"""Workflows of the PyPI client in Flask. PAUSE_S is how long each of them sleeps, in seconds."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

from flask import Flask, Response, jsonify, request
from upstash_workflow import WorkflowContext  # type: ignore[import-untyped]  # it comes without types
from upstash_workflow.flask import Serve  # type: ignore[import-untyped]  # as above
from werkzeug.serving import make_server

from tests.scenarios.workflow_apps.third_parties import answer

PAUSE_S = int(os.environ["PAUSE_S"])


def create_app(origin: str) -> Flask:
    app = Flask(__name__)
    serve = Serve(app)
    counts: Counter[str] = Counter()
    ended: list[tuple[str, Any]] = []
    failures: list[dict[str, Any]] = []

    @app.before_request
    def count() -> None:
        counts[request.path] += 1

    @app.post("/seen")
    def seen() -> Response:
        return jsonify({"counts": counts, "ended": ended, "failures": failures})

    @app.route("/third-party", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    def third_party() -> Response:
        status, body, headers = answer(request.method, request.get_json(silent=True), request.headers.get("X-Answer"))
        return Response(body, status, headers)

    def failed(context: WorkflowContext[Any], status: int, message: str, headers: dict[str, Any]) -> None:
        payload = context.request_payload
        failures.append({"run": context.workflow_run_id, "payload": payload, "status": status, "message": message})

    @serve.route("/steps")  # type: ignore[untyped-decorator]  # as above
    def steps(context: WorkflowContext[Any]) -> None:
        name = context.run("greet", lambda: f"Hello {context.request_payload['name']} ☂")
        shouted = context.run("shout", name.upper)
        context.run("end", lambda: ended.append(("steps", shouted)))

    @serve.route("/sleeps")  # type: ignore[untyped-decorator]  # as above
    def sleeps(context: WorkflowContext[Any]) -> None:
        context.run("one", lambda: 1)
        context.sleep_until("until", context.request_payload["until"])
        context.run("two", lambda: 2)
        context.sleep("sleep", PAUSE_S)
        context.run("three", lambda: 3)
        ended.append(("sleeps", context.headers.get("X-Tenant")))

    def call(context: WorkflowContext[Any], method: str, **more: Any) -> Any:
        return context.call(f"{method} call", url=f"{origin}/third-party", method=method, **more)

    @serve.route("/calls")  # type: ignore[untyped-decorator]  # as above
    def calls(context: WorkflowContext[Any]) -> None:
        posted = call(context, "POST", body={"order": 7}, headers={"X-Answer": "42"})
        context.sleep("sleep", f"{PAUSE_S}s")
        got = call(context, "GET")
        patched = call(context, "PATCH", retries=1)
        put = call(context, "PUT")
        deleted = call(context, "DELETE")
        answers = [posted, got, patched, put, deleted]
        ended.append(("calls", [[each.status, each.body] for each in answers]))

    @serve.route("/three-calls")  # type: ignore[untyped-decorator]  # as above
    def three_calls(context: WorkflowContext[Any]) -> None:
        statuses = [call(context, method).status for method in ("POST", "GET", "PUT")]
        ended.append(("three-calls", statuses))

    def fails(retries: int) -> Callable[[WorkflowContext[Any]], None]:
        def route(context: WorkflowContext[Any]) -> None:
            def fail() -> None:
                raise ValueError(f"no luck for {context.request_payload['name']}")

            context.run("fail", fail)

        # It becomes the name of the endpoint.
        route.__name__ = f"failing_{retries}"
        return route

    for retries in (0, 1):
        serve.route(f"/failing-{retries}", retries=retries, failure_function=failed)(fails(retries))
    return app


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = make_server("127.0.0.1", 0, create_app(origin), threaded=True, fd=listener.fileno())
        print(f"listening on {origin}", flush=True)
        server.serve_forever()
