"""Rules that decided no attempt: one with a mistyped URL lets a test pass without what the rule was to cause."""

# D-761.

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from emulator.client.errors import EmulatorError
from emulator.client.records import Delivery
from emulator.client.session import Session
from emulator.core.language.text import is_alike
from emulator.core.rules.destination_rules import matches_url
from emulator.wire.urls import Target, read_target

_SAME_WORD = 0.8


async def unused_rules(session: Session) -> list[Mapping[str, Any]]:
    """The rules of a world, in the control API's JSON, that have decided no attempt."""
    rules = (await session.control("GET", "destinations"))["destinations"]
    return [rule for rule in rules if not rule["used"]]


async def questions_about_rules(session: Session) -> list[str]:
    """Sentences about the rules that were made by this session and decided no attempt although one was near."""
    try:
        unused = [rule for rule in await unused_rules(session) if rule["id"] in session.rules]
        deliveries = (await session.newest_deliveries()).deliveries if unused else []
    except EmulatorError:
        # The world was deleted, or its server has ended.
        return []
    asked = [(rule["match"]["url"], question_about(rule, deliveries)) for rule in unused]
    return [f"the rule for {url} decided no attempt: {question}" for url, question in asked if question is not None]


def question_about(rule: Mapping[str, Any], deliveries: Sequence[Delivery]) -> str | None:
    """Ask whether a rule was meant for an attempt that it did not decide, None if none is near.

    An attempt is near whose URL fits and whose method does not; or whose URL differs in its scheme, port or
    `www.`, in letter case, the last slash and the query, or in the spelling of one word of its path.
    """
    wanted = rule["match"]
    for url, method in _attempted(deliveries):
        if matches_url(wanted["url"], url):
            # Other reasons are the rule's own: another one was asked before it, or it was made later.
            if wanted.get("method", method) != method:
                return f"{url} was tried with {method}; is that meant?"
        elif _is_near(wanted["url"], url):
            return f"{url} was tried; is that meant?"
    return None


def summary_of(rule: Mapping[str, Any]) -> str:
    """What a rule does, in a few words."""
    match rule:
        case {"respond": answer}:
            return f"responds {answer['status']}"
        case {"sequence": answers}:
            return f"responds {', '.join(str(answer['status']) for answer in answers)}"
        case {"fault": fault}:
            return f"fails: {fault}"
        case {"forward_to": origin}:
            return f"forwards to {origin}"
        case _:
            return "disturbs"


def _attempted(deliveries: Sequence[Delivery]) -> Iterable[tuple[str, str]]:
    return dict.fromkeys((delivery.url, delivery.method) for delivery in reversed(deliveries))


def _is_near(wanted: str, url: str) -> bool:
    one, other = read_target(wanted), read_target(url)
    if one is None or other is None or one.host.removeprefix("www.") != other.host.removeprefix("www."):
        return False
    if matches_url(one.request_target, other.request_target):
        return True
    differing = [pair for pair in zip(_words(one), _words(other), strict=False) if pair[0] != pair[1]]
    if len(_words(one)) != len(_words(other)) or len(differing) > 1:
        return False
    return all(a.isalpha() and b.isalpha() and is_alike(a, [b], _SAME_WORD) for a, b in differing)


def _words(target: Target) -> list[str]:
    return target.request_target.partition("?")[0].rstrip("/").lower().split("/")
