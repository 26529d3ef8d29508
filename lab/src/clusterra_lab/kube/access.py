"""Administrator's access to a running Kubernetes, through kubectl."""

import asyncio
import itertools
import json
import re
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.kube.kubeconfig import token_user
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.secret_file import write_secret

_TOKEN_HOURS = 24
_WORD = re.compile(r"[a-z][a-z-]{0,30}")


class KubectlFailed(LabProblem):
    """kubectl ended with an error; the text has its standard error."""


def _verb(argv: tuple[str, ...]) -> str:
    """The first words of a command, such as `create token`. Any later one may be a secret."""
    words = itertools.takewhile(_WORD.fullmatch, argv)
    return " ".join(itertools.islice(words, 2)) or "(options)"


@dataclass(frozen=True)
class Kubernetes:
    """An API server and the administrator's credentials for it."""

    url: str
    kubeconfig: Path
    """The administrator's kubeconfig, mode 0600."""
    directory: Path
    """The lab's folder for the files of this Kubernetes."""
    programs: Path
    """The folder with kubectl."""

    async def kubectl(self, *argv: str, input: str | None = None) -> str:  # noqa: A002 - as subprocess calls it
        """Run kubectl with `input` on its standard input and return its standard output. Raises KubectlFailed.

        kubectl acts as the administrator, unless `argv` has another `--kubeconfig`.
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
            raise KubectlFailed(f"kubectl {_verb(argv)}: {complaint.decode(errors='replace').strip()}")
        return output.decode()

    async def service_account(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig with a new token of an existing ServiceAccount, valid for a day. Raises KubectlFailed."""
        token = await self.kubectl("create", "token", name, f"--namespace={namespace}", f"--duration={_TOKEN_HOURS}h")
        config = json.loads(await self.kubectl("config", "view", "--raw", "--minify", "--flatten", "--output=json"))
        for entry in config["users"]:
            entry["user"] = token_user(token.strip())
        path = self.directory / "service-accounts" / namespace / f"{name}.kubeconfig"
        write_secret(path, json.dumps(config, indent=2))
        return path
