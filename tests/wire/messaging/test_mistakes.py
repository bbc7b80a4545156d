"""Names that are probably mistaken for options."""

from __future__ import annotations

import pytest

from emulator.contract import files
from emulator.contract.document import Api
from emulator.contract.operations import operations_of
from emulator.wire.dialect import SVC, load
from emulator.wire.messaging.mistakes import mistake
from emulator.wire.messaging.options import is_option


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("svc-rtries", "Svc-Rtries: unknown, did you mean Svc-Retries?"),
        ("svc-callback-retires", "Svc-Callback-Retires: unknown, did you mean Svc-Callback-Retries?"),
        ("svc-foo", "Svc-Foo: unknown"),
        ("scv-delay", "Scv-Delay: unknown, did you mean Svc-Delay?"),
        ("svc_retry_delay", "Svc_retry_delay: unknown, did you mean Svc-Retry-Delay?"),
        ("upstash-delay", "Upstash-Delay: is of the dialect upstash, this server speaks svc, did you mean Svc-Delay?"),
        ("upstash-x", "Upstash-X: is of the dialect upstash, this server speaks svc"),
    ],
)
def test_a_mistaken_name_is_told_with_what_was_meant(name: str, text: str) -> None:
    """D-334."""
    assert mistake(name, SVC) == text


@pytest.mark.parametrize(
    "name",
    [
        *("svc-delay", "svc-forward-x", "svc-callback-forward-x", "svc-callback-failure-callback-retries"),
        *("host", "accept", "content-type", "authorization", "user-agent", "x-delay", "idempotency-key", "x"),
        *("svc-workflow-sdk-version", "svc-failure-callback-workflow-sdk-version", "svc-workflow-invoke-count"),
        *("svc-telemetry-sdk", "upstash-telemetry-sdk", "svc-emulator-contract", "traceparent", "retry-after"),
    ],
)
def test_other_names_say_nothing(name: str) -> None:
    assert mistake(name, SVC) is None


def test_names_are_those_of_the_dialect() -> None:
    upstash = load("upstash")
    assert mistake("upstash-delay", upstash) is None
    assert mistake("svc-delay", upstash) == (
        "Svc-Delay: is of the dialect svc, this server speaks upstash, did you mean Upstash-Delay?"
    )


def test_options_are_those_of_the_contract() -> None:
    """A header that the contract names is none that is warned of, and the other way round."""
    found = files.documents((Api.MESSAGING,), SVC)
    names = {name for each in operations_of(Api.MESSAGING, found[Api.MESSAGING]) for name in each.headers}
    own = {name.removeprefix("svc-").removesuffix("*") for name in names if name.startswith("svc-")}
    assert {name for name in own if not is_option(name + "x" * name.endswith("-"))} <= {
        "callback-",
        "failure-callback-",
        # Workflow clients may say more than has an effect; what is like a name that has one is told.
        "workflow-",
    }
    assert mistake("svc-workflow-runidd", SVC) == "Svc-Workflow-Runidd: unknown, did you mean Svc-Workflow-Runid?"
