"""The contract as one HTML page to read: it needs no network, no script, and nothing beside itself.

Everything from a document is escaped; of its Markdown, paragraphs, lists, code and emphasis are shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape

from emulator.contract.document import Api, items, operations, parameters, resolved, table, text
from emulator.core.record import Record
from emulator.wire.json_fields import Json, JsonObject

# What a browser may load for the page: nothing but the style within it.
CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

# Objects within objects are shown so deep; deeper ones by what they are.
_DEEPEST = 5


def page(documents: Mapping[Api, JsonObject], url: str, version: str) -> str:
    """The reference of these APIs for the server at `url`."""
    chapters = [_Chapter(api=api, document=document) for api, document in documents.items()]
    return _PAGE.format(
        style=_STYLE,
        version=escape(version),
        url=escape(url),
        contents="".join(_contents(chapter) for chapter in chapters),
        chapters="".join(_chapter(chapter) for chapter in chapters),
    )


class _Chapter(Record):
    """One API on the page. Its anchors begin with the API's name."""

    api: Api
    document: JsonObject

    @property
    def title(self) -> str:
        return text(table(self.document.get("info")).get("title")) or self.api.capitalize()

    def anchor(self, *parts: str) -> str:
        return "-".join((self.api.value, *(re.sub(r"[^A-Za-z0-9_.]+", "-", part) for part in parts)))

    def by_tag(self) -> dict[str, list[_Operation]]:
        """The operations under their first tag, tags in the document's order."""
        found: dict[str, list[_Operation]] = {
            text(table(tag).get("name")): [] for tag in items(self.document.get("tags"))
        }
        for path, method, operation in operations(self.document):
            tags = items(operation.get("tags"))
            found.setdefault(text(tags[0]) if tags else "Operations", []).append(
                _Operation(chapter=self, path=path, method=method, content=operation)
            )
        return {tag: entries for tag, entries in found.items() if entries}

    def tag_text(self, name: str) -> str:
        for tag in items(self.document.get("tags")):
            if table(tag).get("name") == name:
                return text(table(tag).get("description"))
        return ""


class _Operation(Record):
    """One operation on the page."""

    chapter: _Chapter
    path: str
    method: str
    content: JsonObject

    @property
    def anchor(self) -> str:
        return self.chapter.anchor("op", text(self.content.get("operationId")) or f"{self.method}-{self.path}")

    @property
    def summary(self) -> str:
        return text(self.content.get("summary")) or f"{self.method} {self.path}"


# -- the page ---------------------------------------------------------------------------------


def _contents(chapter: _Chapter) -> str:
    groups = "".join(
        f"<h3>{escape(tag)}</h3><ul>"
        + "".join(
            f'<li><a href="#{each.anchor}">{escape(each.summary)}</a> {_badge(each.method)}</li>' for each in entries
        )
        + "</ul>"
        for tag, entries in chapter.by_tag().items()
    )
    return (
        f'<details open><summary><a href="#{chapter.anchor()}">{escape(chapter.title)}</a></summary>{groups}</details>'
    )


def _chapter(chapter: _Chapter) -> str:
    info = table(chapter.document.get("info"))
    groups = "".join(
        f'<section><h3 id="{chapter.anchor("tag", tag)}">{escape(tag)}</h3>{_prose(chapter.tag_text(tag))}'
        f"{''.join(_operation(each) for each in entries)}</section>"
        for tag, entries in chapter.by_tag().items()
    )
    return (
        f'<section class="api"><h2 id="{chapter.anchor()}">{escape(chapter.title)}</h2>'
        f'<p class="lead">{_inline(text(info.get("summary")))}</p>{_prose(text(info.get("description")))}'
        f"{_security(chapter)}{groups}{_schemas(chapter)}</section>"
    )


