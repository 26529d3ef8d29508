"""There are never two holders: agents with clocks of their own, and calls that are slow, lost or delayed."""

import asyncio
import random
import selectors
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from clusterra_edge_agent.kubernetes.client.api import CHANGE_SECONDS, Api, Collection
from clusterra_edge_agent.kubernetes.client.errors import Conflict, NotFound, Unavailable
from clusterra_edge_agent.kubernetes.client.interning import Metadata
from clusterra_edge_agent.kubernetes.client.resources import Object
from clusterra_edge_agent.kubernetes.election.lease import KubernetesLease
from clusterra_edge_agent.kubernetes.election.record import (
    HOLD_SECONDS,
    LEASE_SECONDS,
    RENEW_SECONDS,
    ElectionRecord,
    Lease,
    LeaseSpec,
)
from hypothesis import given
from hypothesis import strategies as st

WALL = datetime(2026, 1, 1, tzinfo=UTC)
TICK_SECONDS = 0.1
TROUBLE_SECONDS = 240.0
QUIET_SECONDS = LEASE_SECONDS + 3 * RENEW_SECONDS + 3.0


def lease(holder: str, version: int, **spec: Any) -> Lease:
    metadata = Metadata(name="edge-agent", uid="1", resource_version=str(version))
    return Lease(metadata=metadata, spec=LeaseSpec(holder_identity=holder, **spec))


# One agent


def test_a_holder_stops_before_another_begins() -> None:
    one, other = ElectionRecord("one"), ElectionRecord("other")
    one.observe(None, 0.0)
    spec = one.next_spec(0.0, WALL)

    assert spec is not None

    one.accepted(lease("one", 1), sent_at=0.0)
    other.observe(lease("one", 1), 0.0)
    assert one.holds(HOLD_SECONDS - 0.001)
    assert not one.holds(HOLD_SECONDS)
    assert other.next_spec(LEASE_SECONDS - 0.001, WALL) is None
    assert other.next_spec(LEASE_SECONDS, WALL) is not None
    assert HOLD_SECONDS + CHANGE_SECONDS < LEASE_SECONDS


def test_a_record_is_valid_from_its_observed_change_whatever_times_it_contains() -> None:
    other = ElectionRecord("other")
    ancient = datetime(1970, 1, 1, tzinfo=UTC)
    other.observe(lease("one", 1, renew_time=ancient), 100.0)
    other.observe(lease("one", 1, renew_time=ancient), 110.0)

    assert other.next_spec(114.9, WALL) is None
    assert not other.another_acts(110.0), "it may have ended long ago"

    other.observe(lease("one", 2, renew_time=ancient), 114.9)
    assert other.next_spec(129.8, WALL) is None
    assert other.another_acts(129.8)
    assert not other.another_acts(130.0)

    taken = other.next_spec(130.0, WALL)
    assert taken is not None
    assert (taken.holder_identity, taken.lease_transitions) == ("other", 1)


def test_a_shorter_duration_than_ours_is_ignored_and_a_longer_one_respected() -> None:
    for seconds, waited in ((1, LEASE_SECONDS), (60, 60.0)):
        other = ElectionRecord("other")
        other.observe(lease("one", 1, lease_duration_seconds=seconds), 0.0)
        assert other.wait_seconds(0.0) == waited


def test_a_deleted_lease_is_waited_for_like_a_held_one() -> None:
    other = ElectionRecord("other")
    other.observe(lease("one", 1), 0.0)
    other.observe(None, 1.0)
    assert other.next_spec(14.9, WALL) is None
    assert other.next_spec(15.0, WALL) is not None


def test_a_renewal_is_a_change_even_if_the_clock_stands_still() -> None:
    one = ElectionRecord("one")
    one.observe(None, 0.0)
    first = one.next_spec(0.0, WALL)

    assert first is not None

    one.accepted(Lease(metadata=Metadata(resource_version="1"), spec=first), sent_at=0.0)
    second = one.next_spec(2.0, WALL)
    assert second is not None
    assert second.renew_time != first.renew_time
    assert (second.acquire_time, second.lease_transitions) == (first.acquire_time, first.lease_transitions)


def test_times_are_written_with_six_digits_and_unknown_fields_omitted() -> None:
    spec = LeaseSpec(holder_identity="one", renew_time=WALL)

    assert spec.model_dump(mode="json", by_alias=True, exclude_none=True) == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:00.000000+00:00",
        "leaseTransitions": 0,
    }
    assert LeaseSpec.model_validate({"holderIdentity": None, "leaseTransitions": None}).holder_identity == ""


# Several agents, on a simulated clock


