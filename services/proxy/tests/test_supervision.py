"""A part of a cluster's work that fails is tried again, ever more slowly, and degrades its cluster."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.machine.process import until
from clusterra_proxy import supervision
from clusterra_proxy.cluster.condition import Condition
from clusterra_proxy.supervision import Supervisor

REF = ClusterRef(tenant="acme", cluster="c1")


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(supervision, "MAX_RETRY_SECONDS", 0.04)
    monkeypatch.setattr(supervision, "STABLE_SECONDS", 0.2)


class Part:
    """Work that fails a number of times, and then runs until it is cancelled."""

    def __init__(self, *failures: BaseException | None) -> None:
        self._failures = list(failures)
        self.runs = 0
        self.cancelled = False

    async def run(self) -> None:
        self.runs += 1
        if self._failures:
            failure = self._failures.pop(0)
            if failure is None:
                return
            raise failure
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True


@asynccontextmanager
async def supervised(condition: Condition, **parts: Part) -> AsyncIterator[None]:
    supervisor = Supervisor(condition)
    tasks = [
        asyncio.create_task(supervisor.run(name, part.run), name=f"supervised {name}") for name, part in parts.items()
    ]
    try:
        yield
        assert not [task for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        condition.forget()


async def test_every_kind_of_end_is_a_failure_and_other_parts_go_on() -> None:
    surprises = (
        RuntimeError("a secret"),
        ExceptionGroup("several", [OverflowError("a"), ExceptionGroup("inner", [KeyError("b")])]),
        asyncio.CancelledError(),
        None,
    )
    condition, bad, good = Condition(REF), Part(*surprises), Part()
    told = set()

    async with supervised(condition, watch=bad, serve=good):
        while bad.runs <= len(surprises):
            await asyncio.sleep(0.001)
            told |= {each.message for each in condition.degraded.values()}

        await until(lambda: not condition.degraded, seconds=30, what="the recovery")

    assert (good.runs, bad.cancelled, good.cancelled) == (1, True, True)
    assert {message.partition(";")[0] for message in told} == {
        "watch: RuntimeError",
        "watch: KeyError, OverflowError",
        "watch: CancelledError",
        "watch: it ended",
    }
    assert not [message for message in told if "secret" in message]


async def test_the_delay_between_attempts_grows_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []
    sleep = asyncio.sleep

    async def recorded(seconds: float) -> None:
        task = asyncio.current_task()
        if task is None or not task.get_name().startswith("supervised"):
            await sleep(seconds)  # other tests' fixtures sleep on this loop too
            return
        delays.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", recorded)
    condition, part = Condition(REF), Part(*[RuntimeError() for _ in range(6)])

    async with supervised(condition, watch=part):
        while part.runs <= 6:
            await sleep(0.001)

    longest = [0.01, 0.02, 0.04, 0.04, 0.04, 0.04]
    assert len(delays) == 6
    assert all(limit / 2 <= delay <= limit for delay, limit in zip(delays, longest, strict=True))


async def test_a_cluster_is_degraded_until_all_its_parts_have_run_for_a_while() -> None:
    condition, broken, mended = Condition(REF), Part(*[RuntimeError() for _ in range(1000)]), Part(RuntimeError())

    async with supervised(condition, watch=broken, serve=mended):
        await until(lambda: mended.runs == 2 and broken.runs > 20, seconds=30, what="many attempts")
        assert condition.degraded["failed"].message.startswith("watch: RuntimeError;")
