"""One world of a server as a script uses it: its calls, each of them recorded."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from tests.golden.client import Answer, Client
from tests.golden.recording import Recording

Body = bytes | str | list[Any] | dict[str, Any]
_JSON = {"Content-Type": "application/json"}


class World:
    """A world and what opens it. `prefix` is that of the dialect's headers, `segment` its name for queue accounts."""

    def __init__(
        self, client: Client, recording: Recording, name: str, *, prefix: str = "Svc-", segment: str = "queue"
    ) -> None:
        """A world that is there already. `create` makes one."""
        self.client = client
        self.recording = recording
        self.name = name
        self.prefix = prefix
        self.segment = segment
        self.message_ids: list[str] = []
        self.credentials: Any = None
        self.renew()

    @classmethod
    def create(cls, client: Client, recording: Recording, name: str, **settings: Any) -> World:
        """Make a world of that id."""
        body = json.dumps({"id": name, **settings}).encode()
        answer = client.call("POST", "/_emulator/worlds", _JSON, body)
        recording.add(name, "POST /_emulator/worlds", answer)
        return cls(client, recording, name)

    def renew(self) -> None:
        """Learn the credentials, at first and after they have changed."""
        self.credentials = self.control("GET", "/credentials").json

    @property
    def token(self) -> str:
        token: str = self.credentials["queue"]["token"]
        return token

    @property
    def account_id(self) -> str:
        account_id: str = self.credentials["queue"]["account_id"]
        return account_id

    # -- calls ------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        body: Body = b"",
        *,
        token: str | None = None,
    ) -> Answer:
        """A call of the messaging API, with the token of the world's first account or another one."""
        authorization = {"Authorization": f"Bearer {self.token if token is None else token}"}
        return self._call(method, target, {**authorization, **(headers or {})}, body)

    def control(self, method: str, path: str, body: Body = b"", **query: str) -> Answer:
        """A call of the control API about this world."""
        if self.name != "default":
            query["world"] = self.name
        target = f"/_emulator{path}" + (f"?{urlencode(query)}" if query else "")
        return self._call(method, target, {}, body)

    def manage(self, method: str, path: str, body: Body = b"", **query: str) -> Answer:
        """A call of the management API; `{queue}` in the path is the dialect's name for queue accounts."""
        login = self.credentials["management"]
        encoded = b64encode(f"{login['username']}:{login['password']}".encode()).decode()
        target = "/v2" + path.replace("{queue}", self.segment) + (f"?{urlencode(query)}" if query else "")
        return self._call(method, target, {"Authorization": f"Basic {encoded}"}, body)

    def _call(self, method: str, target: str, headers: Mapping[str, str], body: Body) -> Answer:
        if isinstance(body, str):
            body = body.encode()
        elif not isinstance(body, bytes):
            body, headers = json.dumps(body).encode(), {**_JSON, **headers}
        answer = self.client.call(method, target, headers, body)
        self.recording.add(self.name, f"{method} {target}", answer)
        return answer

    # -- shorthands -------------------------------------------------------------------------

    def named(self, **options: object) -> dict[str, str]:
        """Options as headers: `retry_delay=1000` is `Svc-Retry-Delay: 1000` in the dialect's names."""
        return {
            self.prefix + "-".join(word.capitalize() for word in name.split("_")): str(value)
            for name, value in options.items()
        }

    def publish(
        self, destination: str, body: Body = "hello", headers: Mapping[str, str] | None = None, /, **options: object
    ) -> str:
        """Publish to a URL or URL group; the id of the first message, or nothing if it was refused."""
        answer = self.call("POST", f"/v2/publish/{destination}", {**self.named(**options), **(headers or {})}, body)
        return self._made(answer)

    def enqueue(self, queue: str, destination: str, body: Body = "hello", /, **options: object) -> str:
        """Publish through a queue; the id of the first message, or nothing if it was refused."""
        return self._made(self.call("POST", f"/v2/enqueue/{queue}/{destination}", self.named(**options), body))

    def batch(self, items: Iterable[Mapping[str, Any]]) -> list[str]:
        """Publish many; the ids of the accepted ones."""
        answer = self.call("POST", "/v2/batch", {}, [dict(item) for item in items])
        made = [self._ids(entry) for entry in answer.json] if answer.status == 200 else []
        return [message_id for ids in made for message_id in ids]

    def _made(self, answer: Answer) -> str:
        ids = self._ids(answer.json) if answer.status in (200, 202) else []
        return ids[0] if ids else ""

    def _ids(self, answered: Any) -> list[str]:
        entries = answered if isinstance(answered, list) else [answered]
        ids = [entry["messageId"] for entry in entries if "messageId" in entry]
        self.message_ids += [message_id for message_id in ids if message_id not in self.message_ids]
        return ids

    def rule(self, url: str, **rule: Any) -> str:
        """A destination rule; its id."""
        match = {"url": url, **rule.pop("match", {})}
        answer = self.control("POST", "/destinations", {"match": match, **rule})
        return str(answer.json.get("id", ""))

    def schedule(self, cron: str, destination: str, body: Body = "tick", /, **options: object) -> str:
        """Create or overwrite a schedule; its id, or nothing if it was refused."""
        answer = self.call("POST", f"/v2/schedules/{destination}", self.named(cron=cron, **options), body)
        return str(answer.json.get("scheduleId", ""))

    def advance(self, by: str) -> Any:
        return self.control("POST", "/clock/advance", {"by": by}).json

    def advance_to(self, to: str) -> Any:
        return self.control("POST", "/clock/advance", {"to": to}).json

    # -- looking ----------------------------------------------------------------------------

    def look(self, *, messages: int = 25) -> None:
        """Record everything that can be seen of the world, with so many of its messages one by one."""
        self.look_ahead()
        for path in ("schedules", "topics", "queues", "flowControl", "globalParallelism", "keys"):
            self.call("GET", f"/v2/{path}")
        for path in ("/destinations", "/accounts", "/snapshots"):
            self.control("GET", path)
        self.pages("/v2/events?count=30", most=2)
        self.call("GET", "/v2/logs?count=10&order=earliestFirst")
        self.pages("/v2/dlq?count=15", most=2)
        self.deliveries()
        for message_id in self.message_ids[:messages]:
            self.call("GET", f"/v2/messages/{message_id}")
            self.control("GET", f"/messages/{message_id}/explain")
        self.manage("GET", f"/{{queue}}/stats/{self.account_id}", period="1h")
        self.control("GET", "/trace")

    def look_ahead(self) -> None:
        """Record where the clock stands, and what is due."""
        self.control("GET", "/clock")
        self.control("GET", "/upcoming", limit="60")

    def pages(self, target: str, *, most: int = 100) -> None:
        """The pages of a listing, by its cursors."""
        answer = self.call("GET", target)
        for _ in range(most - 1):
            if answer.status != 200 or not answer.json.get("cursor"):
                return
            answer = self.call("GET", f"{target}&cursor={answer.json['cursor']}")

    def deliveries(self, *, most: int = 2) -> None:
        """The last pages of the delivery journal."""
        answer = self.control("GET", "/deliveries", limit="30")
        for _ in range(most - 1):
            if answer.status != 200 or not answer.json["cursor"]:
                return
            answer = self.control("GET", "/deliveries", limit="30", cursor=answer.json["cursor"])
