"""Slurm's configuration for `compose.yaml`, from the same source as the lab's.

python -m clusterra_lab.slurm.compose_files write|check FOLDER
"""

import sys
from pathlib import Path

from clusterra_contracts.registry import ScalingPolicy

from clusterra_lab.slurm.config import ClusterOptions, SlurmConfig
from clusterra_lab.slurm.isolation import Isolation

SLURMCTLD_PORT = 6817
SLURMDBD_PORT = 6819


def compose_files() -> dict[str, str]:
    """Path -> content of each file. slurmdbd.conf lacks the password of the database, which the init step adds. In the
    folder `cgroups` are the files that differ with that isolation."""
    polled, cgroups = _files("polled"), _files("cgroups")
    return polled | {f"cgroups/{name}": content for name, content in cgroups.items() if content != polled[name]}


def _files(isolation: Isolation) -> dict[str, str]:
    options = ClusterOptions(
        name="main", max_nodes=ScalingPolicy().max_workers, own_hosts=True, private_tmp=True, isolation=isolation
    )
    return SlurmConfig(options, SLURMCTLD_PORT, SLURMDBD_PORT).files()


def differing(folder: Path) -> list[Path]:
    """The files of `folder` that differ from `compose_files`, or that do not exist."""
    files = {folder / name: content for name, content in compose_files().items()}
    return [file for file, content in files.items() if not file.exists() or file.read_text() != content]


def main(action: str, folder: Path) -> int:
    """Write or check the files; returns the exit code."""
    found = differing(folder)
    for file in found:
        if action == "write":
            file.parent.mkdir(exist_ok=True)
            file.write_text(compose_files()[str(file.relative_to(folder))])
        print(f"{file}: {'written' if action == 'write' else 'differs'}")
    return 1 if found and action == "check" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
