"""Schemathesis finds nothing: all phases, all checks, every API, with credentials and without.

`FUZZ_MAX_EXAMPLES` is how many examples of each operation are tried (the nightly run tries thousands), `FUZZ_SEED`
where the run begins.

No check is switched off. `ALLOWED` lists the verdicts that do not count: each is about one operation and one
condition on the call and its answer, with its reason.
"""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.contracts import fuzzing
from tests.contracts.conformance import NotInContract, check_value
from tests.contracts.documents import APIS, all_operations, load
from tests.contracts.fuzzing import Allowed, json_of

MAX_EXAMPLES = int(os.environ.get("FUZZ_MAX_EXAMPLES", "2"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))

ACCEPTED_NEGATIVE = "AcceptedNegativeData"
REJECTED_POSITIVE = "RejectedPositiveData"


def _made_wrong(case: Any) -> frozenset[str]:
    """The parameters, by name, that Schemathesis meant to make invalid."""
    data = case.meta.phase.data
    names = {mutation.parameter for mutation in getattr(data, "mutations", ()) if mutation.parameter}
    return frozenset(names or ({data.parameter} if data.parameter else ()))


def _sent(response: Any, name: str) -> list[str]:
    """The texts that a parameter or header had in the request as it was sent: what was generated may be lost there."""
    query = parse_qsl(urlsplit(response.request.url).query, keep_blank_values=True)
    headers = response.request.headers.items()
    return [
        *(text for given, text in query if given == name),
        *(str(text) for given, text in headers if given.lower() == name.lower()),
    ]


def _is_empty(response: Any, name: str) -> bool:
    return not any(text.strip() for text in _sent(response, name))


def _are_all_empty(case: Any, response: Any) -> bool:
    wrong = _made_wrong(case)
    return bool(wrong) and all(_is_empty(response, name) for name in wrong)


def _reads_right(case: Any, response: Any, name: str) -> bool:
    """Whether a parameter is, as the text that it becomes in a query or header, one that the contract takes.

    What is generated for a header that stands for many has a format that only the fuzzers know.
    """
    operation_id = case.operation.definition.raw["operationId"]
    operation = next(each for each in all_operations() if each.id == operation_id)
    schemas = [
        each["schema"]
        for each in operation.parameters
        if (each["in"], each["name"]) == ("query", name)
        or (each["in"] == "header" and each.get("x-wildcard") and name.startswith(each["name"].removesuffix("*")))
    ]
    texts = _sent(response, name)
    if not schemas or not texts:
        return False
    try:
        check_value(operation.api, schemas[0], texts if schemas[0].get("type") == "array" else texts[0])
    except NotInContract:
        return False
    return True


def _all_read_right(case: Any, response: Any) -> bool:
    wrong = _made_wrong(case)
    return bool(wrong) and all(_is_empty(response, name) or _reads_right(case, response, name) for name in wrong)


def _refused(text: str, reason: str, operation: str = "*") -> Allowed:
    """A valid call that is refused with these words."""
    return Allowed(
        failure=REJECTED_POSITIVE,
        operation=operation,
        when=lambda case, response: text in str((json_of(response) or {}).get("error", "")),
        reason=reason,
    )


# What is wrong with fixtures of the right form, and the rule behind it.
_OF_FIXTURES = (
    (" is the same, expected another one", "no two entries have the same name, id, token or owner"),
    (".account: expected an integer from 1 to ", "an entry belongs to an account of the document"),
    (".account: expected the customer_id of an account", "an entry belongs to an account of the document"),
    (".type: expected ", "the type is that of the plan"),
    (".headers.", "the names and values of headers are those of a publish"),
    ("no URL group", "a schedule publishes to a group of the document"),
    ("quota ", "the limits of the account's plan hold"),
)

