"""Programs out of Debian packages, unpacked and not installed."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.kube.build_step import BinariesNotBuilt, step

_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class DebianPackage:
    """A package of this machine's Debian, whichever version it has; what it depends on is not fetched."""

    name: str
    programs: Mapping[str, str]
    """Program -> its path in the package."""

    @property
    def recipe(self) -> bytes:
        """Equal recipes make programs that are as good as equal."""
        return repr((self.name, self.programs)).encode()

    @property
    def possible(self) -> bool:
        """Whether this machine has apt-get."""
        return shutil.which("apt-get", path=_PATH) is not None

    async def make(self, program: str, workshop: Path, *, log: Path) -> Path:
        """Fetch the package by apt, as it is configured here, into an empty folder. Raises BinariesNotBuilt."""
        if not self.possible:
            raise BinariesNotBuilt(
                f"{program} comes from the Debian package {self.name}, and this machine has no apt-get: put it into "
                "one folder with the programs of Kubernetes and name that in KUBEBUILDER_ASSETS"
            )
        try:
            await self._download(workshop, log)
        except BinariesNotBuilt:
            # A fresh machine may never have read its package lists.
            await _run(["apt-get", "--quiet", "update"], workshop, log)
            await self._download(workshop, log)
        for archive in workshop.glob("*.deb"):
            await _run(["dpkg-deb", "--extract", str(archive), str(workshop)], workshop, log)
        return workshop / self.programs[program]

    async def _download(self, workshop: Path, log: Path) -> None:
        await _run(["apt-get", "--quiet", "-o", "APT::Sandbox::User=root", "download", self.name], workshop, log)


async def _run(argv: list[str], workshop: Path, log: Path) -> None:
    environment = {"PATH": _PATH, "LC_ALL": "C.UTF-8"}
    hint = "It needs the Debian mirror that apt is configured for."
    await step(argv, log=log, cwd=workshop, env=environment, hint=hint)


RUNC = DebianPackage("runc", {"runc": "usr/sbin/runc"})
