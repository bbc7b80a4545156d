"""A message cannot drive the control API: it refuses what has the headers of a delivery, however it came (D-771).

Here the attacked emulator is mounted as a destination of the sending one, without a socket between them.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.core.model.messages import Response
from emulator.delivery.mounts import MountedRequest
from emulator.wire.messaging.outgoing import is_delivery
from tests.api.workflow.calls import RUN, answer_as_workflow, begin, headers
from tests.harness.emulators import InProcess, asgi_call, http_scope, in_process, with_emulator
from tests.harness.loops import on_loop

REFUSED = "the control API takes no deliveries"
# A name that the control API is served to.
ORIGIN = "https://emulator.internal"
RESET = f"{ORIGIN}/_emulator/reset?world=other"
CREDENTIALS = f"{ORIGIN}/_emulator/credentials"

# -- two emulators ------------------------------------------------------------------------------


async def mount(sender: InProcess, other: InProcess, received: list[MountedRequest] | None = None) -> None:
    """Let an emulator be a destination of another one, or of itself."""

    async def answer(request: MountedRequest) -> Response:
        if received is not None:
            received.append(request)
        target = request.url.removeprefix(ORIGIN).encode()
        reply = await asgi_call(
            other.emulation.app, request.method.value, target, request.headers, request.body, "127.0.0.1"
        )
        return Response(status=reply.status, headers=tuple(reply.headers.items()), body=reply.body)

    sender.world.transport.mount(ORIGIN, answer)


async def with_other_world(emulator: InProcess) -> None:
    """Give an emulator a second world that holds something."""
    assert (await emulator.control("POST", "/worlds", {"id": "other"})).status == 201
    token = (await emulator.control("GET", "/credentials?world=other")).json["queue"]["token"]
    answer = await emulator.post("/v2/publish/https://app.test/kept", {"Svc-Delay": "30d"}, token=token)
    assert answer.status == 200


async def holds_its_message(emulator: InProcess) -> bool:
    return [each["url"] for each in (await emulator.control("GET", "/messages?world=other")).json["messages"]] == [
        "https://app.test/kept"
    ]


@contextlib.asynccontextmanager
async def attacked_by(dialect: str = "svc") -> AsyncIterator[tuple[InProcess, InProcess]]:
    """An emulator of a dialect, and one of `svc` that it delivers to at ORIGIN."""
    async with in_process(dialect=dialect) as sender, in_process() as other:
        await with_other_world(other)
        await mount(sender, other)
        yield sender, other


def options(emulator: InProcess, **values: str) -> dict[str, str]:
    """Options in the emulator's dialect."""
    prefix = emulator.emulation.dialect.header_prefix
    return {prefix + name.replace("_", "-"): value for name, value in values.items()}


async def outcomes(sender: InProcess) -> list[tuple[str, int | None, str]]:
    """Of every delivery to the attacked emulator: path, status and error of the answer."""
    answers = []
    for delivery in await sender.deliveries():
        origin, slash, path = delivery["url"].partition("/_emulator")
        response = delivery["response"]
        if slash and (origin == ORIGIN or response["status"] == 403):
            answers.append((slash + path, response["status"], response["body"]))
    return answers


# -- ways of a delivery -------------------------------------------------------------------------

Way = Callable[[InProcess, str], Awaitable[object]]


async def by_publish(sender: InProcess, url: str) -> None:
    await sender.publish(url)


async def by_method_option(sender: InProcess, url: str) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        await sender.publish(url, options(sender, Method=method))


async def by_enqueue(sender: InProcess, url: str) -> None:
    assert (await sender.post(f"/v2/enqueue/q/{url}")).status in (200, 201)


async def by_batch(sender: InProcess, url: str) -> None:
    items = [{"destination": url, "headers": options(sender, Method="GET")}, {"destination": url, "queue": "q"}]
    assert (await sender.post("/v2/batch", {"Content-Type": "application/json"}, items)).status == 200


async def by_url_group(sender: InProcess, url: str) -> None:
    await sender.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": url}]})
    assert (await sender.post("/v2/publish/g")).status == 200


async def by_schedule(sender: InProcess, url: str) -> None:
    answer = await sender.post(f"/v2/schedules/{url}", options(sender, Cron="*/10 * * * *"))
    assert answer.status in (200, 201), answer.body


async def by_callback(sender: InProcess, url: str) -> None:
    await sender.publish("https://app.test/hook", options(sender, Callback=url))


async def by_callback_with_method(sender: InProcess, url: str) -> None:
    await sender.publish("https://app.test/hook", options(sender, Callback=url, Callback_Method="GET"))


