"""The private pid, mount and host name namespaces in which one Slurm cluster runs, over the shared root.

All their processes end with the first process, and that one ends with the process that opened the namespaces, even when
it is killed. No other process sees the mounts, so none can be left behind.
"""

import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from clusterra_lab.machine.debian_root import PRIVATE
from clusterra_lab.machine.orphans import adopt_orphans, reap
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.slurm.config import HOST
from clusterra_lab.slurm.root import DATABASE

INIT = "tini"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SCRATCH = ("/dev/shm", "/run", "/tmp", "/var/tmp")
"""Folders that start empty and are writable in each cluster."""

_OPEN_SECONDS = 20.0
_CLOSE_SECONDS = 20.0

INSIDE = f"""\
set -eu
chmod 755 /run
install --directory /run/slurm
install --directory --owner=slurm --group=slurm /run/slurmctld /run/slurmdbd
install --directory --owner=mysql --group=mysql /run/mysqld
cd /var/lib/mysql
if [ -e .copying ] || [ ! -e mysql ]; then
  find . -mindepth 1 -delete
  touch .copying
  cp -a /{DATABASE}/. .
  rm .copying
fi
cd /
exec {INIT} -- sleep infinity
"""
"""Script of the first process in the namespaces, run as root: prepares the daemons' folders, then waits."""

_OPEN = f"""\
set -eu
root=$1; inside=$2; shift 2
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind /sys "$root/sys"
# crun refuses a folder that is no file system of cgroups, although it makes none. worker-cgroup mounts its own.
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
for scratch in {" ".join(SCRATCH)}; do
  mount -t tmpfs -o mode=1777 tmpfs "$root$scratch"
done
while [ $# -gt 0 ]; do
  mount --bind "$1" "$root$2"
  shift 2
done
hostname {HOST}
# Becomes the root of the mount namespace: who enters that namespace by its file is there and not in the machine's root.
cd "$root"
mount --move . /
exec chroot . sh -c "$inside"
"""


@dataclass(frozen=True)
class Namespace:
    """The open namespaces of one cluster."""

    init_pid: int
    """Pid of their first process on this machine."""

    @property
    def launcher(self) -> tuple[str, ...]:
        """Put before a command, runs it inside the namespaces as root, with the caller's environment and another PATH.

        The launcher waits for the command, passes signals on and ends with its exit code. When the launcher is killed,
        so is the command, unless the command has changed its user.
        """
        return (
            *(shutil.which("nsenter") or "nsenter", f"--target={self.init_pid}", "--mount", "--uts", "--pid"),
            # nsenter does not fork: tini, still outside the pid namespace, then is the command's parent.
            *("--no-fork", "--root", "--wd", "--", "/usr/bin/tini", "-s", "--"),
            *("/usr/bin/setpriv", "--pdeathsig=KILL", "/usr/bin/env", f"PATH={PATH}"),
        )


@asynccontextmanager
async def namespace(root: Path, folders: Mapping[Path, str], log: Path) -> AsyncIterator[Namespace]:
    """Open namespaces over a read-only `root` until the block ends; `folders` maps folders to absolute paths inside.

    /run, /tmp, /var/tmp and /dev/shm are empty and writable. At the end of the block all processes inside have ended.
    Raises ProcessDied when the namespaces cannot be made, for example without root.
    """
    adopt_orphans()
    mounts = [str(part) for folder, path in folders.items() for part in (folder, path)]
    # PATH is that of the root, because the script runs the root's programs after its chroot.
    holder = await start(
        "slurm", [*PRIVATE, "--uts", "sh", "-c", _OPEN, "open", str(root), INSIDE, *mounts], log=log, env={"PATH": PATH}
    )
    try:
        init = await until(lambda: _init(holder), seconds=_OPEN_SECONDS, what="the namespaces of Slurm", process=holder)
        yield Namespace(init.pid)
    finally:
        await _close(holder)


async def _close(holder: Process) -> None:
    """Kill the first process inside; the kernel reports its end only after that of all the others."""
    inside = _children(holder.pid)
    for process in inside:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    if not inside:
        holder.kill()

    def closed() -> bool:
        reap_orphans()
        return not holder.alive

    await until(closed, seconds=_CLOSE_SECONDS, what="the end of Slurm's namespaces")


def reap_orphans() -> None:
    """Reap processes of the namespaces that became our children because their launchers were killed.

    Until this is done, the kernel keeps the first process of the namespaces.
    """
    for child in _children(os.getpid()):
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            if child.status() == psutil.STATUS_ZOMBIE and _is_inside(child.pid):
                reap(child.pid)


def _is_inside(pid: int) -> bool:
    """Whether a process is in a pid namespace below ours; ordinary children of this process are not."""
    status = Path(f"/proc/{pid}/status").read_text()
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:"))
    return len(numbers.split()) > 2


def command_line(pid: int) -> list[str]:
    """The command line of a process of this machine; empty when the process has ended."""
    try:
        return psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        return []


def _init(holder: Process) -> psutil.Process | None:
    return next((child for child in _children(holder.pid) if child.name() == INIT), None)


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children()
    except psutil.NoSuchProcess:
        return []
