"""A plain HTTP/1.1 client: it sends what it is given, and no header of its own that a message could carry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from types import TracebackType
from typing import Any

_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answered; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection to one server."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def call(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One exchange; the target goes out exactly as it is given."""
        connection = self._connection
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value.encode("utf-8"))
        if body or method in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        response = connection.getresponse()
        content = response.read()
        return Answer(
            status=response.status,
            headers={name.lower(): value for name, value in response.getheaders()},
            body=content,
        )
