"""Runs the edge-agent as a separate process."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from clusterra_contracts.bus import permissions
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.machine.process import Process, start
from clusterra_lab.parts.nats import NatsServer

REF = ClusterRef(tenant="acme", cluster="c1")
AGENT = ("-m", "clusterra_edge_agent")
USERS = {"edge": permissions.edge_agent(REF), "centre": permissions.control_plane()}
"""Users of the test's NATS server."""


def shared_dir(folder: Path) -> Path:
    """Returns the cluster's shared folder of an agent with this folder, and creates it."""
    shared = folder / "shared"
    shared.mkdir(parents=True, exist_ok=True)
    return shared


def state_dir(folder: Path) -> Path:
    """Returns the state folder of an agent with this folder."""
    return folder / "state"


async def start_agent(
    nats: NatsServer,
    folder: Path,
    environment: Mapping[str, str],
    *,
    name: str = "edge-agent",
    program: Sequence[str] = AGENT,
) -> Process:
    """Starts an agent that logs to `agent.log` in its folder. `environment` overrides the default variables."""
    variables = {
        **nats.environment("edge"),
        "CLUSTERRA_TENANT": REF.tenant,
        "CLUSTERRA_CLUSTER": REF.cluster,
        "CLUSTERRA_SHARED_DIR": str(shared_dir(folder)),
        "CLUSTERRA_STATE_DIR": str(state_dir(folder)),
        **environment,
    }
    return await start(name, [sys.executable, *program], log=folder / "agent.log", env=variables)
