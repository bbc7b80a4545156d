"""Wrong input of every kind: refused with 400, the offender named as the client wrote it, nothing changed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from urllib.parse import quote

import pytest

from tests.harness.emulators import Answer, InProcess, in_process, with_emulator
from tests.harness.loops import on_loop

URL = "https://api.test/hook"
PREFIXES = {"svc": "Svc-", "upstash": "Upstash-"}
# An answer takes a millisecond; what works its way through hostile input takes longer.
# CPU, so that a busy machine does not matter; what is guarded against are parsers that never end.
QUICK_S = 5.0

# What every message option refuses, in every operation and at every place. Tests of the readers have all the values.
WRONG = {
    "Method": ("FETCH", "GET,POST"),
    "Delay": ("5x", "5", "9" * 400 + "s"),
    "Not-Before": ("soon", "1.5", "253402300800"),
    "Timeout": ("5x", "0s", "9007199254740992s"),
    "Retries": ("-1", "1_0", "9" * 5000),
    "Retry-Delay": ("foo(1)", "1/0", "pow(10,pow(10,pow(10,10)))", "(" * 100_000, "-" * 100_000 + "1"),
    "Callback": ("cb.test", "g"),
    "Failure-Callback": ("mailto:a@b", "https://a b/"),
    "Label": ("a,,b", "x" * 257),
    "Redact-Fields": ("everything", "body,,headers"),
    "Flow-Control-Key": ("k" * 257,),
    "Queue-Name": ("a b", "q" * 257),
    "Deduplication-Id": ("a:b", "d" * 257),
    "Content-Based-Deduplication": ("maybe", "1"),
    "Header-Forward": ("maybe", "1"),
}
FLOW_VALUES = ("rate=0", "3", "rate=1,period=8d")
CRONS = (
    "* * * *",
    "0 0 30 2 *",
    "CRON_TZ=Mars/Olympus * * * * *",
    "CRON_TZ=../../etc/passwd * * * * *",
    "CRON_TZ=UTC",
    "TZ=",
    "x" * 100_000,
    "1," * 50_000 + "1 * * * *",
)
SCHEDULE_IDS = ("a b", "a/b", "x" * 257, "a:b", "*")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an option stands: the path it concerns, and how it is given."""

    family: str
    given: str

    def option(self, name: str) -> str:
        return f"{self.family}{name}"


FAMILIES = ("", "Callback-", "Failure-Callback-", "Callback-Failure-Callback-")
PLACES = [
    Place(family=family, given=given)
    for family in FAMILIES
    for given in ("header", "query", "batch", "schedule", "group")
]


async def give(
    emulator: InProcess, prefix: str, place: Place, options: dict[str, str], *, destination: str = URL
) -> tuple[Answer, dict[str, str]]:
    """Call with these options in that place; the answer, and the refusal it holds."""
    around = {}
    if place.family:
        around["Callback" if place.family.startswith("Callback-") else "Failure-Callback"] = "https://cb.test/"
    if place.family.count("Callback-") == 2:
        around["Callback-Failure-Callback"] = "https://cb.test/"
    given = {f"{prefix}{name}": value for name, value in {**around, **options}.items()}
    if place.given == "batch":
        item = {"destination": destination, "headers": given}
        answer = await emulator.post("/v2/batch", (), [item])
        return answer, answer.json[0] if answer.status == 200 else answer.json
    if place.given == "group":
        answer = await emulator.call("PATCH", "/v2/topics/g", (), {"headers": given})
    elif place.given == "schedule":
        answer = await emulator.post(f"/v2/schedules/{destination}", {f"{prefix}Cron": "* * * * *", **given})
    elif place.given == "query":
        query = "&".join(f"{name.lower()}={quote(value, safe='')}" for name, value in given.items())
        answer = await emulator.post(f"/v2/publish/{destination}?{query}")
    else:
        answer = await emulator.post(f"/v2/publish/{destination}", given)
    return answer, answer.json


def written(prefix: str, place: Place, name: str) -> str:
    """An option's name as a client writes it in that place."""
    full = f"{prefix}{place.option(name)}"
    return full.lower() if place.given == "query" else full


