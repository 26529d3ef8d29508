"""Metrics of a process's subprocess, exported by the process beside its own."""

import math
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import REGISTRY, Metric
from prometheus_client.registry import Collector

PROCESS = "process"
"""The label with the subprocess's name, so that its series differ from those of the process itself."""
OF_SERVICES = frozenset({"clusterra_ready"})
"""Metrics that a subprocess does not have: it has no probes, so that it would count as never ready."""

type Sample = tuple[str, dict[str, str], float]
"""A sample's name, labels and value."""
type Family = tuple[str, str, str, tuple[Sample, ...]]
"""A metric's name, documentation and type, and its samples."""


def families() -> tuple[Family, ...]:
    """All metrics of this process, in a form that can be sent as JSON."""
    return tuple(
        (each.name, each.documentation, each.type, tuple(_samples(each)))
        for each in REGISTRY.collect()
        if each.name not in OF_SERVICES
    )


def _samples(metric: Metric) -> Iterator[Sample]:
    for sample in metric.samples:
        if math.isfinite(sample.value) and not sample.name.endswith("_created"):
            yield sample.name, dict(sample.labels), sample.value


class SubprocessMetrics(Collector):
    """The last metrics that subprocesses told, by the name of each. A scrape merges them with those of the process."""

    def __init__(self) -> None:
        self._told: dict[str, Sequence[Family]] = {}

    def tell(self, process: str, told: Sequence[Family]) -> None:
        """Export these metrics of a subprocess from now on."""
        self._told[process] = told

    def forget(self, process: str) -> None:
        """Export the metrics of a subprocess no longer: it has ended."""
        self._told.pop(process, None)

    def collect(self) -> Iterable[Metric]:
        """All metrics, those of one name together."""
        merged = {metric.name: metric for metric in REGISTRY.collect()}
        for process, told in tuple(self._told.items()):
            for name, documentation, kind, samples in told:
                metric = merged.setdefault(name, Metric(name, documentation, kind))
                for sample, labels, value in samples:
                    metric.add_sample(sample, {**labels, PROCESS: process}, value)
        return merged.values()


SUBPROCESSES = SubprocessMetrics()
"""The metrics of this process and its subprocesses."""
