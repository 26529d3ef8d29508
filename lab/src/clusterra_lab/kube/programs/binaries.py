"""Provides the Kubernetes programs: from $KUBEBUILDER_ASSETS, else built once into the cache that all labs share."""

import hashlib
import os
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from clusterra_lab.kube.programs.build_step import BinariesNotBuilt
from clusterra_lab.kube.programs.debian_package import PROMETHEUS, RUNC
from clusterra_lab.kube.programs.go_build import COREDNS, ETCD, KUBERNETES, KWOK, NODE, OTELCOL
from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.file_lock import exclusive_lock
from clusterra_lab.machine.progress import Progress, silent

__all__ = [
    "BINARIES",
    "CONTROL_PLANE",
    "GIVEN",
    "MONITORING_BINARIES",
    "NETWORK_BINARIES",
    "NODE_BINARIES",
    "BinariesNotBuilt",
    "can_have_binaries",
    "can_have_monitoring_binaries",
    "ensure_binaries",
    "ensure_monitoring_binaries",
    "ensure_node_binaries",
]

GIVEN = "KUBEBUILDER_ASSETS"
"""Environment variable with a folder of the programs; the name is that of controller-runtime's envtest."""

CONTROL_PLANE = ("etcd", "kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""The programs that `control_plane` runs."""

BINARIES = (*CONTROL_PLANE, "kwok")
"""The programs of the control plane and of the fake nodes."""

NODE_BINARIES = ("kubelet", "runc", *NODE.programs)
"""The programs that a real node runs."""

NETWORK_BINARIES = ("kube-proxy", "coredns")
"""Further programs of a real node with a network of its own."""

MONITORING_BINARIES = ("prometheus", "promtool", "otelcol")
"""Prometheus, and a receiver of traces."""

_WAIT_SECONDS = 2400.0


class _Source(Protocol):
    """Builds or downloads programs."""

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
_NODE_SOURCES: tuple[_Source, ...] = (KUBERNETES, RUNC, NODE, COREDNS)
_MONITORING_SOURCES: tuple[_Source, ...] = (PROMETHEUS, OTELCOL)


async def ensure_binaries(progress: Progress = silent, *, names: Collection[str] = BINARIES) -> Path:
    """Return a folder that has at least the programs `names`, each one of BINARIES.

    This is the folder in $KUBEBUILDER_ASSETS when it has all of them. Otherwise the programs that the cache lacks are
    built with Go: eleven minutes for all of them on two cores, one minute with a filled Go build cache. Raises
    BinariesNotBuilt.
    """
    return _given(names) or await _ensure(_SOURCES, names, progress)


async def ensure_node_binaries(progress: Progress = silent, *, network: bool = False) -> Path:
    """Return a folder that has the NODE_BINARIES, with `network` also the NETWORK_BINARIES.

    Building them takes about two minutes once those of the control plane are built, and two more with `network`.
    Raises BinariesNotBuilt.
    """
    names = (*NODE_BINARIES, *NETWORK_BINARIES) if network else NODE_BINARIES
    return _given(names) or await _ensure(_NODE_SOURCES, names, progress)


async def ensure_monitoring_binaries(progress: Progress = silent, *, names: Collection[str]) -> Path:
    """Return a folder that has at least the programs `names`, each one of MONITORING_BINARIES.

    Prometheus and promtool come from a Debian package. Building the Collector takes three minutes on two cores. Raises
    BinariesNotBuilt.
    """
    return _given(names) or await _ensure(_MONITORING_SOURCES, names, progress)


def can_have_binaries(names: Collection[str] = BINARIES) -> bool:
    """Whether `ensure_binaries` can return these programs: they exist, or this machine can make them."""
    return _possible(_SOURCES, names)


def can_have_monitoring_binaries(names: Collection[str]) -> bool:
    """Whether `ensure_monitoring_binaries` can return these programs."""
    return _possible(_MONITORING_SOURCES, names)


def _possible(sources: Collection[_Source], names: Collection[str]) -> bool:
    if _given(names) is not None:
        return True
    made_by = {name: _source(sources, name) for name in names}
    return all(_is_program(_folder(source) / name) or source.possible for name, source in made_by.items())


def _given(names: Collection[str]) -> Path | None:
    given = os.environ.get(GIVEN)
    # The archives published for envtest have no controller manager and no kwok.
    return Path(given).resolve() if given and all(_is_program(Path(given) / name) for name in names) else None


def _is_program(path: Path) -> bool:
    return os.access(path, os.X_OK)


def _folder(*sources: _Source) -> Path:
    """The cache folder of one source, or the folder that joins the programs of several sources.

    Each source has its own folder, so that a new recipe does not rebuild the programs of the others.
    """
    recipe = b"\0".join(source.recipe for source in sources)
    name = sources[0].name if len(sources) == 1 else "all"
    return cache_dir() / f"kube-{name}-{hashlib.sha256(recipe).hexdigest()[:12]}"


def _source(sources: Collection[_Source], program: str) -> _Source:
    return next(source for source in sources if program in source.programs)


async def _ensure(sources: Collection[_Source], names: Collection[str], progress: Progress) -> Path:
    together = _folder(*sources)
    for name in names:
        if not _is_program(together / name):
            made = await _made(_source(sources, name), name, progress)
            together.mkdir(exist_ok=True)
            with suppress(FileExistsError):
                # Another lab may have linked it just now.
                (together / name).hardlink_to(made)
    return together


async def _made(source: _Source, name: str, progress: Progress) -> Path:
    folder = _folder(source)
    if not _is_program(folder / name):
        lock = folder.with_suffix(".lock")
        async with exclusive_lock(lock, seconds=_WAIT_SECONDS, what="the build of Kubernetes", progress=progress):
            # Another lab may have built it while this one waited for the lock.
            if not _is_program(folder / name):
                progress(f"building {name} for Kubernetes (up to a few minutes, once)")
                await _make(source, name, folder)
    return folder / name


async def _make(source: _Source, name: str, folder: Path) -> None:
    workshop = folder.with_suffix(".building")
    # An existing folder was left by a builder that was killed: this process holds the lock.
    shutil.rmtree(workshop, ignore_errors=True)
    workshop.mkdir()
    try:
        made = await source.make(name, workshop, log=folder.with_suffix(".log"))
        folder.mkdir(exist_ok=True)
        made.rename(folder / name)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
