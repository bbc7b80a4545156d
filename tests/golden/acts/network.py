"""Real requests to a real destination, and the server's other settings."""

from __future__ import annotations

from tests.golden.stage import Stage


def network(stage: Stage) -> None:
    """Attempts that leave the process. They are only made while the clock is moved, which waits for them."""
    world = stage.world("network", seed=81)
    world.rule("https://forwarded.example.com/*", forward_to=stage.receiver, latency="3s")
    world.rule("https://out.example.com/*", forward_to="https://really.example.com")
    for number, path in enumerate(("status/200", "status/503", "wait/30", "hangup", "echo?a=b")):
        for origin in (stage.receiver, "https://forwarded.example.com"):
            world.publish(
                f"{origin}/{path}",
                f"{number}",
                delay=f"{number + 1}s",
                retries=2,
                retry_delay="10000",
                method=("POST", "PUT")[number % 2],
                forward_x_number=number,
            )
    world.publish("https://out.example.com/", delay="1s", retries=0)
    # Nothing listens there on any machine, and these names are never asked of a name server.
    world.publish("http://127.0.0.1:1/", delay="1s", retries=1, retry_delay="1000")
    world.publish("http://169.254.169.254/latest", delay="1s", retries=0)
    world.publish("http://metadata.google.internal/", delay="1s", retries=0)
    world.schedule("*/10 * * * *", f"{stage.receiver}/fired", schedule_id="fired")
    world.advance("1m")
    world.look_ahead()
    world.advance("2h")
    world.look(messages=8)


def concurrent(stage: Stage) -> None:
    """Several attempts under way at once in an advance: their outcomes count in the order in which they started."""
    world = stage.default_world()
    for number in range(24):
        status = (200, 500, 200, 429)[number % 4]
        world.publish(f"{stage.receiver}/status/{status}", f"{number}", delay="10s", retries=1, retry_delay="5000")
    world.advance("1m")
    world.look(messages=4)


def endless(stage: Stage) -> None:
    """A message that is retried at one instant without end is held, and the clock moves on."""
    world = stage.world("endless", seed=82)
    world.rule("https://down.example.com/*", respond={"status": 500})
    world.control("PUT", f"/accounts/{world.account_id}", {"max_retries": 2000})
    world.publish("https://down.example.com/", delay="1h", retries=1100, retry_delay="0")
    world.publish("https://app.example.com/", delay="2h")
    world.advance("1d")
    world.look_ahead()
    world.advance("1d")
    world.control("GET", "/deliveries", limit="3")
    world.call("GET", "/v2/events?count=3")


def other_names(stage: Stage) -> None:
    """Another dialect, strict mode, a free account, and external destinations that fail."""
    world = stage.default_world(prefix="Upstash-", segment="qstash")
    url = "https://app.example.com/"
    world.publish(url, "captured by nobody", retries=1, retry_delay="1000")
    world.rule("https://app.example.com/*", respond={"status": 200}, times=20)
    world.publish(url, "named", forward_x_a="1", label="l", callback=url, delay="1m")
    world.call("POST", f"/v2/publish/{url}", {"Upstash-Retires": "1", "Svc-Delay": "1h"}, "misspelt")
    world.call("POST", f"/v2/publish/{url}?qstash_token={world.token}&upstash-delay=2m", {"Authorization": ""}, "q")
    world.publish(url, "long delay", delay="8d")
    world.publish(url, "many retries", retries=6)
    world.enqueue("line", url, "not applied", delay="1h")
    world.enqueue("line", url, "applied")
    world.schedule("CRON_TZ=Europe/Berlin 0 * * * *", url, schedule_id="hourly", flow_control_key="k")
    world.call("POST", "/v2/topics/pair/endpoints", {}, {"endpoints": [{"url": url}]})
    world.call("POST", "/v2/topics/second/endpoints", {}, {"endpoints": [{"url": url}]})
    world.advance("1h")
    world.manage("GET", "/{queue}/users")
    world.manage("POST", f"/{{queue}}/set-plan/{world.account_id}", {"plan_name": "qstash_fixed_1m"})
    world.manage("GET", "/search")
    world.manage("GET", f"/{{queue}}/stats/{world.account_id}")
    world.advance("30h")
    world.look(messages=8)