async def check_refused(emulator: InProcess, prefix: str, place: Place, options: dict[str, str], field: str) -> None:
    before = emulator.image()
    began = time.process_time()
    answer, refusal = await give(emulator, prefix, place, options)
    took = time.process_time() - began
    assert answer.status == (200 if place.given == "batch" else 400), (place, options, answer.body)
    assert refusal["field"] == field, (place, answer.body)
    assert refusal["error"].startswith(f"{field}: ")
    assert len(answer.body) < 1_000
    assert took < QUICK_S
    assert emulator.image() == before


async def with_group(emulator: InProcess) -> None:
    await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": URL}]})


@pytest.mark.parametrize("dialect", PREFIXES)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.family}{place.given}")
@pytest.mark.slow
@on_loop
async def test_every_option_refuses_wrong_values_wherever_it_stands(place: Place, dialect: str) -> None:
    prefix = PREFIXES[dialect]
    async with in_process(dialect=dialect) as emulator:
        await with_group(emulator)
        for name, values in WRONG.items():
            if place.family.count("Callback-") == 2 and name.endswith("Callback"):
                continue  # Nested too deeply; that has a test of its own.
            for value in (*values, "é"):
                await check_refused(emulator, prefix, place, {place.option(name): value}, written(prefix, place, name))


@pytest.mark.parametrize("dialect", PREFIXES)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.family}{place.given}")
@on_loop
async def test_flow_control_values_are_refused_and_need_a_key(place: Place, dialect: str) -> None:
    prefix = PREFIXES[dialect]
    key, value = place.option("Flow-Control-Key"), place.option("Flow-Control-Value")
    async with in_process(dialect=dialect) as emulator:
        await with_group(emulator)
        field = written(prefix, place, "Flow-Control-Value")
        for wrong in FLOW_VALUES:
            await check_refused(emulator, prefix, place, {key: "k", value: wrong}, field)
        await check_refused(emulator, prefix, place, {value: "rate=1"}, field)


@pytest.mark.parametrize("dialect", PREFIXES)
@pytest.mark.parametrize(
    "place", [place for place in PLACES if place.family], ids=lambda place: f"{place.family}{place.given}"
)
@on_loop
async def test_a_callback_cannot_be_delayed(place: Place, dialect: str) -> None:
    prefix = PREFIXES[dialect]
    async with in_process(dialect=dialect) as emulator:
        await with_group(emulator)
        for name, value in (("Delay", "1s"), ("Delay", "1d10h"), ("Not-Before", "1767225601")):
            await check_refused(emulator, prefix, place, {place.option(name): value}, written(prefix, place, name))
        answer, _ = await give(emulator, prefix, place, {place.option("Delay"): "0s"})
        assert answer.status == 200


@pytest.mark.parametrize("place", [place for place in PLACES if place.given in ("header", "query", "schedule")])
@with_emulator()
async def test_an_option_given_twice_is_refused_and_an_empty_one_is_absent(emulator: InProcess, place: Place) -> None:
    callback = [("Svc-Callback", "https://cb.test/"), ("Svc-Failure-Callback", "https://cb.test/")]
    if place.family.count("Callback-") == 2:
        callback.append(("Svc-Callback-Failure-Callback", "https://cb.test/"))
    target = f"/v2/schedules/{URL}" if place.given == "schedule" else f"/v2/publish/{URL}"
    cron = [("Svc-Cron", "* * * * *")] if place.given == "schedule" else []
    for name, value in (("Retries", "1"), ("Timeout", "5s"), ("Label", "l"), ("Method", "PUT")):
        header = f"Svc-{place.option(name)}"
        before = emulator.image()
        if place.given == "query":
            answer = await emulator.post(f"{target}?{header.lower()}={value}&{header}={value}", callback)
            assert (answer.status, answer.json["field"]) == (400, header.lower())
            mixed = await emulator.post(f"{target}?{header.lower()}={value}", [*callback, (header, value)])
            assert (mixed.status, mixed.json["field"]) == (400, header.lower())
            assert emulator.image() == before
            empty = await emulator.post(f"{target}?{header.lower()}=", [*callback, (header, value)])
        else:
            answer = await emulator.post(target, [*cron, *callback, (header, value), (header.lower(), value)])
            assert (answer.status, answer.json["field"]) == (400, header)
            assert emulator.image() == before
            empty = await emulator.post(target, [*cron, *callback, (header, value), (header, " ")])
        assert empty.status == 200, empty.body