class Store:
    """The Lease, as an API server stores it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.quiet = False
        self.lease: Lease | None = None
        self.late: set[asyncio.Task[Lease]] = set()
        self._version = 0

    def put(self, spec: dict[str, Any]) -> Lease:
        self._version += 1
        before = {} if self.lease is None else self.lease.spec.model_dump(by_alias=True)
        metadata = Metadata(name="edge-agent", uid="1", resource_version=str(self._version))
        self.lease = Lease(metadata=metadata, spec=LeaseSpec.model_validate(before | spec))
        return self.lease


class Connection(Api):
    """An agent's connection to the store. A call that its caller has cancelled may still arrive."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.namespace = "slurm"
        self.cut_off_until = 0.0

    async def get(self, collection: Collection[Any], name: str) -> Any:
        return await self._send(self._read)

    async def create(self, collection: Collection[Any], name: str, spec: dict[str, Any]) -> Any:
        return await self._send(lambda: self._create(spec))

    async def replace(self, collection: Collection[Any], found: Object, spec: dict[str, Any]) -> Any:
        return await self._send(lambda: self._replace(found, spec))

    async def _send(self, work: Any) -> Lease:
        store, rng = self._store, self._store.rng
        if store.quiet:
            return await self._deliver(0.01, work)
        ways = ["quick"] * 6 + ["slow"] * 3 + ["refused", "request lost", "reply lost", "late"]
        cut_off = asyncio.get_running_loop().time() < self.cut_off_until
        match rng.choice(["refused", "request lost"] if cut_off else ways):
            case "quick":
                return await self._deliver(rng.uniform(0, 0.05), work)
            case "slow":
                answer = await self._deliver(rng.uniform(0, 0.5), work)
                await asyncio.sleep(rng.uniform(0, 3))
                return answer
            case "refused":
                raise Unavailable("refused")
            case "request lost":
                await asyncio.sleep(3600)
            case "reply lost":
                await self._deliver(rng.uniform(0, 1), work)
                raise Unavailable("broken")
            case "late":
                store.late.add(asyncio.create_task(self._deliver(rng.uniform(0, 40), work)))
                await asyncio.sleep(rng.uniform(0, 10))
        raise Unavailable("cancelled")

    async def _deliver(self, seconds: float, work: Any) -> Lease:
        await asyncio.sleep(seconds)
        answer: Lease = work()
        return answer

    def _read(self) -> Lease:
        if self._store.lease is None:
            raise NotFound("none")
        return self._store.lease

    def _create(self, spec: dict[str, Any]) -> Lease:
        if self._store.lease is not None:
            raise Conflict("there is one")
        return self._store.put(spec)

    def _replace(self, found: Object, spec: dict[str, Any]) -> Lease:
        if found.metadata.resource_version != self._read().metadata.resource_version:
            raise Conflict("changed")
        return self._store.put(spec)


class Agent:
    """An identity that is killed and restarted. Its clock has a rate of its own, its wall clock any offset."""

    def __init__(self, name: str, store: Store) -> None:
        rng = store.rng
        self._loop = asyncio.get_running_loop()
        """The metric of the last lease reads its clock after the simulation, too, when no loop runs."""
        self.name, self.store = name, store
        self.rate, self.offset = rng.uniform(0.98, 1.02), rng.uniform(0, 1e6)
        self.wall_offset = timedelta(days=rng.uniform(-3000, 3000))
        self.wall_stands = rng.random() < 0.2
        self.busy_until = 0.0
        """When the last change that it may have begun has ended, in true seconds."""
        self.lease = self._new()
        self.task = asyncio.create_task(self.lease.run())

    def _new(self) -> KubernetesLease:
        self.connection = Connection(self.store)
        return KubernetesLease(self.connection, self.name, clock=self._clock, wall=self._wall)

    def _clock(self) -> float:
        return self.offset + self._loop.time() * self.rate

    def _wall(self) -> datetime:
        passed = 0.0 if self.wall_stands else asyncio.get_running_loop().time()
        return WALL + self.wall_offset + timedelta(seconds=passed)

    async def end(self, *, orderly: bool) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        if orderly:
            # Its changes were cancelled together with its tasks.
            self.busy_until = 0.0
            await self.lease.release()

    @property
    def busy(self) -> bool:
        return asyncio.get_running_loop().time() < self.busy_until

    def restart(self) -> None:
        self.lease = self._new()
        self.task = asyncio.create_task(self.lease.run())


class InstantSelector(selectors.DefaultSelector):
    """A selector that never waits: it advances the loop's clock to the next event."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += max(timeout or 0.0, 0.0)
        return super().select(0)


@contextmanager
def simulated_time() -> Iterator[asyncio.AbstractEventLoop]:
    selector = InstantSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    try:
        yield loop
    finally:
        loop.close()


async def simulate(rng: random.Random, count: int) -> None:
    loop, store = asyncio.get_running_loop(), Store(rng)
    agents = [Agent(f"agent-{number}", store) for number in range(count)]

    def check() -> None:
        for agent in agents:
            if agent.lease.held:
                others = [other.name for other in agents if other is not agent and (other.lease.held or other.busy)]
                assert not others, f"{agent.name} acts beside {others} at {loop.time():.1f}"
                agent.busy_until = loop.time() + CHANGE_SECONDS / agent.rate

    async def watch(seconds: float) -> None:
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(TICK_SECONDS)
            check()
            agent = rng.choice(agents)
            match rng.random():
                case chance if store.quiet or chance > 0.02:
                    continue
                case chance if chance > 0.005:
                    agent.connection.cut_off_until = loop.time() + rng.uniform(1, 40)
                case _:
                    await agent.end(orderly=rng.random() < 0.5)
                    agent.restart()

    await watch(TROUBLE_SECONDS)
    store.quiet = True
    await watch(QUIET_SECONDS)
    assert sum(agent.lease.held for agent in agents) == 1, "no agent acts"
    (holder,) = (agent for agent in agents if agent.lease.held)
    assert [agent for agent in agents if agent.lease.may_report] == [holder]
    assert all(agent.lease.another_acts for agent in agents if agent is not holder)
    for agent in agents:
        await agent.end(orderly=False)
    for late in store.late:
        late.cancel()
    await asyncio.gather(*store.late, return_exceptions=True)


@given(seed=st.integers(0, 2**32), count=st.integers(2, 3))
def test_there_are_never_two_holders_and_finally_exactly_one(seed: int, count: int) -> None:
    with simulated_time() as loop:
        loop.run_until_complete(simulate(random.Random(seed), count))
