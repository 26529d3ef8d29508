"""Runs an LDAP directory (OpenLDAP's slapd) on this machine, from the same Debian root as Slurm."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.machine.debian_root import PRIVATE
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.slurm.daemon import listening
from clusterra_lab.slurm.namespace import PATH
from clusterra_lab.slurm.root import ensure_root

SUFFIX = "dc=campus,dc=example"
ADMIN_DN = f"cn=admin,{SUFFIX}"
ADMIN_PASSWORD = "only-for-tests"
INSIDE = "/media"
"""The folder of the directory in its mount namespace."""
_READY_SECONDS = 90.0

_CONF = f"""\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {INSIDE}/slapd.pid
TLSCertificateFile {INSIDE}/certificate.pem
TLSCertificateKeyFile {INSIDE}/certificate.pem
disallow bind_anon
database mdb
suffix "{SUFFIX}"
rootdn "{ADMIN_DN}"
rootpw {ADMIN_PASSWORD}
directory {INSIDE}/data
sizelimit 100
"""

_RUN = f"""\
set -eu
mount --bind "$2" "$1{INSIDE}"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
[ -e "$2/data/data.mdb" ] || chroot "$1" slapadd -q -f {INSIDE}/slapd.conf -l {INSIDE}/first.ldif
exec chroot "$1" slapd -d 0 -f {INSIDE}/slapd.conf -h "$3"
"""


@dataclass
class Slapd:
    """A running directory. Its answers are limited to 100 entries a page."""

    port: int
    tls_port: int
    certificate: Path
    process: Process

    @property
    def url(self) -> str:
        """The address of connections that StartTLS encrypts."""
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        """The address of connections that are encrypted from the start."""
        return f"ldaps://127.0.0.1:{self.tls_port}"

    async def stop(self) -> None:
        """End it; its entries stay."""
        self.process.kill()
        await self.process.wait()

    async def start(self) -> None:
        """Start it again and wait until it listens."""
        self.process = await self.process.again()
        await self.ready()

    async def ready(self) -> None:
        """Wait until it listens. Raises ProcessDied, TimeoutError."""
        await until(lambda: listening(self.port), seconds=_READY_SECONDS, what="slapd to listen", process=self.process)


@asynccontextmanager
async def slapd(folder: Path, certificate: Path, ldif: str) -> AsyncIterator[Slapd]:
    """Run a directory with these entries until the block ends. `certificate` has a key, too. Needs root."""
    root = await ensure_root()
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "slapd.conf").write_text(_CONF)
    (folder / "first.ldif").write_text(ldif)
    (folder / "certificate.pem").write_bytes(certificate.read_bytes())
    port, tls_port = free_port(), free_port()
    urls = f"ldap://127.0.0.1:{port} ldaps://127.0.0.1:{tls_port}"
    argv = [*PRIVATE, "sh", "-c", _RUN, "slapd", str(root), str(folder), urls]
    process = await start("slapd", argv, log=folder / "slapd.log", env={"PATH": PATH})
    running = Slapd(port, tls_port, certificate, process)
    try:
        await running.ready()
        yield running
    finally:
        await running.stop()
