"""HTTP as bytes, over HTTP/1.1 and HTTP/2, for what no well-behaved client sends."""

from __future__ import annotations

import json
import socket
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import h2.config
import h2.connection
import h2.events

from tests.harness.emulators import Server
from tests.harness.loops import PATIENCE_S

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def head(server: Server, line: str, *headers: str) -> bytes:
    """The head of a request for a connection that ends with it."""
    lines = [f"{line} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {server.token}", "Connection: close"]
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1")


def exchange(server: Server, *pieces: bytes, is_half: bool = False) -> list[Answer]:
    """Every answer until the server closes; after `is_half` the client has no more to say."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
        for piece in pieces:
            connection.sendall(piece)
        if is_half:
            connection.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: connection.recv(65_536), b""))
    return list(_answers(received))


def _answers(received: bytes) -> Sequence[Answer]:
    answers = []
    while received:
        block, _, received = received.partition(b"\r\n\r\n")
        first, *lines = block.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status = int(first.split()[1])
        # The answers here are short, and to a HEAD the length is that of the body it does not have.
        length = min(int(headers.get("content-length", "0")), len(received)) if status >= 200 else 0
        answers.append(Answer(status=status, headers=headers, body=received[:length]))
        received = received[length:]
    return answers


class Http2:
    """One HTTP/2 connection, begun with prior knowledge."""

    def __init__(self, server: Server) -> None:
        self._token = server.token
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
        self._connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self._connection.initiate_connection()
        self._flush()
        # By stream: whatever has come, asked for yet or not.
        self._heads: dict[int, dict[str, str]] = {}
        self._bodies: defaultdict[int, bytes] = defaultdict(bytes)
        self._ended: set[int] = set()

    def __enter__(self) -> Http2:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(
        self, method: str, path: str, headers: Pairs = (), *, authority: str = "127.0.0.1", is_whole: bool = True
    ) -> int:
        """Send a request's head; the number of its stream."""
        stream = self._connection.get_next_available_stream_id()
        pseudo = [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path)]
        self._connection.send_headers(
            stream, [*pseudo, ("authorization", f"Bearer {self._token}"), *headers], end_stream=is_whole
        )
        self._flush()
        return stream

    def send(self, stream: int, body: bytes, *, is_last: bool) -> None:
        self._connection.send_data(stream, body, end_stream=is_last)
        self._flush()

    def reset(self, stream: int) -> None:
        self._connection.reset_stream(stream)
        self._flush()

    def answers(self, *streams: int) -> dict[int, Answer]:
        """The whole answers to these streams. Fails if the server ends one, or the connection."""
        while not self._ended.issuperset(streams):
            self._receive()
        return {stream: self._answer(stream) for stream in streams}

    def head_of(self, stream: int) -> None:
        """Wait for an answer to begin."""
        while stream not in self._heads:
            self._receive()

    def body_with(self, stream: int, text: bytes) -> bytes:
        """What has come of an answer that may never end, once the text is in it."""
        while text not in self._bodies[stream]:
            self._receive()
        return self._bodies[stream]

    def _receive(self) -> None:
        received = self._socket.recv(65_536)
        assert received, "the server closed the connection"
        for event in self._connection.receive_data(received):
            self._note(event)
        self._flush()

    def _note(self, event: h2.events.Event) -> None:
        assert not isinstance(event, h2.events.ConnectionTerminated | h2.events.StreamReset), event
        if isinstance(event, h2.events.ResponseReceived):
            self._heads[event.stream_id] = {_text(name): _text(value) for name, value in event.headers}
        elif isinstance(event, h2.events.DataReceived):
            self._bodies[event.stream_id] += event.data
            self._connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self._ended.add(event.stream_id)

    def _answer(self, stream: int) -> Answer:
        headers = self._heads[stream]
        return Answer(status=int(headers[":status"]), headers=headers, body=self._bodies[stream])

    def answer(self, stream: int) -> Answer:
        return self.answers(stream)[stream]

    def _flush(self) -> None:
        self._socket.sendall(self._connection.data_to_send())


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()
