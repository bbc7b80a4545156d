"""A server with a certificate: `serve`, its health check, and the commands that call it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from emulator.cli import main
from tests.cli.shell import said
from tests.harness import emulators
from tests.harness.certificates import CertificateFiles, make_certificate
from tests.harness.processes import ServerProcess, run, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module", params=["uvicorn", "hypercorn"])
def secure(
    request: pytest.FixtureRequest, files: CertificateFiles, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server that reads its certificate's files from the environment; it must end as every other does."""
    variables = {"EMULATOR_TLS_CERT": files.cert, "EMULATOR_TLS_KEY": files.key}
    with serving("--server", request.param, folder=tmp_path_factory.mktemp("serve"), extra=variables) as server:
        yield server
        server.stop(signal.SIGTERM)
    assert (server.exit_code, server.log) == (0, "")


def port_of(server: ServerProcess) -> str:
    return server.url.rpartition(":")[2]


def invoke(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"SSL_CERT_FILE": None, **variables})


def test_banner_and_variables_say_https(secure: ServerProcess, files: CertificateFiles) -> None:
    assert secure.url.startswith("https://127.0.0.1:")
    assert secure.variables["SVC_URL"] == secure.url
    assert secure.value_after("control API: ") == f"{secure.url}/_emulator"

    printed = invoke("env", "--format", "json", "--url", secure.url, "--ca", files.ca)

    assert json.loads(printed.stdout) == secure.variables


@pytest.mark.parametrize("name", ["ca", "cert"], ids=["authority", "the-certificate-itself"])
def test_commands_trust_the_file_they_are_given(secure: ServerProcess, files: CertificateFiles, name: str) -> None:
    ca: str = getattr(files, name)

    for result in (
        invoke("clock", "show", "--url", secure.url, "--ca", ca),
        invoke("clock", "show", EMULATOR_URL=secure.url, EMULATOR_CA=ca),
        invoke("clock", "show", "--url", secure.url, SSL_CERT_FILE=ca),
    ):
        assert (result.exit_code, result.stdout[:7]) == (0, "clock: ")


def test_a_client_without_the_certificate_learns_how_to_trust_it(secure: ServerProcess) -> None:
    result = invoke("clock", "show", "--url", secure.url)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"svc-emulator: {secure.url}: its certificate is not trusted: ")
    assert said(result).endswith("(name its authority with --ca FILE)\n")


def test_file_of_no_certificates_trusts_nobody(secure: ServerProcess, tmp_path: Path) -> None:
    prose = tmp_path / "prose.pem"
    prose.write_text("nothing\n")

    texts = [said(invoke("clock", "show", "--url", secure.url, "--ca", str(path))) for path in (prose, tmp_path / "x")]

    assert texts == [
        f"svc-emulator: {prose}: holds no certificate in PEM form\n",
        f"svc-emulator: {tmp_path / 'x'}: cannot be read: No such file or directory\n",
    ]


def test_plain_call_of_it_is_told_to_use_https(secure: ServerProcess) -> None:
    url = secure.url.replace("https", "http")

    result = invoke("clock", "show", "--url", url)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"svc-emulator: {url}: ")
    assert said(result).endswith("(a server with a certificate is https://)\n")


def test_encrypted_call_of_a_plain_server_is_told_so() -> None:
    with emulators.server() as plain:
        url = plain.url.replace("http", "https")
        result = invoke("clock", "show", "--url", url)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"svc-emulator: {url}: does not answer as a server with TLS does")


# -- health -----------------------------------------------------------------------------------


def test_health_finds_the_server_by_its_own_settings(secure: ServerProcess, files: CertificateFiles) -> None:
    variables = {"EMULATOR_TLS_CERT": files.cert, "EMULATOR_TLS_KEY": files.key, "EMULATOR_HOST": "0.0.0.0"}

    well = invoke("health", EMULATOR_PORT=port_of(secure), **variables)
    plain = invoke("health", EMULATOR_PORT=port_of(secure))

    assert (well.exit_code, well.stdout) == (0, "ok\n")
    assert plain.exit_code == 1
    assert plain.stderr.startswith("svc-emulator: no server answers at http://127.0.0.1:")


def test_health_asks_the_server_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D-461."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "emulator.toml").write_text('port = 1\ncontrol_token = "of-the-file"\n', "utf-8")
    with emulators.server(control_token="secret") as guarded:
        url = guarded.url
        named = invoke("health", "--url", url, "--control-token", "secret")
        by_variable = invoke("health", EMULATOR_URL=url, EMULATOR_CONTROL_TOKEN="secret")
        by_port = invoke("health", "--port", str(guarded.port), "--control-token", "secret")
        of_the_file = invoke("health", "--url", url)
        other_port = invoke("health", "--port", "1", EMULATOR_URL=url)

    assert (named.exit_code, by_variable.exit_code, by_port.exit_code, of_the_file.exit_code) == (0, 0, 0, 1)
    assert said(of_the_file) == f"svc-emulator: the server at {url} answers 401 (--control-token)\n"
    assert other_port.exit_code == 1
    assert other_port.stderr.startswith("svc-emulator: no server answers at http://127.0.0.1:1: ")


def test_health_of_a_named_server_trusts_the_certificate_that_it_is_told(
    secure: ServerProcess, files: CertificateFiles
) -> None:
    url = f"https://127.0.0.1:{port_of(secure)}"

    assert invoke("health", "--url", url, "--ca", files.cert).exit_code == 0
    assert f"{url}: its certificate is not trusted: " in invoke("health", "--url", url).stderr


# -- what cannot be ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        pytest.param(("--tls-cert", "{cert}"), 2, "tls_cert: expected tls_key beside it", id="no-key"),
        pytest.param(("--tls-key", "{key}"), 2, "tls_key: expected tls_cert beside it", id="no-certificate"),
        pytest.param(("--tls-cert", "gone", "--tls-key", "{key}"), 1, "gone: cannot be read: ", id="missing"),
        pytest.param(("--tls-cert", "{cert}", "--tls-key", "{other_key}"), 1, "{other_key}: is not the key", id="key"),
    ],
)
def test_certificate_that_cannot_be_used_is_one_line(
    files: CertificateFiles, tmp_path: Path, arguments: tuple[str, ...], code: int, text: str
) -> None:
    names = {name: getattr(files, name) for name in ("cert", "key", "other_key")}

    completed = run("serve", "--port", "0", *(each.format(**names) for each in arguments), folder=tmp_path)

    assert (completed.returncode, completed.stdout) == (code, "")
    assert completed.stderr.startswith(f"svc-emulator: {text.format(**names)}")
    assert said(completed).count("\n") == 1


def test_half_a_certificate_makes_no_health_check() -> None:
    assert invoke("health", "--tls-cert", "cert.pem").exit_code == 2
