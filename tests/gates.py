"""Gates hold jobs until a test opens them, so that no job runs for longer than its test needs."""

import secrets
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.stack.stack import Stack


@dataclass(frozen=True)
class Gate:
    """A file in the shared folder of a lab, for which jobs wait."""

    file: Path
    path: str
    """The path of the file in jobs."""

    @property
    def wait(self) -> str:
        """The line of a script that waits."""
        return f"until [ -e {self.path} ]; do sleep 0.3; done\n"

    def open(self) -> None:
        """Let all jobs go on."""
        self.file.touch()


def closed_gate(lab: Stack) -> Gate:
    """A new gate, which is closed."""
    name = f"gate-{secrets.token_hex(8)}"
    return Gate(lab.slurm.shared_dir / name, f"{lab.slurm.shared_path}/{name}")
