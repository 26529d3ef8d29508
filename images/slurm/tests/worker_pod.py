"""A worker's container without an engine, for tests: separate processes, volumes and capabilities, but shared files."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess

import psutil
from clusterra_contracts.node_extra import OPEN
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.slurm.namespace import PATH
from worker_site import INSIDE, SECONDS, Site

CAPABILITIES = "chown kill setgid setuid"
PRIVATE_TMP = f"{CAPABILITIES} sys_admin sys_chroot dac_override fowner"
"""The capabilities of a worker with CLUSTERRA_PRIVATE_TMP."""

_CONTAINER = f"""\
set -eu
key=$(base64 --wrap=0 /etc/slurm/slurm.key)
mount -t proc proc /proc
for volume in /run /tmp /var/spool/slurmd; do mount -t tmpfs -o mode=0777 volume $volume; done
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=0755 secret /etc/slurm
echo "$key" | base64 --decode >/etc/slurm/slurm.key
chmod 0400 /etc/slurm/slurm.key
mount -o remount,ro /etc/slurm
for image in /var/log/slurm /var/tmp; do mount -t tmpfs -o ro image $image; done
eval "$MACHINE"
exec $RIGHTS {INSIDE}/slurmd-entrypoint
"""


def with_gpus(count: int, model: str) -> str:
    """Script that gives a container the GPU files that Slurm reads: devices, driver information, and CPUs."""
    return f"""
mount -t tmpfs -o mode=0755 driver /proc/driver
mount -t tmpfs -o mode=0755 bus /sys/bus
mount -t tmpfs -o mode=0755 devices /media
for device in null zero random urandom; do touch /media/$device; mount --bind /dev/$device /media/$device; done
number=0
while [ $number -lt {count} ]; do
  mknod -m 0666 /media/nvidia$number c 195 $number
  gpu=0000:00:0$number.0
  mkdir -p /proc/driver/nvidia/gpus/$gpu /sys/bus/pci/drivers/nvidia/$gpu
  printf 'Model: \\t\\t {model}\\nDevice Minor: \\t %d\\n' $number >/proc/driver/nvidia/gpus/$gpu/information
  cat /sys/devices/system/cpu/online >/sys/bus/pci/drivers/nvidia/$gpu/local_cpulist
  number=$((number + 1))
done
mount --move /media /dev
"""


def rights(capabilities: str) -> list[str]:
    """A command that runs another with only these capabilities."""
    added = "".join(f",+{each}" for each in capabilities.split())
    return ["/usr/bin/setpriv", f"--bounding-set=-all{added}", "--inh-caps=-all", "--no-new-privs"]


class Pod:
    """A worker's container."""

    def __init__(self, name: str, site: Site, process: Process, capabilities: str) -> None:
        self._rights = rights(capabilities)
        self.name = name
        self.process = process
        self._site = site

    @property
    def init(self) -> psutil.Process:
        """The container's first process. Raises LookupError."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            if process.name() == "unshare":
                return next(iter(process.children()))
        raise LookupError(f"{self.name} has no process")

    async def run(self, *argv: str, **environment: str) -> CompletedProcess[str]:
        """Run a command like kubelet runs a hook."""
        process = await asyncio.create_subprocess_exec(
            *(shutil.which("nsenter") or "nsenter", f"--target={self.init.pid}", "--mount", "--pid", "--root", "--wd"),
            *(*self._rights, *argv),
            env={"PATH": PATH, "POD_NAME": self.name, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return CompletedProcess(argv, process.returncode or 0, output.decode())

    async def pre_stop(self, **environment: str) -> CompletedProcess[str]:
        return await self.run(f"{INSIDE}/slurmd-pre-stop", **environment)

    async def processes(self) -> list[str]:
        """The command lines of its processes, without slurmd and ps."""
        shown = await self.run("ps", "--no-headers", "-eo", "args")
        return [line for line in shown.stdout.splitlines() if "slurmd -D" not in line and not line.startswith("ps ")]

    async def files(self) -> list[str]:
        """The files in the folders that everybody may write."""
        shown = await self.run("find", "/tmp", "/dev/shm", "-mindepth", "1", "-maxdepth", "1")
        return shown.stdout.splitlines()


@asynccontextmanager
async def pod(
    name: str,
    site: Site,
    environment: Mapping[str, str] | None = None,
    *,
    machine: str = "",
    capabilities: str = CAPABILITIES,
    registers: bool = True,
) -> AsyncIterator[Pod]:
    """Run a worker until the block ends, then kill it like a pod whose grace time is over.

    `machine` is a script that makes the container look like another machine.
    """
    variables = {
        "POD_NAME": name,
        "CLUSTERRA_SHAPE": "compute-xs",
        "CLUSTERRA_FAMILY": "compute",
        "CLUSTERRA_CPUS": str(len(os.sched_getaffinity(0))),
        "CLUSTERRA_MEMORY_MIB": "1024",
        "CLUSTERRA_SLURMD_CONF_SERVER": f"127.0.0.1:{site.cluster.slurmctld_port}",
        "CLUSTERRA_TERMINATION_LOG": f"{site.cluster.shared_path}/{name}.termination",
        "MACHINE": machine,
        "RIGHTS": " ".join(rights(capabilities)),
        **(environment or {}),
    }
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--propagation=private"]
    argv = [*site.cluster.launcher, *namespaces, "sh", "-c", _CONTAINER]
    process = await start(name, argv, log=site.cluster.log_dir / f"{name}.out", env=variables)
    try:
        if registers:
            await site.registered(name)
        yield Pod(name, site, process, capabilities)
    finally:
        process.kill()
        await process.wait()
        await site.ask("delete", f"nodename={name}")


@asynccontextmanager
async def plain_worker(name: str, site: Site) -> AsyncIterator[Process]:
    """Run slurmd as a process of the cluster's machine, whose /tmp and /run it shares with others."""
    resources = f"CPUs=1 RealMemory=512 Port={free_port()}"
    slurmd = ["slurmd", "-D", "-Z", "-N", name, "-f", "/etc/slurm/slurm.conf", "--conf", resources, "--extra", OPEN]
    process = await start(name, [*site.cluster.launcher, *slurmd], log=site.cluster.log_dir / f"{name}.out")
    try:
        await site.registered(name)
        yield process
    finally:
        await process.stop()
        await site.ask("delete", f"nodename={name}")


def termination(name: str, site: Site) -> Path:
    """The file with the termination message of a pod."""
    return site.cluster.shared_dir / f"{name}.termination"


async def ended(process: psutil.Process) -> None:
    await until(lambda: not process.is_running(), seconds=SECONDS, what=f"the end of process {process.pid}")
