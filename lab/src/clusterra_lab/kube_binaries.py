"""The programs of Kubernetes: those of $KUBEBUILDER_ASSETS, else built once for all labs of this user, in the cache."""

import hashlib
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from clusterra_lab.cache import cache_dir
from clusterra_lab.file_lock import alone
from clusterra_lab.kube_build import BinariesNotBuilt
from clusterra_lab.kube_go import KUBERNETES, KWOK, NODE
from clusterra_lab.kube_package import ETCD, RUNC
from clusterra_lab.progress import Progress, silent

__all__ = [
    "BINARIES",
    "CONTROL_PLANE",
    "GIVEN",
    "NODE_BINARIES",
    "BinariesNotBuilt",
    "can_have_binaries",
    "ensure_binaries",
    "ensure_node_binaries",
]

GIVEN = "KUBEBUILDER_ASSETS"
"""Environment variable, as controller-runtime's envtest has it: a folder with the programs."""

CONTROL_PLANE = ("etcd", "kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""What `control_plane` runs."""

BINARIES = (*CONTROL_PLANE, "kwok")
"""And the fake nodes."""

NODE_BINARIES = ("kubelet", "runc", *NODE.programs)
"""What a real node runs."""

_WAIT_SECONDS = 2400.0


class _Source(Protocol):
    """Where programs come from."""

    @property
    def name(self) -> str: ...
    @property
    def programs(self) -> Mapping[str, str]: ...
    @property
    def recipe(self) -> bytes: ...
    @property
    def possible(self) -> bool: ...
    async def make(self, program: str, workshop: Path, *, log: Path) -> Path: ...


_SOURCES: tuple[_Source, ...] = (ETCD, KUBERNETES, KWOK)
_NODE_SOURCES: tuple[_Source, ...] = (KUBERNETES, RUNC, NODE)


async def ensure_binaries(progress: Progress = silent, *, names: Collection[str] = BINARIES) -> Path:
    """A folder that holds at least the programs of these names, out of BINARIES.

    That of $KUBEBUILDER_ASSETS when it has them all. Else what is missing in the cache is made, by Go and apt-get: ten
    minutes for all on two cores, a quarter of one when Go still has them in its own cache. Raises BinariesNotBuilt.
    """
    return _given(names) or await _ensure(_SOURCES, names, progress)


async def ensure_node_binaries(progress: Progress = silent) -> Path:
    """The same for the NODE_BINARIES: about two minutes after those of the control plane. Raises BinariesNotBuilt."""
    return _given(NODE_BINARIES) or await _ensure(_NODE_SOURCES, NODE_BINARIES, progress)


def can_have_binaries(names: Collection[str] = BINARIES) -> bool:
    """Whether `ensure_binaries` has them, or what it takes to make them."""
    if _given(names) is not None:
        return True
    return all(_source(_SOURCES, name).possible for name in _missing(_folder(_SOURCES), names))


def _given(names: Collection[str]) -> Path | None:
    given = os.environ.get(GIVEN)
    # The ecosystem's own archives have no controller manager and no kwok.
    return Path(given).resolve() if given and not _missing(Path(given), names) else None


def _missing(folder: Path, names: Collection[str]) -> list[str]:
    return [name for name in names if not os.access(folder / name, os.X_OK)]


def _folder(sources: Collection[_Source]) -> Path:
    recipe = b"\0".join(source.recipe for source in sources)
    return cache_dir() / f"kube-{hashlib.sha256(recipe).hexdigest()[:12]}"


def _source(sources: Collection[_Source], program: str) -> _Source:
    return next(source for source in sources if program in source.programs)


async def _ensure(sources: Collection[_Source], names: Collection[str], progress: Progress) -> Path:
    folder = _folder(sources)
    if _missing(folder, names):
        lock = folder.with_suffix(".lock")
        async with alone(lock, seconds=_WAIT_SECONDS, what="the build of Kubernetes", progress=progress):
            # The other builder may have made them while we waited.
            for name in _missing(folder, names):
                progress(f"{name} for Kubernetes (up to some minutes, once)")
                await _make(_source(sources, name), name, folder)
    return folder


async def _make(source: _Source, name: str, folder: Path) -> None:
    workshop = folder.with_suffix(".building")
    # Only a builder that was killed leaves one, and we hold its lock.
    shutil.rmtree(workshop, ignore_errors=True)
    workshop.mkdir()
    try:
        made = await source.make(name, workshop, log=folder.with_suffix(".log"))
        folder.mkdir(exist_ok=True)
        made.rename(folder / name)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
