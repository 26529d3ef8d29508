"""An agent that is held up at any step never removes a worker that a newer desired state has taken back."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from pathlib import Path

from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName, now
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_edge_agent.control.desired import LatestDesired
from clusterra_edge_agent.control.loop import ControlLoop, NewestCheck
from clusterra_edge_agent.process.one_by_one import BUSY_RETRY_SECONDS, WorkerBusy, apply_one_by_one
from clusterra_edge_agent.process.slurmd import Slurmd
from clusterra_edge_agent.process.substrate import ProcessSubstrate
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from hypothesis import given
from hypothesis import strategies as st

SPEC = WorkerSpec(cpus=1, memory_mib=512)
SHAPE = "compute-xs"
SLEEPS = ("sh", "-c", "exec sleep 1000", "sh")
MOMENT = now()


def desired(generation: int, replicas: int, victims: Collection[str]) -> DesiredState:
    target = ShapeTarget(shape=SHAPE, worker=SPEC, replicas=replicas, victims=tuple(sorted(victims)))
    return DesiredState(generation=generation, fence=1, snapshot_generation=0, decided_at=MOMENT, targets=(target,))


class HeldUpWorkers:
    """Four workers of an agent that is held up at each of its steps: there the scaler may publish a newer state."""

    def __init__(self, folder: Path, states: list[DesiredState], published_at: list[int], busy: set[str]) -> None:
        self.latest = LatestDesired(folder)
        self.there = [f"w-{number}" for number in range(4)]
        self.newest = states[0]
        self.busy = busy
        self.removed: list[str] = []
        self._coming = dict(zip(published_at, states[1:], strict=False))
        self._steps = 0

    async def held_up(self) -> None:
        self.newest = self._coming.pop(self._steps, self.newest)
        self._steps += 1

    async def read_newest(self) -> DesiredState | None:
        await self.held_up()
        self.latest.offer_news(self.newest)
        return self.newest

    async def workers(self) -> tuple[Worker, ...]:
        await self.held_up()
        return tuple(Worker(name=name, shape=SHAPE, phase="running", started_at=MOMENT) for name in self.there)

    async def start(self, shape: ShapeName, spec: WorkerSpec) -> WorkerName:
        await self.held_up()
        self.there.append(f"w-{len(self.there) + len(self.removed)}")
        return self.there[-1]

    async def remove(self, name: WorkerName) -> None:
        assert any(name in target.victims for target in self.newest.targets or ()), "a newer state took it back"
        if name in self.busy:
            raise WorkerBusy("a job step runs there")
        self.there.remove(name)
        self.removed.append(name)


names = st.sets(st.sampled_from([f"w-{number}" for number in range(4)]))


@given(
    victims=st.lists(names, min_size=1, max_size=4),
    published_at=st.lists(st.integers(0, 8), unique=True, min_size=3, max_size=3).map(sorted),
    busy=names,
    replicas=st.integers(0, 5),
)
def test_only_victims_of_the_newest_state_are_removed_whenever_it_is_published(
    victims: list[set[str]], published_at: list[int], busy: set[str], replicas: int
) -> None:
    states = [desired(number, replicas, each) for number, each in enumerate(victims, start=1)]
    with tempfile.TemporaryDirectory() as folder:
        workers = HeldUpWorkers(Path(folder), states, published_at, busy)
        workers.latest.offer(states[0])
        check = NewestCheck(states[0], workers.latest, workers.read_newest, lambda: True)

        wait_seconds = asyncio.run(apply_one_by_one(states[0], check, workers))

    assert not busy & set(workers.removed)
    if wait_seconds is None:
        assert not victims[0] - set(workers.removed)
        assert workers.newest.order == states[0].order or not victims[0]
    assert wait_seconds in (None, 0.0, BUSY_RETRY_SECONDS)


class Agent:
    """A control loop on real processes, whose scaler may act while it is held up before it looks again."""

    def __init__(self, folder: Path) -> None:
        slurmd = Slurmd(SLEEPS, "slurmd", None, "127.0.0.1:6817")
        self.latest = LatestDesired(folder)
        self.substrate = ProcessSubstrate(slurmd, folder, ports=range(first := free_port(), first + 8))
        self.stored: DesiredState | None = None
        self.looks = 0
        self.held_up: Callable[[], Awaitable[None]] = self._not_at_all
        self.loop = ControlLoop(self.latest, self.substrate, self._read_newest, lambda: True)

    async def _not_at_all(self) -> None:
        pass

    async def _read_newest(self) -> DesiredState | None:
        self.looks += 1
        await self.held_up()
        if self.stored is not None:
            self.latest.offer_news(self.stored)
        return self.stored

    def desire(self, generation: int, replicas: int, *victims: str, received: bool = True) -> None:
        self.stored = desired(generation, replicas, victims)
        if received:
            self.latest.offer(self.stored)

    async def phases(self) -> dict[str, str]:
        return {worker.name: worker.phase for worker in await self.substrate.workers()}

    async def __aenter__(self) -> "Agent":
        self.substrate.adopt()
        self._running = asyncio.create_task(self.loop.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
        for name in await self.phases():
            await self.substrate.remove(name)
        await until(self._is_empty, seconds=90, what="the end of all workers", every=0.01)
        self.substrate.close()

    async def _is_empty(self) -> bool:
        return not await self.phases()

    async def applied(self, generation: int) -> None:
        await until(
            lambda: self.loop.applied is not None and self.loop.applied.generation == generation,
            seconds=30,
            what=f"generation {generation} to be applied",
            every=0.01,
        )


async def test_a_worker_that_is_taken_back_while_the_agent_is_held_up_stays(tmp_path: Path) -> None:
    async with Agent(tmp_path) as agent:
        agent.desire(1, 2)
        await agent.applied(1)
        kept, victim = await agent.phases()

        async def scaler_takes_one_back() -> None:
            if agent.stored is not None and agent.stored.generation == 2:
                agent.desire(3, 1, victim, received=False)

        agent.held_up = scaler_takes_one_back
        agent.desire(2, 0, kept, victim)
        await agent.applied(3)

        assert (await agent.phases())[kept] == "booting"
        assert (await agent.phases()).get(victim, "terminating") == "terminating"


async def test_nothing_is_removed_while_the_newest_desired_state_cannot_be_read(tmp_path: Path) -> None:
    async with Agent(tmp_path) as agent:
        agent.desire(1, 1)
        await agent.applied(1)
        (victim,) = await agent.phases()
        agent.desire(2, 0, victim)
        agent.stored = None
        await until(lambda: agent.looks, seconds=90, what="a look at the newest desired state", every=0.01)

        assert await agent.phases() == {victim: "booting"}
        assert agent.loop.applied is not None
        assert agent.loop.applied.generation == 1
