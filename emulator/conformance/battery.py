"""The battery: which requests are sent, in which order, and what is made of them.

Source: the checks are those of `checks.py` (D-410). At most 37 requests, each with the receiver's
timeout; all but the five at once and the two of the slow client come one after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from emulator.conformance import checks
from emulator.conformance.checks import CHECKS
from emulator.conformance.reports import NONE, PROFILES, CheckResult, Exchange, Receiver, ReceiverReport, Verdict
from emulator.conformance.sending import (
    BLIND,
    RESTLESS,
    Courier,
    Effects,
    Probe,
    Read,
    Signature,
    amount,
    written_otherwise,
)
from emulator.core.model.messages import AttemptOutcome, Response, Via
from emulator.core.model.options import Method
from emulator.core.record import DeadLetterId, Headers
from emulator.core.rules.callbacks import encoded, fields_of
from emulator.delivery.mounts import Mount

_LARGE = 1_000_000
_AT_ONCE = 5
_RETRIED = 2
_OTHER_METHODS = (Method.GET, Method.POST, Method.PUT, Method.PATCH, Method.DELETE)
# Every line end, control characters, and letters of two bytes: text, but none that may be touched.
_BINARY = "".join(map(chr, range(256))).encode() + b"\r\n\n\r \t"
_OTHER_TYPES = ("text/plain", "application/x-www-form-urlencoded")
_NO_UTF8 = b'{"text": "\xff\xfe\x00"}'

_REFUSED = {
    "tampered-body": Signature.OTHER_BODY,
    "tampered-url": Signature.OTHER_URL,
    "wrong-key": Signature.UNKNOWN_KEY,
    "algorithm-none": Signature.NONE,
    "expired": Signature.EXPIRED,
    "not-yet-valid": Signature.NOT_YET,
    "missing-signature": Signature.MISSING,
    "malformed-signature": Signature.MALFORMED,
}


async def check(
    receiver: Receiver,
    *,
    mount: Mount | None = None,
    effect: Read | None = None,
    profile: str = NONE,
    clock: Callable[[], float] = time.monotonic,
    now_ms: Callable[[], int] | None = None,
    turns: Callable[[], int] | None = None,
) -> ReceiverReport:
    """Check a receiver: over the network, or the application that is mounted for it.

    `effect` reads the state by which effects are judged. `profile` names the tolerances of a client.
    `clock` gives the seconds of real time by which answers are timed. `now_ms` is the time that deliveries
    are signed at, if it is not that of this process. `turns` counts deliveries that could not
    overlap with others.
    Raises: what reading the effect raises; ValueError for an unknown profile.
    """
    if profile not in PROFILES:
        raise ValueError(f"profile: expected {', '.join(PROFILES)}, got {profile!r}")
    courier = Courier(receiver, mount, clock, now_ms)
    battery = _Battery(courier, Effects(effect, receiver.effect_delay_ms), profile, turns or (lambda: 0))
    began_s = clock()
    try:
        await battery.run()
    finally:
        await courier.close()
    return ReceiverReport(
        url=receiver.url,
        profile=profile,
        results=battery.results(),
        requests=courier.requests,
        took_ms=round((clock() - began_s) * 1000),
    )


class _Battery:
    def __init__(self, courier: Courier, effects: Effects, profile: str, turns: Callable[[], int]) -> None:
        self._courier = courier
        self._receiver = courier.receiver
        self._effects = effects
        self._turns = turns
        self._tolerated = PROFILES[profile]
        self._results: dict[str, CheckResult] = {}
        self._messages = 0
        # All good deliveries that were accepted, for the latency.
        self._accepted: list[Exchange] = []
        # What one new message adds to the state; None while nothing can be counted.
        self._amount_of_one: float | None = None
        self._is_fresh_seen = False

    async def run(self) -> None:
        """Make every check."""
        if await self._effects.state() != await self._effects.state():
            self._effects.unjudged = RESTLESS
        first = await self._first_contact()
        if first is None:
            self._leave("the receiver did not answer a good delivery", *(CHECKS.keys() - self._results.keys()))
            return
        refused = await self._check_refusals(first)
        await self._check_valid(refused)
        await self._check_repeated()
        await self._check_at_once()
        await self._check_retry()
        await self._check_bodies()
        await self._check_callbacks()
        await self._check_slow_client()
        slowest = max(self._accepted, key=lambda exchange: exchange.took_ms, default=None)
        if slowest is None:
            self._leave("no good delivery was accepted", "latency")
        else:
            self._judge("latency", [slowest], checks.in_time(slowest.took_ms, self._receiver.timeout_ms))

    def results(self) -> tuple[CheckResult, ...]:
        """What was found, in the order of the checks."""
        return tuple(self._results[check_id] for check_id in CHECKS)

    # -- requests -----------------------------------------------------------------------------

    def _new(self) -> int:
        """The number of a message that was not delivered before."""
        self._messages += 1
        return self._messages

    async def _send(self, request: Probe) -> Exchange:
        """Send a request, and see whether it has an effect."""
        before = await self._effects.state()
        exchange = await self._courier.send(request)
        after = await self._effects.state()
        return replace(exchange, is_changed=None if self._effects.unjudged else before != after)

    async def _deliver(self, request: Probe) -> Exchange:
        """Send a good delivery."""
        exchange = await self._send(request)
        if exchange.is_accepted:
            self._accepted.append(exchange)
        return exchange

    def _headers_with_type(self, content_type: str) -> Headers:
        """The headers of a good delivery, but for its content type."""
        others = (pair for pair in self._receiver.headers if pair[0].lower() != "content-type")
        return (("Content-Type", content_type), *others)

    # -- parts of the battery -----------------------------------------------------------------

    async def _first_contact(self) -> Exchange | None:
        """The request without a signature; None if a good delivery does not reach the receiver either."""
        first = await self._send(Probe(message=self._new(), signature=Signature.MISSING))
        if first.status is not None:
            return first
        good = await self._send(Probe(message=self._new()))
        self._judge("valid", [good], checks.accepted(good))
        if good.status is not None:
            return first
        self._results["valid"] = replace(self._results["valid"], mend=_NOBODY)
        return None

    async def _check_refusals(self, unsigned: Exchange) -> list[Exchange]:
        """Bad requests come before the first good one: an effect of theirs is not hidden by that of the good one."""
        found = []
        for check_id, signature in _REFUSED.items():
            if signature is Signature.MISSING:
                exchange = unsigned
            else:
                exchange = await self._send(Probe(message=self._new(), signature=signature))
            self._judge(check_id, [exchange], checks.refused(exchange))
            found.append(exchange)
        others, problems = [], []
        for method in _OTHER_METHODS:
            if method is self._receiver.method:
                continue
            exchange = await self._send(Probe(message=self._new(), signature=Signature.MISSING, method=method))
            others.append(exchange)
            problems.append(checks.other_method(exchange, method))
        self._judge("methods", others, "; ".join(filter(None, problems)) or None)
        return [exchange for exchange in (*found, *others) if not exchange.is_accepted]

    async def _check_valid(self, refused: Sequence[Exchange]) -> None:
        valid = await self._deliver(Probe(message=self._new()))
        self._judge("valid", [valid], checks.accepted(valid))
        problem = checks.without_effect(refused)
        if not valid.is_changed and problem is None and self._effects.unjudged is None:
            self._effects.unjudged = BLIND
        self._judge_effect("no-effect", refused, problem, None if refused else "nothing was refused")
        before = await self._effects.state()
        rotated = await self._deliver(Probe(message=self._new(), signature=Signature.NEXT))
        self._judge("next-key", [rotated], checks.accepted(rotated))
        if rotated.is_accepted and rotated.is_changed:
            self._is_fresh_seen = True
            self._amount_of_one = _growth(before, await self._effects.state())

    async def _check_repeated(self) -> None:
        message = self._new()
        first = await self._deliver(Probe(message=message))
        if not first.is_accepted:
            self._leave("the first delivery was not accepted", "duplicate", "idempotency")
            return
        second = await self._deliver(Probe(message=message))
        self._judge("duplicate", [second], checks.accepted(second))
        problem = "the second delivery changed the state" if second.is_changed else None
        self._judge_effect("idempotency", [second], problem, None)

    async def _check_at_once(self) -> None:
        if self._results["duplicate"].verdict is not Verdict.PASSED:
            why = "the same message twice, one after the other, does not pass"
            self._leave(why, "concurrent", "concurrent-effect")
            return
        message, turns = self._new(), self._turns()
        before = await self._effects.state()
        found = await asyncio.gather(*(self._courier.send(Probe(message=message)) for _ in range(_AT_ONCE)))
        after = await self._effects.state()
        if self._turns() != turns:
            self._leave(_TURNS, "concurrent", "concurrent-effect")
            return
        self._judge("concurrent", found, checks.at_once(found))
        growth, of_one = _growth(before, after), self._amount_of_one
        problem = None if growth is None or of_one is None else checks.once(growth, of_one)
        self._judge_effect("concurrent-effect", found, problem, self._unjudged_once(growth))

    def _unjudged_once(self, growth: float | None) -> str | None:
        """Why one effect cannot be distinguished from several."""
        if self._results["idempotency"].verdict is not Verdict.PASSED:
            return "the same message twice, one after the other, has two effects"
        if not self._is_fresh_seen:
            return _NOTHING_NEW
        if growth is None or self._amount_of_one is None:
            return "nothing can be counted in the state: it is no number, no list and no JSON of these"
        return None

    async def _check_retry(self) -> None:
        retry = await self._deliver(Probe(message=self._new(), retried=_RETRIED))
        self._judge("retry", [retry], checks.accepted(retry))
        unseen = None if self._is_fresh_seen else _NOTHING_NEW
        unjudged = unseen if retry.is_accepted else "the retry was not accepted"
        self._judge_effect("retry-effect", [retry], None if retry.is_changed else "the retry changed nothing", unjudged)

    async def _check_bodies(self) -> None:
        await self._check_exact_body()
        await self._check_content_types()
        plain = self._headers_with_type("application/octet-stream")
        empty = await self._courier.send(Probe(message=self._new(), body=b""))
        self._judge("empty-body", [empty], checks.taken(empty))
        # Spaces at the end mean nothing in JSON, so that the application gets what it knows.
        large = await self._courier.send(Probe(message=self._new(), body=self._receiver.body.ljust(_LARGE)))
        self._judge_as_written("large-body", [large], checks.accepted(large))
        binary = await self._courier.send(Probe(message=self._new(), body=_BINARY, headers=plain))
        self._judge("binary-body", [binary], checks.taken(binary))
        invalid = await self._courier.send(Probe(message=self._new(), body=_NO_UTF8))
        self._judge("invalid-utf8", [invalid], checks.taken(invalid))

    async def _check_exact_body(self) -> None:
        """The good body written otherwise: the same JSON, other bytes (D-577)."""
        body = written_otherwise(self._receiver.body)
        if body is None:
            self._leave("the good body is no JSON, which could be written otherwise", "exact-body")
            return
        exchange = await self._courier.send(Probe(message=self._new(), body=body))
        self._judge("exact-body", [exchange], checks.accepted(exchange))

    async def _check_content_types(self) -> None:
        """The good body under other names, well signed and not: verified either way (D-578)."""
        found, problems = [], []
        for name in _OTHER_TYPES:
            exchange = await self._courier.send(Probe(message=self._new(), headers=self._headers_with_type(name)))
            found.append(exchange)
            problems.append((name, checks.taken(exchange)))
        text = self._headers_with_type(_OTHER_TYPES[0])
        for body, signature in (
            (None, Signature.OTHER_BODY),
            (None, Signature.MISSING),
            (b"", Signature.MISSING),
        ):
            exchange = await self._send(Probe(message=self._new(), body=body, headers=text, signature=signature))
            found.append(exchange)
            what = f"{'nothing' if body == b'' else 'text'}, {signature}"
            # Of a receiver that works before it verifies this is nothing new.
            is_new = self._results["no-effect"].verdict is Verdict.PASSED
            effect = checks.without_effect([exchange]) if is_new else None
            problems.append((what, checks.refused(exchange) or effect))
        self._judge("content-type", found, "; ".join(f"{what}: {why}" for what, why in problems if why) or None)

    async def _check_callbacks(self) -> None:
        for check_id, status, dead_letter in (
            ("callback", 200, None),
            ("failure-callback", 500, DeadLetterId("1700000000000-0")),
        ):
            if not self._receiver.takes_callbacks:
                self._leave("the endpoint was not said to take callbacks: --callbacks, callbacks=True", check_id)
                continue
            source = self._courier.message(Probe(message=self._new()))
            answer = Response(status=status, headers=(("Content-Type", "text/plain"),), body=b"done")
            outcome = AttemptOutcome(response=answer, error=None, via=Via.NETWORK)
            exchange = await self._courier.send(
                Probe(
                    message=self._new(),
                    body=encoded(fields_of(source, outcome, 0, dead_letter, _LARGE)),
                    headers=(("Content-Type", "application/json"),),
                    method=Method.POST,
                )
            )
            self._judge_as_written(check_id, [exchange], checks.accepted(exchange))

    async def _check_slow_client(self) -> None:
        if self._courier.is_mounted:
            self._leave("a mounted application has no connection: check it on a server", "slow-client")
            return
        body = self._receiver.body.ljust(16)
        slow, other = await self._courier.send_slowly(
            Probe(message=self._new(), body=body),
            Probe(message=self._new()),
            # Long work is no mistake here.
            patience_ms=self._receiver.slow_ms + 2 * max((each.took_ms for each in self._accepted), default=0),
        )
        problem = checks.accepted(slow)
        if problem is None:
            problem = "the other client was not answered meanwhile" if other is None else checks.accepted(other)
        self._judge_as_written("slow-client", [slow] if other is None else [slow, other], problem)

    # -- results ------------------------------------------------------------------------------

    def _judge(self, check_id: str, exchanges: Sequence[Exchange], problem: str | None) -> None:
        """Note what a check showed; a problem that the profile tolerates is no failure."""
        verdict, note = Verdict.PASSED, ""
        if problem is not None:
            tolerance = self._tolerated.get(check_id)
            verdict = Verdict.FAILED if tolerance is None else Verdict.TOLERATED
            note = problem if tolerance is None else f"{problem}; {tolerance}"
        sent = "; ".join(dict.fromkeys(exchange.sent for exchange in exchanges))
        came = "; ".join(exchange.came for exchange in exchanges)
        self._results[check_id] = replace(CHECKS[check_id], verdict=verdict, sent=sent, came=came, note=note)

    def _judge_effect(
        self, check_id: str, exchanges: Sequence[Exchange], problem: str | None, unjudged: str | None
    ) -> None:
        """As `_judge`, unless no effect can be judged, or for the reason `unjudged` not this one."""
        if (why := self._effects.unjudged or unjudged) is not None:
            self._leave(why, check_id)
        else:
            self._judge(check_id, exchanges, problem)

    def _judge_as_written(self, check_id: str, exchanges: Sequence[Exchange], problem: str | None) -> None:
        """As `_judge`, of JSON that a receiver may write otherwise: a failure for that is `exact-body`'s alone."""
        writes_again = self._results["exact-body"].verdict is Verdict.FAILED
        if problem is not None and writes_again and self._results["valid"].verdict is Verdict.PASSED:
            self._leave("the good body written otherwise is not accepted: mend `exact-body` first", check_id)
        else:
            self._judge(check_id, exchanges, problem)

    def _leave(self, why: str, *check_ids: str) -> None:
        for check_id in check_ids:
            self._results[check_id] = replace(CHECKS[check_id], note=why)


_NOBODY = "Start the receiver, or correct the URL: nobody answers there."
_TURNS = (
    "deliveries to this application take turns (with_connections), so that five are never at work at once: "
    "check it on a server, with a database of its own"
)
_NOTHING_NEW = "another message with the same body changes nothing, so that no effect of one can be seen"


def _growth(before: object, after: object) -> float | None:
    """By how much a state grew; None for one that nothing can be counted in."""
    was, now = amount(before), amount(after)
    return None if was is None or now is None else now - was
