"""The report of a receiver, and how it is written out: lines to read, JSON, and JUnit XML for a CI system."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from xml.etree import ElementTree

import msgspec

from emulator.conformance.records import CheckResult, Verdict
from emulator.core.record import Record

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

    def __getitem__(self, check_id: str) -> CheckResult:
        """One check by its id. Raises: KeyError."""
        for result in self.results:
            if result.id == check_id:
                return result
        raise KeyError(check_id)

    def raise_for_failures(self) -> None:
        """Raises AssertionError with the whole report if a check failed."""
        if not self.passed:
            raise AssertionError("\n".join(text_lines(self)))


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
