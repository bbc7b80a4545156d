"""Calls that the inspector copies as TypeScript, made by the public clients of npm."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.examples.npm import folder_with_packages, needs_npm
from tests.examples.workplaces import Workplace
from tests.harness.emulators import Server, control, server, service

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "emulator" / "inspector"
HOOK, FLOW = "https://app.test/hook", "https://app.test/flow"
# Writes each call as the page copies it, and makes it.
SCRIPT = """
import { writeFileSync } from "node:fs";
import { asTypeScript } from "./inspector/languages.js";
const [origin, calls] = JSON.parse(process.argv[2]);
for (const [number, call] of calls.entries()) {
  const text = asTypeScript(call, { origin, dialect: { header_prefix: "Upstash-" } });
  writeFileSync(`call-${number}.js`, text);
  await import(`./call-${number}.js`);
  console.log(/new Client/.test(text) ? "client" : "fetch");
}
"""


def calls(emulator: Server, run: str) -> list[dict[str, Any]]:
    authorization = {"Authorization": f"Bearer {emulator.token}"}

    def post(path: str, body: str = '{"order": 7}', **headers: str) -> dict[str, Any]:
        options = {f"Upstash-{name.replace('_', '-')}": value for name, value in headers.items()}
        headers = {**authorization, "Content-Type": "application/json", **options}
        return {"method": "POST", "path": path, "headers": headers, "body": body}

    return [
        post(f"/v2/publish/{HOOK}", Delay="1h", Retries="2", Label="red", Retry_Delay="1000", Forward_X_Tenant="7"),
        post("/v2/publish/news", Timeout="30s", Callback="https://app.test/back"),
        post(f"/v2/enqueue/mail/{HOOK}", Retries="0"),
        post(f"/v2/schedules/{HOOK}", Cron="0 9 * * *", Schedule_Id="daily"),
        post(f"/v2/trigger/{FLOW}", Workflow_RunId="wfr_mine", Label="nightly"),
        post(f"/v2/notify/{run}/paid", '{"ok": true}'),
        {"method": "POST", "path": "/_emulator/clock/advance", "headers": {}, "body": '{"by": "1h"}'},
    ]


@needs_npm
def test_calls_copied_as_typescript_do_what_the_page_does(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = folder_with_packages(tmp_path_factory) / "copied"
    shutil.copytree(PAGE, folder / "inspector")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "calls.js").write_text(SCRIPT)
    with server(dialect="upstash") as emulator:
        control(emulator, "POST", "/destinations", {"match": {"url": "*"}, "respond": {"status": 200}})
        service(emulator, "POST", "/v2/topics/news/endpoints", {}, {"endpoints": [{"url": HOOK}]})
        service(emulator, "POST", "/v2/queues", {}, {"queueName": "mail"})
        begin = {"Upstash-Workflow-RunId": "waits", "Upstash-Workflow-Url": FLOW}
        service(emulator, "POST", f"/v2/publish/{FLOW}", {**begin, "Upstash-Workflow-Init": "true"}, {})
        given = json.dumps([emulator.url, calls(emulator, "waits")])
        said = Workplace(folder).run("node", "calls.js", given, timeout_s=60)
        assert said.split() == ["client"] * 6 + ["fetch"]
        messages = control(emulator, "GET", "/messages")["messages"]
        [delayed] = [each for each in messages if each["labels"] == ["red"]]
        deliveries = control(emulator, "GET", "/deliveries")["deliveries"]
        runs = control(emulator, "GET", "/runs")["runs"]
        [schedule] = control(emulator, "GET", "/schedules")["schedules"]
    [sent] = [each for each in deliveries if each["message_id"] == delayed["message_id"]]
    [run] = [each for each in runs if each["id"] == "wfr_mine"]
    assert (delayed["max_attempts"], delayed["state"], delayed["ended_ms"] - delayed["created_ms"]) == (
        3,
        "DELIVERED",
        3_600_000,
    )
    assert (sent["body"], sent["headers"]["X-Tenant"], sent["headers"]["Content-Type"]) == (
        '{"order": 7}',
        ["7"],
        ["application/json"],
    )
    assert sorted(each["queue"] or each["url_group"] or "" for each in messages if each["url"] == HOOK) == [
        "",
        "mail",
        "news",
    ]
    assert (run["payload"], run["labels"]) == ('{"order": 7}', ["nightly"])
    assert (schedule["schedule_id"], schedule["cron"], schedule["destination"]) == ("daily", "0 9 * * *", HOOK)
