"""Measures the command line on a lab: how long commands take from their start to their end, and what a long log takes.

Beside them stand Slurm's own squeue on the same cluster, and Python programs that only send the request of `jobs`. All
of them take turns, so that the load of the machine is the same for all. Needs root, as the lab's Slurm does. Prints a
table and, last, one JSON line.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from clusterra_contracts.identity import SlurmUser
from clusterra_lab.machine.progress import Progress, console_progress
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import LabOptions, Stack, stack

UNLIMITED = {"CLUSTERRA_READS_PER_MINUTE": "100000000", "CLUSTERRA_CHANGES_PER_MINUTE": "100000000"}
"""One person sends all requests of this bench."""
WARM_UP = 2
"""Rounds before those that count: they read all files of the programs once."""
MIB = 1024 * 1024
HELD = {"hold": True}
HTTP_CLIENT = """
import http.client, json, os
from urllib.parse import urlsplit
at = urlsplit(os.environ["CLUSTERRA_URL"])
connection = http.client.HTTPConnection(at.hostname, at.port)
headers = {"Authorization": "Bearer " + os.environ["CLUSTERRA_TOKEN"]}
connection.request("GET", "/v1/clusters/" + os.environ["CLUSTERRA_CLUSTER"] + "/jobs?limit=101", headers=headers)
print(len(json.load(connection.getresponse())["jobs"]))
"""
HTTPX2 = """
import os, httpx2
address = os.environ["CLUSTERRA_URL"] + "/v1/clusters/" + os.environ["CLUSTERRA_CLUSTER"] + "/jobs?limit=101"
headers = {"Authorization": "Bearer " + os.environ["CLUSTERRA_TOKEN"]}
print(len(httpx2.get(address, headers=headers).raise_for_status().json()["jobs"]))
"""


@dataclass(frozen=True)
class Measured:
    """A command line, and its whole environment."""

    argv: Sequence[str]
    environment: Mapping[str, str]


async def milliseconds(command: Measured) -> float:
    """How long a command takes. Raises RuntimeError, with what it printed, for one that fails."""
    began = time.perf_counter()
    process = await create_subprocess_exec(
        *command.argv, env=dict(command.environment), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    _, errors = await process.communicate()
    took = (time.perf_counter() - began) * 1e3
    if process.returncode:
        raise RuntimeError(f"{command.argv} ended with {process.returncode}: {errors.decode()}")
    return took


def commands(lab: Stack, user: User, token: str, folder: Path) -> dict[str, Measured]:
    """The commands by the names of their figures."""
    person = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "CLUSTERRA_CONFIG": str(folder / "config.toml"),
        "CLUSTERRA_URL": lab.gateway_url,
        "CLUSTERRA_TOKEN": token,
        "CLUSTERRA_CLUSTER": user.cluster,
    }
    programs = Path(sys.executable).parent
    own, slurm = str(programs / "clusterra"), str(programs / "clusterra-slurm")
    owner = SlurmUser(name=user.profile.name, uid=user.profile.uid, gid=user.profile.uid)
    in_cluster = (*lab.slurm.launcher, "setpriv", f"--reuid={owner.uid}", f"--regid={owner.gid}", "--clear-groups")
    slurms = {"PATH": "/usr/bin:/bin", "SLURM_JWT": lab.slurm.token_of(owner)}
    return {
        "help": Measured([own, "--help"], person),
        "jobs": Measured([own, "jobs"], person),
        "sbatch": Measured([slurm, "sbatch", "--hold", "--wrap", "true"], person),
        "squeue": Measured([slurm, "squeue"], person),
        "slurm_squeue": Measured([*in_cluster, "squeue"], slurms),
        "slurm_launcher": Measured([*in_cluster, "true"], slurms),
        "http": Measured([sys.executable, "-c", HTTP_CLIENT], person),
        "httpx2": Measured([sys.executable, "-c", HTTPX2], person),
        "python": Measured([sys.executable, "-c", ""], person),
    }


async def start_ups(measured: Mapping[str, Measured], rounds: int) -> dict[str, float]:
    """The median of each command in milliseconds."""
    taken: dict[str, list[float]] = {name: [] for name in measured}
    for number in range(WARM_UP + rounds):
        for name, command in measured.items():
            took = await milliseconds(command)
            if number >= WARM_UP:
                taken[name].append(took)
    return {f"{name}_ms": round(statistics.median(each), 1) for name, each in taken.items()}


async def long_log(user: User, command: Measured, mib: int) -> dict[str, float]:
    """Follow the output of a job that writes this many MiB. Raises RuntimeError if not all of it comes."""
    line = "0123456789abcde" * 68 + "end\n"  # 1,024 bytes
    script = f"#!/bin/sh\nyes {line.strip()} | head -c {mib * MIB}\n"
    job_id = (await user.submit(script, {"name": "log"})).job_id
    began = time.perf_counter()
    code, count, peak_mib = await asyncio.to_thread(_followed, [*command.argv, job_id], command.environment)
    seconds = time.perf_counter() - began
    if code or count != mib * MIB:
        raise RuntimeError(f"logs -f ended with {code} after {count} of {mib * MIB} bytes")
    return {"log_mib": mib, "log_peak_mib": round(peak_mib, 1), "log_seconds": round(seconds, 1)}


def _followed(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[int, int, float]:
    """The exit code of a command, how many bytes it printed, and the most memory that it had, in MiB.

    The kernel's sum for a process that has ended counts memory of this program, of which it was a copy for a moment.
    """
    process = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    count, peak = 0, 0
    while piece := process.stdout.read(MIB):
        count += len(piece)
        status = Path("/proc", str(process.pid), "status").read_text()
        peak = max(peak, int((re.search(r"VmHWM:\s+(\d+) kB", status) or "0")[1]))
    return process.wait(), count, peak / 1024


async def measure(arguments: argparse.Namespace, progress: Progress) -> dict[str, float]:
    """All figures."""
    async with AsyncExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="clusterra-bench-")))
        lab = await opened.enter_async_context(
            stack(folder / "lab", LabOptions(environment=UNLIMITED), progress=progress)
        )
        user = await opened.enter_async_context(lab.user("ada@acme.example"))
        token = await opened.enter_async_context(user.api_token("bench"))
        for number in range(arguments.jobs):
            await user.submit("#!/bin/sh\ntrue\n", {"name": f"held-{number}", **HELD})
        measured = commands(lab, user, token, folder)
        progress(f"running each command {arguments.rounds} times")
        figures = await start_ups(measured, arguments.rounds)
        if arguments.log_mib:
            progress(f"following an output of {arguments.log_mib} MiB")
            logs = Measured([measured["help"].argv[0], "logs", "-f"], measured["help"].environment)
            figures["log_start_mib"] = (await long_log(user, logs, 1))["log_peak_mib"]
            figures |= await long_log(user, logs, arguments.log_mib)
        return figures | {"load": round(os.getloadavg()[0], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="runs of each command (default 20)")
    parser.add_argument("--jobs", type=int, default=20, help="jobs in the queue (default 20)")
    parser.add_argument("--log-mib", type=int, default=1024, help="the output that is followed (default 1024; 0: none)")
    arguments = parser.parse_args()
    with console_progress() as progress:
        figures = asyncio.run(measure(arguments, progress))
    for what, value in figures.items():
        print(f"{what:20} {value:10.1f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
