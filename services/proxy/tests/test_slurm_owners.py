"""A Slurm belongs to the tenant that was bound to it first: nobody else's requests reach it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from clusterra_contracts.bus.topology import CONDITIONS
from clusterra_contracts.condition import ClusterCondition
from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm import Submitted
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_lab.machine.process import until
from clusterra_proxy.cluster import slurm_owners
from clusterra_proxy.cluster.cluster import Cluster, open_cluster
from clusterra_proxy.cluster.condition import Condition
from clusterra_proxy.cluster.slurm_owners import SlurmOwners
from clusterra_proxy.slurmrestd.errors import Unavailable
from clusterra_runtime.nats.direct import last
from clusterra_runtime.nats.registry import delete_binding, put_binding
from clusterra_runtime.nats.rpc import RpcFailed, call
from clusterra_runtime.secrets.reader import Secrets
from proxy_world import ProxyWorld, proxy_world, submission
from slurm_world import SlurmWorld

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
ADA = SlurmUser(name="ada", uid=20001, gid=20001)
ACME, ACME_TOO, RIVAL = (ClusterRef(tenant=t, cluster=c) for t, c in (("acme", "a"), ("acme", "b"), ("rival", "a")))


@asynccontextmanager
async def slurmrestd(name: str = "main", hosts: tuple[str, ...] = ("slurmctld-0",)) -> AsyncIterator[str]:
    """Answers every request as slurmrestd answers a ping."""
    pings = [{"hostname": host, "responding": True} for host in hosts]
    body = json.dumps({"meta": {"slurm": {"cluster": name, "release": "26.05.5"}}, "pings": pings}).encode()

    writers: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()


@dataclass
class Replica:
    """The clusters that one process serves."""

    folder: Path
    secrets: Secrets
    running: AsyncExitStack
    owners: SlurmOwners = field(default_factory=SlurmOwners)
    keeping: dict[ClusterRef, asyncio.Task[None]] = field(default_factory=dict)

    async def serve(self, ref: ClusterRef, url: str, *, bound_at: datetime | None, key: str = "key") -> Cluster:
        """Serves a cluster, as soon as its Slurm has told who it is."""
        (self.folder / key).write_text(f"{key} of the tests, which has more than 32 bytes")
        shape = Shape(name="general-small", family="general", size="small", vcpu=4, memory_gib=8, usd_per_hour=0.1)
        binding = ClusterBinding(
            name="main",
            slurmrestd_url=url,
            bound_at=bound_at,
            jwt_key=f"file:{self.folder / key}",
            operator=SlurmUser(name="operator", uid=64031, gid=64031),
            catalogue=Catalogue(shapes=(shape,)),
        )
        cluster = await self.running.enter_async_context(open_cluster(ref, binding, self.secrets, Condition(ref)))
        cluster.mint.reserve_names(())
        asked = asyncio.Event()
        self.keeping[ref] = asyncio.create_task(self.owners.keep(cluster, asked))
        await asked.wait()
        return cluster


@pytest.fixture
async def replica(tmp_path: Path) -> AsyncIterator[Replica]:
    async with AsyncExitStack() as running, Secrets() as secrets:
        made = Replica(tmp_path, secrets, running)
        yield made
        for task in made.keeping.values():
            task.cancel()
        await asyncio.gather(*made.keeping.values(), return_exceptions=True)
        await running.aclose()


def served(cluster: Cluster) -> bool:
    """Whether anybody gets a token of a cluster's Slurm, which all do or none."""
    minted = []
    for mint in (cluster.mint.operator_token, lambda: cluster.mint.user_token(ADA)):
        try:
            minted.append(bool(mint()))
        except Unavailable as error:
            minted.append("another tenant" not in str(error))
    assert len(set(minted)) == 1
    assert ("slurm_of_another_tenant" in cluster.condition.degraded) is not minted[0]
    return minted[0]


@pytest.mark.parametrize("older_comes_first", [True, False])
async def test_the_slurm_of_two_tenants_stays_with_the_one_that_was_bound_first(
    replica: Replica, older_comes_first: bool
) -> None:
    older, newer = (ACME, LONG_AGO), (RIVAL, LONG_AGO + timedelta(days=1))
    async with slurmrestd() as url, slurmrestd() as another_address:
        found = {}
        for (ref, bound_at), address in zip(
            (older, newer) if older_comes_first else (newer, older), (url, another_address), strict=True
        ):
            found[ref] = await replica.serve(ref, address, bound_at=bound_at)

        assert served(found[ACME])
        assert not served(found[RIVAL])


async def test_a_cluster_that_an_earlier_release_bound_is_the_first(replica: Replica) -> None:
    async with slurmrestd() as url:
        newer = await replica.serve(RIVAL, url, bound_at=LONG_AGO)
        older = await replica.serve(ACME, url, bound_at=None)

        assert served(older)
        assert not served(newer)


