"""The files of the contracts, and the grammars in them."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.routing import Route

from emulator import resources
from emulator.api.endpoint import PathEndpoint
from tests.contracts.conformance import check_value
from tests.contracts.documents import APIS, Operation, all_operations, load, operations, resolved, walk
from tests.harness.emulators import InProcess, with_emulator

# -- the contracts as documents: valid, complete, consistent, and with the operations that the application has ---


each_api = pytest.mark.parametrize("api", APIS)


DECISION = re.compile(r"D-[0-9]{3}")


def each_operation(check: Callable[[Operation], None]) -> Callable[[], None]:
    """A test that holds every operation against a check, and names those that fail it."""

    @functools.wraps(check)
    def test() -> None:
        wrong: dict[str, str] = {}
        for operation in all_operations():
            try:
                check(operation)
            except AssertionError as error:
                wrong[operation.id] = str(error)
        assert wrong == {}

    # pytest reads the parameters of what is wrapped.
    del test.__wrapped__
    return test


# -- as OpenAPI -------------------------------------------------------------------------------


@each_api
def test_a_contract_is_valid_openapi_3_1(api: str) -> None:
    document = load(api)
    assert document["openapi"] == "3.1.0"
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


class _StrictLoader(yaml.CSafeLoader):
    """Refuses a key that occurs twice, where YAML readers keep the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), node.start_mark
        return super().construct_mapping(node, deep)


@each_api
def test_a_contract_holds_what_json_can_hold_and_no_key_twice(api: str) -> None:
    text = resources.path("contracts", f"{api}.openapi.yaml").read_text(encoding="utf-8")
    # YAML takes an unquoted 2026-01-01 for a date, and `yes` for true.
    for place, value in walk(yaml.load(text, _StrictLoader)):
        assert value is None or isinstance(value, dict | list | str | int | float | bool), (place, value)
        if isinstance(value, dict):
            assert all(isinstance(key, str) for key in value), (place, list(value))


@each_api
def test_references_point_at_components_and_every_component_is_used(api: str) -> None:
    document = load(api)
    targets = {value["$ref"] for _, value in walk(document) if isinstance(value, dict) and "$ref" in value}
    for target in targets:
        assert resolved(document, {"$ref": target})
    components = {
        f"#/components/{kind}/{name}"
        for kind, found in document["components"].items()
        for name in found
        if kind != "securitySchemes"
    }
    assert targets == components
    schemes = set(document["components"]["securitySchemes"])
    assert {name for item in document["security"] for name in item} == schemes


def test_operation_ids_are_unique_over_all_contracts() -> None:
    # A server can show all of them in one document.
    assert [name for name, count in Counter(operation.id for operation in all_operations()).items() if count > 1] == []


@each_api
def test_tags_are_those_that_operations_have(api: str) -> None:
    declared = [tag["name"] for tag in load(api)["tags"]]
    used = {tag for operation in operations(api) for tag in operation.details["tags"]}
    assert set(declared) == used
    assert len(declared) == len(used)
    assert all(tag["description"] for tag in load(api)["tags"])


@each_operation
def test_an_operation_says_what_it_does(operation: Operation) -> None:
    assert re.fullmatch(r"[a-z][A-Za-z0-9]+", operation.id)
    assert len(operation.details["tags"]) == 1
    assert 0 < len(operation.details["summary"]) <= 80
    assert not operation.details["summary"].endswith(".")
    assert operation.details["description"].strip().endswith(".")


@each_operation
def test_path_parameters_are_those_of_the_path(operation: Operation) -> None:
    named = [parameter["name"] for parameter in operation.parameters if parameter["in"] == "path"]
    assert named == re.findall(r"\{([^}]+)\}", operation.path)
    keys = [
        (parameter["in"], parameter["name"].lower() if parameter["in"] == "header" else parameter["name"])
        for parameter in operation.parameters
    ]
    assert [key for key, count in Counter(keys).items() if count > 1] == []


@each_operation
def test_a_parameter_has_a_description_a_grammar_and_an_example(operation: Operation) -> None:
    for parameter in operation.parameters:
        at = (operation.id, parameter["name"])
        assert parameter["description"].strip().endswith("."), at
        examples = _examples(parameter)
        assert examples, at
        for example in examples:
            check_value(operation.api, parameter["schema"], example)
        assert _has_grammar(load(operation.api), parameter["schema"]), at


@each_operation
def test_configuration_headers_have_a_twin_in_the_query(operation: Operation) -> None:
    for parameter in operation.parameters:
        if parameter["in"] == "header" and parameter["name"].startswith("Svc-"):
            assert parameter["x-query-name"] == parameter["name"].lower()


