"""One simulated Slurm: its jobs and nodes, what changes them, and its answers as bytes. Pure: time is an argument."""

import itertools
import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from clusterra_contracts.node_extra import OPEN
from clusterra_contracts.shapes import WorkerSpec

from fleet.recorded import Answers, number

KEEP_ENDED_SECONDS = 60
"""How long an ended job stays listed; Slurm's own default (MinJobAge) is 300 s."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a job of one node asks for."""

    cpus: int
    memory_mib: int
    features: str
    user_id: int = 20001
    limit_minutes: int = 1440
    priority: int = 1


@dataclass(slots=True)
class Job:
    """A job of one node."""

    job_id: int
    request: Request
    submitted_at: int
    """Seconds since the epoch, as are all times here."""
    state: str = "PENDING"
    node: str = ""
    started_at: int = 0
    ended_at: int = 0


@dataclass(slots=True)
class Node:
    """A registered worker."""

    name: str
    worker: WorkerSpec
    registered_at: int
    last_busy: int
    cpus_used: int = 0
    memory_used_mib: int = 0
    flags: tuple[str, ...] = ()
    reason: str = ""
    alive: bool = True

    @property
    def states(self) -> tuple[str, ...]:
        """Slurm's base state and flags."""
        base = "IDLE" if not self.cpus_used else "ALLOCATED" if self.cpus_used == self.worker.cpus else "MIXED"
        return (base, "DYNAMIC_NORM", *self.flags, *(() if self.alive else ("NOT_RESPONDING",)))

    def fits(self, job: Job) -> bool:
        """Whether the job could start here now."""
        return (
            self.alive
            and "DRAIN" not in self.flags
            and self.cpus_used + job.request.cpus <= self.worker.cpus
            and self.memory_used_mib + job.request.memory_mib <= self.worker.memory_mib
            and (not job.request.features or job.request.features in self.worker.features)
        )


