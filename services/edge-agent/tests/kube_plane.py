"""The control plane of Kubernetes that a file's tests share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from clusterra_lab.kube_binaries import BinariesNotBuilt
from clusterra_lab.kubernetes import ControlPlane, control_plane


@asynccontextmanager
async def plane_or_skip(folders: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """A new one until the block ends. Skips when its programs, or those that the block wants, cannot be had."""
    try:
        async with control_plane(folders.mktemp("kubernetes")) as plane:
            yield plane
    except BinariesNotBuilt as error:
        pytest.skip(str(error))