async def by_failure_callback(sender: InProcess, url: str) -> None:
    await sender.rule("https://app.test/broken", respond={"status": 500})
    await sender.publish("https://app.test/broken", options(sender, Failure_Callback=url, Retries="0"))


async def by_group_default(sender: InProcess, url: str) -> None:
    await sender.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://app.test/hook"}]})
    defaults = {"headers": options(sender, Callback=url)}
    assert (await sender.call("PATCH", "/v2/topics/g", (), defaults)).status == 200
    await sender.post("/v2/publish/g")


async def by_forwarding_rule(sender: InProcess, url: str) -> None:
    await sender.rule("https://app.test/*", forward_to=ORIGIN)
    await sender.publish(f"https://app.test{url.removeprefix(ORIGIN)}")


async def by_dead_letter(sender: InProcess, url: str) -> None:
    await sender.publish(url, options(sender, Retries="0"))
    (letter,) = (await sender.get("/v2/dlq")).json["messages"]
    assert (await sender.post(f"/v2/dlq/retry/{letter['dlqId']}")).status in (200, 201)


async def by_redelivery(sender: InProcess, url: str) -> None:
    await sender.publish(url, options(sender, Retries="0"))
    (delivery,) = await sender.deliveries()
    answer = await sender.control("POST", f"/deliveries/{delivery['seq']}/redeliver")
    assert answer.status == 200, answer.body


async def by_flow_control(sender: InProcess, url: str) -> None:
    await sender.publish(url, options(sender, Flow_Control_Key="k", Flow_Control_Value="parallelism=1"))


async def by_workflow(sender: InProcess, url: str) -> None:
    prefix = sender.emulation.dialect.header_prefix
    own = {**headers(init=True, prefix=prefix), f"{prefix}Workflow-Url": url}
    await sender.publish(url, own)


async def by_call_step(sender: InProcess, url: str) -> None:
    prefix = sender.emulation.dialect.header_prefix
    await answer_as_workflow(sender, prefix=prefix)
    await begin(sender, prefix=prefix)
    called = {
        **headers(prefix=prefix),
        f"{prefix}Callback": "https://app.test/flow",
        f"{prefix}Workflow-CallType": "toCallback",
        f"{prefix}Method": "POST",
    }
    await sender.publish(url, called)


async def by_timeout_of_a_wait(sender: InProcess, url: str) -> None:
    prefix = sender.emulation.dialect.header_prefix
    await answer_as_workflow(sender, prefix=prefix)
    await begin(sender, prefix=prefix)
    body = {
        "url": url,
        "timeout": "20s",
        "timeoutUrl": url,
        "timeoutHeaders": {f"{prefix}Workflow-RunId": [RUN]},
        "step": {"stepId": 1, "stepName": "w", "stepType": "Wait", "concurrent": 1},
    }
    assert (await sender.post("/v2/wait/ev", headers(prefix=prefix), body)).status == 200


async def by_headers_that_look_suppressed(sender: InProcess, url: str) -> None:
    prefix = sender.emulation.dialect.header_prefix
    own = {
        f"{prefix}Forward-{prefix}Message-Id": "",
        f"{prefix}Forward-{prefix}Signature": "",
        f"{prefix}Forward-Connection": f"{prefix}Signature, {prefix}Message-Id",
        f"{prefix}Forward-Proxy-Connection": f"{prefix}Signature",
        f"{prefix}Forward-Host": "app.test",
        f"{prefix}Forward-X-Original-URL": "/v2/keys",
        f"{prefix}Forward-X-Rewrite-URL": "/v2/keys",
        f"{prefix}Forward-X-HTTP-Method-Override": "GET",
        f"{prefix}Header-Forward": "true",
    }
    await sender.publish(url, own)


