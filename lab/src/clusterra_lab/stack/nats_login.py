"""The lab's NATS, and how its users log in: by passwords, or by credentials in operator mode, as in production."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from clusterra_contracts.bus.permissions import (
    CENTRAL_SERVICES,
    Permissions,
    central_service,
    control_plane,
    edge_agent,
)

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import run
from clusterra_lab.machine.progress import Progress
from clusterra_lab.parts.nats import NatsServer, OperatorMode, nats_server
from clusterra_lab.stack.services import CLUSTER

NatsLogin = Literal["password", "credentials"]

OPERATORS = ("setup", "lab")
"""The users that may do everything: the setup commands, and the lab's own connection."""
USERS: Mapping[str, Permissions] = {
    **{service: central_service(service) for service in CENTRAL_SERVICES},
    **{name: control_plane() for name in OPERATORS},
    "edge-agent": edge_agent(CLUSTER),
}


class SecretsNotMade(LabProblem):
    """`clusterra-admin secrets init` failed; the text has the end of its log."""


@asynccontextmanager
async def lab_nats(directory: Path, login: NatsLogin, progress: Progress) -> AsyncIterator[NatsServer]:
    """Provide NATS for the users of the lab until the block ends. Raises SecretsNotMade."""
    if login == "password":
        async with nats_server(directory, users=USERS, progress=progress) as server:
            yield server
        return
    operator = await operator_mode(directory / "secrets")
    async with nats_server(directory, operator=operator, progress=progress) as server:
        yield server


async def operator_mode(secrets: Path) -> OperatorMode:
    """The secrets of an installation with the lab's cluster, made in a folder unless they are there.

    Raises SecretsNotMade.
    """
    cluster = ("--tenant", CLUSTER.tenant, "--cluster", CLUSTER.cluster)
    argv = [sys.executable, "-m", "clusterra_admin", "secrets", "init", str(secrets), *cluster]
    secrets.parent.mkdir(parents=True, exist_ok=True)
    process = await run("secrets", argv, log=secrets.parent / "secrets.log")
    if process.exit_code != 0:
        raise SecretsNotMade(f"clusterra-admin secrets init failed: {process.tail()}")
    credentials: dict[str, Path] = {service: secrets / "nats" / f"{service}.creds" for service in CENTRAL_SERVICES}
    credentials |= dict.fromkeys(OPERATORS, secrets / "nats" / "admin.creds")
    credentials["edge-agent"] = secrets / "clusters" / CLUSTER.tenant / CLUSTER.cluster / "agent.creds"
    return OperatorMode(secrets / "nats" / "resolver.conf", credentials)
