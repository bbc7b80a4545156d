"""What every scenario has: both HTTP servers, and a certificate that stands for the user's."""

from __future__ import annotations

import pytest

from tests.harness.certificates import CertificateFiles, make_certificate


@pytest.fixture(scope="module", params=["uvicorn", "hypercorn"])
def http_server(request: pytest.FixtureRequest) -> str:
    """The value of `--server`; every scenario runs with each."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return make_certificate(tmp_path_factory.mktemp("certificate"))
