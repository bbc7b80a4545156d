"""Schemathesis finds nothing: all phases, all checks, every API, with credentials and without.

`FUZZ_MAX_EXAMPLES` is how many examples of each operation are tried (the nightly run tries thousands), `FUZZ_SEED`
where the run begins.

No check is switched off. `ALLOWED` lists the verdicts that do not count: each is about one operation and one
condition on the call and its answer, with its reason.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any

import pytest

from tests.contracts import fuzzing
from tests.contracts.fuzzing import Allowed, json_of

MAX_EXAMPLES = int(os.environ.get("FUZZ_MAX_EXAMPLES", "4"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))

ACCEPTED_NEGATIVE = "AcceptedNegativeData"
REJECTED_POSITIVE = "RejectedPositiveData"

# Parameters whose text is compared with something, and is of no form that could be wrong.
_COMPARED = frozenset(
    (
        "api",
        "callerIP",
        "callerIp",
        "dlqIds",
        "flowControlKey",
        "host",
        "label",
        "messageId",
        "messageIds",
        "message_id",
        "path",
        "queueName",
        "scheduleId",
        "search",
        "topicName",
        "url",
    )
)


def _made_wrong(case: Any) -> frozenset[str]:
    """The parameters, by name, that Schemathesis meant to make invalid."""
    data = case.meta.phase.data
    names = {mutation.parameter for mutation in getattr(data, "mutations", ()) if mutation.parameter}
    return frozenset(names or ({data.parameter} if data.parameter else ()))


def _values(case: Any, name: str) -> list[object]:
    given = [(case.query or {}).get(name), *(v for k, v in (case.headers or {}).items() if k.lower() == name.lower())]
    return [value for value in given if value is not None]


def _is_empty(case: Any, name: str) -> bool:
    return all(value in ("", [], [""], {}) or not str(value).strip() for value in _values(case, name))


def _are_all_empty(case: Any, response: Any) -> bool:
    wrong = _made_wrong(case)
    return bool(wrong) and all(_is_empty(case, name) for name in wrong)


def _are_only_compared(case: Any, response: Any) -> bool:
    wrong = _made_wrong(case)
    return bool(wrong) and all(name in _COMPARED or _is_empty(case, name) for name in wrong)


def _says(text: str) -> Any:
    return lambda case, response: text in str((json_of(response) or {}).get("error", ""))


EVERYWHERE = (
    Allowed(
        failure=ACCEPTED_NEGATIVE,
        operation="*",
        when=_are_all_empty,
        reason="an empty value counts as absent (D-072)",
    ),
    Allowed(
        failure=ACCEPTED_NEGATIVE,
        operation="*",
        when=_are_only_compared,
        reason="a filter's text is compared, not checked: what nothing can match finds nothing (D-078)",
    ),
    Allowed(
        failure=ACCEPTED_NEGATIVE,
        operation="*",
        when=lambda case, response: "x-schemathesis-unknown-property" in (case.headers or {}),
        reason="HTTP lets a client send headers that nobody knows",
    ),
    Allowed(
        failure=REJECTED_POSITIVE,
        operation="*",
        when=_says("expected 1 to 256 printable characters"),
        reason="which characters are printable is more than a pattern can say (D-076)",
    ),
)

ALLOWED: Mapping[str, tuple[Allowed, ...]] = {
    "messaging": (
        *EVERYWHERE,
        Allowed(
            failure=ACCEPTED_NEGATIVE,
            operation="publishBatch",
            when=lambda case, response: any("error" in item for item in json_of(response) if isinstance(item, dict)),
            reason="an item of a batch is refused in its place of a 200 (D-121)",
        ),
        Allowed(
            failure=ACCEPTED_NEGATIVE,
            operation="cancelMessages",
            when=lambda case, response: "messageIds" in (case.query or {}) or "messageIds" in (case.body or {}),
            reason="beside message ids all other filters are ignored (D-078)",
        ),
        Allowed(
            failure=REJECTED_POSITIVE,
            operation="cancelMessages",
            when=_says("expected this parameter only once"),
            reason="a filter may stand in the query or in the body, and not in both (D-082)",
        ),
        Allowed(
            failure=REJECTED_POSITIVE,
            operation="*",
            when=_says("expected Svc-Flow-Control-Key beside it"),
            reason="OpenAPI cannot say that one header needs another (D-083)",
        ),
        *(
            Allowed(
                failure=REJECTED_POSITIVE,
                operation="*",
                when=_says(f"Svc-Flow-Control-Key: expected {what}"),
                reason="a key in a header is ASCII, and Schemathesis sends any other character as Latin-1 (D-073)",
            )
            for what in ("a value in UTF-8", "ASCII characters only")
        ),
        *(
            Allowed(
                failure=REJECTED_POSITIVE,
                operation=operation,
                when=lambda case, response: (
                    response.status_code == 405 and "%2F" in case.path_parameters["destination"]
                ),
                reason="a path with further slashes names a destination, which can only be given a schedule",
            )
            for operation in ("getSchedule", "deleteSchedule")
        ),
        Allowed(
            failure=REJECTED_POSITIVE,
            operation="pinFlowControlKey",
            when=_says("expected at least one of parallelism, rate and period"),
            reason="OpenAPI cannot say that one of several parameters is needed (D-084)",
        ),
        Allowed(
            failure=REJECTED_POSITIVE,
            operation="deleteUrlGroup",
            when=_says("publishes to topic"),
            reason="a URL group that a schedule publishes to is not deleted (D-035)",
        ),
    ),
    "management": EVERYWHERE,
    "control": (
        *EVERYWHERE,
        Allowed(
            failure="JsonSchemaError",
            operation="getContract",
            when=lambda case, response: "yaml" in response.headers["content-type"][0],
            reason="Schemathesis reads YAML before it validates it, and the schema is about the text",
        ),
        Allowed(
            failure=REJECTED_POSITIVE,
            operation="addRule",
            when=_says("latency: expected inside"),
            reason="the latency of a scripted response stands inside it",
        ),
        Allowed(
            failure=REJECTED_POSITIVE,
            operation="advanceClock",
            when=_says("ends in the year 9999 at the latest"),
            reason="how far the clock can move depends on where it stands",
        ),
        *(
            Allowed(
                failure=REJECTED_POSITIVE,
                operation=operation,
                when=_says("fixtures."),
                reason="the entries of fixtures have a form of their own, which is read strictly (D-170)",
            )
            for operation in ("createWorld", "resetWorld")
        ),
    ),
}

CONTROL_TOKEN = "fuzz-control-token"

# Who calls which API. Only the first of each gets far enough for every optional parameter to matter.
CALLERS = (
    ("messaging", "account"),
    ("messaging", "read-only"),
    ("messaging", "nobody"),
    ("management", "account"),
    ("management", "nobody"),
    ("control", "anybody"),
    ("control", "operator"),
    ("control", "nobody"),
)
_GOES_ALL_THE_WAY = (("messaging", "account"), ("management", "account"), ("control", "anybody"))
# They have their options in common with others, and are left without them in the short run.
_ALIKE = ("enqueueMessage", "retryDeadLetter", "retryDeadLetters", "listLogs", "deleteDeadLetters")
_IS_LONG = MAX_EXAMPLES >= 100


def _headers(credentials: Any, api: str, caller: str) -> dict[str, str]:
    if caller in ("nobody", "anybody"):
        return {}
    if caller == "operator":
        return {"Authorization": f"Bearer {CONTROL_TOKEN}"}
    if api == "management":
        login = f"{credentials['management']['username']}:{credentials['management']['password']}"
        return {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
    token = credentials["queue"]["read_only_token" if caller == "read-only" else "token"]
    return {"Authorization": f"Bearer {token}"}


def _check(target: fuzzing.Target, api: str, caller: str, *, max_examples: int, covers: bool) -> None:
    credentials = fuzzing.furnish(target)
    document = fuzzing.load(api)
    if not _IS_LONG:
        document = fuzzing.without_options(document, _ALIKE if (api, caller) in _GOES_ALL_THE_WAY else None)
    outcome = fuzzing.run(
        target,
        document,
        _headers(credentials, api, caller),
        max_examples=max_examples,
        seed=SEED,
        allowed=ALLOWED[api],
        # What is fuzzed there is the clock itself, and the credentials of the control API.
        moves_clock=api != "control",
        covers=covers,
    )
    print(f"{api} by {caller}: {dict(outcome.calls)} calls in {outcome.seconds:.1f} s, {dict(outcome.allowed)}")
    assert not outcome.failures, outcome.text()
    assert {"examples", "fuzzing", "stateful"} <= set(outcome.calls), outcome.calls
    assert covers == ("coverage" in outcome.calls), outcome.calls


@pytest.mark.slow
@pytest.mark.parametrize(("api", "caller"), CALLERS)
def test_the_application_keeps_its_contract(api: str, caller: str) -> None:
    has_token = api == "control" and caller != "anybody"
    with fuzzing.in_process(CONTROL_TOKEN if has_token else "") as target:
        # The read-only token meets what a missing one meets, with another status.
        _check(target, api, caller, max_examples=MAX_EXAMPLES, covers=_IS_LONG or caller != "read-only")


@pytest.mark.slow
@pytest.mark.parametrize("server", ["uvicorn", "hypercorn"])
@pytest.mark.parametrize("api", fuzzing.APIS)
def test_a_real_server_keeps_the_contract(api: str, server: str) -> None:
    with fuzzing.behind_a_socket(server) as target:
        caller = "anybody" if api == "control" else "account"
        _check(target, api, caller, max_examples=max(2, MAX_EXAMPLES // 10), covers=_IS_LONG)
