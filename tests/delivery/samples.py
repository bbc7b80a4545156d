"""Attempts to deliver, and the names they are delivered with."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.core.model.messages import Attempt
from emulator.core.model.options import Method
from emulator.core.model.resources import ScriptedAnswer
from emulator.core.record import AccountId, GroupName, Headers, MessageId, RuleId, ScheduleId
from tests.harness.simulations import make_message

SIGNING_KEY = "sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r"
NEXT_SIGNING_KEY = "sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs"


@dataclass(frozen=True)
class Names:
    header_prefix: str = "Svc-"
    user_agent: str = "Svc-Queue"
    issuer: str = "Svc"


SVC = Names()
UPSTASH = Names(header_prefix="Upstash-", user_agent="Upstash-QStash", issuer="Upstash")


def attempt(
    url: str = "https://api.example.com/hook",
    *,
    method: Method = Method.POST,
    headers: Headers = (("Content-Type", "text/plain"),),
    body: bytes = b"hello",
    number: int = 1,
    at_ms: int = 1_767_225_600_000,
    timeout_ms: int = 10_000,
    url_group: str | None = None,
    schedule_id: str | None = None,
    answer: ScriptedAnswer | None = None,
    api: str | None = None,
    signing_key: str = SIGNING_KEY,
) -> Attempt:
    return Attempt(
        message=make_message(
            message_id=MessageId("msg_1"),
            number=1,
            account_id=AccountId("account"),
            created_ms=at_ms,
            not_before_ms=at_ms,
            url=url,
            method=method,
            headers=headers,
            body=body,
            max_retries=3,
            retry_delay=None,
            timeout_ms=timeout_ms,
            callback=None,
            failure_callback=None,
            caller_ip="203.0.113.7",
            url_group=None if url_group is None else GroupName(url_group),
            schedule_id=None if schedule_id is None else ScheduleId(schedule_id),
            api=api,
        ),
        number=number,
        at_ms=at_ms,
        answer=answer,
        signing_key=signing_key,
        region="eu-central-1",
    )


def forward_to(origin: str) -> ScriptedAnswer:
    return ScriptedAnswer(rule_id=RuleId("rule_1"), forward_to=origin)
