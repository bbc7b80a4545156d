"""`svc-emulator serve` as a process: its banner, its end, and every way it cannot start."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import jwt
import pytest

from emulator import Emulator
from tests.cli.shell import in_folder, said
from tests.harness import emulators
from tests.harness.loops import PATIENCE_S
from tests.harness.processes import ROOT, run, serving

pytestmark = pytest.mark.slow


def get(url: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, body, headers or {}), timeout=20) as answer:
        return json.load(answer)


def test_banner_says_where_it_is_what_to_copy_and_where_the_clock_stands(tmp_path: Path) -> None:
    with serving("--clock", "frozen", "--epoch", "2026-01-01", folder=tmp_path) as server:
        credentials = get(f"{server.url}/_emulator/credentials")

        assert server.variables == {
            "SVC_URL": server.url,
            "SVC_TOKEN": credentials["queue"]["token"],
            "SVC_CURRENT_SIGNING_KEY": credentials["queue"]["current_signing_key"],
            "SVC_NEXT_SIGNING_KEY": credentials["queue"]["next_signing_key"],
        }
        login = credentials["management"]
        assert server.value_after("management login: ") == f"{login['username']} {login['password']}"
        assert server.value_after("clock: ") == "frozen at 2026-01-01T00:00:00.000Z"
        assert get(f"{server.url}/_emulator/health")["status"] == "ok"


def test_variables_and_the_file_reach_the_server(tmp_path: Path) -> None:
    (tmp_path / "emulator.toml").write_text('dialect = "upstash"\nepoch = 2026-01-01\n', "utf-8")

    with serving(folder=tmp_path, extra={"EMULATOR_CLOCK": "60"}) as server:
        assert set(server.variables) == {
            "QSTASH_URL",
            "QSTASH_TOKEN",
            "QSTASH_CURRENT_SIGNING_KEY",
            "QSTASH_NEXT_SIGNING_KEY",
        }
        assert server.value_after("clock: ").startswith("60 times real time, 2026-01-01T00:")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_within_a_second_and_without_a_word(tmp_path: Path, number: int) -> None:
    with serving(folder=tmp_path) as server:
        server.stop(number)

    assert (server.exit_code, server.log) == (0, "")
    # A second on a quiet machine.
    assert server.stopping_s < 5


@pytest.mark.skipif(sys.platform == "win32", reason="other signals, and no reset of a connection that is not read")
@pytest.mark.parametrize(("kind", "number"), [("uvicorn", signal.SIGTERM), ("hypercorn", signal.SIGINT)])
def test_it_ends_in_order_with_calls_of_all_kinds_under_way(tmp_path: Path, kind: str, number: int) -> None:
    """D-566: followers that read nothing, advances, deliveries that nobody answers, worlds made and removed."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        serving("--server", kind, "--clock", "frozen", "--log-level", "warning", folder=tmp_path) as server,
        contextlib.ExitStack() as followers,
    ):
        token, seen, over = server.variables["SVC_TOKEN"], threading.Semaphore(0), Event()
        get(
            f"{server.url}/v2/schedules/http://a.example/",
            {"Authorization": f"Bearer {token}", "Svc-Cron": "* * * * *"},
            b"x" * 10_000,
        )
        listening = int(server.url.rpartition(":")[2])
        for _ in range(5):
            follower = followers.enter_context(socket.create_connection(("127.0.0.1", listening), PATIENCE_S))
            follower.sendall(b"GET /_emulator/stream?from=start HTTP/1.1\r\nHost: a\r\n\r\n")

        def repeat(*calls: tuple[str, str, object]) -> None:
            client = httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=PATIENCE_S)
            # The end of the server ends it.
            with client, contextlib.suppress(httpx.HTTPError):
                while not over.is_set():
                    for method, path, body in calls:
                        client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
                        seen.release()

        port = silent.getsockname()[1]
        deeds: list[tuple[tuple[str, str, object], ...]] = [
            (("POST", "/_emulator/clock/advance", {"by": "1d"}),),
            (("POST", f"/v2/publish/http://127.0.0.1:{port}/", "x"),),
            (("POST", "/_emulator/worlds/default/fork", {"id": "f"}), ("DELETE", "/_emulator/worlds/f", None)),
        ]
        with ThreadPoolExecutor(len(deeds)) as threads:
            try:
                for deed in deeds:
                    threads.submit(repeat, *deed)
                for _ in range(8):
                    assert seen.acquire(timeout=PATIENCE_S)
                server.stop(number)
            finally:
                over.set()
                server.process.kill()

    assert server.exit_code == 0
    assert "Traceback" not in server.log