@with_emulator()
async def test_options_without_a_value_say_nothing(emulator: InProcess) -> None:
    options = {f"Svc-{name}": "" for name in WRONG} | {"Svc-Flow-Control-Value": " ", "Svc-Cron": ""}
    options["Svc-Delay"] = "1h"
    record = (await emulator.get(f"/v2/messages/{await emulator.publish(URL, options)}")).json
    assert record.keys() == {"messageId", "url", "method", "header", "maxRetries", "notBefore", "createdAt", "callerIP"}


@pytest.mark.parametrize("dialect", PREFIXES)
@on_loop
async def test_wrong_cron_expressions_and_schedule_ids(dialect: str) -> None:
    prefix = PREFIXES[dialect]
    async with in_process(dialect=dialect) as emulator:
        before = emulator.image()
        for cron in CRONS:
            began = time.process_time()
            answer = await emulator.post(f"/v2/schedules/{URL}", {f"{prefix}Cron": cron})
            assert time.process_time() - began < QUICK_S
            assert (answer.status, answer.json["field"]) == (400, f"{prefix}Cron"), (cron[:50], answer.body)
            assert answer.json["error"].startswith(f"{prefix}Cron: Invalid cron expression ")
            assert len(answer.body) < 1_000
        for target, field in (("", f"{prefix}Cron"), (f"?{prefix.lower()}cron=*+*+*", f"{prefix.lower()}cron")):
            answer = await emulator.post(f"/v2/schedules/{URL}{target}")
            assert (answer.status, answer.json["field"]) == (400, field)
        for schedule_id in SCHEDULE_IDS:
            options = {f"{prefix}Cron": "* * * * *", f"{prefix}Schedule-Id": schedule_id}
            answer = await emulator.post(f"/v2/schedules/{URL}", options)
            assert (answer.status, answer.json["field"]) == (400, f"{prefix}Schedule-Id")
        assert emulator.image() == before


@pytest.mark.parametrize("target", [f"/v2/publish/{URL}", f"/v2/enqueue/q/{URL}"])
@with_emulator()
async def test_only_schedules_take_a_cron_expression(emulator: InProcess, target: str) -> None:
    before = emulator.image()
    answer = await emulator.post(target, {"Svc-Cron": "* * * * *"})
    assert (answer.status, answer.json["field"]) == (400, "Svc-Cron")
    in_query = await emulator.post(f"{target}?svc-cron=x")
    assert (in_query.status, in_query.json["field"]) == (400, "svc-cron")
    batch = await emulator.post("/v2/batch", (), [{"destination": URL, "headers": {"svc-cron": "* * * * *"}}])
    assert batch.json[0]["field"] == "Svc-Cron"
    assert emulator.image() == before


