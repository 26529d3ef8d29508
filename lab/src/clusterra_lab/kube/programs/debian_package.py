"""Takes programs out of Debian packages, without installing the packages."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.kube.programs.build_step import BinariesNotBuilt, step

_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class DebianPackage:
    """A package of this machine's Debian release, in the version there, without its dependencies."""

    name: str
    programs: Mapping[str, str]
    """Program -> its path in the package."""

    @property
    def recipe(self) -> bytes:
        """Cache key: packages with equal recipes yield equivalent programs."""
        return repr((self.name, self.programs)).encode()

    @property
    def possible(self) -> bool:
        """Whether this machine has apt-get."""
        return shutil.which("apt-get", path=_PATH) is not None

    async def make(self, program: str, workshop: Path, *, log: Path) -> Path:
        """Download the package with this machine's apt into an empty folder. Raises BinariesNotBuilt."""
        if not self.possible:
            raise BinariesNotBuilt(
                f"{program} comes from the Debian package {self.name}, and this machine has no apt-get: put it into "
                "a folder with the Kubernetes programs, and name that folder in KUBEBUILDER_ASSETS"
            )
        try:
            await self._download(workshop, log)
        except BinariesNotBuilt:
            # A new machine may not have downloaded its package lists yet.
            await _run(["apt-get", "--quiet", "update"], workshop, log)
            await self._download(workshop, log)
        for archive in workshop.glob("*.deb"):
            await _run(["dpkg-deb", "--extract", str(archive), str(workshop)], workshop, log)
        return workshop / self.programs[program]

    async def _download(self, workshop: Path, log: Path) -> None:
        await _run(["apt-get", "--quiet", "-o", "APT::Sandbox::User=root", "download", self.name], workshop, log)


async def _run(argv: list[str], workshop: Path, log: Path) -> None:
    environment = {"PATH": _PATH, "LC_ALL": "C.UTF-8"}
    hint = "The build needs access to the Debian mirror that apt is configured for."
    await step(argv, log=log, cwd=workshop, env=environment, hint=hint)


RUNC = DebianPackage("runc", {"runc": "usr/sbin/runc"})
PROMETHEUS = DebianPackage("prometheus", {"prometheus": "usr/bin/prometheus", "promtool": "usr/bin/promtool"})
