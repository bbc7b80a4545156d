"""The pages that a person reads: the inspector's files, the book, the contracts and their reference."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, normpath

import pytest
import yaml

from emulator.control.call import Inspector
from tests.contracts.missing import with_files, without_contracts
from tests.harness.emulators import InProcess, asgi_call, in_process, with_emulator
from tests.harness.loops import on_loop

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = "/_emulator/inspector"


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("", "text/html"),
        ("/", "text/html"),
        ("/style.css", "text/css"),
        ("/main.js", "text/javascript"),
        ("/views/timeline.js", "text/javascript"),
        ("/icon.svg", "image/svg+xml"),
    ],
)
@with_emulator(control_token="secret")
async def test_the_page_and_its_modules_are_served_with_a_strict_policy(
    emulator: InProcess, path: str, media_type: str
) -> None:
    """D-320."""
    answer = await emulator.get(f"{PAGE}{path}", {}, token=None)

    assert answer.status == 200
    assert answer.headers["content-type"].partition(";")[0] == media_type
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-cache"


@with_emulator()
async def test_the_page_names_the_modules_it_begins_with(emulator: InProcess) -> None:
    """Otherwise a browser learns of them one level of imports after the other."""
    page = (await emulator.get(PAGE, {}, token=None)).body.decode()
    named = re.findall(r'<link rel="modulepreload" href="([^"]+)">', page)
    assert f"{PAGE}/views/timeline.js" in named
    for path in [*named, f"{PAGE}/main.js"]:
        module = (await emulator.get(path, {}, token=None)).body.decode()
        imported = re.findall(r'from "(\.[^"]+)"', module)
        assert {normpath(f"{dirname(path)}/{each}") for each in imported} <= set(named)


@with_emulator()
async def test_a_copy_is_good_until_the_file_changes(emulator: InProcess) -> None:
    first = await emulator.get(f"{PAGE}/main.js", {}, token=None)
    again = await emulator.get(f"{PAGE}/main.js", {"If-None-Match": first.headers["etag"]}, token=None)
    other = await emulator.get(f"{PAGE}/main.js", {"If-None-Match": '"another"'}, token=None)

    assert (again.status, again.body) == (304, b"")
    assert (other.status, other.body) == (200, first.body)


@pytest.mark.parametrize("name", ["__init__.py", "../version.py", "..%2fversion.py", "nothing.js", "views"])
@with_emulator()
async def test_nothing_but_the_files_of_the_page_is_served(emulator: InProcess, name: str) -> None:
    assert (await emulator.get(f"{PAGE}/{name}", {}, token=None)).status == 404


# -- the book ---------------------------------------------------------------------------------


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A book of a few files, beside one that is not of it."""
    (tmp_path / "secret.html").write_text("secret")
    folder = tmp_path / "book"
    for name in ("index.html", "searchindex.js", "objects.inv", "howto/retries.html", "_static/book.css"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("index.html", "text/html"),
        ("searchindex.js", "text/javascript"),
        ("howto/retries.html", "text/html"),
        ("_static/book.css", "text/css"),
    ],
)
@on_loop
async def test_the_book_is_served_with_a_strict_policy(book: Path, name: str, media_type: str) -> None:
    """D-745."""
    async with with_files(token="secret", inspector=Inspector.OFF, book=book) as emulator:
        first = await emulator.get("/_emulator/docs", {}, token=None)
        answer = await emulator.get(f"/_emulator/docs/{name}?v=1", {}, token=None)

    assert (first.status, first.headers["location"]) == (307, "/_emulator/docs/index.html")
    assert (answer.status, answer.body) == (200, name.encode())
    assert answer.headers["content-type"].partition(";")[0] == media_type
    assert answer.headers["content-security-policy"] == POLICY.replace("form-action 'none'", "form-action 'self'")


@pytest.mark.parametrize(
    "name", ["objects.inv", "nothing.html", "howto", "..%2fsecret.html", "../secret.html", "howto/..%2findex.html"]
)
@on_loop
async def test_nothing_but_the_files_of_the_book_is_served(book: Path, name: str) -> None:
    """D-745."""
    async with with_files(book=book) as emulator:
        answer = await emulator.get(f"/_emulator/docs/{name}", {}, token=None)
        assert answer.status == 404
        assert "no operation has the path" in answer.json["error"]


@on_loop
async def test_without_a_book_the_page_says_how_to_make_it(tmp_path: Path) -> None:
    """D-745."""
    async with with_files(book=tmp_path) as emulator:
        answer = await emulator.get("/_emulator/docs", {}, token=None)

    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"python -m sphinx docs book" in answer.body


@pytest.mark.parametrize("said", [{"Origin": "http://127.0.0.1:8080"}, {"Sec-Fetch-Site": "same-origin"}])
@on_loop
async def test_a_read_only_page_changes_nothing_and_a_program_still_does(said: dict[str, str]) -> None:
    """D-321."""
    async with in_process(inspector="read-only") as emulator:
        page = await emulator.get(PAGE, {}, token=None)
        read = await emulator.get("/_emulator/clock", said)
        written = await emulator.call("POST", "/_emulator/clock/next", said)
        published = await emulator.call("POST", "/v2/publish/https://app.test", said)
        program = await emulator.call("POST", "/_emulator/clock/next")
    async with in_process() as emulator:
        allowed = await emulator.call("POST", "/_emulator/clock/next", said)

    assert b'data-mode="read-only"' in page.body
    assert (read.status, written.status, published.status, program.status) == (200, 403, 403, 200)
    assert "--inspector read-only" in written.json["error"]
    assert allowed.status == 200


