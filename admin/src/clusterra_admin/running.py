"""The replicas that run: central services by their announcements, edge-agents by their heartbeats."""

from dataclasses import dataclass
from itertools import combinations

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode_foreign
from clusterra_contracts.bus.subjects import UnknownSubject
from clusterra_contracts.bus.topology import HB
from clusterra_contracts.heartbeat import MAX_DECODED_BYTES, Heartbeat
from clusterra_contracts.versions import UNSTATED, Contracts
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.versions import announcements

EDGE_AGENT = "edge-agent"


@dataclass(frozen=True)
class Row:
    """One running replica. `compatible` is None for a record that cannot be read."""

    service: str
    instance: str
    version: str
    contracts: str
    compatible: bool | None
    with_whom: tuple[str, ...] = ()
    """The replicas that its contracts do not go with."""


@dataclass(frozen=True)
class _Replica:
    service: str
    instance: str
    version: str
    contracts: Contracts

    @property
    def name(self) -> str:
        return f"{self.service} {self.instance}"


async def running(client: Client) -> list[Row]:
    """The replicas of the central services and the edge-agents, each compared with all others. Raises BusUnavailable.

    Edge-agents are not compared with each other: they exchange no messages.
    """
    found, unreadable = await announcements(client)
    replicas = [_Replica(one.service, one.instance, one.software, one.contracts) for one in found]
    bad = [Row(key.partition(".")[0], key.partition(".")[2], "", "", None) for key in unreadable]
    async for stored in replay(client, HB.name, "heartbeat.>"):
        try:
            ref = subjects.parse(stored.subject).ref
            heartbeat = decode_foreign(Heartbeat, stored.body, dict(stored.headers), max_bytes=MAX_DECODED_BYTES)
        except (InvalidMessage, UnknownSubject):
            bad.append(Row(EDGE_AGENT, stored.subject.partition(".")[2].replace(".", "/"), "", "", None))
        else:
            replicas.append(_Replica(EDGE_AGENT, str(ref), heartbeat.agent_version, heartbeat.contracts or UNSTATED))
    return [*_compared(replicas), *bad]


def _compared(replicas: list[_Replica]) -> list[Row]:
    against: dict[_Replica, list[str]] = {replica: [] for replica in replicas}
    for one, other in combinations(replicas, 2):
        both_edges = one.service == other.service == EDGE_AGENT
        if not both_edges and not one.contracts.works_with(other.contracts):
            against[one].append(other.name)
            against[other].append(one.name)
    rows = [
        Row(one.service, one.instance, one.version, str(one.contracts), not names, tuple(names))
        for one, names in against.items()
    ]
    return sorted(rows, key=lambda row: (row.service, row.instance))
