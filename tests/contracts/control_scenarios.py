"""Every operation of the control API and of the management API with its success."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.contracts.missing import with_files
from tests.contracts.scenarios import DOWN, URL, Checked, documented, scenario


@scenario()
async def clock(emulator: Checked) -> None:
    await emulator.control("GET", "/health")
    await emulator.call("POST", f"/v2/schedules/{URL}", {"Svc-Cron": "0 * * * *"})
    await emulator.call("POST", f"/v2/publish/{URL}", {"Svc-Delay": "1m"})
    assert (await emulator.control("GET", "/clock")).json["next_due_ms"] is not None
    await emulator.control("POST", "/clock/next")
    await emulator.control("POST", "/clock/advance", {"by": "1h"})
    assert "stopped" in (await emulator.control("POST", "/clock/advance", {"by": "1d", "max_deliveries": 2})).json
    await emulator.control("POST", "/clock/advance", {"to": "2026-01-03T00:00:00Z"})
    await emulator.control("POST", "/clock/drain")
    assert (await emulator.control("POST", "/clock/drain", {"horizon": "1d"})).json["idle"] is True
    await emulator.control("PUT", "/clock", {"rate": 60})
    await emulator.control("PUT", "/clock", {"rate": 0.5, "now": "2026-03-01"})
    for target, method, body in (
        ("/clock", "PUT", {}),
        ("/clock", "PUT", {"rate": -1}),
        ("/clock/advance", "POST", {"by": 1, "to": 1}),
        ("/clock/advance", "POST", b"{"),
        ("/clock/drain", "POST", {"horizon": "soon"}),
        ("/destinations", "POST", {"match": {"url": URL}}),
        ("/worlds", "POST", {"id": "a/b"}),
        ("/worlds", "POST", {"fixtures": {"queues": [{"name": "a b"}]}}),
        ("/reset", "POST", {"fixture": {}}),
        ("/deliveries?limit=0", "GET", b""),
        ("/contract?format=xml", "GET", b""),
    ):
        answer = await emulator.control(method, target, body)
        assert (answer.status, "field" in answer.json) == (400, True), (target, answer.body)


@scenario()
async def deliveries_and_rules(emulator: Checked) -> None:
    rules: tuple[dict[str, object], ...] = (
        {"respond": {"status": 503, "headers": {"Retry-After": "10"}, "body": "busy", "latency": "2s"}, "times": 2},
        {"sequence": [{"status": 500, "body_base64": "/wA="}, {}]},
        {"forward_to": "http://127.0.0.1:3000", "latency": 5},
        {"fault": "refused", "latency": "1m"},
    )
    for rule in rules:
        made = await emulator.control("POST", "/destinations", {"match": {"url": DOWN, "method": "post"}, **rule})
        assert made.status == 201
    assert len((await emulator.control("GET", "/destinations")).json["destinations"]) == 4
    order = [each["id"] for each in (await emulator.control("GET", "/destinations")).json["destinations"]]
    assert (await emulator.control("PUT", "/destinations", {"ids": order[1:] + order[:1]})).status == 200
    assert (await emulator.control("PUT", "/destinations", {"ids": order})).status == 200
    await emulator.call("POST", f"/v2/publish/{DOWN}", {"Svc-Redact-Fields": "body"}, b"\xff")
    await emulator.control("POST", "/clock/advance", {"by": "20s"})
    await emulator.control("DELETE", f"/destinations/{made.json['id']}")
    await emulator.control("DELETE", "/destinations")
    await emulator.control("POST", "/destinations", {"match": {"url": f"{DOWN}*"}, "fault": "dns"})
    for path in ("/1", "/2"):
        await emulator.call("POST", f"/v2/publish/{DOWN}{path}", {"Svc-Retries": "0"}, b"text")
    await emulator.call("POST", f"/v2/publish/{URL}", (), b"text")
    page = (await emulator.control("GET", "/deliveries?limit=1&outcome=failed&redact=true")).json
    rest = (await emulator.control("GET", f"/deliveries?cursor={page['cursor']}&url={DOWN}*")).json["deliveries"]
    assert {delivery["response"] is None for delivery in rest} == {True, False}
    everything = (await emulator.control("GET", "/deliveries")).json["deliveries"]
    assert {delivery["via"] for delivery in everything} == {"rule", "capture"}
    await emulator.control("GET", "/trace")
    await emulator.control("GET", "/metrics")
    assert (await emulator.control("POST", f"/deliveries/{everything[0]['seq']}/redeliver")).status == 200
    assert (await emulator.control("POST", "/deliveries/first/redeliver")).status == 404
    await emulator.control("POST", "/otlp/v1/traces", b"{}", [("Content-Type", "application/json")])
    await emulator.control("GET", f"/messages/{everything[0]['message_id']}/spans")
    await emulator.control("DELETE", "/deliveries")


@scenario()
async def previews(emulator: Checked) -> None:
    rules: dict[str, dict[str, object]] = {
        "slow": {"respond": {"latency": "5s"}},
        "silent": {"fault": "timeout"},
        "busy": {"respond": {"status": 503}},
    }
    for name, rule in rules.items():
        url = f"https://{name}.test/"
        await emulator.control("POST", "/destinations", {"match": {"url": url}, **rule})
        await emulator.call("POST", f"/v2/publish/{url}", {"Svc-Deduplication-Id": name, "Svc-Timeout": "30s"})
    limited = {"Svc-Flow-Control-Key": "k", "Svc-Flow-Control-Value": "rate=1, period=1m"}
    for _ in range(2):
        held = (await emulator.call("POST", f"/v2/publish/{URL}", limited)).json["messageId"]
    await emulator.call("POST", f"/v2/publish/{URL}", {"Svc-Delay": "1h"})
    await emulator.call("POST", f"/v2/schedules/{URL}", {"Svc-Cron": "CRON_TZ=Asia/Kolkata 0 * * * *"})
    await emulator.control("POST", "/destinations", {"match": {"url": DOWN}, "fault": "refused"})
    failed = (await emulator.call("POST", f"/v2/publish/{DOWN}", {"Svc-Retries": "0"})).json["messageId"]
    account_id = emulator.emulator.world.account().id
    await emulator.control("PUT", f"/accounts/{account_id}", {"state": "passive"})
    kinds = {item["kind"] for item in (await emulator.control("GET", "/upcoming?until=2027-01-01")).json["items"]}
    assert len(kinds) == 10, kinds
    await emulator.control("GET", "/upcoming?limit=1")
    assert (await emulator.control("GET", "/upcoming?limit=0")).status == 400
    for message_id in (held, failed):
        assert (await emulator.control("GET", f"/messages/{message_id}/explain")).status == 200
    gap = "/when/firings?expression=CRON_TZ=Europe/Berlin%2030%202%20*%20*%20*&from=2026-03-28&count=2"
    assert (await emulator.control("GET", gap)).json["firings"][1]["explanation"] is not None
    assert len((await emulator.control("GET", "/when/attempts?retry_delay=1000&retries=2")).json["attempts"]) == 3
    for wrong in ("/when/firings?expression=*", "/when/attempts?retries=21"):
        assert (await emulator.control("GET", wrong)).status == 400


@scenario()
async def lists(emulator: Checked) -> None:
    await emulator.control("POST", "/destinations", {"match": {"url": DOWN}, "respond": {"status": 503}})
    await emulator.call("POST", f"/v2/publish/{DOWN}", {"Svc-Retries": "0", "Svc-Label": "red"}, b"text")
    await emulator.call("POST", f"/v2/publish/{DOWN}", {"Svc-Retries": "1"})
    await emulator.call("POST", "/v2/queues", (), {"queueName": "q", "parallelism": 1})
    await emulator.call("POST", "/v2/queues/q/pause")
    await emulator.call("POST", f"/v2/enqueue/q/{URL}")
    limited = {"Svc-Flow-Control-Key": "k", "Svc-Flow-Control-Value": "rate=1, period=1m"}
    for _ in range(2):
        await emulator.call("POST", f"/v2/publish/{URL}", limited)
    await emulator.call("POST", f"/v2/schedules/{URL}", {"Svc-Cron": "CRON_TZ=Asia/Kolkata 0 * * * *"})
    await emulator.call("POST", "/v2/topics/g/endpoints", (), {"endpoints": [{"url": URL}, {"url": DOWN, "name": "d"}]})
    await emulator.call("PATCH", "/v2/topics/g", (), {"headers": {"Svc-Retries": ["1"]}})
    await emulator.control("POST", "/clock/next")
    states = {each["state"] for each in (await emulator.control("GET", "/messages")).json["messages"]}
    assert states >= {"HELD", "DELIVERED", "FAILED"}, states
    page = (await emulator.control("GET", "/messages?limit=1&state=live,failed")).json
    await emulator.control("GET", f"/messages?limit=1&cursor={page['cursor']}")
    assert (await emulator.control("GET", "/dead-letters?label=red")).json["dead_letters"]
    for path, name in (
        ("/schedules?firings=3", "schedules"),
        ("/queues", "queues"),
        ("/flow-control", "keys"),
        ("/url-groups", "url_groups"),
    ):
        assert (await emulator.control("GET", path)).json[name], path
    for wrong in ("/messages?state=gone", "/messages?cursor=x", "/dead-letters?state=failed", "/schedules?firings=101"):
        assert (await emulator.control("GET", wrong)).status == 400


@scenario()
async def stream(emulator: Checked) -> None:
    await emulator.call("POST", f"/v2/publish/{URL}", (), b"text")
    everything = await emulator.control("GET", "/stream?from=start&follow=false")
    last_id = everything.body.decode().split("id: ")[-1].partition("\n")[0]
    assert b"event: attempt" in everything.body
    rest = await emulator.control("GET", "/stream?follow=false&redact=true", headers={"Last-Event-ID": last_id})
    assert b"event: attempt" not in rest.body
    await emulator.control("GET", "/stream?follow=false&last_event_id=00000000-7")
    for wrong in ("follow=perhaps", "from=yesterday", "last_event_id=7"):
        assert (await emulator.control("GET", f"/stream?{wrong}")).status == 400


@scenario()
async def refused_calls(emulator: Checked) -> None:
    await emulator.call("POST", f"/v2/publish/{URL}", {"Svc-Delay": "soon"})
    assert len((await emulator.control("GET", "/refused?limit=5")).json["refused"]) == 1
    assert (await emulator.control("GET", "/refused?limit=0")).status == 400
    for _ in range(2):
        await emulator.call("POST", f"/v2/publish/{URL}", {"Svc-Deduplication-Id": "a"})
    assert len((await emulator.control("GET", "/refused")).json["deduplicated"]) == 1
    await emulator.control("DELETE", "/refused")
    await emulator.control("GET", "/mismatches")
    await emulator.control("DELETE", "/mismatches")


@scenario()
async def worlds(emulator: Checked) -> None:
    await emulator.control("POST", "/worlds")
    fixtures = {
        "accounts": [{"plan": "free", "id": "own", "enterprise": {"enabled": True}}],
        "queues": [{"name": "q"}],
    }
    wanted = {"id": "w", "seed": 7, "epoch": "2026-02-01", "rate": 0, "plan": "free", "fixtures": fixtures}
    assert (await emulator.control("POST", "/worlds", wanted)).status == 201
    assert (await emulator.control("POST", "/worlds", {"id": "w"})).status == 409
    await emulator.control("GET", "/worlds")
    chosen = {"id": "chosen", "token": "a-token-of-mine"}
    assert (await emulator.control("POST", "/worlds", chosen)).status == 201
    assert (await emulator.control("POST", "/worlds", {"token": "a-token-of-mine"})).status == 409
    assert (await emulator.control("POST", "/worlds", {"token": "short"})).status == 400
    await emulator.control("GET", "/clock", headers={"Authorization": "Bearer a-token-of-mine"})
    assert (await emulator.control("POST", "/worlds/w/fork", {"id": "f", "token": "the-fork-s-token"})).status == 201
    assert (await emulator.control("POST", "/worlds/w/fork", {"id": "f"})).status == 409
    assert (await emulator.control("POST", "/worlds/w/fork", {"token": "short"})).status == 400
    assert (await emulator.control("POST", "/worlds/nobody/fork")).status == 404
    await emulator.control("POST", "/clock/advance", {"by": "1h", "undoable": True})
    for move in ("next", "drain"):
        assert (await emulator.control("POST", f"/clock/{move}", {"undoable": True})).status == 200
        assert (await emulator.control("POST", "/clock/undo")).status == 200
    assert (await emulator.control("POST", "/clock/next", {"undone": True})).status == 400
    assert (await emulator.control("POST", "/clock/undo")).status == 200
    assert (await emulator.control("POST", "/clock/undo")).status == 409
    await emulator.control("GET", "/worlds/w")
    await emulator.control("GET", "/worlds/w/setup")
    await emulator.control("GET", "/credentials?world=w")
    accounts = (await emulator.control("GET", "/accounts?world=w")).json["accounts"]
    assert accounts[0]["enterprise"] == {"enabled": True}
    changed = await emulator.control(
        "PUT", "/accounts/own?world=w", {"state": "suspended", "reserved_type": "enterprise:x"}
    )
    assert changed.json["modifying_state"]
    await emulator.control("GET", "/team")
    await emulator.control("POST", "/reset", {"fixtures": {}})
    await emulator.control("POST", "/reset?world=w")
    await emulator.control("DELETE", "/worlds/w")
    assert (await emulator.control("DELETE", "/worlds/default")).status == 409


@scenario()
async def snapshots(emulator: Checked) -> None:
    await emulator.call("POST", f"/v2/publish/{URL}", {"Svc-Delay": "1h"})
    assert (await emulator.control("POST", "/snapshots", {"name": "a.b"})).json["pending"] == 1
    assert (await emulator.control("POST", "/snapshots", {"name": "a.b"})).status == 409
    file = (await emulator.control("GET", "/snapshots/a.b/file")).body
    for status in (201, 200):
        assert (await emulator.control("PUT", "/snapshots/c/file", file)).status == status
    assert len((await emulator.control("GET", "/snapshots")).json["snapshots"]) == 2
    await emulator.control("POST", "/snapshots/c/restore")
    await emulator.control("DELETE", "/snapshots/c")
    for method, target in (
        ("POST", "/snapshots/c/restore"),
        ("DELETE", "/snapshots/c"),
        ("GET", "/snapshots/c/file"),
    ):
        assert (await emulator.control(method, target)).status == 404
    bad: tuple[tuple[str, str, object], ...] = (
        ("POST", "/snapshots", {"name": "a b"}),
        ("POST", "/snapshots/a%20b/restore", b""),
        ("DELETE", "/snapshots/a%20b", b""),
        ("GET", "/snapshots/a%20b/file", b""),
        ("PUT", "/snapshots/c/file", b"no database"),
        ("PUT", "/snapshots/c/file", b""),
    )
    for method, target, body in bad:
        answer = await emulator.control(method, target, body)
        assert (answer.status, "field" in answer.json) == (400, True), (target, answer.body)


@scenario()
async def contract_and_reference(emulator: Checked) -> None:
    await emulator.control("GET", "/contract")
    await emulator.control("GET", "/contract?format=yaml&api=messaging")
    await emulator.control("GET", "/contract", headers={"Accept": "application/yaml"})
    await emulator.control("GET", "/reference?api=control")
    await emulator.call("GET", "/", {"Accept": "text/html"})
    await emulator.call("GET", "/llms.txt")
    await emulator.call("GET", "/llms-full.txt")
    await emulator.control("GET", "", headers={"Accept": "text/html"})
    assert (await emulator.control("GET", "/contract", headers={"Accept": "text/html"})).status == 406


@scenario()
async def control_conflicts(emulator: Checked) -> None:
    await emulator.call("POST", f"/v2/publish/{URL}")
    assert (await emulator.control("PUT", "/clock", {"now": "2025-01-01"})).status == 409
    token = (await emulator.control("GET", "/accounts")).json["accounts"][1]["token"]
    account_id = emulator.emulator.world.account().id
    assert (await emulator.control("PUT", f"/accounts/{account_id}", {"token": token})).status == 409
    await emulator.control("POST", "/worlds", {"fixtures": {"accounts": [{"token": token}]}})
    assert (await emulator.control("POST", "/reset", {"fixtures": {"accounts": [{"token": "x"}]}})).status == 200


@scenario()
async def search_indexes(emulator: Checked) -> None:
    wanted = {"name": "mySearchIndex", "region": "eu-west-1", "type": "payg"}
    made = (await emulator.manage("POST", "/v2/search", wanted)).json["id"]
    assert {index["type"] for index in (await emulator.manage("GET", "/v2/search")).json} >= {"free", "payg"}
    await emulator.manage("GET", f"/v2/search/{made}")
    for period in ("1h", "3h", "12h", "1d", "3d", "7d", "30d"):
        await emulator.manage("GET", f"/v2/search/{made}/stats?period={period}")
    await emulator.manage("GET", "/v2/search/stats")
    await emulator.manage("POST", f"/v2/search/{made}/reset-password")
    await emulator.manage("POST", f"/v2/search/{made}/rename", {"name": "other"})
    await emulator.manage("POST", f"/v2/search/{made}/transfer", {"target_account": "team-1"})
    await emulator.manage("DELETE", f"/v2/search/{made}")
    vector = (await emulator.control("GET", "/credentials")).json["vector_index_ids"][0]
    await emulator.manage("GET", f"/v2/vector/index/{vector}/stats?period=30d")
    await emulator.manage("GET", "/v2/vector/index/stats")
    for method, target, body in (
        ("POST", "/v2/search", {**wanted, "type": "fixed"}),
        ("POST", "/v2/search", b""),
        ("POST", "/v2/search", b"["),
        ("GET", f"/v2/vector/index/{vector}/stats?period=2h", b""),
    ):
        assert (await emulator.manage(method, target, body)).status == 400
    for operation in documented(406, "management"):
        assert (await emulator.of(operation, {"Accept": "text/html"})).status == 406


@scenario()
async def queue_accounts(emulator: Checked) -> None:
    await emulator.call("POST", f"/v2/publish/{URL}")
    mine = (await emulator.manage("GET", "/v2/queue/user")).json["id"]
    await emulator.manage("GET", f"/v2/queue/user/{mine}")
    await emulator.manage("GET", "/v2/queue/users")
    for period in ("1h", "30d"):
        await emulator.manage("GET", f"/v2/queue/stats/{mine}?period={period}")
    await emulator.manage("POST", f"/v2/queue/rotate-token/{mine}")
    for plan in ("paid", "queue_fixed_1m", "queue_fixed_10m", "queue_fixed_100m"):
        await emulator.manage("POST", f"/v2/queue/set-plan/{mine}", {"plan_name": plan})
        await emulator.manage("GET", f"/v2/queue/user/{mine}")
    await emulator.manage("PATCH", f"/v2/queue/update-budget/{mine}", {"budget": 100})
    await emulator.manage("POST", f"/v2/queue/enable-prodpack/{mine}")
    await emulator.manage("POST", f"/v2/queue/disable-prodpack/{mine}")
    await emulator.manage("POST", "/v2/queue/move-to-team", {"queue_id": mine, "target_team_id": "team-1"})
    await emulator.call("GET", "/v2/queue/ipv4", token=None)


@scenario()
async def a_world_that_has_stopped(emulator: Checked) -> None:
    emulator.emulator.world.driver.stop("a rule failed")
    await emulator.control("GET", "/health")
    assert "error" in (await emulator.control("GET", "/worlds")).json["worlds"][0]
    assert (await emulator.control("GET", "/clock")).status == 503


@scenario(keep_history="8")
async def history_that_is_not_kept(emulator: Checked) -> None:
    for _ in range(10):
        await emulator.call("POST", f"/v2/publish/{URL}")
    assert (await emulator.control("GET", "/deliveries")).json["dropped"]["entries"] > 0
    assert b'"dropped"' in (await emulator.control("GET", "/trace")).body


@scenario()
async def pages_of_the_book(emulator: Checked) -> None:
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder)
        async with with_files(book=book) as other:
            checked = Checked(other)
            checked.met = emulator.met
            assert (await checked.control("GET", "/docs")).status == 200
            (book / "howto").mkdir()
            names = (
                "index.html",
                "searchindex.js",
                *(f"howto/a.{kind}" for kind in ("html", "css", "js", "svg", "png")),
            )
            for name in names:
                (book / name).write_text("text")
                tag = (await checked.control("GET", f"/docs/{name}")).headers["etag"]
                again = await checked.call("GET", f"/_emulator/docs/{name}", {"If-None-Match": tag}, token=None)
                assert again.status == 304
            assert (await checked.control("GET", "/docs")).status == 307
            assert (await checked.control("GET", "/docs/nothing.html")).status == 404


@scenario()
async def files_of_the_inspector(emulator: Checked) -> None:
    for path in (
        "/inspector",
        "/inspector/main.js",
        "/inspector/style.css",
        "/inspector/icon.svg",
        "/inspector/views/index.js",
    ):
        tag = (await emulator.control("GET", path)).headers["etag"]
        assert (await emulator.call("GET", f"/_emulator{path}", {"If-None-Match": tag}, token=None)).status == 304
