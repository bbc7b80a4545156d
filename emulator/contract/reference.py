"""The contract as one HTML page to read: it needs no network, no script, and nothing beside itself.

Everything from a document is escaped; its Markdown is rendered without links, images and HTML.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from emulator.contract.document import Api, Operation, example_of, items, operations, resolved, table, text, texts
from emulator.core.record import Record
from emulator.wire.json_reader import Json, JsonObject

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

# What a browser may load for the page: nothing but the style within it.
CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_TEMPLATE = Path(__file__).with_suffix(".html")
# How deep nested objects are shown; of deeper ones only the type is.
_DEEPEST = 5


def page(documents: Mapping[Api, JsonObject], url: str, version: str) -> str:
    """The reference of these APIs for the server at `url`."""
    chapters = [_Chapter(api=api, document=document) for api, document in documents.items()]
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        version=escape(version),
        url=escape(url),
        contents="".join(map(_contents, chapters)),
        chapters="".join(map(_chapter, chapters)),
    )


class _Chapter(Record):
    """One API on the page. Its anchors begin with the API's name."""

    api: Api
    document: JsonObject

    @property
    def title(self) -> str:
        return escape(text(table(self.document.get("info")).get("title")) or self.api.capitalize())

    def anchor(self, *parts: str) -> str:
        return "-".join((self.api.value, *(re.sub(r"[^A-Za-z0-9_.]+", "-", part) for part in parts)))

    def components(self, kind: str) -> JsonObject:
        return table(table(self.document.get("components")).get(kind))

    def by_tag(self) -> dict[str, list[Operation]]:
        """The operations under their first tag, tags in the document's order."""
        found: dict[str, list[Operation]] = {name: [] for name in self.tags()}
        for operation in operations(self.document):
            tag = next((text(each) for each in items(operation.content.get("tags"))), "Operations")
            found.setdefault(tag, []).append(operation)
        return {tag: entries for tag, entries in found.items() if entries}

    def tags(self) -> dict[str, str]:
        """The description of each tag."""
        tags = [table(tag) for tag in items(self.document.get("tags"))]
        return {text(tag.get("name")): text(tag.get("description")) for tag in tags}

    def anchor_of(self, operation: Operation) -> str:
        return self.anchor("op", operation.id or f"{operation.method}-{operation.path}")

    def link_to(self, operation: Operation) -> str:
        summary = text(operation.content.get("summary")) or operation.name
        return f'<a href="#{self.anchor_of(operation)}">{escape(summary)}</a>'


# -- pieces -----------------------------------------------------------------------------------


def _code(words: str) -> str:
    return f"<code>{escape(words)}</code>"


def _badge(operation: Operation) -> str:
    return f'<span class="method {operation.method.lower()}">{escape(operation.method)}</span>'


def _note(html: str) -> str:
    return f'<p class="note">{html}</p>' if html else ""


def _entry(term: str, notes: str, about: str) -> str:
    """An entry of a list of definitions."""
    noted = f' <span class="note">{notes}</span>' if notes else ""
    return f"<dt>{term}{noted}</dt><dd>{about}</dd>"


def _definitions(heading: str, entries: Iterable[str]) -> str:
    """A list of definitions under its heading, nothing if there are none."""
    rows = "".join(entries)
    return f"{heading}<dl>{rows}</dl>" if rows else ""


def _about(value: Json) -> str:
    """The description of anything."""
    return _prose(text(table(value).get("description")))


def _written(value: Json) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _sample(example: Json) -> str:
    if example is None:
        return ""
    shown = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
    return f"<pre>{_code(shown)}</pre>"


# -- the page ---------------------------------------------------------------------------------


def _contents(chapter: _Chapter) -> str:
    groups = ""
    for tag, entries in chapter.by_tag().items():
        rows = "".join(f"<li>{chapter.link_to(each)} {_badge(each)}</li>" for each in entries)
        groups += f"<h3>{escape(tag)}</h3><ul>{rows}</ul>"
    return f'<details open><summary><a href="#{chapter.anchor()}">{chapter.title}</a></summary>{groups}</details>'


