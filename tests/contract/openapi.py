"""Small OpenAPI documents for tests."""

from __future__ import annotations

from typing import Any


def document(**fields: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "T", "version": "v2"}, "paths": {}, **fields}


def schemas(**entries: Any) -> dict[str, Any]:
    return {"schemas": entries}
