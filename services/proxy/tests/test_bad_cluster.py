"""One bad cluster is one bad cluster: the proxy serves all others, and says what is wrong with the bad one."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from clusterra_contracts.bus.envelope import encode
from clusterra_contracts.bus.topology import CONDITIONS, REGISTRY
from clusterra_contracts.condition import ClusterCondition, Degradation
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.direct import last
from proxy_world import ProxyWorld, proxy_world
from slurm_world import SlurmWorld

Corrupt = Callable[[dict[str, Any]], Any]

BAD: dict[str, Corrupt] = {
    "no-scheme": lambda binding: binding.update(slurmrestd_url="127.0.0.1:6820"),
    "another-scheme": lambda binding: binding.update(slurmrestd_url="ftp://127.0.0.1:6820"),
    "no-host": lambda binding: binding.update(slurmrestd_url="http://"),
    "half-an-ipv6-address": lambda binding: binding.update(slurmrestd_url="http://[::1"),
    "no-such-port": lambda binding: binding.update(slurmrestd_url="http://127.0.0.1:99999999"),
    "a-password": lambda binding: binding.update(slurmrestd_url="http://root:hunter2@127.0.0.1:6820"),
    "a-relative-file": lambda binding: binding.update(jwt_key="file:secrets/jwt.key"),
    "no-operator": lambda binding: binding.pop("operator"),
}


async def store(proxy: ProxyWorld, ref: ClusterRef, body: bytes, headers: dict[str, str] | None = None) -> None:
    """Write an entry of the registry without any check, as an older release did."""
    await bus.store(proxy.client, f"$KV.{REGISTRY.name}.{ref.key}", body, headers or {})


async def degraded(proxy: ProxyWorld, ref: ClusterRef) -> tuple[Degradation, ...]:
    found = await last(proxy.client, f"KV_{CONDITIONS.name}", f"$KV.{CONDITIONS.name}.{ref.key}", ClusterCondition)
    return found[0].degraded if found else ()


@dataclass(frozen=True)
class BadClusters:
    """A proxy that serves a good cluster, to which bad bindings were added then."""

    proxy: ProxyWorld
    refs: dict[str, ClusterRef]
    broken_at: datetime


@pytest.fixture(scope="module")
async def bad(slurm: SlurmWorld, workers: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BadClusters]:
    del workers
    good = slurm.binding("good").model_dump(mode="json")
    refs = {name: ClusterRef(tenant="acme", cluster=name) for name in (*BAD, "garbage")}
    async with proxy_world(slurm, tmp_path_factory.mktemp("bad-binding")) as proxy:
        for name, corrupt in BAD.items():
            binding = good | {"name": name}
            corrupt(binding)
            body = ClusterBinding.model_construct(**binding).model_dump_json(warnings=False).encode()
            await store(proxy, refs[name], body)
        await store(proxy, refs["garbage"], b"\xff not JSON")
        broken_at = now()

        async def all_told() -> bool:
            return all([await degraded(proxy, ref) for ref in refs.values()])

        await until(all_told, seconds=90, what="the conditions of all bad clusters", process=proxy.process, every=0.1)
        yield BadClusters(proxy, refs, broken_at)


@pytest.mark.parametrize("name", [*BAD, "garbage"])
async def test_a_bad_binding_is_one_degraded_cluster(bad: BadClusters, name: str) -> None:
    told = await degraded(bad.proxy, bad.refs[name])

    assert [each.reason for each in told] == ["binding_invalid"]
    assert "hunter2" not in told[0].message


async def test_bad_bindings_leave_a_good_cluster_as_it_was(bad: BadClusters) -> None:
    told = await degraded(bad.proxy, bad.proxy.ref)

    assert not told


async def test_a_good_cluster_is_served_beside_bad_ones(bad: BadClusters, alice: SlurmUser) -> None:
    await bad.proxy.until_snapshot(lambda snapshot: snapshot.taken_at > bad.broken_at)
    submitted = await bad.proxy.submit(alice)

    assert submitted.job_id
    assert bad.proxy.process is not None
    assert bad.proxy.process.alive


async def test_a_corrected_binding_ends_the_degradation(bad: BadClusters, slurm: SlurmWorld) -> None:
    ref = ClusterRef(tenant="acme", cluster="corrected")

    async def told() -> bool:
        return bool(await degraded(bad.proxy, ref))

    async def corrected() -> bool:
        return not await told()

    await store(bad.proxy, ref, b"\xff not JSON")
    await until(told, seconds=90, what="the condition of the bad cluster", process=bad.proxy.process, every=0.1)

    body, headers = encode(slurm.binding("corrected").model_copy(update={"version": 2}))
    await store(bad.proxy, ref, body, headers)

    await until(corrected, seconds=90, what="the corrected cluster", process=bad.proxy.process, every=0.1)
