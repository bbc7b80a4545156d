"""Making an emulation from settings: what cannot be made is one line that names the setting."""

from __future__ import annotations

import pytest

from emulator.server import bootstrap
from emulator.server.settings import Settings, SettingsError
from tests.harness.loops import on_loop


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"llm_url": "localhost:11434"}, "llm_url: endpoint has invalid scheme, add http:// or https://"),
        ({"llm_url": "https://api.openai.com/v1"}, "llm_url: an external server, which allow_host has to name as well"),
        ({"llm_url": "http://169.254.169.254/"}, "llm_url: a cloud metadata or link-local address"),
    ],
)
@on_loop
async def test_an_external_model_has_to_be_allowed(given: dict[str, str], text: str) -> None:
    """D-311."""
    with pytest.raises(SettingsError, match=text):
        await bootstrap.start(Settings(**given))  # type: ignore[arg-type]  # every setting here is a text


@pytest.mark.parametrize(
    "given",
    [
        {"llm_url": "http://localhost:11434"},
        {"llm_url": "https://api.openai.com/v1", "allow_host": ("api.openai.com",)},
        {"llm_url": "https://api.openai.com/v1", "external": "allow"},
    ],
)
@on_loop
async def test_a_model_that_may_be_contacted_is_taken(given: dict[str, str]) -> None:
    await (await bootstrap.start(Settings(**given))).close()  # type: ignore[arg-type]  # as above
