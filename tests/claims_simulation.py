"""Plays submits with one Idempotency-Key in virtual time: the gateway's and the proxy's code, and a Slurm in memory.

Every part may fail where the real one can: gateways and proxies are killed, proxies are paused before they begin,
answers are lost, Slurm stalls and carries out afterwards what it was given, the store loses writes or their answers,
clocks differ.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.deadlines import CLOCK_SKEW_SECONDS, SLURM_MESSAGE_SECONDS, SLURM_SETTLE_SECONDS, SUBMIT
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm import JobDescription, Submit, Submitted
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_gateway.http.requests.errors import InFlight, OutcomeUnknown, RequestError
from clusterra_gateway.idempotency.key import ScopedKey
from clusterra_gateway.idempotency.table import IDEMPOTENCY
from clusterra_gateway.submits.keys import SubmitKeys
from clusterra_gateway.submits.submit_once import SubmitOnce
from clusterra_proxy.cluster.submitting import Submitting
from clusterra_proxy.requests import claim as proxy_claim
from clusterra_proxy.requests import submit as proxy_submit
from clusterra_proxy.slurmrestd.answers import SubmitAnswer
from clusterra_proxy.slurmrestd.errors import Unreachable
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Put, StoreUnavailable, Update
from job_records import job

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
REF = ClusterRef(tenant="acme", cluster="main")
ADA = SlurmUser(name="ada", uid=20001, gid=20001)
KEY = ScopedKey(REF, "ada", "the-only-key")
SHAPE = Shape(name="compute-xs", family="compute", size="xs", vcpu=2, memory_gib=4, usd_per_hour=0.1)
BINDING = ClusterBinding(
    name="Main", slurmrestd_url="http://slurm", jwt_key="file:/key", operator=ADA, catalogue=Catalogue(shapes=(SHAPE,))
)
DESCRIPTION = JobDescription(environment=("PATH=/bin",))
SUBMISSION = Submit(user=ADA, script="#!/bin/sh\n", job=DESCRIPTION, idempotency_key=KEY.key)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual = 0.0

    def time(self) -> float:
        return self._virtual

    def _run_once(self) -> None:
        inner: Any = self
        timers = [timer.when() for timer in inner._scheduled if not timer.cancelled()]
        if timers and not inner._ready:
            self._virtual = max(self._virtual, min(timers))
        super()._run_once()  # type: ignore[misc]


def elapsed() -> float:
    """Virtual seconds since the begin."""
    return asyncio.get_running_loop().time()


@dataclass
class Troubles:
    """What may go wrong, each as a probability; nothing goes wrong after `until`."""

    random: random.Random
    until: float
    kill_gateway: float = 0.0
    kill_proxy: float = 0.0
    pause_proxy: float = 0.0
    lose_reply: float = 0.0
    lose_answer: float = 0.0
    stall_slurm: float = 0.0
    store: float = 0.0

    def strikes(self, probability: float) -> bool:
        return elapsed() < self.until and self.random.random() < probability


@dataclass
class Slurm:
    """slurmctld and slurmdbd. While it stalls nobody gets an answer; afterwards it carries out what it was given."""

    troubles: Troubles
    proxy_now: Callable[[], datetime]
    jobs: list[JobRecord] = field(default_factory=list)
    work: set[asyncio.Task[None]] = field(default_factory=set)
    stalled_until: float = 0.0

    async def submit(self, _token: str, _script: str, description: dict[str, Any]) -> SubmitAnswer:
        accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._accept(description["comment"], accepted))
        self.work.add(task)
        task.add_done_callback(self.work.discard)
        lost = self.troubles.strikes(self.troubles.lose_answer)
        return SubmitAnswer(
            job_id=await self._within(SUBMIT.slurmrestd if lost else SLURM_MESSAGE_SECONDS, accepted, lost)
        )

    async def jobs_list(self, _token: str) -> tuple[datetime, tuple[JobRecord, ...], None, int]:
        began = self.proxy_now()
        await self._within(SLURM_MESSAGE_SECONDS, asyncio.create_task(self._awake()), lost=False)
        return began, tuple(self.jobs), None, 0

    async def accounted(self, _token: str, **_query: Any) -> tuple[JobRecord, ...]:
        await asyncio.sleep(0.01)
        return tuple(self.jobs)

    async def clock_ahead(self, _token: str) -> timedelta:
        await self._within(SLURM_MESSAGE_SECONDS, asyncio.create_task(self._awake()), lost=False)
        return now_at(elapsed()) - self.proxy_now()

    async def version(self, _token: str) -> None:
        await asyncio.sleep(0.001)

    async def _within[T](self, seconds: float, answer: asyncio.Future[T], lost: bool) -> T:
        try:
            async with asyncio.timeout(seconds):
                found = await asyncio.shield(answer)
                if lost:
                    await asyncio.sleep(seconds)
                return found
        except TimeoutError:
            raise Unreachable("slurmrestd does not respond") from None

    async def _awake(self) -> None:
        if self.troubles.strikes(self.troubles.stall_slurm):
            self.stalled_until = max(self.stalled_until, elapsed() + self.troubles.random.uniform(0, 90))
        await asyncio.sleep(max(self.stalled_until - elapsed(), 0) + self.troubles.random.uniform(0.001, 0.02))

    async def _accept(self, comment: str, accepted: "asyncio.Future[int]") -> None:
        await self._awake()
        backlog = self.troubles.random.uniform(0, proxy_claim.SETTLE_PAUSE_SECONDS * 0.9) if self.stalled_until else 0
        slow = self.troubles.random.uniform(0, SLURM_SETTLE_SECONDS) if not self.stalled_until else 0
        await asyncio.sleep((backlog or slow) if self.troubles.strikes(0.5) else 0)
        number = 100 + len(self.jobs)
        self.jobs.append(job(number, comment=comment, user_id=ADA.uid, submit_time=now_at(elapsed())))
        if not accepted.done():
            accepted.set_result(number)


class UnreliableStore(MemoryStore):
    """Fails some writes: before they happen, or after."""

    def __init__(self, troubles: Troubles) -> None:
        super().__init__(clock=lambda: BEGIN.timestamp() + elapsed())
        self._troubles = troubles

    async def write(self, write: Put | Update) -> Item:
        if self._troubles.strikes(self._troubles.store):
            raise StoreUnavailable("the store does not answer")
        item = await super().write(write)
        if self._troubles.strikes(self._troubles.store):
            raise StoreUnavailable("the store's answer is lost")
        return item


def now_at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


@dataclass
class World:
    """Two gateways, two proxies, one store, one Slurm, and clients that follow Retry-After."""

    troubles: Troubles
    skews: tuple[float, float, float]
    """How far the clocks of both gateways and of the proxies are ahead."""
    answers: list[Submitted] = field(default_factory=list)
    statuses: list[type[Exception]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slurm = Slurm(self.troubles, self.proxy_now)
        self.keys = SubmitKeys(UnreliableStore(self.troubles))
        self.proxies = [self._proxy(), self._proxy()]
        self.gateways = [SubmitOnce(self.keys, self._send, self._clock(skew)) for skew in self.skews[:2]]
        self._handlers: set[asyncio.Task[Submitted]] = set()

    def _clock(self, skew: float) -> Callable[[], float]:
        return lambda: BEGIN.timestamp() + elapsed() + skew

    def proxy_now(self) -> datetime:
        return now_at(elapsed() + self.skews[2])

    def _proxy(self) -> Any:
        def follow_own_change(work: Coroutine[Any, Any, None]) -> None:
            work.close()

        async def user_token(_user: SlurmUser) -> str:
            return "token"

        async def accounts_unknown(*_: str) -> None:
            """slurmdbd is away, as far as accounts are concerned."""

        return SimpleNamespace(
            mails=False,
            jobs_fresh=False,
            listener=None,
            nodes_fresh=True,
            nodes={},
            binding=BINDING,
            mint=SimpleNamespace(operator_token=lambda: "operator"),
            user_token=user_token,
            submitting=Submitting(),
            slurmctld=SimpleNamespace(
                submit=self.slurm.submit,
                jobs=self.slurm.jobs_list,
                clock_ahead=self.slurm.clock_ahead,
                version=self.slurm.version,
            ),
            accounting=SimpleNamespace(submitted=self.slurm.accounted),
            member_accounts=SimpleNamespace(of=accounts_unknown),
            follow_own_change=follow_own_change,
            find_watched=None,
        )

    async def _send(self, _ref: ClusterRef, message: Submit) -> Submitted:
        """The bus and a proxy: a request reaches one proxy, once, and its answer may be lost."""
        handler = asyncio.create_task(self._handle(self.troubles.random.choice(self.proxies), message))
        self._handlers.add(handler)
        handler.add_done_callback(self._finished)
        lost = self.troubles.strikes(self.troubles.lose_reply)
        try:
            async with asyncio.timeout(SUBMIT.gateway):
                if lost:
                    await asyncio.sleep(SUBMIT.gateway + 1)
                return await asyncio.shield(handler)
        except (TimeoutError, asyncio.CancelledError):
            if handler.cancelled() or lost or not handler.done():
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise
                raise RpcFailed(RpcError(kind="unavailable", detail="no answer", effect="unknown")) from None
            raise

    def _finished(self, handler: "asyncio.Task[Submitted]") -> None:
        self._handlers.discard(handler)
        if not handler.cancelled():
            handler.exception()  # the answer of a request that nobody waits for any more

    async def _handle(self, proxy: Any, message: Submit) -> Submitted:
        if self.troubles.strikes(self.troubles.pause_proxy):
            await asyncio.sleep(self.troubles.random.uniform(0, 200))
        if self.troubles.strikes(self.troubles.kill_proxy):
            me = asyncio.current_task()
            assert me is not None
            asyncio.get_running_loop().call_later(self.troubles.random.uniform(0, 12), me.cancel)
        return await proxy_submit.submit(proxy, message)

    async def client(self, begins: float, seed: int) -> None:
        """Ask any gateway until there is an answer, after a crash of the gateway too."""
        choice = random.Random(seed)
        await asyncio.sleep(begins)
        while True:
            request = asyncio.create_task(choice.choice(self.gateways).submit(KEY, SUBMISSION, "hash"))
            if self.troubles.strikes(self.troubles.kill_gateway):
                asyncio.get_running_loop().call_later(self.troubles.random.uniform(0, 3), request.cancel)
            pause = 1.0
            try:
                answer = await request
            except (InFlight, OutcomeUnknown) as told:
                self.statuses.append(type(told))
                pause = float(told.retry_after_seconds or 1)
            except (RequestError, RpcFailed, StoreUnavailable) as failed:
                self.statuses.append(type(failed))
            except asyncio.CancelledError:
                if (me := asyncio.current_task()) is not None and me.cancelling():
                    raise
            else:
                self.answers.append(answer)
                return
            await asyncio.sleep(pause)

    async def play(self, clients: int, seconds: float) -> None:
        """Let the clients ask, and wait for everything that is still under way in Slurm. Raises TimeoutError."""
        await self.keys._claims._store.create_tables(IDEMPOTENCY)
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for number in range(clients):
                group.create_task(self.client(self.troubles.random.uniform(0, 5) * number, number))
        await asyncio.sleep(300)
        for handler in tuple(self._handlers):
            with suppress(RpcFailed, asyncio.CancelledError):
                await handler


def simulate(troubles: Troubles, skews: tuple[float, float, float], *, clients: int) -> World:
    """Play one history; clients give up, and fail the test, 15 min after the last trouble."""
    with pytest.MonkeyPatch.context() as patched, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        world = World(troubles, tuple(skew * CLOCK_SKEW_SECONDS / 2 for skew in skews))  # type: ignore[arg-type]
        for module in (proxy_claim, proxy_submit):
            patched.setattr(module, "now", world.proxy_now)
        runner.run(world.play(clients, troubles.until + 900))
    return world