def publish(url: str, token: str, destination: str) -> str:
    answer = get(f"{url}/v2/publish/{destination}", {"Authorization": f"Bearer {token}"}, b"{}")
    return str(answer["messageId"])


def test_every_delivery_is_a_line_on_standard_error(tmp_path: Path) -> None:
    with serving("--clock", "frozen", "--epoch", "2026-01-01", folder=tmp_path) as server:
        message_id = publish(server.url, server.variables["SVC_TOKEN"], "https://api.example.com/hook")
        server.stop(signal.SIGTERM)

    expected = f"2026-01-01T00:00:00.000Z POST https://api.example.com/hook -> 200 (attempt 1, capture) {message_id}\n"
    assert server.log == expected


def test_log_may_be_json(tmp_path: Path) -> None:
    with serving("--clock", "frozen", "--log-format", "json", folder=tmp_path) as server:
        banner = json.loads(server.banner[0])
        message_id = publish(banner["url"], banner["variables"]["SVC_TOKEN"], "https://api.example.com/hook")
        httpx.get(f"{banner['url']}/v2/keys", trust_env=False, verify=False)
        server.stop(signal.SIGTERM)

    delivery, refusal = map(json.loads, server.log.splitlines())
    assert (delivery["message_id"], delivery["status"], delivery["attempt"]) == (message_id, 200, 1)
    assert (refusal["logger"], refusal["status"], refusal["level"]) == ("emulator.api.refused", 401, "warning")
    for line in (banner, delivery, refusal):
        assert line["at"] == banner["clock"]["now"]
        assert abs(line["wall_ms"] - banner["wall_ms"]) < 60_000
        assert line["wall"].endswith("Z")


@contextlib.contextmanager
def hanging() -> Iterator[tuple[emulators.Receiver, Event]]:
    """A receiver that answers when the event is set, and at the end of the block."""
    answers = Event()

    def respond(_: emulators.Received) -> int:
        answers.wait(20)
        return 200

    with emulators.receiver(respond) as receiver:
        try:
            yield receiver, answers
        finally:
            answers.set()


def test_delivery_in_flight_at_the_end_is_made_again_after_a_restart(tmp_path: Path) -> None:
    with hanging() as (receiver, answers):
        with serving("--db", "state.db", folder=tmp_path) as server:
            message_id = publish(server.url, server.variables["SVC_TOKEN"], f"{receiver.url}/slow")
            receiver.wait_for(1)
            server.stop(signal.SIGTERM)
        assert server.exit_code == 0
        assert server.log == "warning: 1 attempt was under way and cut off: it is made again at the next start\n"
        # Two seconds on a quiet machine.
        assert server.stopping_s < 6
        answers.set()
        with serving("--db", "state.db", folder=tmp_path) as again:
            assert again.variables["SVC_TOKEN"] == server.variables["SVC_TOKEN"]
            requests = receiver.wait_for(2)
            again.stop(signal.SIGTERM)

    assert [request.headers["svc-message-id"] for request in requests] == [message_id, message_id]
    signature = requests[1].headers["svc-signature"]
    key = again.variables["SVC_CURRENT_SIGNING_KEY"]
    assert jwt.decode(signature, key, algorithms=["HS256"])["sub"] == f"{receiver.url}/slow"


