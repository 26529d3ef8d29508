"""A model of Slurm: jobs start on any nodes that fit, and the loss of a node is noticed late.

Like the backfill scheduler it reserves as many nodes as a job needs, of those that could hold the job, until the job
can start: no later job gets them. A job that too few nodes could hold reserves none.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from clusterra_contracts.node_extra import OPEN, registration_extra
from clusterra_contracts.queue import NodeState, PendingJobs, RunningJob
from clusterra_contracts.rpc.slurm_nodes import DRAIN_REASON_PREFIX
from clusterra_contracts.shapes import WorkerSpec
from fleet_examples import at

SLURMD_TIMEOUT_SECONDS = 20
SHORT = "Low RealMemory (reported:1000 < 100.00% of configured:2000)"
"""Slurm's reason for the drain of a node that registers with less than it should have."""
WAITING_REASONS = ("None", "Resources", "Priority", "ReqNodeNotAvail, UnavailableNodes:")


@dataclass
class Job:
    """A job. CPUs and memory are per node, times in seconds."""

    submitted: int
    cpus: int
    memory_mib: int
    runs: int
    nodes: int = 1
    cancelled: int | None = None
    limit: int | None = None
    classed: bool = False
    """Whether the job has a class, made of its limit and size. A job with GPUs has none."""
    gpus: int = 0
    """GPUs per node, of `gpu_type` or of any type."""
    gpu_type: str = ""
    features: str = ""
    never: bool = False
    """Slurm starts it on no worker: it asks for something that no snapshot tells, such as `--ntasks-per-socket`."""
    job_id: str = ""
    left: int = 0
    started: int = 0
    on: tuple[str, ...] = ()
    done: bool = False

    @property
    def extra(self) -> str:
        return f"open=1|{self.job_class}=1" if self.classed and not self.gpus else ""

    @property
    def job_class(self) -> str:
        return f"t{self.limit}.c{self.cpus}.m{self.memory_mib}{self.features}"

    @property
    def gres(self) -> str:
        return f"node/gpu{self.gpu_type and f':{self.gpu_type}'}={self.gpus}" if self.gpus else ""


@dataclass
class NodeRecord:
    name: str
    spec: WorkerSpec
    registered: int
    idle_since: int
    drain_reason: str = ""
    down: bool = False
    extra: str = OPEN

    @property
    def gres(self) -> dict[str, int]:
        """The node's GPUs, of one type at most."""
        name, _, count = self.spec.gres.rpartition(":")
        return {name: int(count)} if name else {}


