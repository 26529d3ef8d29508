"""The programs of Kubernetes: those of $KUBEBUILDER_ASSETS, else built once for all labs of this user, in the cache."""

import hashlib
import os
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from clusterra_lab.kube.build_step import BinariesNotBuilt
from clusterra_lab.kube.debian_package import RUNC
from clusterra_lab.kube.go_build import ETCD, KUBERNETES, KWOK, NODE
from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.file_lock import alone
from clusterra_lab.machine.progress import Progress, silent

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

    That of $KUBEBUILDER_ASSETS when it has them all. Else what is missing in the cache is made, by Go: eleven minutes
    for all on two cores, one when Go still has them in its own cache. Raises BinariesNotBuilt.
    """
    return _given(names) or await _ensure(_SOURCES, names, progress)


async def ensure_node_binaries(progress: Progress = silent) -> Path:
    """The same for the NODE_BINARIES: about two minutes after those of the control plane. Raises BinariesNotBuilt."""
    return _given(NODE_BINARIES) or await _ensure(_NODE_SOURCES, NODE_BINARIES, progress)


def can_have_binaries(names: Collection[str] = BINARIES) -> bool:
    """Whether `ensure_binaries` has them, or what it takes to make them."""
    if _given(names) is not None:
        return True
    sources = {name: _source(_SOURCES, name) for name in names}
    return all(_is_program(_folder(source) / name) or source.possible for name, source in sources.items())


def _given(names: Collection[str]) -> Path | None:
    given = os.environ.get(GIVEN)
    # The ecosystem's own archives have no controller manager and no kwok.
    return Path(given).resolve() if given and all(_is_program(Path(given) / name) for name in names) else None


def _is_program(path: Path) -> bool:
    return os.access(path, os.X_OK)


def _folder(*sources: _Source) -> Path:
    """Of one source, so that a new recipe leaves the programs of the others; or where those of several are together."""
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
                # Another lab may just have done the same.
                (together / name).hardlink_to(made)
    return together


async def _made(source: _Source, name: str, progress: Progress) -> Path:
    folder = _folder(source)
    if not _is_program(folder / name):
        lock = folder.with_suffix(".lock")
        async with alone(lock, seconds=_WAIT_SECONDS, what="the build of Kubernetes", progress=progress):
            # The other builder may have made it while we waited.
            if not _is_program(folder / name):
                progress(f"{name} for Kubernetes (up to some minutes, once)")
                await _make(source, name, folder)
    return folder / name


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