def _chapter(chapter: _Chapter) -> str:
    info = table(chapter.document.get("info"))
    groups = "".join(
        f'<section><h3 id="{chapter.anchor("tag", tag)}">{escape(tag)}</h3>{_prose(chapter.tags().get(tag, ""))}'
        f"{''.join(_operation(chapter, each) for each in entries)}</section>"
        for tag, entries in chapter.by_tag().items()
    )
    schemes = (
        _entry(_code(name), escape(_scheme(table(scheme))), _about(scheme))
        for name, scheme in chapter.components("securitySchemes").items()
    )
    schemas = "".join(_schema(chapter, *item) for item in chapter.components("schemas").items())
    if schemas:
        schemas = f'<h3 id="{chapter.anchor("schemas")}">Schemas</h3>{schemas}'
    return (
        f'<section class="api"><h2 id="{chapter.anchor()}">{chapter.title}</h2>'
        f'<p class="lead">{_inline(text(info.get("summary")))}</p>{_about(info)}'
        f"{_definitions('<h3>Authentication</h3>', schemes)}{groups}{schemas}</section>"
    )


def _scheme(scheme: JsonObject) -> str:
    if scheme.get("type") == "http":
        return f"Authorization: {text(scheme.get('scheme')).capitalize()} …"
    return f"{text(scheme.get('in'))} {text(scheme.get('name'))}".strip()


def _operation(chapter: _Chapter, operation: Operation) -> str:
    content = operation.content
    # A long path may be broken behind its slashes.
    path = re.sub(r"(\{[^}]*\})", r"<i>\1</i>", escape(operation.path).replace("/", "/<wbr>"))
    decisions = ", ".join(texts(content.get("x-decision")))
    security = content.get("security", chapter.document.get("security"))
    needed = " or ".join(" and ".join(table(each)) or "nothing" for each in items(security))
    rows = (_parameter(chapter, each) for each in operation.parameters())
    return (
        f'<article id="{chapter.anchor_of(operation)}"><h4>{chapter.link_to(operation)}</h4>'
        f'<p class="route">{_badge(operation)} <code>{path}</code></p>{_about(content)}'
        f"{_note(f'Decided: {escape(decisions)}' if decisions else '')}"
        f"{_note(f'Needs: {escape(needed)}' if needed else '')}{_definitions('<h5>Parameters</h5>', rows)}"
        f"{_request(chapter, content)}{_responses(chapter, content)}</article>"
    )


def _parameter(chapter: _Chapter, parameter: JsonObject) -> str:
    schema, place, twin = parameter.get("schema"), text(parameter.get("in")), parameter.get("x-query-name")
    notes = f"{escape(place)}, or query {_code(twin)}" if isinstance(twin, str) else escape(place)
    if parameter.get("required") is True and place != "path":
        notes += " · <strong>required</strong>"
    example = example_of(parameter)
    shown = "" if example is None else f"Example: {_code(_written(example))}"
    about = f"{_about(parameter)}{_bounds(schema)}{_note(shown)}"
    return _entry(f"{_code(text(parameter.get('name')))} {_kind(chapter, schema)}", notes, about)


def _request(chapter: _Chapter, content: JsonObject) -> str:
    body = resolved(chapter.document, content.get("requestBody"))
    needed = "required" if body.get("required") is True else "optional"
    heading = f'<h5>Request body <span class="note">{needed}</span></h5>'
    return f"{heading}{_about(body)}{_media(chapter, body)}" if body else ""


def _responses(chapter: _Chapter, content: JsonObject) -> str:
    shown = ""
    for status, each in table(content.get("responses")).items():
        response = resolved(chapter.document, each)
        headers = {name: resolved(chapter.document, header) for name, header in table(response.get("headers")).items()}
        rows = (
            _entry(f"{_code(name)} {_kind(chapter, header.get('schema'))}", "", _about(header))
            for name, header in headers.items()
        )
        inside = _media(chapter, response) + _definitions("<h6>Headers</h6>", rows)
        words = f'<span class="status s{escape(status[:1])}">{escape(status)}</span> '
        words += _inline(text(response.get("description")))
        if inside:
            is_open = " open" if status.startswith("2") else ""
            shown += f"<details{is_open}><summary>{words}</summary>{inside}</details>"
        else:
            shown += f'<p class="bare">{words}</p>'
    return f"<h5>Responses</h5>{shown}" if shown else ""