WAYS: tuple[Way, ...] = (
    by_publish,
    by_method_option,
    by_enqueue,
    by_batch,
    by_url_group,
    by_schedule,
    by_callback,
    by_callback_with_method,
    by_failure_callback,
    by_group_default,
    by_forwarding_rule,
    by_dead_letter,
    by_redelivery,
    by_flow_control,
    by_workflow,
    by_call_step,
    by_timeout_of_a_wait,
    by_headers_that_look_suppressed,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("dialect", ["svc", "upstash"])
@on_loop
async def test_no_kind_of_delivery_drives_a_mounted_emulator(way: Way, dialect: str) -> None:
    """D-771: each is answered with 403, nothing changes, and nothing is read."""
    async with attacked_by(dialect) as (sender, other):
        await way(sender, RESET)
        await sender.advance("1h")
        answers = await outcomes(sender)
        assert answers, "nothing was delivered"
        for path, status, body in answers:
            assert (path, status) == ("/_emulator/reset?world=other", 403)
            assert REFUSED in body
        assert await holds_its_message(other)


@pytest.mark.parametrize("dialect", ["svc", "upstash"])
@on_loop
async def test_a_callback_has_no_credentials(dialect: str) -> None:
    """D-771: the answer of the first delivery would be the body of its callback."""
    async with attacked_by(dialect) as (sender, other):
        await sender.publish(CREDENTIALS, options(sender, Method="GET", Callback="https://app.test/back", Retries="0"))
        secrets = (await other.control("GET", "/credentials")).json
        every = [each for each in await sender.deliveries() if each["url"] == "https://app.test/back"]
        assert every
        for delivery in every:
            assert secrets["queue"]["token"] not in str(delivery)
            assert secrets["management"]["password"] not in str(delivery)


@on_loop
async def test_a_dialect_of_a_file_is_known_by_its_headers_too(tmp_path: Path) -> None:
    """D-771: the emulator that is attacked has never seen the file."""
    path = tmp_path / "mine.toml"
    path.write_text(
        'header_prefix = "X-My-Own-"\ntoken_parameter = "t"\nissuer = "Me"\nuser_agent = "Me"\nqueue_segment = "mine"\n'
        '[environment]\nurl = "U"\ntoken = "T"\ncurrent_signing_key = "C"\nnext_signing_key = "N"\n',
        encoding="utf-8",
    )
    async with attacked_by(str(path)) as (sender, other):
        await sender.publish(RESET, options(sender, Retries="0"))
        assert [status for _, status, _ in await outcomes(sender)] == [403]
        assert await holds_its_message(other)


@with_emulator()
async def test_an_emulator_that_is_mounted_in_itself_is_not_driven(emulator: InProcess) -> None:
    """D-771: there is no connection that could be looked at."""
    await with_other_world(emulator)
    await mount(emulator, emulator)
    await emulator.publish(RESET)
    own = {"Svc-Forward-Authorization": f"Bearer {emulator.token}"}
    await emulator.publish(f"{ORIGIN}/v2/publish/https://app.test/x", own)
    assert [each[:2] for each in await outcomes(emulator)] == [("/_emulator/reset?world=other", 403)]
    assert [each["url"] for each in await emulator.deliveries("https://app.test/x")] == ["https://app.test/x"]
    assert await holds_its_message(emulator)


@with_emulator()
async def test_a_message_that_the_service_publishes_for_it_is_refused_as_well(emulator: InProcess) -> None:
    """D-771: the delivery of a delivery is one."""
    await with_other_world(emulator)
    await mount(emulator, emulator)
    own = {
        "Svc-Retries": "0",
        "Svc-Forward-Authorization": f"Bearer {emulator.token}",
        "Svc-Forward-Svc-Forward-Authorization": f"Bearer {emulator.token}",
    }
    await emulator.publish(f"{ORIGIN}/v2/publish/{ORIGIN}/v2/publish/{RESET}", own)
    await emulator.advance("1d")
    assert ("/_emulator/reset?world=other", 403) in [each[:2] for each in await outcomes(emulator)]
    assert await holds_its_message(emulator)


# -- the request itself -------------------------------------------------------------------------

DELIVERY = {"Svc-Message-Id": "msg_1", "Svc-Signature": "a.b.c"}
PATHS = [
    "/_emulator",
    "/_emulator/",
    "/_emulator/reset",
    "/_EMULATOR/reset",
    "//_emulator/reset",
    "/%5femulator/reset",
    "/%5Femulator%2freset",
    "/%255femulator/reset",
    "/%2e/_emulator/reset",
    "/v2/../_emulator/reset",
    "/v2/%2e%2e/_emulator/reset",
    "/_emulator/docs/index.html",
    "/_emulator/docs/../../v2/keys",
    "/_emulator/reference",
    "/_emulator/nowhere",
    "/_emulator;x=1/reset",
    "/_emulator%00/reset",
]


@pytest.mark.parametrize("path", PATHS)
@with_emulator()
async def test_a_delivery_to_the_control_api_is_refused_in_any_spelling(emulator: InProcess, path: str) -> None:
    """D-771."""
    before = emulator.image()
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
        answer = await emulator.call(method, path, DELIVERY, token=None)
        assert answer.status == 403, method
        assert answer.json["error"] == REFUSED
    assert emulator.image() == before


@with_emulator(control_token="secret")
async def test_the_control_token_does_not_let_a_delivery_in(emulator: InProcess) -> None:
    """D-771: a message could forward it."""
    for own in ({"Authorization": "Bearer secret"}, {"Emulator-Control-Token": "secret"}):
        assert (await emulator.get("/_emulator/clock", own, token=None)).status == 200
        assert (await emulator.get("/_emulator/clock", {**own, **DELIVERY}, token=None)).status == 403


@with_emulator()
async def test_the_refusal_says_what_to_do(emulator: InProcess) -> None:
    """D-747, D-771."""
    answer = await emulator.get("/_emulator/clock", DELIVERY, token=None)
    assert answer.json == {
        "error": REFUSED,
        "next": "call it from a test, a program or the shell, not by a message",
    }


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("Svc-Message-Id",), id="message-id-alone"),
        pytest.param(("Svc-Signature",), id="signature-alone"),
        pytest.param(("Svc-Message-Id", "Upstash-Signature"), id="of-two-dialects"),
        pytest.param(("Webhook-Id", "Webhook-Signature"), id="webhook-of-others"),
        pytest.param(("Message-Id", "Signature"), id="without-a-prefix"),
    ],
)
@with_emulator()
async def test_what_is_no_delivery_is_served(emulator: InProcess, names: tuple[str, ...]) -> None:
    """D-771."""
    assert (await emulator.get("/_emulator/clock", dict.fromkeys(names, "x"), token=None)).status == 200


