"""Runs a command of ours and Slurm's own of the same name, as the same person."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass, field

from clusterra_contracts.identity import SlurmUser
from clusterra_lab.slurm.control_plane import SlurmCluster
from command_line import DEADLINE_SECONDS, Ran


@dataclass(frozen=True)
class Commands:
    """The commands of one person: ours on the gateway, and Slurm's in the cluster."""

    slurm: SlurmCluster
    owner: SlurmUser
    variables: Mapping[str, str] = field(default_factory=dict)

    async def start(self, *argv: str, **variables: str) -> Process:
        """Start a command of ours, whose stdin and outputs are pipes."""
        environment = {"PATH": "/usr/bin:/bin", "PYTHONWARNINGS": "error", **self.variables, **variables}
        command = (sys.executable, "-m", "clusterra_cli.slurm_commands", *argv)
        return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment)

    async def ours(self, *argv: str, stdin: str = "", **variables: str) -> Ran:
        """Run a command of ours to its end."""
        process = await self.start(*argv, **variables)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                out, err = await process.communicate(stdin.encode())
        except BaseException:
            process.kill()
            await process.wait()
            raise
        return Ran(process.returncode or 0, out.decode(), err.decode())

    async def slurms(self, *argv: str, stdin: str = "") -> Ran:
        """Run Slurm's own command to its end, in the shared folder."""
        place = ("env", f"--chdir={self.slurm.shared_path}")
        person = (*place, "setpriv", f"--reuid={self.owner.uid}", f"--regid={self.owner.gid}", "--clear-groups")
        environment = {"SLURM_JWT": self.slurm.token_of(self.owner), "PATH": "/usr/bin:/bin"}
        ran = await self.slurm.run(*person, *argv, env=environment, input=stdin)
        return Ran(ran.returncode, ran.stdout, ran.stderr)