@with_emulator()
async def test_one_api_in_either_format_is_the_same_document(emulator: InProcess) -> None:
    as_json = await emulator.control("GET", "/contract?api=messaging&format=json")
    as_yaml = await emulator.control("GET", "/contract?api=messaging", headers={"Accept": "application/yaml"})

    assert as_json.headers["content-type"] == "application/json"
    assert as_yaml.headers["content-type"] == "application/yaml"
    assert as_json.json["info"]["title"] == "Messaging API"
    assert yaml.load(as_yaml.body, Loader=yaml.CSafeLoader) == as_json.json
    assert as_yaml.body.startswith(b"openapi: 3.1.0\n")


@with_emulator()
async def test_the_server_is_the_one_that_was_asked(emulator: InProcess) -> None:
    answer = await asgi_call(
        emulator.emulation.app, "GET", b"/_emulator/contract", [("Host", "emulator:9000")], b"", "127.0.0.1"
    )

    assert [server["url"] for server in answer.json["servers"]] == ["http://emulator:9000"]


@with_emulator()
async def test_all_apis_are_one_document_in_which_every_reference_leads_somewhere(emulator: InProcess) -> None:
    document = (await emulator.control("GET", "/contract")).json

    def references(value: object) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*(references(each) for each in value.values()))
        return set().union(*(references(each) for each in value)) if isinstance(value, list) else set()

    for reference in references({"paths": document["paths"], "components": document["components"]}):
        _, _, kind, name = reference.split("/")
        assert name in document["components"][kind], reference
    ids = [
        operation["operationId"]
        for item in document["paths"].values()
        for operation in item.values()
        if "operationId" in operation
    ]
    assert len(ids) == len(set(ids))
    assert "/v2/publish/{destination}" in document["paths"]


@with_emulator(dialect="upstash")
async def test_names_are_those_of_the_running_dialect(emulator: InProcess) -> None:
    text = (await emulator.control("GET", "/contract")).body.decode()

    assert '"Upstash-Retries"' in text
    assert '"qstash_token"' in text
    assert "queue_token" not in text
    assert "Svc-" not in text.replace("Svc-Emulator-", "")


@pytest.mark.parametrize(
    ("query", "accept", "status", "field"),
    [("?api=nope", "*/*", 400, "api"), ("?format=toml", "*/*", 400, "format"), ("", "text/html", 406, None)],
)
@with_emulator()
async def test_what_there_is_not_is_refused(
    emulator: InProcess, query: str, accept: str, status: int, field: str | None
) -> None:
    answer = await emulator.control("GET", f"/contract{query}", headers={"Accept": accept})

    assert (answer.status, answer.json.get("field")) == (status, field)


@on_loop
async def test_a_server_without_the_files_runs_and_says_what_is_missing() -> None:
    async with without_contracts() as emulator:
        await emulator.publish("https://api.test/hook")
        answer = await emulator.control("GET", "/contract")
        assert (await emulator.control("GET", "/reference")).status == 404

    assert answer.status == 404
    assert "the contract is not there" in answer.json["error"]


# -- the reference page -----------------------------------------------------------------------


@with_emulator(dialect="upstash")
async def test_the_reference_is_a_page_that_may_load_nothing(emulator: InProcess) -> None:
    answer = await emulator.control("GET", "/reference")

    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")
    assert b"http://127.0.0.1:8080" in answer.body
    assert b"Upstash-Retries" in answer.body


@with_emulator()
async def test_the_reference_of_one_api(emulator: InProcess) -> None:
    one = await emulator.control("GET", "/reference?api=messaging")
    nope = await emulator.control("GET", "/reference?api=nope")

    assert b"Messaging API" in one.body
    assert b"Control API" not in one.body
    assert (nope.status, nope.json["field"]) == (400, "api")


# -- a browser --------------------------------------------------------------------------------

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize("path", ["/", "/?a=1", "/_emulator", "/_emulator/"])
@with_emulator(control_token="secret")
async def test_a_browser_is_sent_to_the_page_that_says_what_this_is(emulator: InProcess, path: str) -> None:
    """D-294, D-320."""
    answer = await emulator.get(path, {"Accept": BROWSER}, token=None)
    headers = {"Accept": BROWSER, "Authorization": "Bearer secret"}
    page = await emulator.get(answer.headers["location"], headers, token=None)

    assert (answer.status, answer.headers["location"]) == (307, "/_emulator/inspector")
    assert page.headers["content-type"].startswith("text/html")
    assert b"/_emulator/inspector/main.js" in page.body


@with_emulator(inspector="off")
async def test_without_the_inspector_a_browser_is_sent_to_the_reference(emulator: InProcess) -> None:
    answer = await emulator.get("/", {"Accept": BROWSER}, token=None)
    page = await emulator.get("/_emulator/inspector", {"Accept": BROWSER}, token=None)
    reference = await emulator.get(answer.headers["location"], {"Accept": BROWSER}, token=None)

    assert (answer.status, answer.headers["location"]) == (307, "/_emulator/reference")
    assert page.status == 404
    assert b"A local emulator of an HTTP message-scheduling service" in reference.body
    assert b"<code>svc-emulator env</code>" in reference.body


@pytest.mark.parametrize("path", ["/", "/_emulator"])
@pytest.mark.parametrize("accept", ["", "*/*", "application/json", "application/json, text/html;q=0.5"])
@with_emulator()
async def test_other_clients_are_told_that_the_path_has_no_operation(
    emulator: InProcess, path: str, accept: str
) -> None:
    answer = await emulator.get(path, {"Accept": accept} if accept else {}, token=None)

    assert (answer.status, answer.json["error"]) == (404, f"no operation has the path {path}")