def _media(chapter: _Chapter, holder: JsonObject) -> str:
    shown = ""
    for media_type, each in table(holder.get("content")).items():
        schema = table(each).get("schema")
        shown += _note(f"{_code(media_type)} {_kind(chapter, schema)}")
        shown += _fields(chapter, schema) + _sample(example_of(table(each)))
    return shown


# -- schemas ----------------------------------------------------------------------------------


def _schema(chapter: _Chapter, name: str, schema: Json) -> str:
    anchor = chapter.anchor("schema", name)
    return (
        f'<article id="{anchor}"><h4><a href="#{anchor}">{escape(name)}</a> {_kind(chapter, schema)}</h4>'
        f"{_about(schema)}{_bounds(schema)}{_fields(chapter, schema)}{_sample(table(schema).get('example'))}</article>"
    )


def _fields(chapter: _Chapter, value: Json, depth: int = 0) -> str:
    """The fields of an object that is described in place; a named schema is described once, elsewhere."""
    schema = table(value)
    if "$ref" in schema or depth > _DEEPEST:
        return ""
    if isinstance(schema.get("items"), Mapping):
        return _fields(chapter, schema["items"], depth + 1)
    required = texts(schema.get("required"))
    rows = [
        _entry(
            f"{_code(name)} {_kind(chapter, field)}",
            "<strong>required</strong>" if name in required else "",
            f"{_about(field)}{_bounds(field)}{_fields(chapter, field, depth + 1)}",
        )
        for name, field in table(schema.get("properties")).items()
    ]
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping):
        rows.append(_entry(f"<i>any other name</i> {_kind(chapter, extra)}", "", _fields(chapter, extra, depth + 1)))
    parts = [each for key in ("allOf", "oneOf", "anyOf") for each in items(schema.get(key))]
    return _definitions("", rows) + "".join(_fields(chapter, each, depth + 1) for each in parts)


def _kind(chapter: _Chapter, schema: Json) -> str:
    words = _kind_words(chapter, schema, 0)
    return f'<span class="kind">{words}</span>' if words else ""


def _kind_words(chapter: _Chapter, value: Json, depth: int) -> str:
    schema = table(value)
    if depth > _DEEPEST:
        return "…"
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        return f'<a href="#{chapter.anchor("schema", name)}">{escape(name)}</a>'
    for key, between in (("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")):
        if parts := items(schema.get(key)):
            return between.join(_kind_words(chapter, each, depth + 1) for each in parts)
    words = [
        f"list of {_kind_words(chapter, schema['items'], depth + 1) or 'anything'}"
        if each == "array" and "items" in schema
        else escape(each)
        for each in texts(schema.get("type"))
    ]
    form = text(schema.get("format"))
    return " or ".join(words) + (f" ({escape(form)})" if form else "")


_LIMITS = {
    "pattern": "matches",
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
    "minLength": "characters at least",
    "maxLength": "characters at most",
    "minItems": "entries at least",
    "maxItems": "entries at most",
    "default": "default",
    "const": "always",
}


def _bounds(value: Json) -> str:
    """What a value may be beyond its type."""
    schema = table(value)
    choices = ", ".join(_code(_written(each)) for each in items(schema.get("enum")))
    limits = [f"{words} {_code(_written(schema[key]))}" for key, words in _LIMITS.items() if key in schema]
    return _note(" · ".join([f"one of {choices}", *limits] if choices else limits))


# -- Markdown ---------------------------------------------------------------------------------


def _prose(markdown: str) -> str:
    """Paragraphs of Markdown as HTML."""
    rendered: str = _markdown().render(markdown)
    return rendered


def _inline(markdown: str) -> str:
    """One line of Markdown as HTML."""
    rendered: str = _markdown().renderInline(markdown)
    return rendered


@functools.cache
def _markdown() -> MarkdownIt:
    """A CommonMark renderer that leaves HTML, images and links the text that they are."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).disable(["link", "image", "autolink", "reference"])
    # Headings are for the structure of the page.
    markdown.add_render_rule("heading_open", lambda *_: "<p><strong>")
    markdown.add_render_rule("heading_close", lambda *_: "</strong></p>\n")
    return markdown
