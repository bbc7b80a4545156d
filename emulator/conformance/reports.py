"""The report of a receiver, and how it is written out: lines to read, JSON, and JUnit XML for a CI system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from http import HTTPStatus
from itertools import groupby
from json import dumps
from types import MappingProxyType

import msgspec

from emulator.core.model.messages import Response
from emulator.core.model.options import Method
from emulator.core.record import Headers, Record
from emulator.delivery.http import SendFailure

# How many bytes of a body a report quotes.
_LONGEST_QUOTE = 200


class Verdict(StrEnum):
    """What a check says. Only `failed` makes a report fail."""

    PASSED = "passed"
    FAILED = "failed"
    TOLERATED = "tolerated"
    NOT_JUDGED = "not judged"


class Receiver(Record):
    """The endpoint to check, and what a good delivery to it is.

    `timeout_ms` is that of each request. `effect_delay_ms` is how long the endpoint's work may continue
    after its answer. `slow_ms` is how long the slow client takes for its body.
    """

    url: str
    current_signing_key: str
    next_signing_key: str
    header_prefix: str
    issuer: str
    user_agent: str
    method: Method = Method.POST
    headers: Headers = (("Content-Type", "application/json"),)
    body: bytes = b"{}"
    timeout_ms: int = 10_000
    effect_delay_ms: int = 0
    slow_ms: int = 1_000
    takes_callbacks: bool = False


class Exchange(Record):
    """One request and what came back; `took_ms` is real time, `is_changed` whether it had an effect, if known."""

    sent: str
    answer: Response | SendFailure
    took_ms: int
    is_changed: bool | None = None

    @property
    def status(self) -> int | None:
        """The status of the answer, None without one."""
        return None if isinstance(self.answer, SendFailure) else self.answer.status

    @property
    def is_accepted(self) -> bool:
        """Whether the delivery counts as delivered: the answer is a 2xx."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def came(self) -> str:
        """The answer in a line."""
        if isinstance(self.answer, SendFailure):
            return f"no answer in {self.took_ms} ms: {self.answer.text}"
        status = self.answer.status
        phrase = f" {HTTPStatus(status).phrase}" if status in HTTPStatus.__members__.values() else ""
        text = self.answer.body[:_LONGEST_QUOTE].decode("utf-8", "replace")
        return f"{status}{phrase} in {self.took_ms} ms{f', {dumps(text)}' if text else ''}"


class CheckResult(Record):
    """One check: what is expected, why it matters, how to mend a receiver that fails, and what was sent and came.

    `note` says what was wrong, why it is not judged, or which tolerance of the profile applies; it is
    empty for a passed check.
    """

    id: str
    title: str
    verdict: Verdict
    sent: str
    expected: str
    came: str
    why: str
    mend: str
    note: str = ""


NONE = "none"

_URL_IS_OPTIONAL = "the client compares the URL only if verify() is given one: url="
_BODY_IS_TEXT = "the client takes the body as text, so bytes that are none cannot be verified with it"

# The tolerated checks of each profile, by their ids: a check that fails for such a reason is reported as
# tolerated, with the reason (D-414).
PROFILES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        NONE: {},
        "qstash-python": {"tampered-url": _URL_IS_OPTIONAL, "invalid-utf8": _BODY_IS_TEXT},
        "qstash-npm": {"tampered-url": _URL_IS_OPTIONAL, "invalid-utf8": _BODY_IS_TEXT},
    }
)


# -- how it is written out --------------------------------------------------------------------

# So many neighbours that are not judged for the same reason are listed one by one.
_FEW = 3