@each_operation
def test_examples_follow_their_schemas(operation: Operation) -> None:
    document = load(operation.api)
    request = resolved(document, operation.details.get("requestBody", {}))
    described = [
        content for content in request.get("content", {}).values() if "example" in content or "examples" in content
    ]
    for response in operation.responses.values():
        described += response.get("content", {}).values()
        for header in response.get("headers", {}).values():
            found = resolved(document, header)
            # A header is a text, whatever its example looks like.
            check_value(operation.api, found["schema"], str(found["example"]))
    for content in described:
        for example in _examples(content):
            check_value(operation.api, content["schema"], example)


@each_api
def test_examples_of_schemas_follow_them(api: str) -> None:
    for name, schema in load(api)["components"]["schemas"].items():
        if "example" in schema:
            check_value(api, {"$ref": f"#/components/schemas/{name}"}, schema["example"])


# -- complete ---------------------------------------------------------------------------------


@each_operation
def test_every_refusal_has_the_one_error_shape(operation: Operation) -> None:
    error = {"application/json": {"$ref": "#/components/schemas/Error"}}
    for status, response in operation.responses.items():
        if status == "default":  # What somebody else has answered has a shape of its own.
            continue
        assert status[0] in "2345"
        # How a server is, is the same answer whether it is well or not.
        if status[0] in "45" and (operation.id, status) != ("getHealth", "503"):
            found = {kind: content["schema"] for kind, content in response["content"].items()}
            assert found == error, (operation.id, status)


def test_the_error_shape_is_the_same_in_every_contract() -> None:
    """But for `next`, which the emulator's own API alone has (D-747)."""
    for api in APIS:
        error = load(api)["components"]["schemas"]["Error"]
        more = ["next"] if api == "control" else []
        assert error["required"] == ["error", *more]
        assert error["properties"].keys() == {"error", "field", *more}
        assert error["additionalProperties"] is False


@each_operation
def test_an_operation_lists_the_failures_it_can_have(operation: Operation) -> None:
    statuses = operation.responses.keys()
    assert statuses >= {"400"}
    assert ("401" in statuses) == (operation.security != [])
    # A streamed body may have any size (D-204).
    assert ("413" in statuses) == ("requestBody" in operation.details and "x-streamed" not in operation.details)
    # Every operation refuses foreign web pages (D-150, D-270).
    assert "403" in statuses
    assert ("406" in statuses) == (operation.api == "management" or operation.id == "getContract")


@each_api
def test_a_response_leaves_no_field_open(api: str) -> None:
    document = load(api)
    for operation in operations(api):
        for status, response in operation.responses.items():
            for content in response.get("content", {}).values():
                for place, schema in _schemas(document, content["schema"]):
                    assert _is_closed(schema), (operation.id, status, place)


@each_api
def test_every_field_of_a_response_is_described(api: str) -> None:
    document = load(api)
    for operation in operations(api):
        for response in operation.responses.values():
            for content in response.get("content", {}).values():
                for place, schema in _schemas(document, content["schema"]):
                    for name, field in schema.get("properties", {}).items():
                        described = field.get("description") or resolved(document, field).get("description")
                        assert described, (operation.id, place, name)


@each_api
def test_decisions_are_those_of_the_list(api: str) -> None:
    names = ("decisions.md", "own_decisions.md")
    decisions = "".join(resources.path("contracts", name).read_text("utf-8") for name in names)
    known = set(re.findall(r"^### (D-[0-9]{3}) ", decisions, re.MULTILINE))
    for place, value in walk(load(api)):
        if place.endswith("/x-decision"):
            cited = value if isinstance(value, list) else [value]
            assert cited, place
            assert all(DECISION.fullmatch(number) for number in cited), (place, value)
            assert set(cited) <= known, (place, value)
        elif isinstance(value, str):
            assert set(DECISION.findall(value)) <= known, (place, value)


def test_what_the_interface_document_shows_is_there() -> None:
    shown = {
        ("GET", "/v2/search"),
        ("POST", "/v2/search"),
        ("GET", "/v2/search/{id}"),
        ("GET", "/v2/vector/index/{id}/stats"),
        ("GET", "/v2/queue/user/{id}"),
        ("GET", "/v2/queue/stats/{id}"),
        ("POST", "/v2/schedules/{destination}"),
        ("POST", "/v2/publish/{destination}"),
        ("PATCH", "/v2/topics/{url_group_name}"),
        ("GET", "/v2/flowControl"),
        ("POST", "/v2/flowControl/{flowControlKey}/reset"),
        ("GET", "/v2/globalParallelism"),
        ("GET", "/v2/events"),
        ("GET", "/v2/dlq"),
    }
    assert shown <= {(operation.method, operation.path) for operation in all_operations()}


@each_api
def test_links_lead_to_operations_and_their_parameters(api: str) -> None:
    document = load(api)
    by_id = {operation.id: operation for operation in operations(api)}
    for operation in operations(api):
        for response in operation.responses.values():
            for name, link in response.get("links", {}).items():
                target = by_id[link["operationId"]]
                assert link["parameters"].keys() <= {parameter["name"] for parameter in target.parameters}, name
                (content,) = response["content"].values()
                for expression in link["parameters"].values():
                    pointer = expression.removeprefix("$response.body#/").split("/")
                    assert _has_field(document, content["schema"], pointer), (operation.id, name, expression)