async def test_clusters_of_one_tenant_may_share_a_slurm(replica: Replica) -> None:
    async with slurmrestd() as url:
        clusters = [await replica.serve(ref, url, bound_at=LONG_AGO) for ref in (ACME, ACME_TOO)]

        assert all(map(served, clusters))


@pytest.mark.parametrize("of_rival", [{"name": "other"}, {"hosts": ("slurmctld-0", "slurmctld-1")}, {}])
async def test_another_slurm_belongs_to_another_tenant(replica: Replica, of_rival: dict[str, object]) -> None:
    """Slurms that were made alike tell the same of themselves, but no two have the same key."""
    async with slurmrestd() as url, slurmrestd(**of_rival) as other:  # type: ignore[arg-type]
        acme = await replica.serve(ACME, url, bound_at=LONG_AGO)
        rival = await replica.serve(RIVAL, other, bound_at=LONG_AGO, key="key" if of_rival else "another key")

        assert served(acme)
        assert served(rival)


async def test_a_slurm_is_free_again_when_its_first_cluster_is_gone(replica: Replica) -> None:
    async with slurmrestd() as url:
        await replica.serve(ACME, url, bound_at=LONG_AGO)
        rival = await replica.serve(RIVAL, url, bound_at=LONG_AGO + timedelta(days=1))
        set_aside = not served(rival)

        replica.owners.forget(ACME)

        assert set_aside
        assert served(rival)


async def test_a_slurm_is_free_again_when_its_first_cluster_gets_another_address(replica: Replica) -> None:
    async with slurmrestd() as url, slurmrestd("other") as other:
        await replica.serve(ACME, url, bound_at=LONG_AGO)
        rival = await replica.serve(RIVAL, url, bound_at=LONG_AGO + timedelta(days=1))
        set_aside = not served(rival)

        moved = await replica.serve(ACME, other, bound_at=LONG_AGO + timedelta(days=2))

        assert set_aside
        assert served(rival)
        assert served(moved)


async def test_a_changed_policy_lets_nobody_in(replica: Replica) -> None:
    async with slurmrestd() as url:
        await replica.serve(ACME, url, bound_at=LONG_AGO)
        rival = await replica.serve(RIVAL, url, bound_at=LONG_AGO + timedelta(days=1))
        replica.keeping[ACME].cancel()
        between = served(rival)

        again = await replica.serve(ACME, url, bound_at=LONG_AGO)

        assert not between
        assert not served(rival)
        assert served(again)


async def test_who_is_set_aside_is_served_once_its_address_leads_to_its_own_slurm(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_owners, "AGAIN_SECONDS", 0.01)
    async with slurmrestd() as url:
        await replica.serve(ACME, url, bound_at=LONG_AGO)
        rival = await replica.serve(RIVAL, url, bound_at=LONG_AGO + timedelta(days=1))
        set_aside = not served(rival)

        monkeypatch.setattr(rival.slurmctld, "names", _names_of_another)

        await until(lambda: not rival.mint.set_aside, seconds=90, what="the cluster to be served")
        assert set_aside


async def _names_of_another(_token: str) -> tuple[str, ...]:
    return "other", "slurmctld-0"


@asynccontextmanager
async def rival_bound(proxy: ProxyWorld) -> AsyncIterator[ClusterRef]:
    """A cluster of another tenant, bound to the Slurm of the first one."""
    bound_at = LONG_AGO + timedelta(days=1)
    await put_binding(proxy.client, RIVAL, proxy.slurm.binding("rival").model_copy(update={"bound_at": bound_at}))
    yield RIVAL
    await delete_binding(proxy.client, RIVAL)


async def test_a_second_tenant_on_a_real_slurm_is_set_aside_and_told_so(
    slurm: SlurmWorld, workers: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with proxy_world(slurm, tmp_path_factory.mktemp("two-tenants")) as proxy, rival_bound(proxy) as rival:

        async def told() -> str | None:
            subject = f"$KV.{CONDITIONS.name}.{rival.key}"
            found = await last(proxy.client, f"KV_{CONDITIONS.name}", subject, ClusterCondition)
            reasons = {each.reason: each.message for each in found[0].degraded} if found else {}
            return reasons.get("slurm_of_another_tenant")

        message = await until(told, seconds=90, what="the condition", process=proxy.process, every=0.1)
        with pytest.raises(RpcFailed, match="another tenant"):
            await call(
                proxy.client,
                f"slurm.{rival.tenant}.{rival.cluster}.submit",
                submission(slurm.new_user()),
                Submitted,
                timeout_seconds=15,
            )
        submitted = await proxy.submit(slurm.new_user(), hold=True)

        assert "acme" not in message
        assert submitted.job_id
