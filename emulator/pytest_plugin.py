"""The pytest plugin by the name of a module, `-p emulator.pytest_plugin`, for runs that load no plugin by themselves.

The plugin itself is the module `svc_emulator_pytest` beside this package. Installing the
distribution registers that one.
"""

# D-290, D-425.

from __future__ import annotations

import pytest

import svc_emulator_pytest

NAME = "svc-emulator"


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the plugin under the name that installing it gives, so that it is there once."""
    if not pluginmanager.has_plugin(NAME):
        pluginmanager.register(svc_emulator_pytest, NAME)
