"""`python -m fleet.capacity FEW MANY CHANGING`: unit costs and a table of installations, from three runs of the bench.

FEW and MANY are runs of quiet clusters without a big one, and CHANGING is one of clusters that change. All three count
the operations of the store. What a quiet cluster costs is the difference of the first two. What a change costs is what
the last one uses above as many quiet clusters.
"""

import argparse
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterra_contracts.bus.subjects import SHARD_COUNT

SERVICES = ("proxy", "scaler", "events", "nats")
USD_PER_VCPU_HOUR = 0.0408
"""m7g in us-east-1, as in catalog/shapes.yaml."""
USD_PER_MILLION_WRITES = 0.625
USD_PER_MILLION_READS = 0.125
"""DynamoDB on demand in us-east-1, per write unit of 1 KiB and read unit of 4 KiB."""
HOURS = 730.0
"""Hours of a month."""
MOST_OF_A_CORE = 0.6
"""The share of a core that a replica should need on average."""
LEAST_REPLICAS = 2
_READS = ("GetItem", "Query", "Scan", "BatchGetItem", "TransactGetItems")


@dataclass(frozen=True, slots=True)
class Rates:
    """What an installation uses per second."""

    cores: Mapping[str, float]
    mib: Mapping[str, float]
    messages: float
    bytes_in: float
    writes: float
    reads: float

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> "Rates":
        """The rates of a run's first phase."""
        alone = figures["alone"]
        store, bus = alone["store_per_second"], alone["bus_per_second"]
        return cls(
            cores={name: alone["cpu_percent"][name] / 100 for name in SERVICES},
            mib={name: float(alone["peak_mib"][name]) for name in SERVICES},
            messages=float(bus["in_msgs"]),
            bytes_in=float(bus["in_bytes"]),
            writes=float(store.get("write_units", 0.0)),
            reads=sum(float(store.get(name, 0.0)) for name in _READS),
        )

    def plus(self, other: "Rates", times: float) -> "Rates":
        """The sum with a multiple of others."""
        return Rates(
            {name: self.cores[name] + times * other.cores[name] for name in SERVICES},
            {name: self.mib[name] + times * other.mib[name] for name in SERVICES},
            self.messages + times * other.messages,
            self.bytes_in + times * other.bytes_in,
            self.writes + times * other.writes,
            self.reads + times * other.reads,
        )

    def scaled(self, factor: float) -> "Rates":
        """A multiple. A difference below zero is noise of the measurement."""
        return Rates(
            {name: max(each * factor, 0.0) for name, each in self.cores.items()},
            {name: max(each * factor, 0.0) for name, each in self.mib.items()},
            max(self.messages * factor, 0.0),
            max(self.bytes_in * factor, 0.0),
            max(self.writes * factor, 0.0),
            max(self.reads * factor, 0.0),
        )


@dataclass(frozen=True, slots=True)
class Units:
    """What an empty installation, a quiet cluster, and one change per second cost."""

    fixed: Rates
    cluster: Rates
    change: Rates

    @classmethod
    def of(cls, few: Mapping[str, Any], many: Mapping[str, Any], changing: Mapping[str, Any]) -> "Units":
        """From the figures of three runs. Raises ValueError if FEW has not fewer clusters than MANY."""
        counts = [run["given"]["clusters"] for run in (few, many, changing)]
        if counts[0] >= counts[1]:
            raise ValueError("FEW must have fewer clusters than MANY")
        rates = [Rates.of(run) for run in (few, many, changing)]
        cluster = rates[1].plus(rates[0], -1.0).scaled(1 / (counts[1] - counts[0]))
        per_second = counts[2] / changing["given"]["every"]
        fixed = rates[0].plus(cluster, -counts[0]).scaled(1.0)
        change = rates[2].plus(fixed, -1.0).plus(cluster, -counts[2]).scaled(1 / per_second)
        return cls(fixed, cluster, change)

    def installation(self, clusters: int, changes_per_minute: float) -> Rates:
        """The rates with so many clusters, each with so many changes."""
        return self.fixed.plus(self.cluster, clusters).plus(self.change, clusters * changes_per_minute / 60)


