"""What a destination rule answers, and where it forwards to.

A rule's latency is not waited for here: it passes on the virtual clock.
"""

from __future__ import annotations

from functools import lru_cache
from typing import assert_never

from emulator.core.model.answers import Fault, Response, ScriptedAnswer
from emulator.core.rules.attempts import TIMEOUT_ERROR
from emulator.delivery import http
from emulator.wire.urls import read_target


def scripted_answer(answer: ScriptedAnswer, host: str) -> Response | http.Failure | None:
    """What a rule answers an attempt with, or None if it forwards it. `host` is the destination's."""
    if answer.respond is not None:
        scripted = answer.respond
        return Response(status=scripted.status, headers=scripted.headers, body=scripted.body)
    return None if answer.fault is None else http.Failure(text=_fault_text(answer.fault, host))


def _fault_text(fault: Fault, host: str) -> str:
    match fault:
        case Fault.REFUSED:
            return http.REFUSED
        case Fault.TIMEOUT:
            return TIMEOUT_ERROR
        case Fault.RESET:
            return http.RESET
        case Fault.DNS:
            return http.name_not_known(host)
        case Fault.TLS:
            return http.TLS_FAILED
        case unknown:
            assert_never(unknown)


@lru_cache(maxsize=4096)
def forwarded_url(url: str, forward_to: str | None) -> str:
    """The URL at the origin that a rule forwards to, path and query kept."""
    if forward_to is None:
        return url
    source, target = read_target(url), read_target(forward_to)
    if source is None or target is None:
        return forward_to
    return f"{target.scheme}://{target.host_header}{source.request_target}"
