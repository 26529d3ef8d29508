"""The cost of running jobs, from one snapshot of the queue."""

from clusterra_contracts.gres import gpu_count_of
from clusterra_contracts.queue import QueueSnapshot, RunningJob
from clusterra_contracts.registry import ClusterBinding


class JobCosts:
    """Charges a job its dominant share of the price of its nodes, as the ledger does: by CPU, memory or GPU.

    A node whose shape is not in the catalogue has no price.
    """

    def __init__(self, snapshot: QueueSnapshot, binding: ClusterBinding) -> None:
        prices = {shape.name: shape.usd_per_hour for shape in binding.catalogue.shapes}
        self._prices = {
            node.name: next((prices[feature] for feature in node.features if feature in prices), 0.0)
            for node in snapshot.nodes or ()
        }
        self._cpus = {node.name: max(node.cpus, 1) for node in snapshot.nodes or ()}
        self._memory_mib = {node.name: max(node.memory_mib, 1) for node in snapshot.nodes or ()}
        self._gpus = {node.name: max(gpu_count_of(node.gres), 1) for node in snapshot.nodes or ()}

    def usd_per_hour(self, job: RunningJob) -> float:
        """The cost of one job, over all of its nodes that the snapshot lists."""
        nodes = max(len(job.nodes), 1)
        cpus, memory_mib = job.cpus / nodes, (job.memory_mib or 0) / nodes
        shares = {
            name: max(
                cpus / self._cpus[name],
                memory_mib / self._memory_mib[name],
                gpu_count_of(job.gres.get(name, {})) / self._gpus[name],
            )
            for name in job.nodes
            if name in self._cpus
        }
        return sum(self._prices[name] * min(1.0, share) for name, share in shares.items())
