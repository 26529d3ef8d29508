"""What runs: NATS, the DynamoDB emulator, the services, and an agent of a cluster; with their use of the machine."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil
from clusterra_contracts.bus.topology import EVENT, EVENTS_ARCHIVE
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.machine.ports import reserved_ports
from clusterra_lab.machine.progress import Progress
from clusterra_lab.parts.aws import Aws, aws_emulator
from clusterra_lab.parts.aws_proxy import AwsProxy, aws_proxy
from clusterra_lab.parts.declared_tables import declare_tables
from clusterra_lab.parts.nats import NatsServer, nats_server
from clusterra_lab.stack.fleet import Command, RunningService, fleet
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.client import Client

SERVICES = ("proxy", "scaler", "events")
STAND_IN = "stand-in"
"""This process: the load, and what stands in for Slurm and the agents."""


@dataclass(frozen=True)
class Site:
    """The running parts."""

    folder: Path
    nats: NatsServer
    aws: Aws
    client: Client
    services: Mapping[str, RunningService]
    store: AwsProxy | None
    """Counts what the services ask of DynamoDB, if that was wanted."""

    def processes(self) -> dict[str, psutil.Process]:
        """The services, the servers beside them and this process, by name."""
        pids = {name: service.pid for name, service in self.services.items()}
        found = {name: psutil.Process(pid) for name, pid in pids.items()}
        for child in psutil.Process().children(recursive=True):
            with child.oneshot():
                if "nats-server" in child.name():
                    found["nats"] = child
                elif "ministack" in " ".join(child.cmdline()):
                    found["dynamodb"] = child
        return found | {STAND_IN: psutil.Process()}

    async def bus_totals(self) -> dict[str, int]:
        """What NATS has received and sent since its start."""
        port = (self.folder / "nats" / "monitor-port").read_text().strip()
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/varz") as answer:
            varz = await answer.json()
        return {name: int(varz[name]) for name in ("in_msgs", "out_msgs", "in_bytes", "out_bytes")}

    async def all_archived(self) -> bool:
        """Whether the archive has taken every event. A cluster that is added makes events of all its jobs."""
        consumer = await self.client.jetstream().consumer_info(EVENT.name, EVENTS_ARCHIVE)
        return not consumer.num_pending and not consumer.num_ack_pending

    def log_lines(self, event: str) -> list[str]:
        """All lines of the services' logs that contain the name of this event."""
        logs = (self.folder / "logs" / f"{name}.log" for name in self.services)
        return [line for log in logs for line in log.read_text(errors="replace").splitlines() if f'"{event}"' in line]


@asynccontextmanager
async def site(
    folder: Path, agent_of: ClusterRef, replicas: int, progress: Progress, *, count_store: bool = False
) -> AsyncIterator[Site]:
    """Start everything but the clusters, until the block ends. `replicas` is the number of proxies and scalers.

    With `count_store`, the services' requests to DynamoDB pass this process, which takes CPU.
    """
    async with AsyncExitStack() as running:
        nats = await running.enter_async_context(nats_server(folder / "nats", progress=progress))
        aws = await running.enter_async_context(aws_emulator(folder / "aws", progress=progress))
        store = await running.enter_async_context(aws_proxy(aws)) if count_store else None
        aws = aws if store is None else store.aws
        client = await bus.connect(nats.settings("bench"), "bench")
        running.push_async_callback(bus.close, client)
        progress("declaring streams and tables")
        await topology.apply(client)
        environment = {**nats.environment(), **aws.environment(), "CLUSTERRA_SECRET_FOLDERS": '["/"]'}
        await declare_tables(environment, folder)
        ports = running.enter_context(reserved_ports(200))
        commands = [
            Command(
                name if number == 1 else f"{name}-{number}",
                f"clusterra_{name}",
                {**environment, "CLUSTERRA_INSTANCE": f"{name}-{number}"},
            )
            for name in SERVICES
            for number in range(1, (1 if name == "events" else replicas) + 1)
        ]
        agent = Command("edge-agent", "clusterra_edge_agent", environment | _agent(folder, agent_of, ports))
        started = await running.enter_async_context(fleet([*commands, agent], folder / "logs", progress))
        yield Site(folder, nats, aws, client, started, store)


def _agent(folder: Path, ref: ClusterRef, ports: range) -> dict[str, str]:
    """The variables of a real agent, whose workers only listen on the port of their slurmd."""
    worker = [sys.executable, str(Path(__file__).with_name("worker.py")), str(os.getpid())]
    return {
        "CLUSTERRA_TENANT": ref.tenant,
        "CLUSTERRA_CLUSTER": ref.cluster,
        "CLUSTERRA_SHARED_DIR": str(folder),
        "CLUSTERRA_STATE_DIR": str(folder / "edge-agent"),
        "CLUSTERRA_WORKER_LAUNCHER": json.dumps(worker),
        "CLUSTERRA_SLURMD_CONF": "/etc/slurm/slurm.conf",
        "CLUSTERRA_SCONTROL_PATH": "",
        "CLUSTERRA_SLURMD_FIRST_PORT": str(ports.start),
        "CLUSTERRA_SLURMD_PORTS": str(len(ports)),
    }
