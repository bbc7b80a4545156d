"""Requests as web pages send them, to every operation: none changes anything, none reads a key."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from campaign.calls import Answer, Caller, NoAnswer, caller
from campaign.programs import EPOCH, DidNotStart, Server, serving
from campaign.rounds import Report, Round
from tests.contracts.documents import APIS, Operation, all_operations

_DESTINATION = "http://127.0.0.1:9/hook"
_ORIGINS = ("https://evil.example", "http://evil.example:8080", "null", "https://127.0.0.1.evil.example", "file://")
_HOSTS = ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example")
_READ = ("/clock", "/credentials", "/accounts", "/destinations", "/snapshots", "/worlds", "/upcoming", "/trace")


def play(round: Round) -> None:
    """All operations in all shapes. Whatever gets through is reported, and the next ones get a new server."""
    left = list(all_operations())
    while left:
        folder = round.folder / f"before-{len(left)}"
        folder.mkdir()
        with serving(folder, "--clock", "frozen", "--epoch", EPOCH) as server:
            site = _Site(server, round.random, round.report)
            while left and site.is_unharmed:
                site.attack(left.pop(0))
            code = server.stop()
            round.report.expect(code == 0, "the exit code after pages", f"{code}: {server.err[-300:]}")
    _owner(round)
    _allowed_origin(round)


@dataclass(frozen=True, kw_only=True)
class _Target:
    """One request that would work, did it not come from a page."""

    operation: Operation
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class _Site:
    """A server with something to steal and to break, and a page that tries."""

    def __init__(self, server: Server, random: Random, report: Report) -> None:
        self._server = server
        self._random = random
        self._report = report
        self._owner = caller(server.port)
        self._credentials: Any = {}
        self._values: dict[str, str] = {}
        self.is_unharmed = True
        self._prepare()

    def attack(self, operation: Operation) -> None:
        """Try one operation in all shapes; `is_unharmed` tells whether all is as before."""
        before = self._fingerprint()
        target = self._target(operation)
        for shape, headers in self._shapes():
            self._try(target, shape, headers)
        self._preflight(target)
        self.is_unharmed = self._fingerprint() == before
        self._report.expect(self.is_unharmed, "a page changed something", f"{operation.api} {operation.id}")
        self._report.count("operations")

    def own_call(self, operation: Operation) -> None:
        """The same request as its owner makes it: it shows that only the page is refused."""
        target = self._target(operation)
        # A stream tells nothing of its end.
        if "stream" in target.path:
            return
        for headers in ({}, {"Origin": f"http://127.0.0.1:{self._server.port}", "Sec-Fetch-Site": "same-origin"}):
            answer = self._send(target, target.method, {**target.headers, **headers})
            self._report.count("requests of the owner")
            if answer is not None:
                what = f"{target.method} {target.path} {headers}: {answer}"
                self._report.expect(answer.status != 403, "a request of the owner is refused", what)
                self._report.count("requests of the owner that did something", int(answer.is_good))

    # -- what there is ----------------------------------------------------------------------

    def _prepare(self) -> None:
        """One of everything that a path can name."""
        owner = self._owner
        owner.control("PUT", "/clock", {"rate": 0})
        owner.control("POST", "/worlds", {"id": "other"})
        owner.learn_token()
        self._credentials = owner.control("GET", "/credentials").json
        account_id = str(self._credentials["queue"]["account_id"])
        # Time stands still, so all calls of the round are made in one second.
        owner.control("PUT", f"/accounts/{account_id}", {"max_requests_per_second": 1_000_000})
        owner.control("POST", "/snapshots", {"name": "kept"})
        rule = owner.control("POST", "/destinations", {"match": {"url": "*broken*"}, "respond": {"status": 500}})
        once = {"Svc-Retries": "0"}
        failed = owner.message("POST", "publish/http://broken.example/", once, "secret")
        waiting = owner.message("POST", f"publish/{_DESTINATION}", {"Svc-Delay": "1d"}, "secret")
        owner.message("POST", f"schedules/{_DESTINATION}", {"Svc-Cron": "0 0 1 1 *", "Svc-Schedule-Id": "yearly"})
        endpoint = json.dumps({"endpoints": [{"name": "one", "url": _DESTINATION}]})
        owner.message("POST", "topics/group/endpoints", {"Content-Type": "application/json"}, endpoint)
        owner.message("POST", "queues", {"Content-Type": "application/json"}, '{"queueName":"queue","parallelism":1}')
        owner.message("POST", f"publish/{_DESTINATION}", {"Svc-Delay": "1d", **_FLOW}, "x")
        owner.control("POST", "/clock/advance", {"by": "0s"})
        listed = owner.message("GET", "dlq")
        if not listed.is_good:
            raise NoAnswer(f"GET dlq: {listed}")
        letters = listed.json["messages"]
        self._values = {
            "message": str(waiting.json.get("messageId")),
            "failed": str(failed.json.get("messageId")),
            "schedule": "yearly",
            "group": "group",
            "queue": "queue",
            "flow": "flow",
            "dlq": str(letters[0]["dlqId"]) if letters else "none",
            "rule": str(rule.json.get("id")),
            "account": account_id,
            "index": str(self._credentials["search_index_ids"][0]),
            "vector": str(self._credentials["vector_index_ids"][0]),
        }

    def _fingerprint(self) -> list[bytes]:
        """All that can be seen of the state. Reading it changes nothing."""
        seen = [self._owner.control("GET", path).body for path in _READ]
        seen += [self._owner.message("GET", path).body for path in ("schedules", "topics", "queues", "keys", "dlq")]
        return seen

    @property
    def _secrets(self) -> list[bytes]:
        queue, management = self._credentials["queue"], self._credentials["management"]
        values = [value for name, value in queue.items() if name != "account_id"]
        return [str(value).encode() for value in [*values, management["password"]]]

    # -- requests ---------------------------------------------------------------------------

    def _target(self, operation: Operation) -> _Target:
        """A request of an operation that its owner would make, with credentials and whatever it needs."""
        path = operation.path
        for parameter in operation.parameters:
            if parameter["in"] == "path":
                value = self._path_value(operation, str(parameter["name"]))
                path = path.replace("{" + str(parameter["name"]) + "}", value)
        headers, query = self._credentials_for(operation)
        if operation.path.startswith("/v2/schedules/{destination"):
            headers["Svc-Cron"] = "0 0 1 1 *"
        body = _body(operation)
        if body:
            # A page may send this type without asking first; the servers of today read JSON in it.
            headers["Content-Type"] = "text/plain"
        method = operation.method.upper()
        return _Target(operation=operation, method=method, path=path, query=query, headers=headers, body=body)

    def _path_value(self, operation: Operation, name: str) -> str:
        path, known = operation.path, self._values
        if "destination" in name.lower() and operation.api == "messaging":
            return _DESTINATION
        kinds = {
            "/v2/messages": "message",
            "/v2/schedules": "schedule",
            "/v2/topics": "group",
            "/v2/queues": "queue",
            "/v2/enqueue": "queue",
            "/v2/dlq": "dlq",
            "/v2/flowControl": "flow",
            "/v2/search": "index",
            "/v2/vector": "vector",
            "/v2/queue/": "account",
            "/_emulator/destinations": "rule",
            "/_emulator/accounts": "account",
            "/_emulator/messages": "failed",
        }
        if path.startswith("/_emulator/worlds"):
            return "other"
        if path.startswith("/_emulator/snapshots"):
            return "kept"
        return next((known[kind] for start, kind in kinds.items() if path.startswith(start)), "x")

    def _credentials_for(self, operation: Operation) -> tuple[dict[str, str], dict[str, str]]:
        if operation.api == "messaging":
            # A page cannot set the header, but knows the token: it is the same in every installation.
            if self._random.random() < 0.5:
                return {}, {"queue_token": self._owner.token}
            return {"Authorization": f"Bearer {self._owner.token}"}, {}
        if operation.api == "management":
            login = self._credentials["management"]
            encoded = b64encode(f"{login['username']}:{login['password']}".encode()).decode()
            return {"Authorization": f"Basic {encoded}"}, {}
        return {}, {}

    def _shapes(self) -> list[tuple[str, dict[str, str]]]:
        """The headers by which a request tells that it is a page's."""
        own = f"127.0.0.1:{self._server.port}"
        origin, host = self._random.choice(_ORIGINS), self._random.choice(_HOSTS)
        return [
            ("Origin", {"Origin": origin, "Host": own}),
            ("Sec-Fetch-Site", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Host": own}),
            ("Host", {"Host": host}),
            ("Host and its Origin", {"Origin": f"http://{host}", "Host": host, "Sec-Fetch-Site": "same-origin"}),
            ("all", {"Origin": origin, "Host": own, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}),
        ]

    def _send(self, target: _Target, method: str, headers: Mapping[str, str]) -> Answer | None:
        query = f"?{urlencode(target.query, quote_via=quote)}" if target.query else ""
        # A stream never ends of itself.
        owner = Caller(self._server.port, timeout_s=5 if "stream" in target.path else 30)
        try:
            return owner.call(method, target.path + query, headers, target.body if method != "GET" else b"")
        except NoAnswer as failed:
            self._report.found("a page gets no answer, or one without end", f"{method} {target.path}: {failed}")
            return None

    def _try(self, target: _Target, shape: str, headers: Mapping[str, str]) -> None:
        answer = self._send(target, target.method, {**target.headers, **headers})
        self._report.count("requests of pages")
        if answer is None:
            return
        what = f"{target.method} {target.path} {dict(headers)}: {answer}"
        api = target.operation.api
        self._report.expect(answer.status == 403, f"{api}: a page's request with {shape} is not refused", what)
        if answer.status == 403:
            # No option lets other pages into the control API. An answer to HEAD has no body that could say anything.
            names_option = answer.is_clear_refusal and (api == "control" or "--" in answer.json["error"])
            is_clear = names_option or target.method == "HEAD"
            self._report.expect(is_clear, f"{api}: a refusal that names no option", what)
        self._check_harmless(target, answer, what)

    def _preflight(self, target: _Target) -> None:
        asking = {
            "Origin": self._random.choice(_ORIGINS),
            "Access-Control-Request-Method": target.method,
            "Access-Control-Request-Headers": "authorization,content-type",
            "Access-Control-Request-Private-Network": "true",
        }
        answer = self._send(target, "OPTIONS", asking)
        self._report.count("preflights")
        if answer is not None:
            self._check_harmless(target, answer, f"OPTIONS {target.path}: {answer}")

    def _check_harmless(self, target: _Target, answer: Answer, what: str) -> None:
        api = target.operation.api
        allows = [name for name in answer.headers if name.startswith("access-control-allow")]
        self._report.expect(not allows, f"{api}: a page is allowed in", f"{allows} {what}")
        leaked = any(secret in answer.body for secret in self._secrets)
        self._report.expect(not leaked, f"{api}: a page reads a key or a token", what)
        sniffing = answer.headers.get("x-content-type-options")
        self._report.expect(sniffing == "nosniff", f"{api}: an answer without nosniff", what)


_FLOW = {"Svc-Flow-Control-Key": "flow", "Svc-Flow-Control-Value": "parallelism=1"}


def _body(operation: Operation) -> bytes:
    """A body that the operation takes: the example of its contract."""
    content = operation.details.get("requestBody", {}).get("content", {})
    for media_type in content.values():
        examples = [each.get("value") for each in media_type.get("examples", {}).values()]
        for example in [media_type.get("example"), *examples]:
            if example is not None:
                return example.encode() if isinstance(example, str) else json.dumps(example).encode()
    return b"{}" if content else b""


def _owner(round: Round) -> None:
    """Every operation as its owner calls it; what one changes, the next finds changed."""
    folder = round.folder / "owner"
    folder.mkdir()
    for api in APIS:
        with serving(folder, "--clock", "frozen", "--epoch", EPOCH) as server:
            site = _Site(server, round.random, round.report)
            for operation in all_operations():
                # An account that the example of this one suspends is refused everything.
                if operation.api == api and operation.id != "changeWorldAccount":
                    site.own_call(operation)
            server.stop()


def _allowed_origin(round: Round) -> None:
    """An origin that `--allow-origin` names may use the messaging API, and never the control API."""
    report, origin = round.report, "https://console.example"
    folder = round.folder / "allowed"
    folder.mkdir()
    try:
        with serving(folder, "--clock", "frozen", "--allow-origin", origin) as server:
            owner = caller(server.port)
            asking = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            preflight = owner.call("OPTIONS", f"/v2/publish/{_DESTINATION}", asking)
            allowed = preflight.headers.get("access-control-allow-origin")
            report.expect(allowed == origin, "the preflight of an allowed origin", f"{preflight} {preflight.headers}")
            published = owner.message("POST", f"publish/{_DESTINATION}", {"Origin": origin, "Svc-Delay": "1d"})
            report.expect(published.is_good, "a publish of an allowed origin", str(published))
            driven = owner.call("GET", "/_emulator/credentials", {"Origin": origin})
            report.expect(driven.status == 403, "an allowed origin drives the control API", str(driven))
            server.stop()
    except DidNotStart as failed:
        report.found("--allow-origin", str(failed))
