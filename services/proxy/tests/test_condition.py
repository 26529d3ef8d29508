"""A cluster's condition: idempotent changes, one gauge per reason, and one event per change over all replicas."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import decode
from clusterra_contracts.bus.topology import CONDITIONS, EVENT
from clusterra_contracts.condition import ClusterCondition, Degradation
from clusterra_contracts.events import ConditionFact, Event
from clusterra_contracts.identity import ClusterRef, now
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import nats_server
from clusterra_proxy.cluster.condition import Condition
from clusterra_proxy.watch import condition_report
from clusterra_proxy.watch.condition_report import ConditionReport
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.direct import last, replay
from clusterra_runtime.settings import ServiceSettings
from prometheus_client import REGISTRY

REF = ClusterRef(tenant="acme", cluster="c1")


def gauge(reason: str, ref: ClusterRef = REF) -> float | None:
    labels = {"tenant": ref.tenant, "cluster": ref.cluster, "reason": reason}
    return REGISTRY.get_sample_value("clusterra_cluster_degraded", labels)


def test_a_repetition_changes_nothing_but_the_message() -> None:
    condition = Condition(REF)
    condition.degrade("unreachable", "no answer")
    since = condition.degraded["unreachable"].since
    condition.changed.clear()

    condition.degrade("unreachable", "no answer")
    assert not condition.changed.is_set()

    condition.degrade("unreachable", "x" * 1000)
    assert condition.changed.is_set()
    assert condition.degraded["unreachable"].since == since
    assert len(condition.degraded["unreachable"].message) == 500
    condition.forget()


def test_the_gauge_shows_the_reasons_of_this_replica() -> None:
    condition = Condition(REF)

    condition.degrade("unreachable", "no answer")
    condition.degrade("queue_too_large", "too many jobs")
    assert (gauge("unreachable"), gauge("queue_too_large")) == (1.0, 1.0)

    condition.recover("unreachable")
    condition.recover("unreachable")
    assert (gauge("unreachable"), gauge("queue_too_large")) == (None, 1.0)

    condition.forget()
    assert gauge("queue_too_large") is None


def test_the_next_replica_adopts_what_it_has_not_checked_itself() -> None:
    earlier = now()
    condition = Condition(REF)
    condition.recover("unreachable")
    condition.degrade("failed", "it failed again")

    for reason in ("unreachable", "failed", "queue_too_large", "a_reason_of_a_newer_release"):
        condition.continue_from(Degradation(reason=reason, message="told before", since=earlier))

    assert {reason: each.message for reason, each in condition.degraded.items()} == {
        "failed": "it failed again",
        "queue_too_large": "told before",
    }
    assert {each.since for each in condition.degraded.values()} == {earlier}
    condition.forget()


@asynccontextmanager
async def reporting(client: Client, condition: Condition) -> AsyncIterator[None]:
    """A replica that watches the cluster, until the block ends."""
    task = asyncio.create_task(ConditionReport(REF, condition, client).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_each_change_is_one_event_also_over_a_change_of_the_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condition_report, "PAUSE_SECONDS", 0.01)
    async with nats_server(tmp_path / "nats") as nats:
        client = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
        await topology.apply(client)

        async def stored() -> dict[str, Degradation] | None:
            subject = f"$KV.{CONDITIONS.name}.{REF.key}"
            found = await last(client, f"KV_{CONDITIONS.name}", subject, ClusterCondition)
            return {each.reason: each for each in found[0].degraded} if found else None

        async def stored_reasons(*reasons: str) -> None:
            async def match() -> bool:
                return set(await stored() or ()) == set(reasons) and await stored() is not None

            await until(match, seconds=30, what=f"the stored reasons {reasons}", every=0.01)

        async def events(count: int) -> list[Event]:
            found: list[Event] = []

            async def complete() -> bool:
                entries = replay(client, EVENT.name, subjects.events_of(REF, "cluster.*"))
                found[:] = [decode(Event, entry.body, dict(entry.headers)) async for entry in entries]
                return len(found) >= count

            await until(complete, seconds=30, what=f"{count} events", every=0.01)
            return found

        try:
            first, second = Condition(REF), Condition(REF)
            async with reporting(client, first):
                first.degrade("unreachable", "slurmrestd does not respond")
                first.degrade("unreadable_records", "1 job")
                await stored_reasons("unreachable", "unreadable_records")
                begun = await stored() or {}
                await events(2)
            assert not first.degraded

            second.degrade("unreadable_records", "2 jobs")
            async with reporting(client, second):
                await until(lambda: "unreachable" in second.degraded, seconds=30, what="the adopted reason")
                second.recover("unreachable")
                await stored_reasons("unreadable_records")
                found = await events(3)

            facts = [event.data for event in found]
            assert all(isinstance(fact, ConditionFact) for fact in facts)
            assert [(event.kind, event.data.reason) for event in found if isinstance(event.data, ConditionFact)] == [
                ("cluster.degraded", "unreachable"),
                ("cluster.degraded", "unreadable_records"),
                ("cluster.recovered", "unreachable"),
            ]
            now_stored = await stored() or {}
            assert now_stored["unreadable_records"].since == begun["unreadable_records"].since
            assert now_stored["unreadable_records"].message == "2 jobs"
        finally:
            await bus.close(client)


async def test_the_state_stays_true_while_the_stream_of_events_takes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condition_report, "PAUSE_SECONDS", 0.01)
    async with nats_server(tmp_path / "nats") as nats:
        client = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
        await topology.apply(client)
        await client.jetstream().delete_stream(EVENT.name)
        condition = Condition(REF)

        async def stored(reason: str) -> None:
            async def match() -> bool:
                found = await last(
                    client, f"KV_{CONDITIONS.name}", f"$KV.{CONDITIONS.name}.{REF.key}", ClusterCondition
                )
                return found is not None and [each.reason for each in found[0].degraded] == [reason]

            await until(match, seconds=30, what=f"the stored reason {reason}", every=0.01)

        try:
            async with reporting(client, condition):
                condition.degrade("unreachable", "slurmrestd does not respond")
                await stored("unreachable")

                condition.recover("unreachable")
                condition.degrade("queue_too_large", "too many jobs")

                await stored("queue_too_large")
        finally:
            await bus.close(client)