@pytest.mark.parametrize("name", ["uvicorn", "hypercorn"])
def test_an_advance_under_way_at_the_end_is_told_where_the_clock_stands(tmp_path: Path, name: str) -> None:
    """The receiver of the message does not answer before the server has gone (D-291)."""
    arguments = ("--server", name, "--clock", "frozen", "--epoch", "2026-01-01")
    with ThreadPoolExecutor() as threads, hanging() as (receiver, _), serving(*arguments, folder=tmp_path) as server:
        headers = {"Authorization": f"Bearer {server.variables['SVC_TOKEN']}", "Svc-Delay": "1h"}
        get(f"{server.url}/v2/publish/{receiver.url}/slow", headers, b"{}")
        call = threads.submit(httpx.post, f"{server.url}/_emulator/clock/advance", json={"by": "1d"}, timeout=20)
        receiver.wait_for(1)
        server.stop(signal.SIGTERM)
        answer = call.result(20)

    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"] == "the server is stopping, the clock stands at 2026-01-01T01:00:00.000Z"
    assert server.exit_code == 0
    assert server.log == (
        "warning: 1 attempt was under way and cut off: it is lost with the state, which was in memory\n"
    )


@pytest.mark.parametrize("name", ["uvicorn", "hypercorn"])
def test_a_publish_that_waits_for_its_delivery_at_the_end_is_answered(tmp_path: Path, name: str) -> None:
    """What it did is done, so 503 would make its client publish twice (D-291)."""
    arguments = ("--server", name, "--clock", "frozen")
    with ThreadPoolExecutor() as threads, hanging() as (receiver, _), serving(*arguments, folder=tmp_path) as server:
        headers = {"Authorization": f"Bearer {server.variables['SVC_TOKEN']}"}
        url = f"{server.url}/v2/publish/{receiver.url}/slow"
        call = threads.submit(httpx.post, url, headers=headers, timeout=20)
        receiver.wait_for(1)
        server.stop(signal.SIGTERM)
        answer = call.result(20)

    assert answer.status_code == 200
    assert answer.json()["messageId"].startswith("msg_")


# -- a database that holds a world already (D-292) --------------------------------------------

MADE = ("--db", "state.db", "--clock", "frozen", "--epoch", "2026-01-01", "--seed", "7", "--plan", "free")
FIXTURES = """
queues:
  - name: billing
"""


def log_of(folder: Path, *arguments: str) -> str:
    with serving(*arguments, folder=folder) as server:
        server.stop(signal.SIGTERM)
    return server.log