def _security(chapter: _Chapter) -> str:
    schemes = table(table(chapter.document.get("components")).get("securitySchemes"))
    if not schemes:
        return ""
    rows = "".join(
        f"<dt><code>{escape(name)}</code> <span class=note>{escape(_scheme(table(scheme)))}</span></dt>"
        f"<dd>{_prose(text(table(scheme).get('description')))}</dd>"
        for name, scheme in schemes.items()
    )
    return f"<h3>Authentication</h3><dl>{rows}</dl>"


def _scheme(scheme: JsonObject) -> str:
    if scheme.get("type") == "http":
        return f"Authorization: {text(scheme.get('scheme')).capitalize()} …"
    return f"{text(scheme.get('in'))} {text(scheme.get('name'))}".strip()


def _operation(operation: _Operation) -> str:
    content, chapter = operation.content, operation.chapter
    return (
        f'<article id="{operation.anchor}"><h4><a href="#{operation.anchor}">{escape(operation.summary)}</a></h4>'
        f'<p class="route">{_badge(operation.method)} <code>{_path(operation.path)}</code></p>'
        f"{_prose(text(content.get('description')))}{_marks(content)}{_access(operation)}"
        f"{_parameters(operation)}{_request(chapter, content)}{_responses(chapter, content)}</article>"
    )


def _badge(method: str) -> str:
    return f'<span class="method {method.lower()}">{escape(method)}</span>'


def _path(path: str) -> str:
    # A long path may be broken behind its slashes.
    return re.sub(r"(\{[^}]*\})", r"<i>\1</i>", escape(path).replace("/", "/<wbr>"))


def _marks(content: JsonObject) -> str:
    given = content.get("x-decision")
    numbers = [given] if isinstance(given, str) else [each for each in items(given) if isinstance(each, str)]
    return f'<p class="note">Decided: {escape(", ".join(numbers))}</p>' if numbers else ""


def _access(operation: _Operation) -> str:
    security = operation.content.get("security", operation.chapter.document.get("security"))
    names = [" and ".join(table(each)) or "nothing" for each in items(security)]
    return f'<p class="note">Needs: {escape(" or ".join(names))}</p>' if names else ""


def _parameters(operation: _Operation) -> str:
    document = operation.chapter.document
    rows = "".join(
        _parameter(operation.chapter, each) for each in parameters(document, operation.path, operation.content)
    )
    return f"<h5>Parameters</h5><dl>{rows}</dl>" if rows else ""


def _parameter(chapter: _Chapter, parameter: JsonObject) -> str:
    where = text(parameter.get("in"))
    twin = parameter.get("x-query-name")
    notes = [f"{where}, or query <code>{escape(twin)}</code>" if isinstance(twin, str) else escape(where)]
    if parameter.get("required") is True and where != "path":
        notes.append("<strong>required</strong>")
    example = _example(parameter)
    return (
        f"<dt><code>{escape(text(parameter.get('name')))}</code> {_kind(chapter, parameter.get('schema'))} "
        f'<span class="note">{" · ".join(notes)}</span></dt><dd>{_prose(text(parameter.get("description")))}'
        f"{_bounds(chapter, parameter.get('schema'))}"
        f"{'' if example is None else f'<p class=note>Example: <code>{escape(example)}</code></p>'}</dd>"
    )


def _example(holder: JsonObject) -> str | None:
    example = holder.get("example")
    if example is None:
        named = [table(each).get("value") for each in table(holder.get("examples")).values()]
        example = named[0] if named else None
    if example is None:
        return None
    return example if isinstance(example, str) else json.dumps(example, ensure_ascii=False)


def _request(chapter: _Chapter, content: JsonObject) -> str:
    body = resolved(chapter.document, content.get("requestBody"))
    if not body:
        return ""
    needed = "required" if body.get("required") is True else "optional"
    return (
        f'<h5>Request body <span class="note">{needed}</span></h5>{_prose(text(body.get("description")))}'
        f"{_media(chapter, body)}"
    )


