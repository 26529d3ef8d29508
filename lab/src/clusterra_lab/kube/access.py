"""A running Kubernetes, as its administrator uses it."""

import asyncio
import json
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.kube.kubeconfig import token_user
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.secret_file import write_secret

_TOKEN_HOURS = 24


class KubectlFailed(LabProblem):
    """kubectl ended with an error; the text carries what it said."""


@dataclass(frozen=True)
class Kubernetes:
    """An API server and the right to do everything there."""

    url: str
    kubeconfig: Path
    """Of an administrator, mode 0600."""
    directory: Path
    """Where the lab keeps what belongs to this Kubernetes."""
    programs: Path
    """The folder with kubectl."""

    async def kubectl(self, *argv: str, input: str | None = None) -> str:  # noqa: A002 - as subprocess calls it
        """Run kubectl with `input` on its standard input; what it wrote. Raises KubectlFailed with what it complained.

        As the administrator, unless `argv` has another `--kubeconfig`.
        """
        process = await asyncio.create_subprocess_exec(
            self.programs / "kubectl",
            f"--kubeconfig={self.kubeconfig}",
            f"--cache-dir={self.directory / 'kubectl-cache'}",
            *argv,
            stdin=PIPE if input is not None else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        try:
            output, complaint = await process.communicate(None if input is None else input.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise KubectlFailed(f"kubectl {' '.join(argv)}: {complaint.decode(errors='replace').strip()}")
        return output.decode()

    async def service_account(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a new token of an existing ServiceAccount, good for a day. Raises KubectlFailed."""
        token = await self.kubectl("create", "token", name, f"--namespace={namespace}", f"--duration={_TOKEN_HOURS}h")
        config = json.loads(await self.kubectl("config", "view", "--raw", "--minify", "--flatten", "--output=json"))
        for entry in config["users"]:
            entry["user"] = token_user(token.strip())
        path = self.directory / "service-accounts" / namespace / f"{name}.kubeconfig"
        write_secret(path, json.dumps(config, indent=2))
        return path
