"""An agent of the `kubernetes` substrate without NATS: tests set its desired state and collect its events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from clusterra_contracts.events import MisclassifiedFact, WorkerFact
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import now
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_edge_agent.control.desired import LatestDesired
from clusterra_edge_agent.control.loop import ControlLoop
from clusterra_edge_agent.kubernetes.client.api import Api, connected
from clusterra_edge_agent.kubernetes.election import lease, record
from clusterra_edge_agent.kubernetes.election.lease import KubernetesLease, identity
from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
from clusterra_edge_agent.substrate.port import SubstrateUnavailable
from clusterra_lab.machine.process import until
from kube_workers import SHAPE

SPEC = WorkerSpec(cpus=2, memory_mib=8192)


def desired_state(generation: int, targets: Mapping[str, tuple[int, Collection[str]]], fence: int = 1) -> DesiredState:
    return DesiredState(
        generation=generation,
        fence=fence,
        snapshot_generation=1,
        decided_at=now(),
        targets=tuple(
            ShapeTarget(shape=shape, worker=SPEC, replicas=replicas, victims=tuple(sorted(victims)))
            for shape, (replicas, victims) in targets.items()
        ),
    )


class Agent:
    """One run of an agent. `facts` is shared by all runs of a test."""

    def __init__(
        self,
        substrate: KubernetesSubstrate,
        latest: LatestDesired,
        lease: KubernetesLease,
        connected_to_nats: Callable[[], bool],
    ) -> None:
        self.lease = lease
        self.substrate = substrate
        self.control_loop = ControlLoop(latest, substrate, self.read_newest, lambda: connected_to_nats() and lease.held)
        self._latest = latest
        self.misclassified: list[MisclassifiedFact] = []
        self.stored: DesiredState | None = None
        """The newest desired state that the scaler has published."""
        self.held_up: Callable[[], Awaitable[None]] = _not_at_all
        """What happens while the agent is held up, right before it looks again at the newest desired state."""
        self.task: asyncio.Task[None] | None = None
        """The task that `agent` runs. Cancelling it simulates a kill."""

    def desire(self, generation: int, replicas: int, victims: Collection[str] = (), shape: str = SHAPE) -> bool:
        return self.desire_all(generation, {shape: (replicas, victims)})

    def desire_all(self, generation: int, targets: Mapping[str, tuple[int, Collection[str]]], fence: int = 1) -> bool:
        return self.offer(desired_state(generation, targets, fence))

    def offer(self, desired: DesiredState) -> bool:
        """Publishes a desired state and pushes it to the agent."""
        self.publish(desired)
        return self._latest.offer(desired)

    def publish(self, desired: DesiredState) -> None:
        """Publishes a desired state that the agent has not received yet."""
        if self.stored is None or desired.order > self.stored.order:
            self.stored = desired

    async def read_newest(self) -> DesiredState | None:
        await self.held_up()
        if self.stored is not None:
            self._latest.offer_news(self.stored)
        return self.stored

    async def workers(self) -> dict[str, Worker] | None:
        """Returns the workers by name, or None while they are unknown."""
        try:
            return {worker.name: worker for worker in await self.substrate.workers()}
        except SubstrateUnavailable:
            return None

    async def running(self, number: int, shape: str = SHAPE) -> list[str]:
        """Waits until exactly this many workers exist and all serve. Returns their names."""

        async def reached() -> bool:
            workers = await self.workers()
            ours = [worker for worker in (workers or {}).values() if worker.shape == shape]
            return workers is not None and len(ours) == number and all(each.phase == "running" for each in ours)

        await until(reached, seconds=240, what=f"{number} running workers of {shape}", every=0.05)
        return sorted(name for name, worker in (await self.workers() or {}).items() if worker.shape == shape)

    async def applied(self, generation: int) -> None:
        """Waits until a desired state is applied."""

        def reached() -> bool:
            applied = self.control_loop.applied
            return applied is not None and applied.generation == generation

        await until(reached, seconds=240, what=f"generation {generation} to be applied")

    async def _publish_events(self, facts: list[WorkerFact]) -> None:
        changed = asyncio.Event()
        self.substrate.change_signal.listen(changed)
        self.lease.change_signal.listen(changed)
        while True:
            changed.clear()
            for event in self.substrate.pending_events() if self.lease.held else ():
                if isinstance(event.fact, WorkerFact):
                    facts.append(event.fact)
                else:
                    self.misclassified.append(event.fact)
                await self.substrate.mark_published(event)
            await changed.wait()

    async def run(self, facts: list[WorkerFact]) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as running:
            running.create_task(self.lease.run())
            running.create_task(self.substrate.run())
            running.create_task(self.control_loop.run(self.lease.change_signal))
            running.create_task(self._publish_events(facts))


async def _not_at_all() -> None:
    """The agent is not held up."""


@asynccontextmanager
async def agent(
    kubeconfig: Path,
    namespace: str,
    folder: Path,
    facts: list[WorkerFact],
    *,
    substrate_of: Callable[[Api, Path], KubernetesSubstrate] = KubernetesSubstrate,
    connected_to_nats: Callable[[], bool] = lambda: True,
) -> AsyncIterator[Agent]:
    """Runs an agent until the block ends, with its state in `folder`. It ends as abruptly as by a kill.

    The next agent with this folder reacquires the Lease immediately, like a container that was killed.
    """
    folder.mkdir(exist_ok=True)
    async with connected(namespace, kubeconfig) as api:
        lease = KubernetesLease(api, identity(folder))
        substrate, latest = substrate_of(api.led_by(lease), folder), LatestDesired(folder)
        running_agent = Agent(substrate, latest, lease, connected_to_nats)
        running = asyncio.create_task(running_agent.run(facts))
        running_agent.task = running
        try:
            yield running_agent
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def shorten_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the Lease of agents in this process end after 7 s. Ten renewals may fail before: machines are busy."""
    monkeypatch.setattr(record, "LEASE_SECONDS", 7)
    monkeypatch.setattr(record, "HOLD_SECONDS", 5.0)
    for module in (record, lease):
        monkeypatch.setattr(module, "RENEW_SECONDS", 0.5)
