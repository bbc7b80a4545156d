"""A server: its start, certificates, terminals."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import pytest
from cryptography.hazmat.primitives import serialization
from starlette.types import Message

from emulator.server import bootstrap, serving
from emulator.server.connections import UnusableCertificate, read_certificate
from emulator.server.exchanges import WholeExchanges
from emulator.server.logs import printable, printable_styled
from emulator.server.settings import Settings, SettingsError
from tests.harness.certificates import CertificateFiles, make_certificate
from tests.harness.emulators import InProcess, http_scope, with_emulator
from tests.harness.loops import PATIENCE_S, cancelled, on_loop, spawn, turns

# -- the end of the calls under way -----------------------------------------------------------


async def never(*_: object) -> Any:
    """An application that does not answer, and a client that sends nothing."""
    await asyncio.get_running_loop().create_future()


@on_loop
async def test_a_call_that_comes_when_the_others_were_cut_off_gets_the_same_answer() -> None:
    """D-291. The server itself ends its task, and would answer 500."""
    stop, sent = asyncio.Event(), list[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    exchanges = WholeExchanges(never, stop)
    scope = http_scope("GET", b"/v2/logs", [], "127.0.0.1")
    early = spawn(exchanges(scope, never, send))
    await turns()
    await cancelled(early)
    assert sent == []

    stop.set()
    late = spawn(exchanges(scope, never, send))
    await turns()
    late.cancel()
    await late
    assert [each.get("status") for each in sent] == [503, None]
    assert json.loads(sent[1]["body"])["error"] == "the server is stopping"


# -- the process around the server, as far as no server is needed for it ---------------------------


class LoopWithoutHandlers(asyncio.SelectorEventLoop):
    """A loop that has no handlers of signals, like those of Windows."""

    def add_signal_handler(self, *_: object) -> None:
        raise NotImplementedError


@pytest.fixture
def _signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals_as_before")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_in_order_where_the_loop_has_no_handlers(number: signal.Signals) -> None:
    async def main() -> None:
        stop = asyncio.Event()
        serving.stop_on_signals(stop)
        signal.raise_signal(number)
        await asyncio.wait_for(stop.wait(), PATIENCE_S)

    with asyncio.Runner(loop_factory=LoopWithoutHandlers) as runner:
        runner.run(main())


# -- a certificate is read before anything is started; whatever is wrong with it is one line that names a file ---


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    folder = tmp_path_factory.mktemp("certificates")
    files = make_certificate(folder)
    content = Path(files.cert).read_text()
    (folder / "prose.pem").write_text("This is no certificate.\n")
    (folder / "damaged.pem").write_text(content[:200] + "\n-----END CERTIFICATE-----\n")
    key = serialization.load_pem_private_key(Path(files.key).read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (folder / "locked.pem").write_bytes(locked)
    return files


def test_certificate_and_its_key_are_taken(files: CertificateFiles) -> None:
    certificate = read_certificate(files.cert, files.key)

    assert (str(certificate.cert), str(certificate.key)) == (files.cert, files.key)


@pytest.mark.parametrize(
    ("cert", "key", "text"),
    [
        pytest.param("gone.pem", "key.pem", "gone.pem: cannot be read: No such file or directory", id="no-certificate"),
        pytest.param("cert.pem", "gone.pem", "gone.pem: cannot be read: No such file or directory", id="no-key"),
        pytest.param("prose.pem", "key.pem", "prose.pem: holds no certificate in PEM form", id="prose"),
        pytest.param("key.pem", "cert.pem", "key.pem: holds no certificate in PEM form", id="exchanged"),
        pytest.param("cert.pem", "prose.pem", "prose.pem: holds no private key in PEM form", id="prose-as-key"),
        pytest.param("cert.pem", "ca.pem", "ca.pem: holds no private key in PEM form", id="certificate-as-key"),
        pytest.param("damaged.pem", "key.pem", "damaged.pem and ./key.pem: cannot be read as", id="damaged"),
        pytest.param("cert.pem", "other_key.pem", "other_key.pem: is not the key of the certificate", id="other-key"),
        pytest.param("cert.pem", "locked.pem", "locked.pem: the key is locked with a passphrase", id="locked"),
    ],
)
def test_what_cannot_be_used_is_named_in_one_line(files: CertificateFiles, cert: str, key: str, text: str) -> None:
    folder = f"{Path(files.cert).parent}/"

    with pytest.raises(UnusableCertificate) as caught:
        read_certificate(folder + cert, folder + key)

    assert str(caught.value).replace(folder, "./").startswith(f"./{text}")
    assert "\n" not in str(caught.value)


# -- what may be written to a terminal, and to a log -----------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, and schön — ✓", "plain text, and schön — ✓"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\r\nwarning: forged", "a\\r\\nwarning: forged"),
        ("tab\there", "tab\\there"),
        ("\x9b31m\x00\x7f", "\\x9b31m\\x00\\x7f"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("line\u2028separator", "line\\u2028separator"),
        ("\udcff", "\\udcff"),
    ],
)
def test_control_characters_are_shown_and_not_carried_out(text: str, shown: str) -> None:
    """D-277."""
    assert printable(text) == shown
    assert printable_styled(text) == shown


def test_our_own_styles_stay_and_others_are_shown() -> None:
    """D-277."""
    styled = click.style("200", fg="green") + click.style(" (again)", dim=True) + click.style("x", bold=True)
    assert printable_styled(styled) == styled
    # Hidden text, a moved cursor, a title.
    for hostile in ("\x1b[8m", "\x1b[1A", "\x1b]0;title\x07", "\x1b[38;5;1m"):
        assert "\x1b" not in printable_styled(f"a{hostile}b")


# -- making an emulation from settings: what cannot be made is one line that names the setting -----


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"llm_url": "localhost:11434"}, "llm_url: endpoint has invalid scheme, add http:// or https://"),
        ({"llm_url": "https://api.openai.com/v1"}, "llm_url: an external server, which allow_host has to name as well"),
        ({"llm_url": "http://169.254.169.254/"}, "llm_url: a cloud metadata or link-local address"),
        ({"llm_url": "http://localhost:11434"}, None),
        ({"llm_url": "https://api.openai.com/v1", "allow_host": ("api.openai.com",)}, None),
        ({"llm_url": "https://api.openai.com/v1", "external": "allow"}, None),
    ],
)
@on_loop
async def test_an_external_model_has_to_be_allowed(given: dict[str, Any], text: str | None) -> None:
    """D-311."""
    with nullcontext() if text is None else pytest.raises(SettingsError, match=text):
        await (await bootstrap.start(Settings(**given))).close()


@with_emulator(region="eu-central-1")
async def test_the_region_is_chosen_with_the_server(emulator: InProcess) -> None:
    """D-534."""
    await emulator.publish("https://api.test/hook")
    [delivery] = await emulator.deliveries()
    assert delivery["headers"]["svc-region"] == ["EU-CENTRAL-1"]
