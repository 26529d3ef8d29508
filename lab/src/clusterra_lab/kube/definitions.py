"""CustomResourceDefinitions of other projects, out of their Go modules, pinned by go.mod and go.sum in `lab/kube`."""

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.kube.programs.build_step import BinariesNotBuilt, step
from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.file_lock import exclusive_lock
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.progress import Progress, silent

_PINS = Path(__file__).parents[3] / "kube" / "definitions"
_KIND = re.compile(r"^kind: CustomResourceDefinition$", re.MULTILINE)
_WAIT_SECONDS = 600.0


class DefinitionsNotTaken(LabProblem):
    """A project's definitions are not in the cache and cannot be downloaded; the text says what to do."""


@dataclass(frozen=True)
class _Module:
    """A Go module that carries a project's definitions."""

    path: str
    files: str
    """Pattern of the definitions' paths in the module."""

    @property
    def version(self) -> str:
        """The version that go.mod pins."""
        (found,) = re.findall(rf"^\s*{re.escape(self.path)} (v\S+)$", (_PINS / "go.mod").read_text(), re.MULTILINE)
        return str(found)


_MODULES: Mapping[str, _Module] = {
    "external-secrets": _Module(
        "github.com/external-secrets/external-secrets", "config/crds/bases/external-secrets.io_*.yaml"
    ),
    "gateway-api": _Module("sigs.k8s.io/gateway-api", "config/crd/standard/gateway.networking.k8s.io_*.yaml"),
    "karpenter": _Module("github.com/aws/karpenter-provider-aws", "pkg/apis/crds/karpenter*.yaml"),
}
PROJECTS = tuple(_MODULES)
"""The projects whose definitions `ensure_definitions` provides. A module without its CustomResourceDefinitions, or one
that the module proxy does not serve, cannot be among them."""


async def ensure_definitions(project: str, progress: Progress = silent) -> Path:
    """Return a folder with the definitions of one of PROJECTS, a file for each; downloaded once into the cache.

    Raises DefinitionsNotTaken.
    """
    module = _MODULES[project]
    folder = _folder() / project
    if not folder.is_dir():
        folder.parent.mkdir(exist_ok=True)
        lock = folder.with_suffix(".lock")
        async with exclusive_lock(lock, seconds=_WAIT_SECONDS, what=f"{project}'s definitions", progress=progress):
            # Another lab may have taken them while this one waited for the lock.
            if not folder.is_dir():
                progress(f"downloading the CustomResourceDefinitions of {project}")
                await _take(module, folder)
    return folder


def _folder() -> Path:
    """The cache folder for the current pins."""
    pins = b"\0".join((_PINS / name).read_bytes() for name in ("go.mod", "go.sum"))
    return cache_dir() / f"kube-definitions-{hashlib.sha256(pins + repr(_MODULES).encode()).hexdigest()[:12]}"


async def _take(module: _Module, folder: Path) -> None:
    workshop = folder.with_suffix(".downloading")
    # An existing folder was left by a lab that was killed: this process holds the lock.
    shutil.rmtree(workshop, ignore_errors=True)
    taken = workshop / "definitions"
    taken.mkdir(parents=True)
    try:
        await _download(module, workshop, folder.with_suffix(".log"))
        for file in (workshop / f"{module.path}@{module.version}").glob(module.files):
            if _KIND.search(file.read_text()):
                shutil.copy(file, taken)
        if not any(taken.iterdir()):
            raise DefinitionsNotTaken(f"{module.path} {module.version} has no definitions in {module.files}")
        taken.rename(folder)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


async def _download(module: _Module, modules: Path, log: Path) -> None:
    """Download a module into a folder of modules. Go compares it with go.sum."""
    if shutil.which("go") is None:
        raise DefinitionsNotTaken(f"{module.path} is downloaded by 'go', which this machine does not have")
    environment = {"GOFLAGS": "-modcacherw", "GOWORK": "off", "GOMODCACHE": str(modules)}
    command = ["go", "mod", "download", f"{module.path}@{module.version}"]
    hint = "The download needs access to the module proxy that Go is configured for (go env GOPROXY)."
    try:
        await step(command, log=log, cwd=_PINS, env=environment, hint=hint)
    except BinariesNotBuilt as failed:
        raise DefinitionsNotTaken(str(failed)) from failed