class ReceiverReport(Record):
    """What the battery showed of a receiver, check by check; `took_ms` is real time."""

    url: str
    profile: str
    results: tuple[CheckResult, ...]
    requests: int
    took_ms: int

    @property
    def passed(self) -> bool:
        """Whether no check failed. Checks that are not judged say nothing."""
        return not self.failures

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The checks that failed, in order."""
        return self.of(Verdict.FAILED)

    def of(self, verdict: Verdict) -> tuple[CheckResult, ...]:
        """The checks with a verdict, in order."""
        return tuple(result for result in self.results if result.verdict is verdict)

    def __str__(self) -> str:
        return "\n".join(text_lines(self))

    def __repr__(self) -> str:
        """One line, which a failing `assert` shows: the counts, and what failed."""
        failed = "".join(f"; {result.id}: {result.note}" for result in self.failures)
        return f"<ReceiverReport of {summary(self)}{failed}>"

    def __getitem__(self, check_id: str) -> CheckResult:
        """One check by its id. Raises: KeyError."""
        for result in self.results:
            if result.id == check_id:
                return result
        raise KeyError(check_id)

    def raise_for_failures(self) -> None:
        """Raises AssertionError with the whole report if a check failed."""
        if not self.passed:
            raise AssertionError(str(self))


def text_lines(
    report: ReceiverReport, style: Callable[[Verdict, str], str] = lambda verdict, text: text
) -> Iterator[str]:
    """A line for each check, and under one that did not pass what was sent and how to mend it; `style` colours."""
    width = max(len(result.id) for result in report.results)
    for (verdict, note), group in groupby(report.results, lambda result: (result.verdict, result.note)):
        results = tuple(group)
        shown = style(verdict, f"{verdict:<10}")
        if verdict is Verdict.NOT_JUDGED and len(results) > _FEW:
            # All for the same reason, such as that nobody answers.
            yield f"{shown}  {len(results)} checks, from {results[0].id} to {results[-1].id}"
            yield f"{'':<12}{note}"
            continue
        for result in results:
            yield f"{shown}  {result.id:<{width}}  {result.title}"
            yield from (f"{'':<12}{line}" for line in _details(result))
    yield summary(report)


def summary(report: ReceiverReport) -> str:
    """How many checks have which verdict, in a line."""
    counts = ", ".join(f"{len(report.of(verdict))} {verdict}" for verdict in Verdict if report.of(verdict))
    return f"{report.url}: {counts} ({report.requests} requests, {report.took_ms / 1000:.1f} s)"


def _details(result: CheckResult) -> Iterator[str]:
    match result.verdict:
        case Verdict.PASSED:
            return
        case Verdict.FAILED:
            yield result.note
            yield f"sent:     {result.sent}"
            yield f"expected: {result.expected}"
            yield f"came:     {result.came}"
            yield f"why:      {result.why}"
            yield f"mend:     {result.mend}"
        case _:
            yield result.note


def json_object(report: ReceiverReport) -> dict[str, object]:
    """The report as JSON: `passed`, and every check with all that is known of it."""
    built: dict[str, object] = {"passed": report.passed, **msgspec.to_builtins(report)}
    return built


def junit_xml(report: ReceiverReport) -> bytes:
    """The report as JUnit XML: tolerated and not judged checks are skipped ones. Encoded in UTF-8."""
    # Every test imports this module, and few write a report.
    from xml.etree import ElementTree

    skipped = len(report.of(Verdict.TOLERATED)) + len(report.of(Verdict.NOT_JUDGED))
    suite = ElementTree.Element(
        "testsuite",
        name=f"receiver {report.url}",
        tests=str(len(report.results)),
        failures=str(len(report.failures)),
        errors="0",
        skipped=str(skipped),
        time=f"{report.took_ms / 1000:.3f}",
    )
    for result in report.results:
        case = ElementTree.SubElement(suite, "testcase", classname="receiver", name=f"{result.id}: {result.title}")
        if result.verdict is Verdict.FAILED:
            failure = ElementTree.SubElement(case, "failure", message=result.note)
            failure.text = "\n".join(_details(result))
        elif result.verdict is not Verdict.PASSED:
            ElementTree.SubElement(case, "skipped", message=f"{result.verdict}: {result.note}")
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    written: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written
