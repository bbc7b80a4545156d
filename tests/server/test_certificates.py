"""A certificate is read before anything is started; whatever is wrong with it is one line that names a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from emulator.server.certificates import UnusableCertificate, read_certificate
from tests.harness.certificates import CertificateFiles, make_certificate


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