MOST_REPLICAS = SHARD_COUNT
"""More replicas of the proxy or the scaler have no shard to work on."""


def replicas(cores: float) -> int:
    """Replicas of a service that needs so many cores; a process uses one core at most."""
    return max(LEAST_REPLICAS, math.ceil(cores / MOST_OF_A_CORE))


def usd_per_month(rates: Rates) -> dict[str, float]:
    """The price of the CPUs of all replicas, and of DynamoDB."""
    vcpus = sum(replicas(cores) for cores in rates.cores.values())
    seconds = HOURS * 3600 / 1e6
    return {
        "cpu": vcpus * USD_PER_VCPU_HOUR * HOURS,
        "dynamodb": seconds * (rates.writes * USD_PER_MILLION_WRITES + rates.reads * USD_PER_MILLION_READS),
    }


def tables(units: Units, changes_per_minute: float) -> str:
    """Both tables as Markdown."""
    lines = ["| per second | an empty installation | a quiet cluster | a change |", "|---|---|---|---|"]
    each = (units.fixed, units.cluster, units.change)
    for name in SERVICES:
        lines.append(f"| CPU of {name}, ms | " + " | ".join(f"{1000 * rates.cores[name]:.2f}" for rates in each) + " |")
    for title, values in (
        ("messages into NATS", [rates.messages for rates in each]),
        ("kB into NATS", [rates.bytes_in / 1000 for rates in each]),
        ("DynamoDB write units", [rates.writes for rates in each]),
        ("DynamoDB reads", [rates.reads for rates in each]),
    ):
        lines.append(f"| {title} | " + " | ".join(f"{value:.3f}" for value in values) + " |")
    for name in ("proxy", "scaler"):
        lines.append(f"| memory of {name}, MiB | {units.fixed.mib[name]:.0f} | {units.cluster.mib[name]:.2f} | |")
    sizes = (100, 1000, 10_000)
    found = [units.installation(size, changes_per_minute) for size in sizes]
    lines += ["", "| clusters | " + " | ".join(f"{size:,}" for size in sizes) + " |", "|---|---|---|---|"]
    for name in ("proxy", "scaler", "events"):
        counts = [f"{_replicas(name, rates)} ({rates.cores[name]:.2f} cores)" for rates in found]
        lines.append(f"| replicas of {name} | " + " | ".join(counts) + " |")
    prices = [usd_per_month(rates) for rates in found]
    for title, cells in (
        ("cores of NATS", [f"{rates.cores['nats']:.2f}" for rates in found]),
        ("messages per second into NATS", [f"{rates.messages:,.0f}" for rates in found]),
        ("MB per second into NATS", [f"{rates.bytes_in / 1e6:.2f}" for rates in found]),
        ("DynamoDB write units per second", [f"{rates.writes:,.1f}" for rates in found]),
        ("USD per month, vCPUs", [f"{price['cpu']:,.0f}" for price in prices]),
        ("USD per month, DynamoDB", [f"{price['dynamodb']:,.0f}" for price in prices]),
    ):
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _replicas(name: str, rates: Rates) -> str:
    count = replicas(rates.cores[name])
    sharded = name in ("proxy", "scaler")
    return f"{count}, above the most of {MOST_REPLICAS}" if sharded and count > MOST_REPLICAS else str(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("few", "many", "changing"):
        parser.add_argument(name, type=Path, help="output of a run; its last line counts")
    parser.add_argument("--changes-per-minute", type=float, default=1.0, help="of each cluster, in the second table")
    given = parser.parse_args()
    runs = [json.loads(path.read_text().splitlines()[-1]) for path in (given.few, given.many, given.changing)]
    print(tables(Units.of(*runs), given.changes_per_minute))


if __name__ == "__main__":
    main()
