"""The command line of a worker's slurmd."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clusterra_contracts.identity import WorkerName
from clusterra_contracts.node_extra import registration_extra
from clusterra_contracts.shapes import WorkerSpec

from clusterra_edge_agent.process.gentle_end import Scontrol

_CONF_VALUE = re.compile(r"^[A-Za-z0-9_.:-]+$")


class InvalidSpec(ValueError):
    """A value of a worker's specification would not be a single value in Slurm's configuration syntax."""


@dataclass(frozen=True, slots=True)
class Slurmd:
    """How slurmd is started on this host. Paths are as seen through the launcher."""

    launcher: Sequence[str]
    """Command before slurmd, which becomes slurmd or waits for it in the same session: `nsenter`, `chroot`."""
    path: str
    conf: str | None
    """Path of slurm.conf, or None to fetch the configuration from `conf_server`."""
    conf_server: str | None
    """slurmctld as `host:port`."""
    scontrol_path: str | None = None
    """Path of scontrol. None: Slurm is not asked when a worker is removed."""

    @property
    def scontrol(self) -> Scontrol | None:
        """scontrol through the launcher."""
        if self.scontrol_path is None:
            return None
        return Scontrol((*self.launcher, self.scontrol_path), self.conf)

    def argv(self, name: WorkerName, port: int, spec: WorkerSpec) -> list[str]:
        """Returns the command line of a dynamic node in the foreground, with the resources of its shape.

        Resources beyond the machine's need `SlurmdParameters=config_overrides` in slurm.conf. Raises InvalidSpec.
        """
        source = ["-f", self.conf] if self.conf else ["--conf-server", str(self.conf_server)]
        node = ["--conf", node_conf(port, spec), "--extra", registration_extra(spec.gres)]
        return [*self.launcher, self.path, "-D", "-Z", "-N", name, *source, *node]


def node_conf(port: int, spec: WorkerSpec) -> str:
    """Returns a worker's node line, as `--conf` takes it. Raises InvalidSpec."""
    for value in (*spec.features, *spec.gres.split(",")):
        if value and not _CONF_VALUE.match(value):
            raise InvalidSpec(f"{value!r} is not valid as a feature or generic resource of a node")
    parts = [f"CPUs={spec.cpus}", f"RealMemory={spec.memory_mib}", f"Port={port}", f"Weight={spec.weight}"]
    if spec.features:
        parts.append(f"Feature={','.join(spec.features)}")
    if spec.gres:
        parts.append(f"Gres={spec.gres}")
    return " ".join(parts)
