"""A messaging token against the control API, with real servers: whatever the address, the path and the way."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from emulator import Emulator
from tests.harness import processes
from tests.harness.certificates import CertificateFiles
from tests.harness.emulators import receiver, server
from tests.harness.loops import PATIENCE_S
from tests.scenarios.raw_http import exchange, head

pytestmark = pytest.mark.slow

REFUSED = "the control API takes no deliveries"
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/opt/homebrew/bin")

# What is under attack: each of these would change or show something.
TARGETS = (
    ("POST", "/_emulator/reset?world=other"),
    ("POST", "/_emulator/reset"),
    ("GET", "/_emulator/credentials"),
    ("DELETE", "/_emulator/worlds/other"),
    ("PUT", "/_EMULATOR/clock?world=other"),
    ("POST", "//_emulator/reset?world=other"),
    ("POST", "/%5femulator/reset?world=other"),
    ("POST", "/%5F%65mulator%2Freset?world=other"),
    ("POST", "/./_emulator/reset?world=other"),
    ("POST", "/%2e/_emulator/reset?world=other"),
    ("POST", "/v2/..//_emulator/reset?world=other"),
    ("POST", "/v2/%2e%2e/_emulator/reset?world=other"),
    ("POST", "/_emulator;a=b/reset?world=other"),
    ("POST", "/\\_emulator\\reset?world=other"),
    ("POST", "/_emulator/reset/?world=other"),
    ("GET", "/_emulator/docs/index.html"),
    ("GET", "/_emulator"),
)


@dataclass
class Attacked:
    """A server with another world, and the token that attacks it."""

    emulator: Emulator
    client: httpx.Client
    token: str
    secrets: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.emulator.url.rpartition(":")[2])

    def publish(self, destination: str, method: str = "POST", **headers: str) -> str:
        """Publish in the default world; the message's id."""
        options = {f"Svc-{name.replace('_', '-')}": value for name, value in headers.items()}
        answer = self.client.post(
            f"{self.emulator.url}/v2/publish/{destination}",
            headers={"Authorization": f"Bearer {self.token}", "Svc-Method": method, "Svc-Retries": "0", **options},
        )
        assert answer.status_code == 200, answer.text
        message_id: str = answer.json()["messageId"]
        return message_id

    def control(self, method: str, path: str, body: object = None) -> Any:
        answer = self.client.request(method, f"{self.emulator.url}/_emulator{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def delivery(self, message_id: str) -> Any:
        """The only delivery of a message."""
        (delivery,) = self.control("GET", f"/deliveries?message_id={message_id}")["deliveries"]
        return delivery

    def check_unharmed(self) -> None:
        """The other world has its message, and no delivery or answer has a secret."""
        (message,) = self.control("GET", "/messages?world=other")["messages"]
        assert message["url"] == "https://app.test/kept"
        shown = json.dumps(self.control("GET", "/deliveries?limit=1000"))
        assert not [secret for secret in self.secrets if secret in shown]


@contextlib.contextmanager
def attacked(**options: Any) -> Iterator[Attacked]:
    with Emulator(**options) as emulator, httpx.Client(trust_env=False) as client:
        running = Attacked(emulator, client, emulator.credentials.token)
        running.control("POST", "/worlds", {"id": "other"})
        own, other = (running.control("GET", f"/credentials?world={world}") for world in ("default", "other"))
        running.secrets = [own["management"]["password"], other["management"]["password"], other["queue"]["token"]]
        answer = client.post(
            f"{emulator.url}/v2/publish/https://app.test/kept",
            headers={"Authorization": f"Bearer {other['queue']['token']}", "Svc-Delay": "30d"},
        )
        assert answer.status_code == 200
        yield running


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


def of_this_machine() -> list[str]:
    """Its address in a network, if it has one."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return [probe.getsockname()[0]]
    return []


IPV4 = ["127.0.0.1", "localhost", "LocalHost", "a.localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"]
IPV6 = ["[::1]", "localhost", "a.b.localhost", "[0:0:0:0:0:0:0:1]", "[::]"]
LISTENING = [
    pytest.param("127.0.0.1", IPV4, id="ipv4"),
    pytest.param("0.0.0.0", [*IPV4, "127.0.0.9", "127.255.255.254", *of_this_machine()], id="all-of-ipv4"),
    pytest.param("::1", IPV6, id="ipv6"),
    pytest.param("::", IPV6, id="all-of-ipv6"),
]


@pytest.mark.skipif(sys.platform == "win32", reason="connects to neither 0.0.0.0 nor IPv4 by way of IPv6")
@pytest.mark.parametrize(("host", "spellings"), LISTENING)
def test_no_message_drives_the_control_api_of_a_real_server(http_server: str, host: str, spellings: list[str]) -> None:
    """D-770: with the connection decided, no text of the URL matters; the service's own API is reached."""
    if ":" in host and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    with attacked(server=http_server, host=host, external="allow") as there:
        for spelling in spellings:
            reached = there.delivery(there.publish(f"http://{spelling}:{there.port}/v2/queues", "GET"))
            # The number in hexadecimal is no host that its guard against foreign pages knows.
            assert reached["response"]["status"] == (403 if spelling == "0x7f.1" else 401), spelling
            for method, path in TARGETS:
                delivery = there.delivery(there.publish(f"http://{spelling}:{there.port}{path}", method))
                assert (delivery["error"], delivery["response"]) == (REFUSED, None), (spelling, path)
        there.check_unharmed()


def test_no_kind_of_delivery_drives_a_real_server(http_server: str) -> None:
    """D-770: callbacks, schedules, groups, queues, batches, rules, redeliveries and calls of a workflow."""
    with attacked(server=http_server) as there, attacked(server=http_server) as beside:
        for port in (there.port, beside.port):
            url = f"http://localhost:{port}/_emulator/reset?world=other"
            own = {"Authorization": f"Bearer {there.token}", "Content-Type": "application/json"}
            before = len(there.control("GET", "/deliveries?limit=1000")["deliveries"])
            there.control(
                "POST",
                "/destinations",
                {"match": {"url": "https://forwarded.test/*"}, "forward_to": f"http://0.0.0.0:{port}"},
            )
            flow, run = (
                "https://app.test/flow",
                {"Workflow_RunId": f"wfr_{port}", "Workflow_Url": "https://app.test/flow"},
            )
            as_workflow = {"status": 200, "headers": {"Svc-Workflow-Sdk-Version": "1"}}
            there.control("POST", "/destinations", {"match": {"url": flow}, "respond": as_workflow})
            there.publish(flow, Workflow_Init="true", Workflow_Sdk_Version="1", **run)
            there.publish(url, Callback=flow, Workflow_Init="false", Workflow_CallType="toCallback", **run)
            there.publish("https://app.test/x", Callback=url)
            there.publish("https://app.test/x", Callback=url, Callback_Method="GET")
            there.publish("http://localhost:1/closed", Failure_Callback=url)
            there.publish("https://forwarded.test/_emulator/reset?world=other")
            with httpx.Client(base_url=there.emulator.url, headers=own) as client:
                group = f"g{port}"
                client.post(f"/v2/topics/{group}/endpoints", json={"endpoints": [{"url": url}]})
                client.patch(f"/v2/topics/{group}", json={"headers": {"Svc-Callback": url, "Svc-Retries": "0"}})
                client.post(f"/v2/publish/{group}")
                client.post(f"/v2/enqueue/q/{url}", headers={"Svc-Retries": "0"})
                client.post("/v2/batch", json=[{"destination": url, "headers": {"Svc-Retries": "0"}}])
                client.post(f"/v2/schedules/{url}", headers={"Svc-Cron": "*/10 * * * *", "Svc-Retries": "0"})
            there.emulator.clock.advance("11m")
            first = there.control("GET", f"/deliveries?limit=1000&url={url}")["deliveries"][0]
            there.control("POST", f"/deliveries/{first['seq']}/redeliver")
            after = there.control("GET", "/deliveries?limit=1000")["deliveries"]
            aimed = [each for each in after if "/_emulator" in each["url"] and f":{port}" in each["url"]]
            assert len(aimed) >= 9
            assert len(after) > before
            assert {each["error"] for each in aimed} == {REFUSED}
        there.check_unharmed()
        beside.check_unharmed()


def test_such_a_message_fails_like_any_other() -> None:
    """D-772: it is retried as it says, ends as a dead letter, and is explained."""
    with attacked() as there:
        url = f"http://localhost:{there.port}/_emulator/reset?world=other"
        message_id = there.publish(url, Retries="2", Failure_Callback="https://app.test/failed")
        there.emulator.clock.advance("1d")
        deliveries = there.control("GET", f"/deliveries?message_id={message_id}")["deliveries"]
        assert [each["error"] for each in deliveries] == [REFUSED] * 3
        explanation = there.control("GET", f"/messages/{message_id}/explain")
        assert f"failed: {REFUSED} (call it from a test" in explanation["summary"]
        own = {"Authorization": f"Bearer {there.token}"}
        (letter,) = httpx.get(f"{there.emulator.url}/v2/dlq", headers=own).json()["messages"]
        assert letter["messageId"] == message_id
        events = httpx.get(f"{there.emulator.url}/v2/events?messageId={message_id}", headers=own).json()["events"]
        assert {each["error"] for each in events if each["state"] == "ERROR"} == {REFUSED}
        assert there.control("GET", "/deliveries?url=https://app.test/failed")["deliveries"]
        there.check_unharmed()


def test_the_url_of_the_language_model_is_no_way_in(http_server: str, tmp_path: Path) -> None:
    """D-770: it is set by the one who starts the server, and asked by those who publish."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    arguments = ("--server", http_server, "--clock", "frozen", "--llm-url", f"http://localhost:{port}/_emulator")
    with processes.serving(*arguments, folder=tmp_path, port=("--port", str(port))) as running:
        answer = httpx.post(
            f"{running.url}/v2/publish/api/llm",
            headers={
                "Authorization": f"Bearer {running.variables['SVC_TOKEN']}",
                "Svc-Callback": "https://app.test/x",
                "Svc-Retries": "0",
            },
            json={"model": "m", "messages": []},
        )
        assert answer.status_code == 200, answer.text
        (delivery,) = httpx.get(f"{running.url}/_emulator/deliveries?message_id={answer.json()['messageId']}").json()[
            "deliveries"
        ]
        assert delivery["error"] == REFUSED


def test_other_servers_of_this_machine_get_their_deliveries(http_server: str) -> None:
    """D-770: whatever their paths are called."""
    with attacked(server=http_server, host="0.0.0.0") as there, receiver() as other:
        delivery = there.delivery(there.publish(f"{other.url}/_emulator/reset"))
        assert delivery["response"]["status"] == 200
        assert [each.path for each in other.requests] == ["/_emulator/reset"]


# -- ways on which the sender does not see where the delivery ends --------------------------------


@pytest.mark.parametrize("dialect", ["svc", "upstash"])
def test_an_emulator_of_another_process_relays_nothing(http_server: str, dialect: str, tmp_path: Path) -> None:
    """D-771: as the relay of a delivery, whose options name the last destination, and as the attacked server."""
    arguments = ("--clock", "frozen", "--dialect", dialect)
    with attacked(server=http_server) as there, processes.serving(*arguments, folder=tmp_path) as relay:
        credentials = httpx.get(f"{relay.url}/_emulator/credentials").json()
        prefix = "Upstash" if dialect == "upstash" else "Svc"
        there.publish(
            f"{relay.url}/v2/publish/http://localhost:{there.port}/_emulator/reset?world=other",
            **{
                "Forward_Authorization": f"Bearer {credentials['queue']['token']}",
                f"Forward_{prefix}_Retries": "0",
                f"Forward_{prefix}_Method": "POST",
            },
        )
        # Which lets what has left come back.
        httpx.post(f"{relay.url}/_emulator/clock/advance", json={"by": 0}).raise_for_status()
        (relayed,) = httpx.get(f"{relay.url}/_emulator/deliveries").json()["deliveries"]
        assert (relayed["response"]["status"], REFUSED in relayed["response"]["body"]) == (403, True)
        there.check_unharmed()

        refused = there.delivery(there.publish(f"{relay.url}/_emulator/shutdown"))
        assert refused["response"]["status"] == 403
        refused = there.delivery(there.publish(f"{relay.url}/_emulator/credentials", "GET"))
        assert (refused["response"]["status"], REFUSED in refused["response"]["body"]) == (403, True)


CONFIGURATION = """
global
    expose-experimental-directives
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend plain
    bind 127.0.0.1:{plain}
    default_backend emulator
frontend normalizing
    bind 127.0.0.1:{normalizing}
    http-request normalize-uri percent-decode-unreserved
    http-request normalize-uri path-merge-slashes
    http-request normalize-uri path-strip-dot
    http-request normalize-uri path-strip-dotdot full
    default_backend emulator
listen published
    mode tcp
    bind 127.0.0.1:{published}
    server one 127.0.0.1:{emulator}
frontend prefix
    bind 127.0.0.1:{prefix}
    http-request replace-path /internal/(.*) /_emulator/\\1
    default_backend emulator
backend emulator
    server one 127.0.0.1:{emulator}
"""


@contextlib.contextmanager
def haproxy(folder: Path, emulator: int) -> Iterator[dict[str, int]]:
    """HAProxy before an emulator, with a port for each frontend."""
    assert HAPROXY is not None
    with contextlib.ExitStack() as taken:
        names = ("plain", "published", "normalizing", "prefix")
        ports = {name: taken.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for name in names}
    configuration = folder / "haproxy.cfg"
    configuration.write_text(CONFIGURATION.format(emulator=emulator, **ports), encoding="utf-8")
    with subprocess.Popen([HAPROXY, "-db", "-f", str(configuration)], stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + PATIENCE_S
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", ports["plain"]), 1):
                    break
                assert process.poll() is None, "HAProxy has ended"
                assert time.monotonic() < until
            yield ports
        finally:
            process.terminate()


@pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed")
def test_a_proxy_between_hides_nothing(http_server: str, tmp_path: Path) -> None:
    """D-771: one that passes requests on or bytes, one that normalizes paths, and one that rewrites them."""
    with attacked(server=http_server) as there, haproxy(tmp_path, there.port) as ports:
        hop = {
            "Forward_Connection": "close, Svc-Signature, Svc-Message-Id",
            "Forward_Proxy_Connection": "Svc-Signature",
            "Forward_TE": "trailers",
            "Forward_X_Forwarded_Host": "app.test",
            "Forward_Svc_Signature": "",
        }
        for name, path in (
            ("plain", "/_emulator/reset?world=other"),
            ("plain", "/%5femulator/reset?world=other"),
            ("published", "/_emulator/reset?world=other"),
            ("normalizing", "/v2/..//%5femulator/./reset?world=other"),
            ("normalizing", "//_emulator//reset?world=other"),
            ("prefix", "/internal/reset?world=other"),
            ("prefix", "/internal/credentials"),
        ):
            for method in ("POST", "GET"):
                for headers in ({}, hop):
                    delivery = there.delivery(there.publish(f"http://localhost:{ports[name]}{path}", method, **headers))
                    response = delivery["response"]
                    assert (response["status"], REFUSED in response["body"]) == (403, True), (name, path, method)
        reached = there.delivery(there.publish(f"http://localhost:{ports['plain']}/v2/queues", "GET"))
        assert reached["response"]["status"] == 401
        there.check_unharmed()


def test_the_application_mounted_as_a_destination_is_not_driven(http_server: str) -> None:
    """D-771: by the Python API, of the emulator itself and of another one."""
    with attacked(server=http_server) as there, attacked() as other:
        for number, running in enumerate((there, other)):
            origin = f"http://emulator-{number}"
            there.emulator.mount(origin, running.emulator.asgi)
            for method, path in TARGETS:
                delivery = there.delivery(there.publish(f"{origin}{path}", method))
                assert delivery["response"]["status"] in (403, 404), path
                if delivery["response"]["status"] == 403:
                    assert REFUSED in delivery["response"]["body"]
        there.check_unharmed()
        other.check_unharmed()


def test_an_application_around_the_emulator_opens_nothing() -> None:
    """D-771: mounted below a path of a larger application, which is a destination."""
    with attacked() as there:
        there.emulator.mount("http://around", Starlette(routes=[Mount("/emulator", app=there.emulator.asgi)]))
        for method, path in TARGETS:
            delivery = there.delivery(there.publish(f"http://around/emulator{path}", method))
            assert (delivery["response"]["status"], REFUSED in delivery["response"]["body"]) == (403, True), path
        there.check_unharmed()


def test_an_https_listener_is_known_as_well(http_server: str, certificate: CertificateFiles, tmp_path: Path) -> None:
    """D-770: the connection is looked at once its handshake is over."""
    tls = ("--tls-cert", str(certificate.cert), "--tls-key", str(certificate.key))
    trust = {"SSL_CERT_FILE": str(certificate.ca)}
    with (
        processes.serving("--clock", "frozen", "--server", http_server, *tls, folder=tmp_path, extra=trust) as running,
        httpx.Client(verify=ssl.create_default_context(cafile=certificate.ca), base_url=running.url) as client,
    ):
        port = running.url.rpartition(":")[2]
        own = {"Authorization": f"Bearer {running.variables['SVC_TOKEN']}", "Svc-Retries": "0"}
        for path, error, status in (("/_emulator/reset", REFUSED, None), ("/v2/queues", None, 401)):
            answer = client.post(f"/v2/publish/https://localhost:{port}{path}", headers={**own, "Svc-Method": "GET"})
            query = {"message_id": answer.json()["messageId"]}
            (delivery,) = client.get("/_emulator/deliveries", params=query).json()["deliveries"]
            response = delivery["response"]
            assert (delivery["error"], response and response["status"]) == (error, status)


# -- the request as bytes ---------------------------------------------------------------------------

DELIVERY = ("Svc-Message-Id: msg_1", "Svc-Signature: a.b.c")


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        pytest.param("POST http://evil.example/_emulator/reset", DELIVERY, id="absolute-form"),
        pytest.param("POST http://127.0.0.1/%5femulator/reset", DELIVERY, id="absolute-form-encoded"),
        pytest.param("POST https://x/v2/../_EMULATOR/reset", DELIVERY, id="absolute-form-with-dots"),
        pytest.param("POST /_emulator/reset#x", DELIVERY, id="fragment"),
        pytest.param("OPTIONS /_emulator/reset", (*DELIVERY, "Access-Control-Request-Method: POST"), id="preflight"),
        pytest.param("POST /_emulator/reset", tuple(map(str.upper, DELIVERY)), id="upper-case"),
        pytest.param("POST /_emulator/reset", (*DELIVERY, *DELIVERY), id="twice"),
        pytest.param("POST /_emulator/reset", ("Svc-Message-Id:", "Svc-Signature:"), id="empty"),
        pytest.param("POST /_emulator/reset", ("Svc_Message_Id: 1", "Svc_Signature: 1"), id="of-a-gateway"),
        pytest.param("POST /_emulator/reset", ("My-Own-Message-Id: 1", "My-Own-Signature: 1"), id="of-a-file"),
        pytest.param("POST /_emulator/reset", (*DELIVERY, "Connection: Svc-Signature"), id="named-by-connection"),
        pytest.param(
            "POST /_emulator/reset",
            (*DELIVERY, "Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__"),
            id="upgrade",
        ),
    ],
)
def test_a_delivery_is_refused_in_every_form_of_a_request(
    http_server: str, line: str, headers: tuple[str, ...]
) -> None:
    """D-771."""
    with server(server=http_server) as running:
        (answer,) = exchange(running, head(running, line, "Content-Length: 0", *headers))
        assert (answer.status, answer.json["error"]) == (403, REFUSED)


def test_a_header_of_another_target_leads_nowhere(http_server: str) -> None:
    """D-771: nothing but the path of the request says which operation it is for."""
    elsewhere = (
        "X-HTTP-Method-Override: POST",
        "X-Original-URL: /_emulator/reset",
        "X-Rewrite-URL: /_emulator/reset",
        "X-Forwarded-Path: /_emulator/reset",
        "X-Forwarded-Prefix: /_emulator",
    )
    with server(server=http_server) as running:
        (answer,) = exchange(running, head(running, "GET /v2/keys", *DELIVERY, *elsewhere))
        assert (answer.status, list(answer.json)) == (200, ["current", "next"])


def test_a_delivery_over_http2_is_refused() -> None:
    """D-771."""
    with server(server="hypercorn") as running, httpx.Client(http1=False, http2=True, trust_env=False) as client:
        own = {"Svc-Message-Id": "msg_1", "Svc-Signature": "a.b.c"}
        for path in ("/_emulator/clock", "/_EMULATOR/clock", "//_emulator/clock", "/v2/%2e%2e/%5femulator/clock"):
            answer = client.get(httpx.URL(running.url + path), headers=own)
            assert (answer.http_version, answer.status_code, answer.json()["error"]) == ("HTTP/2", 403, REFUSED)
        assert client.get(f"{running.url}/_emulator/clock").status_code == 200
