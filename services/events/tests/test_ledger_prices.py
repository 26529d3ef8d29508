"""Prices of workers: from the machine where the edge knows it, else from the catalogue; stale and unknown are told."""

from datetime import UTC, datetime, timedelta

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import PriceFact
from clusterra_contracts.heartbeat import Heartbeat, NodeClaim, Price, Worker
from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_events.ledger.prices import VALID_SECONDS, PriceTeller, micro_usd

REF = ClusterRef(tenant="acme", cluster="main")
START = datetime(2026, 1, 1, tzinfo=UTC)
SHAPE = Shape(name="compute-xs", family="compute", size="xs", vcpu=2, memory_gib=4, usd_per_hour=0.0725)
BINDING = ClusterBinding(
    name="main",
    slurmrestd_url="http://127.0.0.1:1",
    jwt_key="file:/none",
    operator=SlurmUser(name="clusterra", uid=5000, gid=5000),
    catalogue=Catalogue(shapes=(SHAPE,)),
)
WORKER = Worker(name="compute-xs-1", shape="compute-xs", phase="running", started_at=START, node="ip-1")
CLAIM = NodeClaim(
    name="c1",
    instance_type="c7g.large",
    lifecycle="spot",
    zone="a",
    node_name="ip-1",
    launched=True,
    billable_from=START + timedelta(seconds=30),
)


class Told:
    """Stands in for the publisher, and has a clock."""

    def __init__(self) -> None:
        self.facts: list[tuple[PriceFact, datetime]] = []
        self.seconds = 1000.0
        self.teller = PriceTeller(self, {REF: BINDING}, clock=lambda: self.seconds)  # type: ignore[arg-type]

    async def publish(self, _ref: ClusterRef, fact: PriceFact, *, version: str, time: datetime) -> None:
        assert version.startswith(str(int(START.timestamp()) * 1000))
        self.facts.append((fact, time))

    async def after(self, seconds: float, **fields: object) -> PriceFact | None:
        """The price that a heartbeat makes the teller tell; None for none."""
        self.seconds += seconds
        self.facts.clear()
        if fields:
            content = {"workers": (WORKER,), **fields}
            heartbeat = Heartbeat.model_validate(
                {"generation": 1, "sent_at": self.moment, "agent_version": "1", "substrate": "kubernetes", **content}
            )
            self.teller.on_heartbeat(Subject("heartbeat", REF), heartbeat)
        await self.teller.tell()
        return self.facts[-1][0] if self.facts else None

    @property
    def moment(self) -> datetime:
        return START + timedelta(seconds=self.seconds)


def spot(usd: float) -> tuple[Price, ...]:
    return (Price(instance_type="c7g.large", lifecycle="spot", zone="a", usd_per_hour=usd),)


async def test_a_worker_of_an_edge_without_prices_has_the_list_price() -> None:
    told = Told()

    fact = await told.after(0, prices=None)

    assert fact is not None
    assert (fact.micro_usd_per_hour, fact.source, fact.stale) == (72_500, "catalogue", False)
    assert await told.after(500) is None
    assert await told.after(5, prices=None) is None


async def test_a_worker_has_the_price_of_its_machine_and_each_change_is_told() -> None:
    told = Told()

    first = await told.after(0, node_claims=(CLAIM,), prices=spot(0.03))
    same = await told.after(5, node_claims=(CLAIM,), prices=spot(0.03))
    dearer = await told.after(5, node_claims=(CLAIM,), prices=spot(0.031))

    assert first is not None
    assert (first.micro_usd_per_hour, first.source, first.billable_from) == (30_000, "machine", CLAIM.billable_from)
    assert same is None
    assert dearer is not None
    assert dearer.micro_usd_per_hour == 31_000


async def test_a_price_that_is_not_confirmed_is_stale_until_it_is_told_again() -> None:
    told = Told()
    await told.after(0, node_claims=(CLAIM,), prices=spot(0.03))

    assert await told.after(VALID_SECONDS, node_claims=(CLAIM,), prices=None) is None
    stale = await told.after(1)
    back = await told.after(1, node_claims=(CLAIM,), prices=spot(0.03))

    assert stale is not None
    assert (stale.micro_usd_per_hour, stale.stale) == (30_000, True)
    assert back is not None
    assert not back.stale


async def test_a_machine_without_a_price_is_unknown_and_gets_no_other_price() -> None:
    told = Told()

    assert await told.after(0, node_claims=(CLAIM.model_copy(update={"zone": "b"}),), prices=spot(0.03)) is None
    assert await told.after(0, node_claims=(), prices=spot(0.03)) is None


@pytest.mark.parametrize(("usd", "micro"), [(0.0725, 72_500), (0.1 + 0.2, 300_000), (1e-9, 0), (32.7726, 32_772_600)])
def test_prices_become_whole_millionths(usd: float, micro: int) -> None:
    assert micro_usd(usd) == micro
