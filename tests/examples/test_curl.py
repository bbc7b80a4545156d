"""The tour in curl, with an emulator of its own and with one that runs already."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.examples.workplaces import free_port, missing, workplace
from tests.harness.emulators import control, server

pytestmark = [pytest.mark.slow, pytest.mark.skipif(missing("bash", "curl"), reason="needs bash and curl")]


def answers(output: str) -> dict[str, Any]:
    """The JSON printed under each heading."""
    parts = re.split(r"^# (.*)\n", output, flags=re.MULTILINE)
    return {
        heading: json.loads(text)
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
        if text.startswith(("{", "["))
    }


def test_the_tour_starts_an_emulator_and_ends_it(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    output = workplace("curl", tmp_path).run("./tour.sh", EMULATOR_PORT=str(port))
    assert f"No emulator answers at {url}. Start one." in output
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False, verify=False)


def test_the_tour_shows_what_it_says(tmp_path: Path) -> None:
    with server(clock="realtime") as emulator:
        output = workplace("curl", tmp_path).run("./tour.sh", EMULATOR_URL=emulator.url)
        made = control(emulator, "GET", "/deliveries")["deliveries"]
        clock = control(emulator, "GET", "/clock")
    assert "Start one" not in output

    shown = answers(output)
    assert shown["Let the hour pass."]["deliveries"] == 1
    [reminder] = shown[
        "What was delivered, exactly as it was sent. The host is not of this machine, so nobody was called."
    ]["deliveries"]
    assert (reminder["body"], reminder["via"]) == ('{"user": 7}', "capture")
    assert reminder["at_ms"] - reminder["created_ms"] == 3_600_000

    assert shown["Let time pass until nothing is left to do."]["failed"] == 3
    [dead] = shown["All three retries failed as well. The message is in the dead letter queue."]["messages"]
    assert (dead["responseStatus"], dead["responseBody"]) == (503, "closed for maintenance")
    [delivered] = shown["The delivery that succeeded; the four that failed have outcome=failed."]["deliveries"]
    assert (delivered["body"], delivered["response"]["status"]) == ('{"order": 42}', 200)
    assert shown["The dead letter queue is empty."] == {"messages": []}

    orders = [each for each in made if each["url"] == "https://api.example.com/orders"]
    assert [each["response"]["status"] for each in orders] == [503, 503, 503, 503, 200]
    starts = [each["at_ms"] for each in orders]
    assert [start - starts[0] for start in starts[:4]] == [0, 120_000, 240_000, 360_000]
    assert clock["rate"] == 1