@dataclass
class Queue:
    """The jobs and nodes of a cluster. A change costs time by its own size, a whole list by the size of the list."""

    answers: Answers
    jobs: dict[int, Job] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    jobs_changed_at: int = 0
    nodes_changed_at: int = 0
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _ended: deque[int] = field(default_factory=deque)
    _state_rows: dict[int, bytes] = field(default_factory=dict)
    _node_rows: dict[str, bytes] = field(default_factory=dict)
    _job_sizes: dict[int, int] = field(default_factory=dict)
    """Bytes of each job's record, so that the size of a list is known before the list is made."""
    _states: bytes = b""
    _nodes: bytes = b""

    def submit(self, request: Request, at: int) -> Job:
        """A new waiting job."""
        job = Job(next(self._ids), request, submitted_at=at)
        self.jobs[job.job_id] = job
        self._changed_job(job, at)
        return job

    def start(self, job: Job, node: Node, at: int) -> None:
        """Start a waiting job on a node where it fits."""
        job.state, job.node, job.started_at = "RUNNING", node.name, at
        node.cpus_used += job.request.cpus
        node.memory_used_mib += job.request.memory_mib
        self._changed_job(job, at)
        self._changed_node(node, at)

    def end(self, job: Job, at: int) -> None:
        """End a running job, or cancel a waiting one."""
        node = self.nodes.get(job.node)
        job.state, job.ended_at = "COMPLETED" if job.node else "CANCELLED", at
        self._ended.append(job.job_id)
        self._changed_job(job, at)
        if node is not None:
            node.cpus_used -= job.request.cpus
            node.memory_used_mib -= job.request.memory_mib
            node.last_busy = at
            self._changed_node(node, at)

    def purge(self, at: int) -> None:
        """Forget jobs that ended long ago."""
        while self._ended and self.jobs[self._ended[0]].ended_at < at - KEEP_ENDED_SECONDS:
            gone = self._ended.popleft()
            del self.jobs[gone], self._state_rows[gone]
            self._job_sizes.pop(gone, None)
            self._states, self.jobs_changed_at = b"", at

    def register(self, name: str, worker: WorkerSpec, at: int) -> Node:
        """A worker has started: its node is new, or alive again."""
        node = Node(name, worker, registered_at=at, last_busy=at)
        self.nodes[name] = node
        self._changed_node(node, at)
        return node

    def lose(self, name: str, at: int) -> None:
        """A worker has gone; its record stays until somebody deletes it."""
        if (node := self.nodes.get(name)) is not None:
            node.alive = False
            self._changed_node(node, at)

    def set_state(self, name: str, states: Iterable[str], reason: str, at: int) -> bool:
        """What an administrator asks for: DRAIN or RESUME. Returns whether the node exists."""
        node = self.nodes.get(name)
        if node is None:
            return False
        for state in states:
            node.flags = ("DRAIN",) if state == "DRAIN" else () if state in ("RESUME", "UNDRAIN") else node.flags
        node.reason = reason if node.flags else ""
        self._changed_node(node, at)
        return True

    def delete(self, name: str, at: int) -> bool:
        """Delete a node's record; whether it was there."""
        if self.nodes.pop(name, None) is None:
            return False
        self._node_rows.pop(name, None)
        self._nodes, self.nodes_changed_at = b"", at
        return True

    def states_body(self) -> bytes:
        """Answer to `GET jobs/state/`."""
        if not self._states:
            before, after = self.answers.around("states", "jobs")
            self._states = before + b",".join(self._state_rows.values()) + after
        return self._states

    def nodes_body(self, at: int) -> bytes:
        """Answer to `GET nodes/`."""
        if not self._nodes:
            self._nodes = b",".join(self._node_row(node) for node in self.nodes.values())
        before, after = self.answers.around("nodes", "nodes", last_update=number(at))
        return before + self._nodes + after

    def node_body(self, name: str, at: int) -> bytes:
        """Answer to `GET node/{name}`. Raises KeyError."""
        before, after = self.answers.around("nodes", "nodes", last_update=number(at))
        return before + self._node_row(self.nodes[name]) + after

    def jobs_size(self, at: int) -> int:
        """The number of bytes of `jobs_parts`."""
        before, after = self.answers.around("job", "jobs", last_update=number(at))
        for job_id in self.jobs.keys() - self._job_sizes.keys():
            self._job_sizes[job_id] = len(self._job_row(self.jobs[job_id]))
        return len(before) + sum(self._job_sizes.values()) + max(len(self.jobs) - 1, 0) + len(after)

    def jobs_parts(self, at: int, chosen: Iterable[Job] | None = None) -> Iterator[bytes]:
        """Answer to `GET jobs/`, or to `GET job/{id}` with one job, in parts: it may be hundreds of megabytes."""
        before, after = self.answers.around("job", "jobs", last_update=number(at))
        yield before
        separator = b""
        for job in tuple(self.jobs.values()) if chosen is None else chosen:
            yield separator + self._job_row(job)
            separator = b","
        yield after

    def _changed_job(self, job: Job, at: int) -> None:
        row = {"job_id": str(job.job_id), "state": [job.state]}
        self._job_sizes.pop(job.job_id, None)
        self._state_rows[job.job_id] = json.dumps(row, indent=2).encode()
        self._states, self.jobs_changed_at = b"", at

    def _changed_node(self, node: Node, at: int) -> None:
        self._node_rows.pop(node.name, None)
        self._nodes, self.nodes_changed_at = b"", at

    def _node_row(self, node: Node) -> bytes:
        if (row := self._node_rows.get(node.name)) is None:
            row = self._node_rows[node.name] = self.answers.node.render(
                name=node.name,
                state=list(node.states),
                cpus=node.worker.cpus,
                alloc_cpus=node.cpus_used,
                real_memory=node.worker.memory_mib,
                alloc_memory=node.memory_used_mib,
                features=list(node.worker.features),
                active_features=list(node.worker.features),
                extra=OPEN,
                reason=node.reason,
                last_busy=number(node.last_busy),
                slurmd_start_time=number(node.registered_at),
            )
        return row

    def _job_row(self, job: Job) -> bytes:
        request = f"cpu={job.request.cpus},mem={job.request.memory_mib}M,node=1,billing={job.request.cpus}"
        return self.answers.job.render(
            job_id=job.job_id,
            job_state=[job.state],
            state_reason="Resources" if job.state == "PENDING" else "None",
            name="bench",
            user_id=job.request.user_id,
            priority=number(job.request.priority),
            nodes=job.node,
            features=job.request.features,
            cpus=number(job.request.cpus),
            memory_per_node=number(job.request.memory_mib),
            time_limit=number(job.request.limit_minutes),
            submit_time=number(job.submitted_at),
            eligible_time=number(job.submitted_at),
            start_time=number(job.started_at),
            end_time=number(job.ended_at),
            tres_req_str=request,
            tres_alloc_str=request if job.node else "",
        )
