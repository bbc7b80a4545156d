"""A world with something in every view, as the screenshot and the checks of all views need it."""

from __future__ import annotations

from tests.harness.emulators import Server, control, http, service

RULES: tuple[dict[str, object], ...] = (
    {
        "match": {"url": "https://billing.example/*"},
        "respond": {"status": 503, "headers": {"Retry-After": "10"}, "body": '{"detail": "db locked"}'},
        "times": 6,
    },
    {"match": {"url": "https://legacy.example/*"}, "fault": "refused"},
    {"match": {"url": "https://reports.example/*"}, "respond": {"status": 200, "latency": "2s"}},
)
SCHEDULES = (
    ("daily-report", "CRON_TZ=Europe/Berlin 0 9 * * *", "https://reports.example/daily"),
    ("poll", "*/15 * * * *", "https://app.example/poll"),
    ("cleanup", "30 3 * * 0", "https://app.example/cleanup"),
)


def fill(emulator: Server) -> None:
    """Deliveries, failures, retries and dead letters of the last minutes, and work to come."""

    def publish(path: str, body: object = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        service(emulator, "POST", f"/v2/{path}", named, body)

    for rule in RULES:
        control(emulator, "POST", "/destinations", rule)
    for schedule_id, cron, url in SCHEDULES:
        publish(f"schedules/{url}", Svc_Cron=cron, Svc_Schedule_Id=schedule_id)
    publish("schedules/cleanup/pause")
    for number in range(4):
        publish(
            "publish/https://app.example/orders",
            {"order": number},
            Svc_Label="nightly",
            Content_Type="application/json",
        )
    control(emulator, "POST", "/clock/advance", {"by": "14m"})
    publish(
        "publish/https://billing.example/invoices", {"invoice": 7}, Svc_Retries="3", Content_Type="application/json"
    )
    publish("publish/https://billing.example/invoices", {"invoice": 8}, Svc_Retries="1", Svc_Label="billing")
    publish("publish/https://legacy.example/import", Svc_Retries="0")
    for number in range(3):
        publish("enqueue/orders/https://reports.example/orders", {"order": number})
        publish(
            "publish/https://app.example/mail",
            Svc_Flow_Control_Key="customer-7",
            Svc_Flow_Control_Value="rate=1,period=10m",
        )
    control(emulator, "POST", "/clock/advance", {"by": "15s"})
    publish("publish/https://app.example/reminder", Svc_Delay="2h", Svc_Label="nightly")
    publish(
        "publish/https://billing.example/invoices", {"invoice": 9}, Svc_Retries="4", Content_Type="application/json"
    )
    endpoints = {
        "endpoints": [{"name": "billing", "url": "https://billing.example/hook"}, {"url": "https://crm.example/hook"}]
    }
    publish("topics/receivers/endpoints", endpoints)
    for url, headers in (("https://app.example/", {"Svc-Delay": "5x"}), ("app.example/", {})):
        headers = {"Authorization": f"Bearer {emulator.token}", **headers}
        assert http("POST", f"{emulator.url}/v2/publish/{url}", headers=headers).status_code == 400
    control(emulator, "POST", "/snapshots", {"name": "before-the-import"})
    control(emulator, "POST", "/worlds", {"id": "ci-42"})