@with_emulator()
async def test_an_id_for_a_schedule_is_taken_with_a_warning_where_none_is_made(
    emulator: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """D-074."""
    await with_group(emulator)
    given = {"Svc-Schedule-Id": "mine"}
    for target in (f"/v2/publish/{URL}", f"/v2/enqueue/q/{URL}"):
        caplog.clear()
        assert (await emulator.post(target, given)).status == 200
        line = f"Svc-Schedule-Id is ignored: only schedules have an id of their own (POST {target})"
        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [line]
    caplog.clear()
    batch = await emulator.post("/v2/batch", (), [{"destination": URL, "headers": given}])
    assert batch.json[0].keys() == {"messageId"}
    assert "Svc-Schedule-Id is ignored" in caplog.text
    assert (await emulator.call("PATCH", "/v2/topics/g", (), {"headers": given})).status == 200
    record = (await emulator.get(f"/v2/messages/{batch.json[0]['messageId']}")).json
    assert "scheduleId" not in record
    assert (await emulator.get("/v2/schedules")).json == []


@on_loop
async def test_headers_of_the_connection_are_dropped_with_a_debug_line(caplog: pytest.LogCaptureFixture) -> None:
    """D-075."""
    caplog.set_level("DEBUG", "emulator.api.messaging")
    async with in_process() as emulator:
        headers = {"Svc-Forward-Host": "evil.test", "Svc-Forward-TE": "trailers", "Svc-Forward-X-A": "1"}
        message_id = await emulator.publish(URL, headers)
        assert (await emulator.get(f"/v2/messages/{message_id}")).json["header"] == {"X-A": ["1"]}
        [record] = [record for record in caplog.records if record.name == "emulator.api.messaging"]
        assert record.levelname == "DEBUG"
        assert record.getMessage() == (
            "Svc-Forward-Host, Svc-Forward-Te are not forwarded: they belong to the connection "
            f"(POST /v2/publish/{URL})"
        )
        [delivery] = await emulator.deliveries()
        assert delivery["headers"]["Host"] == ["api.test"]


@pytest.mark.parametrize("action", ["", "/pause", "/resume"])
@pytest.mark.parametrize("schedule_id", ["bad!id", "a%20b", "a%0Ab", "x" * 257])
@with_emulator()
async def test_an_ill_formed_schedule_id_is_400_and_an_unknown_one_404(
    emulator: InProcess, schedule_id: str, action: str
) -> None:
    """D-310."""
    for method in ("POST", "PATCH") if action else ("GET", "DELETE"):
        answer = await emulator.call(method, f"/v2/schedules/{schedule_id}{action}")
        assert (answer.status, answer.json.get("field")) == (400, "scheduleId"), answer.body
        unknown = await emulator.call(method, f"/v2/schedules/un-known_1.x{action}")
        assert (unknown.status, unknown.json) == (404, {"error": "schedule un-known_1.x not found"})


@pytest.mark.parametrize("name", ["scheduleId", "queueName", "topicName"])
@with_emulator()
async def test_filters_refuse_names_that_nothing_can_have(emulator: InProcess, name: str) -> None:
    """D-310."""
    for method, path in (
        ("GET", "/v2/events"),
        ("GET", "/v2/logs"),
        ("GET", "/v2/dlq"),
        ("DELETE", "/v2/dlq"),
        ("POST", "/v2/dlq/retry"),
        ("DELETE", "/v2/messages"),
    ):
        answer = await emulator.call(method, f"{path}?{name}=fine,bad!id")
        assert (answer.status, answer.json.get("field")) == (400, name), (method, path, answer.body)
        assert (await emulator.call(method, f"{path}?{name}=un-known_1.x,")).status in (200, 201)
    answer = await emulator.call("DELETE", "/v2/messages", (), {name: ["bad!id"]})
    assert (answer.status, answer.json.get("field")) == (400, name)


DESTINATIONS = {
    "no scheme": "example.com/a",
    "percent-encoded": "https%3A%2F%2Fexample.com%2Fa",
    "userinfo": "https://user:secret@example.com/",
    "backslash host": "https://example.com\\@evil.test/",
    "10 kB": "https://example.com/" + "a" * 10_000,
    "raw bytes": "https://example.com/\xff",
    "a space": "https://example.com/a b",
    "a dot path": "../../v2/keys",
    "a long name": "g" * 257,
    "an emoji": "%F0%9F%98%80",
}


ENCODED = {
    "https%3A%2F%2Fapp.test%2Fhook": ": https://app.test/hook",
    "HTTP%3a%2f%2fapp.test%2fhook%20a": "",
    "https%3A//app.test/hook": ": https://app.test/hook",
    "https%253A%252F%252Fapp.test%252Fhook": ": https://app.test/hook",
    "https%3A%2F%2Fapp.test%2Fhook%3Ftoken%3Dsecret": ": https://app.test/hook?...",
    "https%3A%2F%2Fuser%3Asecret%40app.test%2Fhook": "",
}


@pytest.mark.parametrize(("destination", "shown"), ENCODED.items(), ids=list(ENCODED))
@with_emulator()
async def test_a_destination_that_is_percent_encoded_is_told_to_be_one(
    emulator: InProcess, destination: str, shown: str
) -> None:
    """D-801."""
    error = (
        "destination: invalid destination url: endpoint has invalid scheme, add http:// or https://; "
        f"the destination is percent-encoded; write it as it is{shown}"
    )
    headers = {"Svc-Cron": "* * * * *"}
    for operation, given in (("publish", {}), ("enqueue/q", {}), ("schedules", headers), ("trigger", {})):
        answer = await emulator.post(f"/v2/{operation}/{destination}", given)
        assert (answer.status, answer.json) == (400, {"error": error, "field": "destination"}), operation
    [item] = (await emulator.post("/v2/batch", (), [{"destination": destination}])).json
    assert (item["error"], item["field"]) == (error, "destination")
    calls = (await emulator.control("GET", "/refused")).json["refused"]
    assert [call["error"] for call in calls] == [error] * 4 + [f"item 1: {error}"]


@with_emulator()
async def test_any_url_that_is_percent_encoded_is_told_to_be_one(emulator: InProcess) -> None:
    """D-801."""
    for header in ("Svc-Callback", "Svc-Failure-Callback"):
        answer = await emulator.post("/v2/publish/https://app.test/", {header: "https%3A%2F%2Fapp.test%2Fdone"})
        assert (answer.status, answer.json["field"]) == (400, header)
        assert answer.json["error"].endswith("the URL is percent-encoded; write it as it is: https://app.test/done")


@pytest.mark.parametrize("destination", DESTINATIONS.values(), ids=list(DESTINATIONS))
@with_emulator()
async def test_wrong_destinations(emulator: InProcess, destination: str) -> None:
    before = emulator.image()
    for operation in ("publish", "enqueue/q", "schedules"):
        began = time.process_time()
        answer = await emulator.post(
            f"/v2/{operation}/{destination}",
            {"Svc-Cron": ""} if operation != "schedules" else {"Svc-Cron": "* * * * *"},
        )
        assert time.process_time() - began < QUICK_S
        assert (answer.status, answer.json.get("field")) == (400, "destination"), (operation, answer.body)
        assert answer.json["error"].startswith("destination: ")
        assert len(answer.body) < 1_000
        assert b"secret" not in answer.body
    batch = await emulator.post("/v2/batch", (), [{"destination": destination}])
    assert batch.json[0]["field"] == "destination"
    assert emulator.image() == before


@with_emulator()
async def test_a_batch_of_another_shape_is_refused_whole(emulator: InProcess) -> None:
    before = emulator.image()
    for body, field in (
        (b"", "body"),
        (b"{", "body"),
        (b'[{"destination": "https://a.test", "headers": {"A": 1}}]', "[0].headers.A"),
        (b'[{"destination": "https://a.test"}, {"destination": "https://a.test", "queue": 1}]', "[1].queue"),
        (b'[{"destination": "https://a.test", "body": "\\ud800"}]', "[0].body"),
        (b"[" * 100_000, "body"),
        (b'[{"destination": "https://a.test", "x": ' + b"[" * 100_000, "body"),
    ):
        answer = await emulator.post("/v2/batch", (), body)
        assert (answer.status, answer.json["field"]) == (400, field), answer.body
        assert len(answer.body) < 1_000, body
        assert emulator.image() == before, body


@with_emulator()
async def test_headers_that_cannot_be_sent_are_refused(emulator: InProcess) -> None:
    before = emulator.image()
    for headers, field in (
        ({"Svc-Forward-A": "x\r\nInjected: 1"}, "Svc-Forward-A"),
        ({"Svc-Forward-A B": "x"}, "Svc-forward-a b"),
        ({"Svc-Callback": "https://cb.test/", "Svc-Callback-Forward-A": "\n"}, "Svc-Callback-Forward-A"),
        ({"a\r\nb": "x", "Svc-Header-Forward": "true"}, "a\r\nb"),
    ):
        answer = await emulator.post("/v2/batch", (), [{"destination": URL, "headers": headers}])
        assert answer.status == 200, headers
        assert answer.json[0].get("field") == field, answer.body
        assert emulator.image() == before, headers


@with_emulator(plan="free")
async def test_retries_over_the_plan_are_412_wherever_they_stand(emulator: InProcess) -> None:
    """D-042: what the service's clients expect."""
    await with_group(emulator)
    before = emulator.image()
    given = {"Svc-Retries": "6"}
    refusal = {"error": "Svc-Retries: quota maxRetries exceeded, current limit: 5", "field": "Svc-Retries"}
    cron = {"Svc-Cron": "* * * * *"}
    for target, headers in (
        (f"/v2/publish/{URL}", given),
        (f"/v2/enqueue/q/{URL}", given),
        (f"/v2/schedules/{URL}", {**cron, **given}),
    ):
        answer = await emulator.post(target, headers)
        assert (answer.status, answer.json) == (412, refusal), target
    answer = await emulator.call("PATCH", "/v2/topics/g", (), {"headers": given})
    assert (answer.status, answer.json) == (412, refusal)
    answer = await emulator.post("/v2/batch", (), [{"destination": URL, "headers": given}])
    assert (answer.status, answer.json) == (200, [refusal])
    assert emulator.image() == before


@with_emulator()
async def test_a_header_that_is_not_utf_8_is_named(emulator: InProcess) -> None:
    # Surrogates stand for bytes that are no text.
    answer = await emulator.post(f"/v2/publish/{URL}", {"Svc-Label": "\udcff\udcfe"})
    assert (answer.status, answer.json["field"]) == (400, "Svc-Label")
