"""Whether the server of a session may be connected to: its job runs on the worker, and its owner's server listens.

All workers of this substrate share the host's network, so the port alone says nothing: it may be another user's.
"""

import os
from pathlib import Path

from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.process.job_steps import running_steps
from clusterra_edge_agent.process.listening import LOOPBACK, owners
from clusterra_edge_agent.substrate.port import SessionServer


def session_host(worker: WorkerName, pid: int, server: SessionServer) -> str | None:
    """Returns the host of a session's server; `pid` is a process in the network namespace of the worker's slurmd.

    None where the job does not run there, where nobody listens on the port, where the server that is reached is not the
    owner's or another user has accepted the connection, and where the worker has a network of its own, in which this
    agent is not.
    """
    try:
        steps = running_steps(worker, pid)
        if not any(step.partition(".")[0] == server.job_id for step in steps):
            return None
        if owners(pid, server.port, server.client_port) != {server.uid} or _network(pid) != _network(os.getpid()):
            return None
    except OSError:
        return None  # The worker has just ended.
    return LOOPBACK


def _network(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())
