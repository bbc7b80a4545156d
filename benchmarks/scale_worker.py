"""A program: short tests one after the other, each in a world of its own, whose token every call carries."""

from __future__ import annotations

import secrets
import sys

import httpx

_MESSAGES = 20
_DESTINATION = "https://app.example.com/orders"


def one_test(client: httpx.Client) -> None:
    """Raises if anything is not as it should be."""
    token = secrets.token_hex(16)
    client.headers["Authorization"] = f"Bearer {token}"
    world = client.post("/_emulator/worlds", json={"id": f"test-{token[:12]}", "token": token}).raise_for_status()
    for _ in range(_MESSAGES):
        client.post(f"/v2/publish/{_DESTINATION}", headers={"Svc-Delay": "1h"}).raise_for_status()
    client.post("/_emulator/clock/advance", json={"by": "1d"}).raise_for_status()
    found = client.get("/_emulator/deliveries").raise_for_status().json()["deliveries"]
    if len(found) != _MESSAGES:
        raise RuntimeError(f"expected {_MESSAGES} deliveries, found {len(found)}")
    client.delete(f"/_emulator/worlds/{world.json()['id']}").raise_for_status()


def main() -> None:
    """The address and how many tests are the arguments; they begin when a line is read."""
    url, count = sys.argv[1:]
    with httpx.Client(base_url=url, timeout=300, trust_env=False) as client:
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(int(count)):
            one_test(client)


if __name__ == "__main__":
    main()
