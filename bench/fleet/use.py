"""What a phase of the run used: CPU, memory, traffic on the bus, time to decide, and leases that were lost."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import aiohttp
import psutil
from prometheus_client.parser import text_string_to_metric_families

from fleet.histogram import quantile_ms
from fleet.site import STAND_IN, Site

DECIDE = "clusterra_scaler_decide_seconds"
type Buckets = dict[str, dict[float, float]]
"""Cumulative counts of a histogram by the upper bound of each bucket, for each value of its labels."""


@dataclass
class Use:
    """Measures from `begin` to `end`; `sample` reads the memory in between."""

    site: Site
    processes: dict[str, psutil.Process]
    _began: float
    _cpu: dict[str, float]
    _bus: dict[str, int]
    _decide: Buckets
    _leases_lost: int
    _store: dict[str, int]
    _peak_mib: dict[str, float] = field(default_factory=dict)
    _loads: list[float] = field(default_factory=list)

    @classmethod
    async def begin(cls, site: Site) -> "Use":
        processes = site.processes()
        cpu = {name: _cpu_seconds(name, process) for name, process in processes.items()}
        lost = sum(1 for _ in _lost_leases(site))
        decided = await _histogram(site, DECIDE)
        return cls(site, processes, time.monotonic(), cpu, await site.bus_totals(), decided, lost, _store_totals(site))

    def sample(self) -> None:
        """Note the memory of all processes and the load of the machine."""
        self._loads.append(os.getloadavg()[0])
        for name, process in self.processes.items():
            if process.is_running():
                self._peak_mib[name] = max(self._peak_mib.get(name, 0.0), _rss_mib(name, process))

    async def end(self) -> dict[str, object]:
        """The figures; a process that has ended is named in `died`."""
        self.sample()
        seconds = time.monotonic() - self._began
        bus = await self.site.bus_totals()
        decided = await _histogram(self.site, DECIDE)
        alive = {name: process for name, process in self.processes.items() if process.is_running()}
        return {
            "leases_lost": sum(1 for _ in _lost_leases(self.site)) - self._leases_lost,
            "died": sorted(self.processes.keys() - alive.keys()),
            "decide": {
                size: {
                    "decisions_per_second": round(counts.get(float("inf"), 0.0) / seconds, 2),
                    "p50_ms": quantile_ms(counts, 0.5),
                    "p99_ms": quantile_ms(counts, 0.99),
                }
                for size, counts in _difference(decided, self._decide).items()
            },
            "cpu_percent": {
                name: round(100 * (_cpu_seconds(name, process) - self._cpu[name]) / seconds, 1)
                for name, process in alive.items()
            },
            "peak_mib": {name: round(mib) for name, mib in self._peak_mib.items()},
            "bus_per_second": {name: round((count - self._bus[name]) / seconds) for name, count in bus.items()},
            "store_per_second": {
                name: round((count - self._store.get(name, 0)) / seconds, 2)
                for name, count in _store_totals(self.site).items()
            },
            "load_average": round(sum(self._loads) / len(self._loads), 1),
        }


def _family(name: str, process: psutil.Process) -> list[psutil.Process]:
    """A process and its subprocesses. Those of the stand-in are the services."""
    return [process, *(process.children(recursive=True) if name != STAND_IN else ())]


def _cpu_seconds(name: str, process: psutil.Process) -> float:
    """With that of all subprocesses, also of those that have ended, such as readers of long answers."""
    seconds = 0.0
    for each in _family(name, process):
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            seconds += times.user + times.system
            seconds += times.children_user + times.children_system if name != STAND_IN else 0.0
    return seconds


def _rss_mib(name: str, process: psutil.Process) -> float:
    resident = 0
    for each in _family(name, process):
        with suppress(psutil.NoSuchProcess):
            resident += each.memory_info().rss
    return resident / 2**20


def _store_totals(site: Site) -> dict[str, int]:
    if site.store is None:
        return {}
    units = {f"write_units {table}": count for table, count in site.store.units.by_table.items()}
    return {**site.store.operations, **units, "write_units": site.store.write_units}


def _lost_leases(site: Site) -> Iterator[str]:
    for line in site.log_lines("lease_ended"):
        if json.loads(line).get("reason") == "lost":
            yield line


async def _histogram(site: Site, name: str) -> Buckets:
    """A histogram of all scalers together, by its labels other than the bucket."""
    found: Buckets = {}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as http:
        for service in (each for key, each in site.services.items() if key.startswith("scaler")):
            try:
                async with http.get(f"{service.health_url}/metrics") as answer:
                    text = await answer.text()
            except (aiohttp.ClientError, TimeoutError):
                continue
            for family in text_string_to_metric_families(text):
                for sample in family.samples if family.name == name else ():
                    if sample.name.endswith("_bucket"):
                        label = ",".join(value for key, value in sorted(sample.labels.items()) if key != "le") or "all"
                        counts = found.setdefault(label, {})
                        bound = float(sample.labels["le"])
                        counts[bound] = counts.get(bound, 0.0) + sample.value
    return found


def _difference(after: Buckets, before: Buckets) -> Buckets:
    return {
        label: {bound: count - before.get(label, {}).get(bound, 0.0) for bound, count in counts.items()}
        for label, counts in after.items()
    }
