"""What an agent on a real API server would report about its machines."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from clusterra_edge_agent.heartbeat.edge_status import EdgeStatus
from clusterra_edge_agent.kubernetes.client.api import connected
from clusterra_edge_agent.kubernetes.machines.edge_status import KubernetesEdgeStatus
from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
from clusterra_lab.machine.process import until
from kube_workers import Workers

NEVER = 1e9


class Observer:
    """What an agent would report, and how often it would be notified."""

    def __init__(self, substrate: KubernetesSubstrate, source: KubernetesEdgeStatus) -> None:
        self.substrate = substrate
        self.notifications = 0
        self._source = source

    def status(self) -> EdgeStatus:
        return self._source.status()

    async def count(self) -> None:
        changed = asyncio.Event()
        self._source.change_signal.listen(changed)
        while True:
            await changed.wait()
            changed.clear()
            self.notifications += 1

    async def until(self, fits: Callable[[EdgeStatus], object], what: str) -> EdgeStatus:
        await until(lambda: fits(self.status()), seconds=240, what=what, every=0.02)
        return self.status()


@asynccontextmanager
async def observer(
    workers: Workers, folder: Path, kubeconfig: Path | None = None, **options: Any
) -> AsyncIterator[Observer]:
    folder.mkdir(exist_ok=True)
    async with connected(workers.namespace, kubeconfig or workers.kubernetes.kubeconfig) as api:
        substrate = KubernetesSubstrate(api, folder)
        source = KubernetesEdgeStatus(api, substrate, **{"ghost_seconds": NEVER, "gc_pass_seconds": 0.1, **options})
        observer = Observer(substrate, source)
        tasks = [asyncio.create_task(run()) for run in (substrate.run, source.run, observer.count)]
        try:
            yield observer
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