def _responses(chapter: _Chapter, content: JsonObject) -> str:
    shown = []
    for status, each in table(content.get("responses")).items():
        response = resolved(chapter.document, each)
        headers = "".join(
            _header(chapter, name, resolved(chapter.document, header))
            for name, header in table(response.get("headers")).items()
        )
        inside = _media(chapter, response) + (f"<h6>Headers</h6><dl>{headers}</dl>" if headers else "")
        words = f'<span class="status s{escape(status[:1])}">{escape(status)}</span> '
        words += _inline(text(response.get("description")))
        is_open = " open" if status.startswith("2") else ""
        shown.append(
            f"<details{is_open}><summary>{words}</summary>{inside}</details>"
            if inside
            else f'<p class="bare">{words}</p>'
        )
    return f"<h5>Responses</h5>{''.join(shown)}" if shown else ""


def _header(chapter: _Chapter, name: str, header: JsonObject) -> str:
    return (
        f"<dt><code>{escape(name)}</code> {_kind(chapter, header.get('schema'))}</dt>"
        f"<dd>{_prose(text(header.get('description')))}</dd>"
    )


def _media(chapter: _Chapter, holder: JsonObject) -> str:
    shown = []
    for media_type, each in table(holder.get("content")).items():
        media = table(each)
        schema = media.get("schema")
        example = media.get("example")
        if example is None:
            named = [table(value).get("value") for value in table(media.get("examples")).values()]
            example = named[0] if named else None
        shown.append(
            f'<p class="note"><code>{escape(media_type)}</code> {_kind(chapter, schema)}</p>'
            f"{_fields(chapter, schema)}{'' if example is None else _sample(example)}"
        )
    return "".join(shown)


def _sample(example: Json) -> str:
    shown = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
    return f"<pre><code>{escape(shown)}</code></pre>"


# -- schemas ----------------------------------------------------------------------------------


def _schemas(chapter: _Chapter) -> str:
    schemas = table(table(chapter.document.get("components")).get("schemas"))
    if not schemas:
        return ""
    shown = "".join(
        f'<article id="{chapter.anchor("schema", name)}"><h4><a href="#{chapter.anchor("schema", name)}">'
        f"{escape(name)}</a> {_kind(chapter, schema)}</h4>{_prose(text(table(schema).get('description')))}"
        f"{_bounds(chapter, schema)}{_fields(chapter, schema)}"
        f"{_sample(table(schema)['example']) if 'example' in table(schema) else ''}</article>"
        for name, schema in schemas.items()
    )
    return f'<h3 id="{chapter.anchor("schemas")}">Schemas</h3>{shown}'


def _fields(chapter: _Chapter, value: Json, depth: int = 0) -> str:
    """The fields of an object that is described in place; a named schema is described once, elsewhere."""
    schema = table(value)
    if "$ref" in schema or depth > _DEEPEST:
        return ""
    inner = schema.get("items")
    if isinstance(inner, Mapping):
        return _fields(chapter, inner, depth + 1)
    required = [text(each) for each in items(schema.get("required"))]
    rows = []
    for name, each in table(schema.get("properties")).items():
        field = table(each)
        needed = ' <span class="note"><strong>required</strong></span>' if name in required else ""
        rows.append(
            f"<dt><code>{escape(name)}</code> {_kind(chapter, field)}{needed}</dt>"
            f"<dd>{_prose(text(field.get('description')))}{_bounds(chapter, field)}"
            f"{_fields(chapter, field, depth + 1)}</dd>"
        )
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping):
        rows.append(
            f"<dt><i>any other name</i> {_kind(chapter, extra)}</dt><dd>{_fields(chapter, extra, depth + 1)}</dd>"
        )
    own = f"<dl>{''.join(rows)}</dl>" if rows else ""
    parts = [each for key in ("allOf", "oneOf", "anyOf") for each in items(schema.get(key))]
    return own + "".join(_fields(chapter, each, depth + 1) for each in parts)


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
    given = schema.get("type")
    types = [given] if isinstance(given, str) else [text(each) for each in items(given)]
    words = [
        f"list of {_kind_words(chapter, schema['items'], depth + 1) or 'anything'}"
        if each == "array" and "items" in schema
        else escape(each)
        for each in types
    ]
    form = text(schema.get("format"))
    return " or ".join(words) + (f" ({escape(form)})" if form else "")