@pytest.fixture(scope="module")
def made_with_settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database that was made with settings, and with two fixtures files, the first of them its own."""
    folder = tmp_path_factory.mktemp("settings")
    (folder / "made.yaml").write_text(FIXTURES)
    (folder / "other.yaml").write_text(FIXTURES.replace("billing", "orders"))
    assert log_of(folder, *MADE, "--fixtures", "made.yaml") == ""
    return folder


@pytest.mark.parametrize(
    ("arguments", "ignored"),
    [
        pytest.param((), "", id="nothing asked for"),
        pytest.param((*MADE[2:], "--fixtures", "made.yaml"), "", id="the same"),
        pytest.param(
            # The seed is the default, which is asked for.
            ("--epoch", "2027-01-01", "--seed", "0", "--plan", "paid", "--fixtures", "other.yaml"),
            "epoch 2027-01-01T00:00:00.000Z (it has 2026-01-01T00:00:00.000Z), seed 0 (it has 7), "
            "plan paid (it has free), fixtures other.yaml (it began with others)",
            id="others",
        ),
    ],
)
def test_settings_that_the_database_makes_void_are_told(
    made_with_settings: Path, tmp_path: Path, arguments: tuple[str, ...], ignored: str
) -> None:
    shutil.copytree(made_with_settings, tmp_path, dirs_exist_ok=True)

    log = log_of(tmp_path, "--db", "state.db", *arguments)

    text = f"state.db holds a world already, so these settings are not applied: {ignored} (--fresh starts over)"
    assert log == (f"warning: {text}\n" if ignored else "")


def test_fresh_starts_over_with_the_settings_of_this_start(tmp_path: Path) -> None:
    with serving(*MADE, folder=tmp_path) as server:
        publish(server.url, server.variables["SVC_TOKEN"], "https://api.example.com/hook")
        get(f"{server.url}/_emulator/worlds", body=b'{"id": "b"}')
        get(f"{server.url}/_emulator/snapshots", body=b'{"name": "before"}')
        server.stop(signal.SIGTERM)

    with serving("--db", "state.db", "--fresh", "--clock", "frozen", "--epoch", "2027-01-01", folder=tmp_path) as again:
        assert again.value_after("clock: ") == "frozen at 2027-01-01T00:00:00.000Z"
        assert again.variables["SVC_TOKEN"] != server.variables["SVC_TOKEN"]
        assert get(f"{again.url}/_emulator/deliveries")["deliveries"] == []
        assert [world["id"] for world in get(f"{again.url}/_emulator/worlds")["worlds"]] == ["default"]
        assert [each["name"] for each in get(f"{again.url}/_emulator/snapshots")["snapshots"]] == ["before"]
        again.stop(signal.SIGTERM)

    assert log_of(tmp_path, "--db", "state.db", "--epoch", "2027-01-01", "--seed", "0", "--plan", "paid") == ""


def test_fresh_leaves_a_file_of_another_program_alone(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes(b"# notes\n" * 100)

    code, line = refused(tmp_path, "--port", "0", "--db", "other.db", "--fresh")

    assert (code, line) == (1, "other.db: not a database of svc-emulator (nor any SQLite file); nothing was changed")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"other.db": b"# notes\n" * 100}


# -- what cannot be ---------------------------------------------------------------------------


def refused(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and the one line of a server that does not start."""
    result = in_folder(folder, "serve", *arguments)
    assert result.stdout == ""
    assert result.stderr.startswith("svc-emulator: ")
    assert said(result).count("\n") == 1
    return result.exit_code, said(result).removeprefix("svc-emulator: ").rstrip("\n")


def test_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        code, line = refused(tmp_path, "--port", str(port))

    assert code == 1
    assert line.startswith(
        f"cannot listen on 127.0.0.1 port {port}: address already in use: another program is listening there"
    )


def test_second_process_on_the_same_database(tmp_path: Path) -> None:
    with serving("--db", "state.db", folder=tmp_path):
        assert refused(tmp_path, "--port", "0", "--db", "state.db") == (1, "state.db: in use by another process")


def test_a_fixtures_file_with_several_mistakes_shows_all_and_how_to_look_again(tmp_path: Path) -> None:
    (tmp_path / "bad file.yaml").write_text("queues:\n  - name: 'a b'\n  - nam: c\nschedules:\n  - cron: x\n")

    completed = in_folder(tmp_path, "serve", "--port", "0", "--fixtures", "bad file.yaml")

    *problems, last = said(completed).splitlines()
    checked = in_folder(tmp_path, "fixtures", "check", "bad file.yaml")
    assert completed.exit_code == 1
    assert len(problems) > 2
    assert problems == [f"svc-emulator: {line}" for line in said(checked).splitlines()]
    assert last == (
        f"svc-emulator: {len(problems)} problems (look again with svc-emulator fixtures check 'bad file.yaml')"
    )