class SlurmModel:
    """`serves` tells whether a node's slurmd is alive. A job makes progress only while that of each of its nodes is."""

    def __init__(self, jobs: list[Job], random: Random, serves: Callable[[str], bool]) -> None:
        self.jobs = sorted(jobs, key=lambda job: job.submitted)
        for number, job in enumerate(self.jobs, start=1):
            job.job_id = str(number)
        self.nodes: dict[str, NodeRecord] = {}
        self.undrained = 0
        self.undone = 0
        """Drains that others have undone."""
        self.rescued = 0
        """Jobs that were requeued because the scaler set their node down before Slurm noticed its loss."""
        self._random = random
        self._serves = serves

    def register(self, name: str, spec: WorkerSpec, second: int, *, short: bool = False) -> None:
        """`short`: slurmd reports less than the node should have."""
        self.nodes[name] = NodeRecord(name, spec, second, second, extra=registration_extra(spec.gres))
        if short:
            self.nodes[name].drain_reason = SHORT

    def progress(self, second: int) -> None:
        """Let one second pass for all running jobs. Jobs on nodes that are down are requeued."""
        for job in self.jobs:
            if job.cancelled == second and not job.done:
                self._end(job, second)
            elif job.on and any(self.nodes[name].down for name in job.on):
                self._release(job, second)
            elif job.on and all(self._serves(name) for name in job.on):
                job.left -= 1
                if job.left <= 0:
                    self._end(job, second)

    def schedule(self, second: int) -> None:
        reserved: set[str] = set()
        for job in self.waiting(second):
            could = [node for node in self.nodes.values() if node.name not in reserved and self._could_hold(node, job)]
            fitting = [node.name for node in could if self._has_capacity(node, job)]
            if len(could) >= job.nodes > len(fitting):
                reserved.update([node.name for node in sorted(could, key=self._busy_until)][: job.nodes])
            elif len(fitting) >= job.nodes:
                job.on = tuple(self._random.sample(fitting, job.nodes))
                job.left = job.runs
                job.started = second

    def drain(self, name: str, reason: str) -> None:
        self.nodes[name].drain_reason = DRAIN_REASON_PREFIX + reason

    def undrain(self, name: str) -> None:
        if name in self.nodes and self.nodes[name].drain_reason:
            self.nodes[name].drain_reason = ""
            self.undrained += 1

    def undo_drains(self, names: list[str]) -> None:
        """Others undo the drains of these nodes."""
        for name in names:
            self.undone += bool(self.nodes[name].drain_reason)
            self.nodes[name].drain_reason = ""

    def end_at_removal(self, name: str, *, answers: bool) -> None:
        """The worker itself drains and deletes its node before its slurmd ends. The deletion may get no answer."""
        if answers:
            self.delete(name)
        elif name in self.nodes and not self.nodes[name].drain_reason:
            self.nodes[name].drain_reason = "worker is being removed"

    def down(self, name: str) -> None:
        if name in self.nodes and not self.nodes[name].down:
            self.nodes[name].down = True
            self.rescued += len(self.jobs_on(name))

    def set_extra(self, name: str, extra: str) -> None:
        if name in self.nodes:
            self.nodes[name].extra = extra

    def delete(self, name: str) -> None:
        if not self.jobs_on(name):
            self.nodes.pop(name, None)

    def jobs_on(self, name: str) -> list[str]:
        return [job.job_id for job in self.jobs if name in job.on]

    def waiting(self, second: int) -> list[Job]:
        return [job for job in self.jobs if job.submitted <= second and not job.on and not job.done]

    def list_pending(self, second: int) -> tuple[PendingJobs, ...]:
        return tuple(
            PendingJobs(
                job_ids=(job.job_id,),
                count=1,
                cpus=job.cpus * job.nodes,
                nodes=job.nodes,
                memory_per_node_mib=job.memory_mib,
                features=job.features,
                gres=job.gres,
                partition="main",
                uid=20001,
                reason="Constraints" if job.never else self._random.choice(WAITING_REASONS),
                time_limit_seconds=job.limit,
                extra=job.extra,
                first_submitted_at=at(job.submitted),
            )
            for job in self.waiting(second)
        )

    def list_running(self) -> tuple[RunningJob, ...]:
        return tuple(
            RunningJob(
                job_id=job.job_id,
                uid=20001,
                user="ada",
                nodes=job.on,
                cpus=job.cpus * job.nodes,
                started_at=at(job.started),
                ends_by=None if job.limit is None else at(job.started + job.limit),
                memory_mib=job.memory_mib * job.nodes,
                gres={name: dict.fromkeys(self.nodes[name].gres, job.gpus) for name in job.on if job.gpus},
                extra=job.extra,
            )
            for job in self.jobs
            if job.on
        )

    def list_nodes(self) -> tuple[NodeState, ...]:
        return tuple(self._state(node) for node in self.nodes.values())

    def _state(self, node: NodeRecord) -> NodeState:
        cpus, memory, gpus = self._in_use(node.name)
        base = "DOWN" if node.down else "MIXED" if cpus else "IDLE"
        return NodeState(
            name=node.name,
            states=(base, "DRAIN") if node.drain_reason else (base,),
            cpus=node.spec.cpus,
            cpus_allocated=cpus,
            memory_mib=node.spec.memory_mib,
            memory_allocated_mib=memory,
            gres=node.gres,
            gres_allocated={name: gpus for name in node.gres if gpus},
            features=node.spec.features,
            reason=node.drain_reason,
            idle_since=None if cpus else at(node.idle_since),
            registered_at=at(node.registered),
            extra=node.extra,
        )

    def _in_use(self, name: str) -> tuple[int, int, int]:
        """The CPUs, memory and GPUs in use on a node."""
        on_it = [job for job in self.jobs if name in job.on]
        return sum(job.cpus for job in on_it), sum(job.memory_mib for job in on_it), sum(job.gpus for job in on_it)

    def _could_hold(self, node: NodeRecord, job: Job) -> bool:
        """Whether the job may run on the node once it has the capacity."""
        spec = node.spec
        of_type = sum(count for name, count in node.gres.items() if name.endswith(job.gpu_type))
        large = spec.cpus >= job.cpus and spec.memory_mib >= job.memory_mib and (not job.gpus or of_type >= job.gpus)
        # Slurm's extra_constraints evaluate `open=1|<class>=1` like this.
        extra = json.loads(node.extra)
        admitted = not job.extra or extra["open"] == 1 or extra.get(job.job_class) == 1
        fits = large and not job.never and (not job.features or job.features in spec.features)
        return fits and admitted and not node.drain_reason and not node.down

    def _has_capacity(self, node: NodeRecord, job: Job) -> bool:
        """Whether the job fits into the node's free capacity."""
        cpus, memory, gpus = self._in_use(node.name)
        has_capacity = node.spec.cpus - cpus >= job.cpus and node.spec.memory_mib - memory >= job.memory_mib
        return has_capacity and (not job.gpus or sum(node.gres.values()) - gpus >= job.gpus)

    def _busy_until(self, node: NodeRecord) -> float:
        """When the node is empty at the latest, by the time limits of its jobs."""
        on_it = [job for job in self.jobs if node.name in job.on]
        return max((math.inf if job.limit is None else job.started + job.limit for job in on_it), default=0.0)

    def _release(self, job: Job, second: int) -> None:
        on, job.on = job.on, ()
        for name in on:
            if name in self.nodes and not self.jobs_on(name):
                self.nodes[name].idle_since = second

    def _end(self, job: Job, second: int) -> None:
        job.done = True
        self._release(job, second)
