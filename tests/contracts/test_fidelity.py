"""The fidelity page says what the contracts and the decisions say."""

from __future__ import annotations

from emulator import resources
from tests.contracts import fidelity
from tests.contracts.documents import all_operations


def test_page_is_the_generated_one() -> None:
    """To mend it: `python -m tests.contracts.fidelity > contracts/fidelity.md`."""
    assert resources.path("contracts", "fidelity.md").read_text(encoding="utf-8") == fidelity.page()


def test_every_operation_has_a_row_and_every_number_a_certainty() -> None:
    text = fidelity.page()
    for operation in all_operations():
        assert f"| `{operation.method.upper()} {operation.path}` |" in text
    assert set(fidelity.certainties().values()) == {"known", "observed", "chosen"}


def test_decisions_are_found_wherever_they_are_cited() -> None:
    part = {"x-decision": "D-001", "parameters": [{"x-decision": ["D-002", "D-003"]}, {"schema": {"type": "string"}}]}
    assert list(fidelity.decisions_of(part)) == ["D-001", "D-002", "D-003"]