@pytest.mark.parametrize(
    ("host", "ours", "elsewhere"),
    [
        pytest.param("0.0.0.0", "127.0.0.1", "0.0.0.0", id="every IPv4 address"),
        pytest.param("localhost", "", "", id="by name"),
    ],
)
def test_banner_tells_where_callers_elsewhere_reach_it(tmp_path: Path, host: str, ours: str, elsewhere: str) -> None:
    with serving(folder=tmp_path, extra={"EMULATOR_HOST": host}) as server:
        _, _, port = server.url.rpartition(":")
        assert get(f"{server.url}/_emulator/health")["status"] == "ok"
        second = server.banner[1]

    assert ours in server.url
    address = f"and on every other address of this machine ({elsewhere}); from elsewhere http://NAME:{port}, "
    assert second == (f"{address}by its name or address" if elsewhere else "")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a world."""
    path = tmp_path_factory.mktemp("made") / "state.db"
    with Emulator(db=path):
        pass
    return path


@pytest.fixture
def database(made: Path, tmp_path: Path) -> Path:
    """A copy of it, alone in the folder of the test."""
    return Path(shutil.copy(made, tmp_path))


@pytest.mark.parametrize("name", ["world", "clock"])
def test_database_with_a_damaged_record_of_its_world(database: Path, tmp_path: Path, name: str) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE name = ?", (b"{}", name))

    code, line = refused(tmp_path, "--port", "0", "--db", "state.db")

    assert code == 1
    assert line.startswith("state.db: damaged: ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(("--epoch", "yesterday"), "epoch: expected an ISO 8601 time", id="epoch"),
        pytest.param(("--dialect", "klingon"), "dialect: unknown dialect 'klingon'", id="dialect"),
        pytest.param(("--dialect", "mine.toml"), "dialect: mine.toml: cannot be read: ", id="dialect-file"),
        pytest.param(("--clock", "slow"), "clock: expected 'realtime', 'frozen' or a rate", id="clock"),
    ],
)
def test_setting_that_cannot_be_is_wrong_usage(tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    code, line = refused(tmp_path, "--port", "0", *arguments)

    assert code == 2
    assert line.startswith(text)


def test_exit_code_is_1_if_a_world_had_stopped(tmp_path: Path) -> None:
    """D-283."""
    with serving("--db", "state.db", folder=tmp_path) as server:
        (tmp_path / "state.db").unlink()
        with pytest.raises(urllib.error.HTTPError) as refused:
            publish(server.url, server.variables["SVC_TOKEN"], "https://api.example.com/hook")
        with refused.value as answer:
            assert answer.code == 503
        health = run("health", "--port", server.url.rpartition(":")[2], folder=tmp_path)
        assert health.returncode == 1
        assert "is not well: " in health.stderr
        server.stop(signal.SIGTERM)

    assert server.exit_code == 1
    first, last, advice = (line for line in server.log.splitlines() if " -> 200 " not in line)
    assert first.startswith("error: the world default has stopped: ")
    assert last.startswith("svc-emulator: the world default had stopped: ")
    assert advice == "next: svc-emulator db check FILE looks at a database, and svc-emulator serve starts with it again"


def test_one_line_of_json_says_when_the_server_is_ready(tmp_path: Path) -> None:
    """D-533."""
    with serving("--json", folder=tmp_path) as server:
        line = json.loads(server.banner[0])
        assert get(f"{line['url']}/v2/keys", {"Authorization": f"Bearer {line['token']}"}).keys() == {"current", "next"}
        assert line["variables"]["SVC_TOKEN"] == line["token"]


@pytest.mark.parametrize("option", ["-port", "--port"])
def test_dev_stands_in_for_the_development_server_of_the_public_service(option: str, tmp_path: Path) -> None:
    """D-533. The token and the keys are the published ones of its first test user."""
    with serving("-quota", "pro", folder=tmp_path, port=(option, "0"), command="dev") as server:
        first = server.banner[0]
        assert first.startswith("development server is running at http://127.0.0.1:")
        url = first.split(" at ")[1].strip()
        token = "eyJVc2VySUQiOiJ0ZXN0VXNlcjEiLCJQYXNzd29yZCI6InRlc3RQYXNzd29yZCJ9"
        keys = get(f"{url}/v2/keys", {"Authorization": f"Bearer {token}"})
        assert keys["current"] == "sig_7GVPjvuwsfqF65iC8fSrs1dfYruM"
        login = get(f"{url}/_emulator/credentials")["management"]
        given = base64.b64encode(f"{login['username']}:{login['password']}".encode()).decode()
        [default, *_] = get(f"{url}/v2/qstash/users", {"Authorization": f"Basic {given}"})
        assert (default["reserved_type"], default["max_parallelism"]) == ("qstash_fixed_1m", 10)


def image_command() -> list[str]:
    """What the image puts before the command line of a container."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    entry: list[str] = json.loads(text.split("\nENTRYPOINT ")[1].splitlines()[0])
    return entry