EVERYWHERE = (
    Allowed(
        failure=ACCEPTED_NEGATIVE,
        when=_are_all_empty,
        reason="an empty value counts as absent (D-072)",
    ),
    Allowed(
        failure=ACCEPTED_NEGATIVE,
        when=_all_read_right,
        reason="as it was sent it is right: in a query false is a text, and a single value looks like a list of one",
    ),
    Allowed(
        failure=ACCEPTED_NEGATIVE,
        when=lambda case, response: "x-schemathesis-unknown-property" in (case.headers or {}),
        reason="HTTP lets a client send headers that nobody knows",
    ),
    _refused("got '%5B", "over a socket the fuzzer's own client percent-encodes the brackets of an address"),
    _refused(
        "expected 1 to 256 printable characters",
        "which characters are printable is more than a pattern can say (D-076)",
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
        _refused(
            "expected this parameter only once",
            "a filter may stand in the query or in the body, and not in both (D-082)",
            "cancelMessages",
        ),
        _refused("expected a URL, where the answer of api/llm is sent", "api/llm needs a callback (D-085)"),
        _refused("expected Svc-Flow-Control-Key beside it", "OpenAPI cannot say that one header needs another (D-083)"),
        _refused(
            "expected at least one of parallelism, rate and period",
            "OpenAPI cannot say that one of several parameters is needed (D-084)",
            "pinFlowControlKey",
        ),
        _refused(
            "count: expected a number from 1 to 100,",
            "with `groupBy` a page may be larger, which OpenAPI cannot say of one parameter",
            "listLogs",
        ),
        Allowed(
            failure="UseAfterFree",
            operation="getMessage",
            when=lambda case, response: True,
            reason="a message that was cancelled can be read for another minute, as any that has ended (D-009)",
        ),
        *(
            _refused("scheduleId: expected", "in a path, a schedule's id has the place and so the name of a URL", each)
            for each in ("getSchedule", "deleteSchedule")
        ),
        _refused(
            "cursor: expected the cursor of the page before", "a bulk operation takes its own cursors alone (D-781)"
        ),
        _refused("has ended, or never began", "no schema knows which runs are active (D-364)", "waitForEvent"),
        *(
            _refused("publishes to topic", "a URL group that a schedule publishes to is not deleted (D-035)", each)
            # It goes with its last endpoint.
            for each in ("deleteUrlGroup", "removeEndpoints")
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
        _refused("body: ", "a schema cannot say what makes bytes a database (D-204)", "importSnapshot"),
        _refused("expected an ISO 8601 time", "how many days a month has is more than a pattern can say"),
        _refused("expected each of ", "which rules there are depends on what was made (D-328)", "orderRules"),
        _refused("expected at least min", "JSON Schema cannot compare two of its values (D-420)"),
        _refused("expected an instant after 1970", "which texts are the very first instant depends on their offset"),
        _refused(
            "ends in the year 9999 at the latest",
            "how far the clock can move depends on where it stands",
            "advanceClock",
        ),
        *(
            _refused(text, f"JSON Schema cannot say of fixtures that {reason} (D-170)", operation)
            for operation in ("createWorld", "resetWorld")
            for text, reason in _OF_FIXTURES
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
_ALIKE = (
    *("enqueueMessage", "retryDeadLetter", "retryDeadLetters", "listLogs", "deleteDeadLetters"),
    *("createSchedule", "listWorkflowEvents", "deleteWorkflowDeadLetters"),
    *("restartWorkflowRun", "resumeWorkflowRun", "resumeWorkflowRuns"),
)
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
    document = load(api)
    if not _IS_LONG:
        goes_all_the_way = (api, caller) in _GOES_ALL_THE_WAY
        document = fuzzing.without_longest_urls(document)
        document = fuzzing.without_options(document, _ALIKE if goes_all_the_way else None)
        if api == "control":
            # Each of their calls makes a world. What fixtures hold is what the API takes, and has tests of its own.
            document = fuzzing.without_fixtures(document, ("resetWorld", "createWorld"))
    outcome = fuzzing.run(
        target,
        document,
        _headers(credentials, api, caller),
        max_examples=max_examples,
        seed=SEED,
        allowed=ALLOWED[api],
        # What is fuzzed there is the clock itself, and the credentials of the control API.
        moves_clock=api != "control",
        phases=[phase for phase in fuzzing.PHASES if covers or phase != "coverage"],
    )
    print(f"{api} by {caller}: {dict(outcome.calls)} calls in {outcome.seconds:.1f} s, {dict(outcome.allowed)}")
    assert not outcome.failures, outcome.text()
    assert {"examples", "fuzzing", "stateful"} <= set(outcome.calls), outcome.calls
    assert covers == ("coverage" in outcome.calls), outcome.calls


@pytest.mark.slow
@pytest.mark.parametrize(
    ("api", "caller"),
    [pytest.param(*each, marks=pytest.mark.long if each in _GOES_ALL_THE_WAY else ()) for each in CALLERS],
)
def test_the_application_keeps_its_contract(api: str, caller: str) -> None:
    has_token = api == "control" and caller != "anybody"
    with fuzzing.in_process(CONTROL_TOKEN if has_token else "") as target:
        # A token that is missing or wrong is noticed before anything that the coverage phase makes wrong.
        covers = _IS_LONG or (api, caller) in _GOES_ALL_THE_WAY
        _check(target, api, caller, max_examples=MAX_EXAMPLES if covers else 1, covers=covers)


# What a server reads of a request is the same for every API: the short run has one API on each server, and the one
# whose destinations are paths as they are on both.
_SERVERS = (("messaging", "uvicorn"), ("messaging", "hypercorn"), ("management", "uvicorn"), ("control", "hypercorn"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("api", "server"), [*itertools.product(APIS, ("uvicorn", "hypercorn"))] if _IS_LONG else _SERVERS
)
def test_a_real_server_keeps_the_contract(api: str, server: str) -> None:
    with fuzzing.behind_a_socket(server) as target:
        caller = "anybody" if api == "control" else "account"
        _check(target, api, caller, max_examples=max(2, MAX_EXAMPLES // 10), covers=_IS_LONG)


# The operations between which links lead.
LINKED = (
    ("messaging", ("createSchedule", "getSchedule", "pauseSchedule", "resumeSchedule", "deleteSchedule")),
    ("messaging", ("publishMessage", "enqueueMessage", "getMessage", "cancelMessage")),
    ("messaging", ("listDeadLetters", "getDeadLetter", "deleteDeadLetter")),
    ("messaging", ("listDeadLetters", "getDeadLetter", "retryDeadLetter")),
    ("messaging", ("listDeadLetters", "retryDeadLetter", "getMessage", "cancelMessage")),
    (
        "management",
        (
            "createSearchIndex",
            "getSearchIndex",
            "getSearchIndexStatistics",
            "resetSearchIndexPassword",
            "renameSearchIndex",
            "deleteSearchIndex",
        ),
    ),
    ("control", ("createWorld", "getWorld", "deleteWorld")),
    ("control", ("createWorld", "getClock")),
    ("control", ("createWorld", "getWorldSetup", "forkWorld")),
    ("control", ("listRuns", "getRun", "explainRun")),
    ("control", ("createWorld", "advanceClock")),
    ("control", ("createWorld", "resetWorld")),
    ("control", ("forkWorld", "deleteWorld")),
    ("control", ("addRule", "removeRule")),
    ("control", ("listUpcoming", "listDeliveries", "explainMessage")),
    ("control", ("browseMessages", "browseDeadLetters", "explainMessage")),
    ("control", ("browseSchedules", "explainSchedule")),
    ("control", ("saveSnapshot", "restoreSnapshot", "exportSnapshot", "deleteSnapshot")),
)
# Which links are followed is left to chance: so many examples a round, and rounds until all of them were.
_EXAMPLES_A_ROUND = 4
_MOST_ROUNDS = 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("api", "operations"), [pytest.param(*each, id=f"{each[0]}-{each[1][0]}-{each[1][-1]}") for each in LINKED]
)
def test_the_links_of_the_contract_lead_to_what_was_made(api: str, operations: tuple[str, ...]) -> None:
    document = fuzzing.without_options(fuzzing.only(load(api), operations))
    if api == "control":
        document = fuzzing.without_fixtures(document, {"resetWorld", "createWorld"} & set(operations))
    left = fuzzing.links(document)
    with fuzzing.in_process() as target:
        credentials = fuzzing.furnish(target)
        for number in range(_MOST_ROUNDS):
            if api == "messaging" and "listDeadLetters" in operations:
                fuzzing.bury(target, credentials, 20)
            outcome = fuzzing.run(
                target,
                document,
                _headers(credentials, api, "anybody" if api == "control" else "account"),
                max_examples=max(_EXAMPLES_A_ROUND, MAX_EXAMPLES),
                seed=SEED + number,
                allowed=ALLOWED[api],
                moves_clock=False,
                phases=["stateful"],
                infers_links=False,
            )
            print(f"{api} by links: {dict(outcome.followed)} in {outcome.seconds:.1f} s, {dict(outcome.allowed)}")
            assert not outcome.failures, outcome.text()
            left -= outcome.followed.keys()
            if not left:
                return
    assert not left


def test_every_link_of_the_contracts_is_followed() -> None:
    followed = {link for api, operations in LINKED for link in fuzzing.links(fuzzing.only(load(api), operations))}
    assert set().union(*(fuzzing.links(load(api)) for api in APIS)) == followed
