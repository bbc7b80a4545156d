"""The reference page: complete, escaped, and in need of nothing but itself."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from emulator.contract import files, reference
from emulator.contract.document import Api, operations
from emulator.wire import dialect

_VOID = {"meta", "br", "wbr"}


class Page(HTMLParser):
    """What a page consists of; `open` is empty at its end if every element was closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


@pytest.fixture(scope="module")
def whole() -> Page:
    documents = files.documents(tuple(Api), dialect.load("svc"))
    return Page(reference.page(documents, "http://127.0.0.1:8080", "1.2.3"))


def made(about: str = "", **operation: Any) -> Page:
    return Page(page_of(about, **operation))


def page_of(about: str = "", **operation: Any) -> str:
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1", "description": about},
        "paths": {"/v2/a/{b}": {"get": {"operationId": "readA", **operation}}},
    }
    return reference.page({Api.CONTROL: document}, "http://x", "1")


def test_every_operation_is_there_with_its_path(whole: Page) -> None:
    for document in files.documents(tuple(Api), dialect.load("svc")).values():
        for operation in operations(document):
            assert operation.path in whole.text
            assert str(operation.content["summary"]) in whole.text


def test_every_link_leads_to_something_on_the_page(whole: Page) -> None:
    targets = whole.values("id")
    assert len(targets) == len(set(targets))
    for link in whole.values("href"):
        assert link.startswith("/_emulator/") or link.removeprefix("#") in targets


def test_the_page_is_well_formed_and_loads_nothing(whole: Page) -> None:
    assert whole.open == []
    assert whole.tags.isdisjoint({"script", "link", "img", "iframe", "object", "form"})
    assert not {name for name, _ in whole.attributes if name.startswith("on") or name == "src"}
    assert "@import" not in whole.text
    assert "url(" not in whole.text


def test_it_is_made_for_light_and_dark(whole: Page) -> None:
    assert "prefers-color-scheme: dark" in whole.text


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "`<b>`", "**<b>**"])
def test_everything_from_a_document_is_escaped(evil: str) -> None:
    found = made(
        evil,
        operationId=evil,
        summary=evil,
        description=evil,
        tags=[evil],
        **{"x-decision": evil},
        parameters=[{"name": evil, "in": evil, "description": evil, "example": evil, "schema": {"pattern": evil}}],
        requestBody={"description": evil, "content": {evil: {"example": evil, "schema": {"$ref": f"#/{evil}"}}}},
        responses={evil: {"description": evil, "headers": {evil: {"description": evil, "schema": {"enum": [evil]}}}}},
    )

    assert found.open == []
    assert found.tags.isdisjoint({"script", "img", "b"})


def test_paragraphs_lists_code_and_emphasis_are_shown() -> None:
    html = page_of("One `a*b*` **bold** and *soft*.\n\n- first\n  continues\n- second\n\n# Heading\nText 2 * 3 * 4")

    assert (
        "<p>One <code>a*b*</code> <strong>bold</strong> and <em>soft</em>.</p> "
        "<ul> <li>first continues</li> <li>second</li> </ul> "
        "<p><strong>Heading</strong></p> <p>Text 2 * 3 * 4</p>"
    ) in " ".join(html.split())


@pytest.mark.parametrize(
    "link", ["[a](javascript:alert(1))", "![a](http://x.test/a.png)", "<http://x.test>", "[a]\n\n[a]: http://x.test"]
)
def test_what_looks_like_a_link_or_an_image_stays_text(link: str) -> None:
    found = made(link)

    assert not [target for target in found.values("href") if not target.startswith(("#", "/_emulator/"))]
    assert "img" not in found.tags
    assert link.split()[-1] in found.text


def test_fields_show_type_need_and_bounds() -> None:
    schema = {
        "type": "object",
        "required": ["n"],
        "properties": {
            "n": {"type": "integer", "minimum": 1, "description": "How many."},
            "s": {"type": ["string", "null"], "enum": ["a", None]},
            "l": {"type": "array", "items": {"$ref": "#/components/schemas/E"}},
        },
    }

    text = re.sub(r"\s+", " ", made(requestBody={"content": {"application/json": {"schema": schema}}}).text)

    assert "n integer required" in text
    assert "at least 1" in text
    assert "s string or null" in text
    assert "one of a, null" in text
    assert "l list of E" in text


def test_a_schema_that_holds_itself_ends() -> None:
    circle: dict[str, Any] = {"type": "object"}
    circle["properties"] = {"again": circle}

    assert made(requestBody={"content": {"application/json": {"schema": circle}}}).open == []