@pytest.mark.parametrize(
    ("arguments", "reserved_type"),
    [(("dev", "-port", "0", "-quota", "pro"), "qstash_fixed_1m"), (("dev", "-port=0"), "")],
    ids=["pro", "payg"],
)
def test_the_command_line_of_the_public_services_image_starts_a_server_in_ours(
    arguments: tuple[str, ...], reserved_type: str, tmp_path: Path
) -> None:
    """D-800: `docker run IMAGE qstash dev`, with the image's own entry point and its variables."""
    assert image_command() == ["svc-emulator"]
    with serving(*arguments, folder=tmp_path, command="qstash", port=(), extra={"EMULATOR_HOST": "0.0.0.0"}) as server:
        assert server.banner[0].startswith("development server is running at http://127.0.0.1:")
        login = get(f"{server.url}/_emulator/credentials")["management"]
        encoded = base64.b64encode(f"{login['username']}:{login['password']}".encode()).decode()
        [default, *_] = get(f"{server.url}/v2/qstash/users", {"Authorization": f"Basic {encoded}"})
        assert default["reserved_type"] == reserved_type


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no limits of another process")
@pytest.mark.parametrize("server", ["uvicorn", "hypercorn"])
def test_without_a_file_descriptor_a_kept_connection_is_answered(tmp_path: Path, server: str) -> None:
    """D-565: what needs no file works, what needs one is 503, and nothing is logged as a fault."""
    resource = pytest.importorskip("resource")
    with serving("--server", server, folder=tmp_path) as emulator:
        headers = {"Authorization": f"Bearer {emulator.variables['SVC_TOKEN']}"}
        with httpx.Client(
            base_url=emulator.url, headers=headers, trust_env=False, verify=False, timeout=PATIENCE_S
        ) as client:
            assert client.get("/_emulator/health").status_code == 200
            pid = emulator.process.pid
            used = {int(each) for each in os.listdir(f"/proc/{pid}/fd")}
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(set(range(len(used) + 1)) - used), before[1]))
            answers = [
                client.post("/v2/publish/https://app.test/", content=b"x"),
                client.post("/v2/publish/https://app.test/", headers={"Upstash-Delay": "5s"}),
                client.post("/v2/publish/http://localhost:1/", headers={"Svc-Retries": "0"}),
                client.get("/_emulator/inspector"),
                client.post("/v2/schedules/https://app.test/", headers={"Svc-Cron": "CRON_TZ=Europe/Berlin 0 9 * * *"}),
                client.get("/v2/nowhere"),
                # A guess at what was meant would import a module.
                client.post("/_emulator/clock/advance", json={"bye": "1h"}),
                client.get("/_emulator/stream?from=start&follow=false"),
            ]
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            assert [each.status_code for each in answers] == [200, 400, 200, 503, 503, 404, 400, 200]
            assert client.get("/_emulator/inspector").status_code == 200
        emulator.stop(signal.SIGTERM)
    assert "Traceback" not in emulator.log, emulator.log
    assert emulator.log.count("no file descriptor is left") == 2