# -- the application --------------------------------------------------------------------------


@with_emulator()
async def test_contracts_and_routes_have_the_same_operations(emulator: InProcess) -> None:
    routes = emulator.emulation.app.routes
    served: set[tuple[str, str]] = set()
    for route in routes:
        assert isinstance(route, Route)
        assert isinstance(route.endpoint, PathEndpoint)
        path = re.sub(r"\{[^}]+\}", "{}", route.path)
        served |= {(method, path) for method in route.endpoint.methods}
    described = [(operation.method, re.sub(r"\{[^}]+\}", "{}", operation.path)) for operation in all_operations()]
    assert len(described) == len(set(described))
    assert set(described) - served == set()
    assert served - set(described) == set()


# -- looking into schemas ---------------------------------------------------------------------


def _examples(described: Any) -> list[Any]:
    given = [example["value"] for example in described.get("examples", {}).values()]
    return [described["example"], *given] if "example" in described else given


def _has_grammar(document: Any, schema: Any) -> bool:
    """Whether a schema says what a value looks like: a pattern, a choice, or a range of numbers."""
    schema = resolved(document, schema)
    if schema["type"] == "array":
        return _has_grammar(document, schema["items"])
    if schema["type"] == "integer":
        return "minimum" in schema and "maximum" in schema
    return "pattern" in schema or "enum" in schema


def _schemas(
    document: Any, schema: Any, place: str = "", seen: frozenset[str] = frozenset()
) -> Iterator[tuple[str, Any]]:
    """A schema and all those inside it, with what they refer to."""
    reference = schema.get("$ref")
    if reference in seen:
        return
    if reference:
        seen |= {reference}
    schema = resolved(document, schema)
    yield place, schema
    inside = [
        *schema.get("properties", {}).items(),
        *(
            (keyword, part)
            for keyword in ("oneOf", "anyOf", "allOf")
            for part in schema.get(keyword, ())
            if "required" not in part or "type" in part
        ),
        *(
            (keyword, schema[keyword])
            for keyword in ("items", "additionalProperties")
            if isinstance(schema.get(keyword), dict)
        ),
    ]
    for name, part in inside:
        yield from _schemas(document, part, f"{place}/{name}", seen)


def _is_closed(schema: Any) -> bool:
    """Whether an object cannot have a field that is not described; a map says what its values are."""
    kind = schema.get("type", ())
    return "object" not in kind or ("additionalProperties" in schema and schema["additionalProperties"] is not True)


def _has_field(document: Any, schema: Any, pointer: list[str]) -> bool:
    schema = resolved(document, schema)
    for alternatives in ("oneOf", "anyOf"):
        if alternatives in schema and "properties" not in schema:
            return any(_has_field(document, part, pointer) for part in schema[alternatives])
    if not pointer:
        return True
    if pointer[0].isdigit():
        return "items" in schema and _has_field(document, schema["items"], pointer[1:])
    fields = schema.get("properties", {})
    return pointer[0] in fields and _has_field(document, fields[pointer[0]], pointer[1:])


# -- the nightly workflow runs every fuzz test: each belongs to one part of it ---------------------


ROOT = Path(__file__).parents[2]


FUZZED = (
    "tests/contracts/test_fuzz.py",
    "tests/properties/test_core_properties.py",
    "tests/properties/test_parsers.py",
)


WORD = re.compile(r"[A-Za-z_]+")


def collected() -> dict[str, list[str]]:
    """The names of the tests of each file."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0", "-p", "no:cacheprovider", *FUZZED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100)
    names: dict[str, list[str]] = {file: [] for file in FUZZED}
    for file, name in re.findall(r"^(tests/[^:]+)::(.+)$", done.stdout, re.MULTILINE):
        names[file].append(name)
    return names


def is_meant(expression: str, name: str) -> bool:
    """Whether pytest's `-k` takes a test: each word stands for `occurs in its name`."""
    found = WORD.sub(lambda word: word[0] if word[0] in ("and", "or", "not") else str(word[0] in name), expression)
    return bool(eval(found))


@pytest.mark.slow
def test_every_fuzz_test_belongs_to_one_part_of_the_nightly_run() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["fuzz"]
    assert any("${{ matrix.part }}" in step.get("run", "") for step in job["steps"])
    names = collected()
    assert all(names.values())
    parts = [shlex.split(part) for part in job["strategy"]["matrix"]["part"]]
    for file, own in names.items():
        expressions = [" ".join(options).removeprefix("-k ") for path, *options in parts if path == file]
        for name in own:
            meant = [expression for expression in expressions if not expression or is_meant(expression, name)]
            assert len(meant) == 1, (file, name, meant)
