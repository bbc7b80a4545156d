"""What the third parties of call steps answer in the Python applications."""

from __future__ import annotations

import json
from typing import Any


def answer(method: str, body: Any, x_answer: str | None) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers, by method: a success, a text, and failures of three kinds.

    `x_answer` is the header X-Answer that the call step has asked for.
    """
    answers: dict[str, tuple[int, str, dict[str, str]]] = {
        "POST": (201, json.dumps({"got": body, "answer": x_answer}), {}),
        "GET": (200, "plain", {"X-Shop": "ada"}),
        "PATCH": (401, "no", {}),
        "PUT": (300, "", {}),
        "DELETE": (400, json.dumps({"foo": "bar"}), {}),
    }
    return answers[method]
