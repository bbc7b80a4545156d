"""The headers that make a message part of a workflow run."""

from __future__ import annotations

import pytest

from emulator.core.errors import InvalidInput, InvalidRunMessage
from emulator.core.model.names import RunId
from emulator.core.model.options import CallType, RunOptions
from emulator.wire import dialect
from emulator.wire.messaging.options import RequestKind, read_options
from tests.wire.request_parts import request


def read(*headers: tuple[str, str], query: str = "") -> RunOptions | None:
    return read_options(request(*headers, query=query), dialect.SVC, kind=RequestKind.PUBLISH).workflow


def test_all_headers_of_a_message_of_a_run() -> None:
    found = read(
        ("SVC-WORKFLOW-RUNID", "wfr_1"),
        ("Svc-Workflow-Init", "True"),
        ("Svc-Workflow-Url", "https://app.test/flow"),
        ("Svc-Workflow-CallType", "TOCALLBACK"),
        ("Svc-Workflow-Invoke", "true"),
        ("Svc-Workflow-Trigger-By-Sdk", "true"),
        ("Svc-Feature-Set", "LazyFetch, InitialBody,,WF_NoDelete"),
        ("Svc-Workflow-Whatever", "x"),
    )
    assert found == RunOptions(
        run_id=RunId("wfr_1"),
        is_init=True,
        url="https://app.test/flow",
        call_type=CallType.TO_CALLBACK,
        invokes=True,
        by_sdk=True,
        features=("LazyFetch", "InitialBody", "WF_NoDelete"),
    )


def test_an_id_alone_is_a_step() -> None:
    assert read(("Svc-Workflow-RunId", "any id")) == RunOptions(run_id=RunId("any id"))
    assert read(query="svc-workflow-runid=wfr_1") == RunOptions(run_id=RunId("wfr_1"))


def test_without_an_id_all_others_say_nothing() -> None:
    assert read(("Svc-Workflow-Init", "true"), ("Svc-Feature-Set", "LazyFetch"), ("Svc-Workflow-CallType", "?")) is None


def test_callbacks_have_their_own_level_by_level() -> None:
    options = read_options(
        request(
            ("Svc-Callback", "https://app.test/flow"),
            ("Svc-Callback-Workflow-RunId", "wfr_1"),
            ("Svc-Callback-Workflow-CallType", "fromCallback"),
            ("Svc-Callback-Failure-Callback", "https://app.test/fail"),
            ("Svc-Callback-Failure-Callback-Workflow-Runid", "wfr_1"),
            ("Svc-Callback-Failure-Callback-Workflow-Calltype", "failureCall"),
        ),
        dialect.SVC,
        kind=RequestKind.PUBLISH,
    )
    assert options.workflow is None
    assert options.callback is not None
    assert options.callback.options.workflow == RunOptions(run_id=RunId("wfr_1"), call_type=CallType.FROM_CALLBACK)
    failure = options.callback.options.failure_callback
    assert failure is not None
    assert failure.options.workflow == RunOptions(run_id=RunId("wfr_1"), call_type=CallType.FAILURE_CALL)


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ((("Svc-Retries", "x"),), InvalidInput),
        ((("Svc-Workflow-RunId", "wfr_1"), ("Svc-Retries", "x")), InvalidRunMessage),
        ((("Svc-Retries", "x"), ("Svc-Workflow-RunId", "wfr_1")), InvalidRunMessage),
    ],
)
def test_what_is_wrong_with_a_message_of_a_run_is_told_otherwise(
    headers: tuple[tuple[str, str], ...], kind: type[InvalidInput]
) -> None:
    """D-364."""
    with pytest.raises(InvalidInput) as refused:
        read(*headers)
    assert type(refused.value) is kind
    assert refused.value.field == "Svc-Retries"
