"""One bad cluster is one bad cluster: the proxy serves all others, and says what is wrong with the bad one."""

from collections.abc import Callable
from typing import Any

import pytest
from clusterra_contracts.bus.envelope import encode
from clusterra_contracts.bus.topology import CONDITIONS, REGISTRY
from clusterra_contracts.condition import ClusterCondition, Degradation
from clusterra_contracts.identity import ClusterRef, now
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


async def test_a_bad_binding_is_one_degraded_cluster(
    slurm: SlurmWorld, workers: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with proxy_world(slurm, tmp_path_factory.mktemp("bad-binding")) as proxy:
        good = slurm.binding("good").model_dump(mode="json")
        refs = [ClusterRef(tenant="acme", cluster=name) for name in BAD]
        for ref, corrupt in zip(refs, BAD.values(), strict=True):
            binding = good | {"name": ref.cluster}
            corrupt(binding)
            await store(proxy, ref, ClusterBinding.model_construct(**binding).model_dump_json(warnings=False).encode())
        garbage = ClusterRef(tenant="acme", cluster="garbage")
        await store(proxy, garbage, b"\xff not JSON")
        refs.append(garbage)
        broken_at = now()

        async def all_told() -> bool:
            return all([[each.reason for each in await degraded(proxy, ref)] == ["binding_invalid"] for ref in refs])

        await until(all_told, seconds=90, what="the conditions of all bad clusters", process=proxy.process, every=0.1)
        assert proxy.process is not None
        assert proxy.process.alive
        await proxy.until_snapshot(lambda snapshot: snapshot.taken_at > broken_at)
        user = slurm.new_user()
        assert (await proxy.submit(user)).job_id
        messages = [each.message for ref in refs for each in await degraded(proxy, ref)]
        assert not [message for message in messages if "hunter2" in message]
        assert not await degraded(proxy, proxy.ref)

        # A corrected binding ends it.
        body, headers = encode(slurm.binding("garbage").model_copy(update={"version": 2}))
        await store(proxy, garbage, body, headers)

        async def corrected() -> bool:
            return await degraded(proxy, garbage) == ()

        await until(corrected, seconds=90, what="the corrected cluster", process=proxy.process, every=0.1)
