"""Calls of a server: plain HTTP/1.1, a connection each, nothing added that is not asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlencode


class NoAnswer(Exception):
    """The server did not answer, or broke off."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, or None where it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_clear_refusal(self) -> bool:
        """Whether it says in JSON, without a traceback, what went wrong."""
        content = self.json
        text = content.get("error") if isinstance(content, dict) else None
        return self.status >= 400 and isinstance(text, str) and bool(text) and "see its log" not in text

    def __str__(self) -> str:
        return f"{self.status} {self.body[:300].decode('utf-8', 'replace')}"


@dataclass
class Caller:
    """One world of a server, as its owner calls it."""

    port: int
    token: str = ""
    world: str = "default"
    timeout_s: float = 30

    def call(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes | str = b""
    ) -> Answer:
        """One exchange; the target goes out as it is given. Raises NoAnswer."""
        content = body.encode() if isinstance(body, str) else body
        connection = HTTPConnection("127.0.0.1", self.port, timeout=self.timeout_s)
        given = headers or {}
        try:
            connection.putrequest(
                method, target, skip_accept_encoding=True, skip_host="host" in {name.lower() for name in given}
            )
            for name, value in given.items():
                connection.putheader(name, value.encode("latin-1", "replace"))
            if content or method in ("POST", "PUT", "PATCH"):
                connection.putheader("Content-Length", str(len(content)))
            connection.endheaders(content or None)
            response = connection.getresponse()
            received = response.read()
            return Answer(
                status=response.status,
                headers={name.lower(): value for name, value in response.getheaders()},
                body=received,
            )
        except (OSError, HTTPException) as error:
            raise NoAnswer(f"{method} {target[:200]}: {type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def control(self, method: str, path: str, body: object = None, **query: str) -> Answer:
        """A call of the control API about this world."""
        query["world"] = self.world
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.call(method, f"/_emulator{path}?{urlencode(query)}", {"Content-Type": "application/json"}, content)

    def message(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | str = b""
    ) -> Answer:
        """A call of the messaging API."""
        return self.call(method, f"/v2/{path}", {"Authorization": f"Bearer {self.token}", **dict(headers or {})}, body)

    def learn_token(self) -> None:
        """Ask for the token of the world. Raises NoAnswer."""
        answer = self.control("GET", "/credentials")
        if not answer.is_good:
            raise NoAnswer(f"no credentials of the world {self.world}: {answer}")
        self.token = answer.json["queue"]["token"]


def caller(port: int, world: str = "default", *, timeout_s: float = 30) -> Caller:
    """A caller of a world that is there. Raises NoAnswer."""
    found = Caller(port=port, world=world, timeout_s=timeout_s)
    found.learn_token()
    return found


def created_bodies(owner: Caller) -> set[str]:
    """The SHA-256 of the body of each message in a world's trace. Raises NoAnswer without one."""
    trace = owner.control("GET", "/trace")
    if trace.status != 200:
        raise NoAnswer(f"GET /trace: {trace}")
    try:
        lines = [json.loads(line) for line in trace.body.splitlines()]
    except ValueError as error:
        raise NoAnswer(f"GET /trace: {error}") from error
    if not lines or "sha256" not in lines[-1]:
        raise NoAnswer("GET /trace: it breaks off")
    return {line["body_sha256"] for line in lines if line.get("state") == "CREATED"}


def hash_of(body: str) -> str:
    """A body as `created_bodies` knows it."""
    return sha256(body.encode()).hexdigest()


def pages(owner: Caller, target: str, name: str) -> list[Any]:
    """All entries of a listing with cursors. Raises NoAnswer for an answer that is no page."""
    entries: list[Any] = []
    cursor = ""
    while True:
        answer = owner.message("GET", target + cursor)
        if answer.status != 200 or not isinstance(answer.json, dict):
            raise NoAnswer(f"GET {target}: {answer}")
        entries += answer.json.get(name, [])
        if not answer.json.get("cursor"):
            return entries
        cursor = f"&cursor={answer.json['cursor']}"
