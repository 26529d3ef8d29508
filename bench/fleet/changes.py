"""What happens in the clusters: news at a steady rate, jobs that start and end, and when news is answered."""

import asyncio
import random
import time
from collections.abc import Iterable, Mapping

from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.scale import DesiredState

from fleet.clock import Answer, Latencies
from fleet.clusters import CATALOGUE, SPARE, submit_waiting
from fleet.queue import Job, Queue, Request

NEWS = Request(SPARE.vcpu, SPARE.worker.memory_mib, "compute", priority=1000)
"""It needs a worker that does not exist yet, and comes before all waiting jobs."""
PURGE_SECONDS = 10.0


class Changes:
    """Drives the clusters. By turns, a cluster gets a job that needs a new worker, and that job ends."""

    def __init__(self, queues: Mapping[str, Queue], every_seconds: float) -> None:
        self._queues = queues
        self._every = every_seconds
        self._jobs: dict[str, Job] = {}
        self._wanted: dict[str, int] = {}
        self._rng = random.Random(1)
        self.latencies: dict[str, Latencies] = {}
        """By the kind of cluster: `small` or `big`."""
        self.kinds: dict[str, str] = {}
        self.postponed = 0
        """Changes that had to wait, because the worker of the change before had not gone yet."""

    def measure(self, kinds: Iterable[str]) -> None:
        """Forget the latencies of answered news: a phase of the run begins."""
        self.latencies = {kind: self.latencies.get(kind, Latencies()).next_phase() for kind in kinds}
        self.postponed = 0

    async def drive(self, name: str) -> None:
        """Change a cluster at its rate, beginning at a random moment, until cancelled."""
        purge_at = 0.0
        due = time.monotonic() + self._rng.uniform(0, self._every)
        while True:
            await asyncio.sleep(max(due - time.monotonic(), 0))
            due += self._every
            self._change(name)
            if time.monotonic() > purge_at:
                purge_at = time.monotonic() + PURGE_SECONDS
                self._queues[name].purge(int(time.time()))

    async def turn_over(self, name: str) -> None:
        """Every second end the oldest running job, and let the first waiting one take its place."""
        queue, number, due = self._queues[name], 0, time.monotonic()
        running = [job for job in queue.jobs.values() if job.state == "RUNNING"]
        waiting = [job for job in queue.jobs.values() if job.state == "PENDING"]
        while True:
            due += 1.0
            await asyncio.sleep(max(due - time.monotonic(), 0))
            if number < min(len(running), len(waiting)):
                at, node = int(time.time()), queue.nodes[running[number].node]
                queue.end(running[number], at)
                if node.fits(waiting[number]):
                    queue.start(waiting[number], node, at)
                submit_waiting(queue, number, at)
                number += 1

    def told(self, cluster: str) -> None:
        """The stand-in answered with the states of a cluster's jobs."""
        self._latencies(cluster).told(cluster, time.time())

    def on_registered(self, cluster: str) -> None:
        """A new worker of a cluster has registered: waiting jobs may start on it."""
        queue, at = self._queues[cluster], int(time.time())
        for node in [node for node in queue.nodes.values() if not node.cpus_used and node.alive]:
            for job in [job for job in self._startable(cluster) if node.fits(job)]:
                if node.fits(job):
                    queue.start(job, node, at)

    async def on_desired(self, subject: Subject, desired: DesiredState) -> None:
        """Note whether a desired state has the worker that the news of its cluster asks for."""
        cluster = subject.ref.cluster
        spare = next((target for target in desired.targets or () if target.shape == SPARE.name), None)
        replicas = spare.replicas if spare is not None else 0
        self._wanted[cluster] = replicas
        if replicas:
            answer = Answer(desired.snapshot_generation / 1000, desired.decided_at.timestamp(), time.time())
            self._latencies(cluster).answered(cluster, answer)

    async def on_heartbeat_of_agent(self, subject: Subject, heartbeat: Heartbeat) -> None:
        """Register and lose the nodes of a cluster with a real agent, as its heartbeats show its workers."""
        queue = self._queues[subject.ref.cluster]
        at, running = int(time.time()), {w.name: w for w in heartbeat.workers or () if w.phase == "running"}
        for name in running.keys() - queue.nodes.keys():
            queue.register(name, CATALOGUE[running[name].shape].worker, at)
            self.on_registered(subject.ref.cluster)
        for node in [node for node in queue.nodes.values() if node.alive and node.name not in running]:
            queue.lose(node.name, at)

    def _change(self, name: str) -> None:
        queue, at, job = self._queues[name], int(time.time()), self._jobs.get(name)
        if job is not None:
            if job.state == "RUNNING":
                queue.end(job, at)
                del self._jobs[name]
            else:
                self.postponed += 1
                # A worker that is there already, because its heartbeat came late, takes the job, as in Slurm.
                self.on_registered(name)
                if job.state == "RUNNING":
                    self._latencies(name).served(name, time.time())
        elif self._wanted.get(name):
            self.postponed += 1
        else:
            self._latencies(name).happened(name, time.time())
            self._jobs[name] = queue.submit(NEWS, at)

    def _startable(self, cluster: str) -> list[Job]:
        job = self._jobs.get(cluster)
        if self.kinds[cluster] != "agent":
            return [job] if job is not None and job.state == "PENDING" else []
        return [each for each in self._queues[cluster].jobs.values() if each.state == "PENDING"]

    def _latencies(self, cluster: str) -> Latencies:
        return self.latencies.setdefault(self.kinds.get(cluster, ""), Latencies())
