"""What answers an attempt: a receiver, or a rule of the world; and what came of it."""

from __future__ import annotations

from enum import StrEnum

from emulator.core.model.names import Headers, RuleId
from emulator.core.model.options import Method
from emulator.core.record import Record


class Via(StrEnum):
    """What answered an attempt."""

    NETWORK = "network"
    RULE = "rule"
    CAPTURE = "capture"
    MOUNT = "mount"


class Fault(StrEnum):
    """A connection failure a destination rule can stage."""

    REFUSED = "refused"
    TIMEOUT = "timeout"
    RESET = "reset"
    DNS = "dns"
    TLS = "tls"


class Response(Record):
    """What a destination answered."""

    status: int
    headers: Headers
    body: bytes


class Unsent(Record):
    """What the headers of a request are made of that needed no network: they are made when somebody reads them (D-400).

    `wall_ms` and the account's `signing_key` and `region` are those of the attempt, the names those of the
    dialect. `url` is where a rule sent it instead of to the message's URL.
    """

    wall_ms: int
    signing_key: str
    region: str
    header_prefix: str
    user_agent: str
    issuer: str
    url: str | None = None


class AttemptOutcome(Record):
    """How one attempt went: a response, or the text of the failure that prevented one.

    `request_headers` are the headers exactly as sent. Of an attempt that was answered inside, `unsent` has what
    makes them. `non_retryable` says that the answer asked for no further attempt (D-017). An `error` beside a
    response is why that answer counts as a failure.
    """

    response: Response | None
    error: str | None
    via: Via
    request_headers: Headers = ()
    non_retryable: bool = False
    unsent: Unsent | None = None

    @property
    def succeeded(self) -> bool:
        """Any 2xx answer is a delivery; a redirect is not (D-010)."""
        return self.response is not None and 200 <= self.response.status < 300 and self.error is None


class ScriptedResponse(Record):
    """A response as a destination rule writes it; `latency_ms` passes on the virtual clock.

    With `latest_ms` the latency is drawn for each attempt, between the two (D-420).
    """

    status: int = 200
    headers: Headers = ()
    body: bytes = b""
    latency_ms: int = 0
    latest_ms: int | None = None


class Disturbance(Record):
    """What rules did to one attempt by chance, or beside its answer (D-420).

    `is_answered` says that the rule answered or failed it instead of the destination, `latency_ms` is
    a latency that was added, and `is_postponed` says that it left later than it was due.
    """

    is_answered: bool = False
    latency_ms: int = 0
    is_postponed: bool = False
    is_duplicate: bool = False


class ScriptedAnswer(Record):
    """What rules decided for one attempt.

    At most one of the first three is set; with none of them the attempt goes where it would go
    without a rule. `duplicate_ms` is how long after a delivery the message is delivered again, and
    `others` are further rules that disturb the attempt.
    """

    rule_id: RuleId
    respond: ScriptedResponse | None = None
    forward_to: str | None = None
    fault: Fault | None = None
    latency_ms: int = 0
    duplicate_ms: int | None = None
    disturbance: Disturbance | None = None
    others: tuple[RuleId, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether it says where the attempt goes."""
        return self.respond is not None or self.forward_to is not None or self.fault is not None


class DestinationRule(Record):
    """What happens at a destination instead of, or before, the network.

    `url` is exact, or a glob in which `*` matches any characters; `times` limits how many
    attempts the rule decides (None: all), `used` counts those it has decided. At most one of
    `responses`, `forward_to` and `fault` is given; of several responses each attempt takes the
    next, and the last repeats. A rule without any of them disturbs attempts and leaves the answer
    to the rules after it.

    `chance` is the probability that the rule meets an attempt (None: every one), and `spared` names
    attempts that it never meets, such as `3.1` for the first one of the third message. `duplicate_ms`
    is how long after a delivery it is made again. `reorder_ms` puts an attempt back: 0 behind others
    of its instant, else for up to so long. `latest_ms` is the end of a range of latencies.
    """

    rule_id: RuleId
    url: str
    method: Method | None
    responses: tuple[ScriptedResponse, ...] = ()
    forward_to: str | None = None
    fault: Fault | None = None
    latency_ms: int = 0
    times: int | None = None
    used: int = 0
    is_sequence: bool = False
    chance: float | None = None
    duplicate_ms: int | None = None
    reorder_ms: int | None = None
    latest_ms: int | None = None
    spared: tuple[str, ...] = ()

    @property
    def answers(self) -> bool:
        """Whether it says where an attempt goes, so that no later rule is asked."""
        return bool(self.responses) or self.forward_to is not None or self.fault is not None