@with_emulator()
async def test_the_services_own_api_takes_deliveries(emulator: InProcess) -> None:
    """D-771."""
    for target in ("/v2/keys", "/v2/logs", "/v2/queues"):
        assert (await emulator.get(target, DELIVERY)).status == 200
    await emulator.publish("http://127.0.0.1:8080/_emulator/reset", {**DELIVERY, "Svc-Delay": "1h"})


@with_emulator(public_host=("app.tunnel.example",))
async def test_an_application_that_mounts_the_emulator_below_a_path_opens_nothing(emulator: InProcess) -> None:
    """D-270, D-771: the router sees the path below the mount."""

    async def below_mount(target: str, pairs: dict[str, str]) -> int:
        scope: dict[str, Any] = http_scope("GET", target.encode(), pairs.items(), "127.0.0.1")
        scope["root_path"] = "/emu"
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        await emulator.emulation.app(scope, receive, send)
        status: int = sent[0]["status"]
        return status

    assert await below_mount("/emu/_emulator/clock", {"Host": "127.0.0.1", **DELIVERY}) == 403
    assert await below_mount("/emu/_EMULATOR/clock", {"Host": "127.0.0.1", **DELIVERY}) == 403
    assert await below_mount("/emu/_emulator/clock", {"Host": "app.tunnel.example"}) == 403


# -- names that a publisher cannot forward ------------------------------------------------------

NAMES = ["Svc-Message-Id", "Svc-Signature", "svc-message-id", "SVC-SIGNATURE", "sVc-mEssage-iD"]


@pytest.mark.parametrize("name", NAMES)
@with_emulator()
async def test_no_publisher_hides_or_makes_up_what_marks_a_delivery(emulator: InProcess, name: str) -> None:
    """D-771: by option, by forwarding of all headers, in a batch, in a schedule, and by the defaults of a group."""
    received: list[MountedRequest] = []
    await mount(emulator, emulator, received)
    url = f"{ORIGIN}/hook"
    forged = {f"Svc-Forward-{name}": "forged", f"svc-callback-forward-{name}": "forged", "Svc-Callback": url}
    await emulator.publish(url, forged)
    await emulator.publish(url, {"Svc-Header-Forward": "true", name: "forged", "X-Mine": "yes"})
    await emulator.post("/v2/batch", {"Content-Type": "application/json"}, [{"destination": url, "headers": forged}])
    await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": url}]})
    await emulator.call("PATCH", "/v2/topics/g", (), {"headers": {f"Svc-Forward-{name}": ["forged", ""]}})
    await emulator.post("/v2/publish/g")
    await emulator.post(f"/v2/schedules/{url}", {"Svc-Cron": "*/10 * * * *", **forged})
    await emulator.advance("15m")
    assert len(received) > 6
    for request in received:
        values = [value for own, value in request.headers if own.lower() in ("svc-message-id", "svc-signature")]
        assert len(values) == 2
        assert "forged" not in values
        assert "" not in values
        assert is_delivery(own.encode() for own, _ in request.headers)
    assert {value for request in received for own, value in request.headers if own == "X-Mine"} == {"yes"}