_LIMITS = (
    ("pattern", "matches"),
    ("minimum", "at least"),
    ("exclusiveMinimum", "more than"),
    ("maximum", "at most"),
    ("exclusiveMaximum", "less than"),
    ("minLength", "characters at least"),
    ("maxLength", "characters at most"),
    ("minItems", "entries at least"),
    ("maxItems", "entries at most"),
    ("default", "default"),
    ("const", "always"),
)


def _bounds(chapter: _Chapter, value: Json) -> str:
    """What a value may be beyond its type."""
    schema = table(value)
    if "$ref" in schema:
        schema = {key: each for key, each in schema.items() if key not in ("$ref", "description")}
    notes = [f"{words} <code>{escape(_value_text(schema[key]))}</code>" for key, words in _LIMITS if key in schema]
    if choices := items(schema.get("enum")):
        notes.insert(0, "one of " + ", ".join(f"<code>{escape(_value_text(each))}</code>" for each in choices))
    return f'<p class="note">{" · ".join(notes)}</p>' if notes else ""


def _value_text(value: Json) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


# -- Markdown ---------------------------------------------------------------------------------

_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]+?)(?<=\S)\*(?![\w*])")
_HEADING = re.compile(r"#{1,6} +(.*)")


def _prose(markdown: str) -> str:
    return "".join(_blocks(markdown))


