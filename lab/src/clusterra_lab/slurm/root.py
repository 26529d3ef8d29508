"""Provides the read-only Debian root with Slurm that all clusters of this machine share."""

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from clusterra_lab.machine import debian_root
from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.debian_root import PRIVATE, RootNotBuilt, Workshop
from clusterra_lab.machine.file_lock import exclusive_lock
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.slurm.config import HOST, MY_CNF

GIVEN = "CLUSTERRA_SLURM_ROOT"
"""Environment variable with the path of a root that was built earlier, on this machine or another."""

DATABASE = "usr/share/clusterra/mariadb"
"""Path in the root of an initialised data folder of MariaDB, which is copied for each cluster."""

SUITE = "forky"
PACKAGES = (
    "slurmctld",
    "slurmdbd",
    "slurmrestd",
    "slurmd",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-jwt-plugin",
    "slurm-wlm-mysql-plugin",
    "mariadb-server",
    "libnss-extrausers",
    "slapd",
    # All of its standard library, for notebooks.
    "python3",
    "tini",
    "crun",
    # The smallest root of a container, for tests.
    "busybox-static",
)
SOFTWARE = (
    "gcc",
    "libc6-dev",
    "libmpich-dev",
    "libopenmpi-dev",
    "lmod",
    "python3-venv",
    # forky has none.
    "apptainer/sid",
    "ncbi-blast+",
    "r-base-core",
)
"""What only jobs of `make test-software` use: these packages make the root three times as large."""
NAMES = "/run/clusterra-names"
"""Path in a cluster of the folder in which a worker keeps the names of its users."""
_BUILD_SECONDS = 1800.0

EMPTY_DATABASE = f"""\
set -eu
rm -rf /etc/mysql /var/lib/mariadb /var/lib/mysql
mkdir /etc/mysql
printf '%s' "$MY_CNF" > /etc/mysql/my.cnf
install --directory --owner=mysql --group=mysql --mode=0700 /run/mysqld /var/lib/mysql
mariadb-install-db --skip-test-db --auth-root-authentication-method=socket
mariadbd --bootstrap <<'SQL'
  FLUSH PRIVILEGES;
  CREATE DATABASE slurm;
  CREATE USER slurm@localhost IDENTIFIED VIA unix_socket;
  GRANT ALL ON slurm.* TO slurm@localhost;
SQL
mkdir -p /usr/share/clusterra
mv /var/lib/mysql /{DATABASE}
mkdir -p /mnt/efs /etc/slurm /usr/lib/clusterra /var/lib/mysql /var/spool/slurmctld /var/spool/slurmd /var/log/slurm
rm -rf /run/mysqld
# Users have no accounts: note-names of images/slurm writes their names.
sed -i -E 's/^(passwd|group):.*/\\1: files extrausers/' /etc/nsswitch.conf
rm -rf /var/lib/extrausers
ln -s {NAMES} /var/lib/extrausers
"""
"""Script for a root with the `PACKAGES`: makes `DATABASE` and empty folders. $MY_CNF is MariaDB's configuration."""

_FINISH = f"""\
set -eu
cd "$1"
mount -t proc proc proc
echo '127.0.0.1 localhost {HOST}' > etc/hosts
export MY_CNF="$2"
exec chroot . sh -c "$3"
"""


async def ensure_root(progress: Progress = silent, *, software: Sequence[str] = ()) -> Path:
    """Return the root of $CLUSTERRA_SLURM_ROOT, else the one in the cache, which is built when missing (one minute).

    A root with `software` has these packages besides, and is another one in the cache. Building needs root, apt-get and
    util-linux. Raises RootNotBuilt.
    """
    if given := os.environ.get(GIVEN):
        return _given(Path(given), software)
    packages = (*PACKAGES, *software)
    root = cache_dir() / f"slurm-root-{_recipe(packages)}"
    if not root.exists():
        lock = root.with_suffix(".lock")
        async with exclusive_lock(lock, seconds=_BUILD_SECONDS, what="the same Debian root", progress=progress):
            # Another lab may have built it while this one waited for the lock.
            if not root.exists():
                await _build(root, packages, progress)
    return root


def can_have_root() -> bool:
    """Whether `ensure_root` can return a root: one exists, or this machine can build one."""
    given = os.environ.get(GIVEN)
    return bool(given) or (cache_dir() / f"slurm-root-{_recipe(PACKAGES)}").exists() or debian_root.can_build()


def _given(root: Path, software: Sequence[str]) -> Path:
    for needed in ("usr/sbin/slurmctld", "usr/bin/tini", "usr/lib/clusterra", DATABASE):
        if not (root / needed).exists():
            raise RootNotBuilt(
                f"{GIVEN}={root} is not a root with Slurm: it has no {needed}. Unset {GIVEN} to have one built in "
                f"{cache_dir()}, which {GIVEN} can name later"
            )
    installed = root / "var/lib/dpkg/info"
    for package in (each.partition("/")[0] for each in software):
        # The second form is that of packages that several architectures may have installed at once.
        if not any(any(installed.glob(name)) for name in (f"{package}.list", f"{package}:*.list")):
            raise RootNotBuilt(f"{GIVEN}={root} has no package {package}: install it there, or unset {GIVEN}")
    return root.resolve()


def _recipe(packages: Sequence[str]) -> str:
    recipe = "\0".join((SUITE, *packages, _FINISH, EMPTY_DATABASE, MY_CNF, *debian_root.RECIPE))
    return hashlib.sha256(recipe.encode()).hexdigest()[:12]


async def _build(root: Path, packages: Sequence[str], progress: Progress) -> None:
    workshop = Workshop(root.with_suffix(".building"), root.with_suffix(".log"))
    # An existing folder was left by a builder that was killed: this process holds the lock.
    shutil.rmtree(workshop.folder, ignore_errors=True)
    workshop.log.unlink(missing_ok=True)
    try:
        await debian_root.build(workshop, SUITE, packages, progress)
        progress("installing an empty database in the Debian root")
        await workshop.step([*PRIVATE, "sh", "-c", _FINISH, "finish", str(workshop.root), MY_CNF, EMPTY_DATABASE])
        workshop.root.rename(root)
    finally:
        shutil.rmtree(workshop.folder, ignore_errors=True)
