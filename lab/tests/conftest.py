"""Registers the fixtures of `kube_plane`, once for all folders: their tests share one control plane."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Runs when the first test of this folder is collected, if not before."""
    config.pluginmanager.import_plugin("kube_plane")