def _blocks(markdown: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", markdown.strip()):
        lines = block.strip().splitlines()
        if not lines:
            continue
        if lines[0].lstrip().startswith(("- ", "* ")):
            yield f"<ul>{''.join(f'<li>{_inline(entry)}</li>' for entry in _entries(lines))}</ul>"
        elif (heading := _HEADING.fullmatch(lines[0])) is not None:
            yield f"<p><strong>{_inline(heading[1])}</strong></p>{_prose(chr(10).join(lines[1:]))}"
        else:
            yield f"<p>{_inline(' '.join(line.strip() for line in lines))}</p>"


def _entries(lines: list[str]) -> list[str]:
    found: list[str] = []
    for line in lines:
        stripped = line.strip()
        if stripped.startswith(("- ", "* ")):
            found.append(stripped[2:])
        else:
            found[-1] += f" {stripped}"
    return found


def _inline(markdown: str) -> str:
    """One line of Markdown, escaped; emphasis within code stays what it is."""
    pieces = _CODE.split(markdown)
    return "".join(
        f"<code>{escape(piece)}</code>" if number % 2 else _emphasised(escape(piece))
        for number, piece in enumerate(pieces)
    )


def _emphasised(escaped: str) -> str:
    return _EMPHASIS.sub(r"<em>\1</em>", _STRONG.sub(r"<strong>\1</strong>", escaped))


# -- what it looks like -----------------------------------------------------------------------

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>svc-emulator reference</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<nav aria-label="Contents"><h1>svc-emulator</h1><p class="note">version {version}<br>{url}</p>{contents}
<p class="note">As a document: <a href="/_emulator/contract?format=yaml">YAML</a>,
<a href="/_emulator/contract?format=json">JSON</a></p></nav>
<main id="content">{chapters}</main>
</body>
</html>
"""

_STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --ink: #1f2328; --soft: #5c636d; --line: #dfdcd6; --tint: #f1efea; --accent: #0b5bb5;
  --get: #0b6e4f; --post: #0b5bb5; --put: #8a5300; --patch: #6b3fa0; --delete: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16181c; --ink: #e4e2dd; --soft: #9aa1ab; --line: #30343b; --tint: #1f2228; --accent: #7db7ff;
    --get: #62c9a2; --post: #7db7ff; --put: #e0a85a; --patch: #c3a1f0; --delete: #ff8a80;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body {
  margin: 0; display: grid; grid-template-columns: 19rem minmax(0, 1fr); background: var(--paper); color: var(--ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
nav {
  position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1.5rem 1.25rem;
  border-right: 1px solid var(--line); background: var(--tint); font-size: .875rem; line-height: 1.45;
}
main { padding: 2rem clamp(1rem, 4vw, 4rem) 6rem; }
main > section, main article { max-width: 54rem; }
h1, h2, h3, h4, h5, h6 { line-height: 1.25; margin: 0; text-wrap: balance; }
h1 { font-size: 1.125rem; }
h2 { font-size: 2rem; letter-spacing: -.015em; }
.api + .api { margin-top: 5rem; padding-top: 3rem; border-top: 1px solid var(--line); }
main h3 { font-size: 1.4rem; margin-top: 3rem; }
main h4 { font-size: 1.125rem; }
main h4 a { color: inherit; }
h5 { font-size: .9375rem; margin: 1.5rem 0 .5rem; }
h6 { font-size: .875rem; margin: 1rem 0 .25rem; }
p, ul, dl, pre { margin: .6rem 0; }
.lead { font-size: 1.125rem; color: var(--soft); }
article { margin-top: 1.5rem; padding-top: 1.5rem; border-top: 1px solid var(--line); }
article:target { border-top-color: var(--accent); box-shadow: inset 0 2px var(--accent); }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
a:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 2px; }
code, pre { font-family: ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, monospace; font-size: .875em; }
code { overflow-wrap: anywhere; }
pre { padding: .75rem 1rem; overflow-x: auto; background: var(--tint); }
pre, details { border: 1px solid var(--line); border-radius: 6px; }
.route { font-size: 1.0625rem; }
.route i { color: var(--soft); font-style: normal; }
.note, .kind { color: var(--soft); font-size: .875rem; font-weight: 400; }
.note strong { color: var(--ink); }
dt { margin-top: .8rem; font-weight: 600; }
dd { margin: 0 0 0 1.25rem; }
dd p { margin: .2rem 0; }
details { padding: .4rem .8rem; margin: .4rem 0; }
details > summary { cursor: pointer; }
.bare { padding: .4rem .8rem; margin: .4rem 0; }
nav details { border: 0; padding: 0; margin: 1.25rem 0; }
nav summary { font-weight: 600; font-size: 1rem; }
nav h3 { font-size: .8125rem; color: var(--soft); font-weight: 600; margin: .9rem 0 .2rem; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li { display: flex; justify-content: space-between; gap: .5rem; padding: .1rem 0; }
nav li a { color: inherit; }
.method { font: 600 .6875rem/1.6 ui-monospace, "SF Mono", Menlo, Consolas, monospace; color: var(--soft); }
.get { color: var(--get); } .post { color: var(--post); } .put { color: var(--put); }
.patch { color: var(--patch); } .delete { color: var(--delete); }
.route .method { font-size: .875rem; }
.status { font: 600 .875rem ui-monospace, "SF Mono", Menlo, Consolas, monospace; margin-right: .35rem; }
.s2 { color: var(--get); } .s4 { color: var(--put); } .s5 { color: var(--delete); }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: 1rem; top: 1rem; z-index: 1; background: var(--paper); padding: .5rem 1rem; }
@media (max-width: 56rem) {
  body { display: block; }
  nav { position: static; height: auto; max-height: 45vh; border-right: 0; border-bottom: 1px solid var(--line); }
}
@media print {
  nav, .skip { display: none; }
  body { display: block; background: none; }
}
"""
