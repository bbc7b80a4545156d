"""Certificates to test with, made by an authority that nobody trusts unless told to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """PEM files: a certificate for this machine with its key, the authority behind it, and the key of another."""

    cert: str
    key: str
    ca: str
    other_key: str


def make_certificate(folder: Path) -> CertificateFiles:
    """A certificate for 127.0.0.1 and localhost, in files of the folder."""
    authority = trustme.CA()
    issued, other = authority.issue_cert("127.0.0.1", "localhost"), authority.issue_cert("other.test")
    contents = {
        "cert": b"".join(pem.bytes() for pem in issued.cert_chain_pems),
        "key": issued.private_key_pem.bytes(),
        "ca": authority.cert_pem.bytes(),
        "other_key": other.private_key_pem.bytes(),
    }
    for name, content in contents.items():
        (folder / f"{name}.pem").write_bytes(content)
    return CertificateFiles(**{name: str(folder / f"{name}.pem") for name in contents})
