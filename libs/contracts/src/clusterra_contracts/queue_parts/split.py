"""Splits a snapshot into parts of a bounded size."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta

from pydantic import BaseModel

from clusterra_contracts.identity import JobId
from clusterra_contracts.queue import (
    MAX_PARTS,
    NodeState,
    PendingJobs,
    QueueList,
    QueueParts,
    QueueSnapshot,
    RunningJob,
)
from clusterra_contracts.queue_parts.columns import names_of, times_of
from clusterra_contracts.queue_parts.part import NodeChunk, PendingChunk, RunningChunk

PART_BYTES = 512 * 1024
"""Maximum size of a part before compression. Only a single record that is larger makes a larger part."""
CUT_AT_EVERY = 500
"""One name in so many begins a new chunk."""
CHUNK_VALUES = 2000
"""Maximum number of jobs, nodes, or ranges of tasks of one chunk, which bounds its size."""


type _Keys = dict[int, tuple[RunningJob | NodeState, object]]
type _Written = dict[tuple[str, str], tuple[Sequence[object], list[bytes]]]


class QueueTooLarge(ValueError):
    """A snapshot has more parts than are allowed."""


def split(snapshot: QueueSnapshot, slot: int) -> tuple[QueueSnapshot, list[bytes]]:
    """Return a snapshot's message without its lists, and its parts as JSON. Raises QueueTooLarge.

    It takes a second for 100,000 jobs, and may be called on a thread.
    """
    return Splitter().split(snapshot, slot)


class Splitter:
    """Splits one cluster's snapshots, one after the other: what was written of unchanged records is kept.

    Records are unchanged while they are the same objects. Only one call at a time: it may be on any thread.
    """

    def __init__(self) -> None:
        self._keys: _Keys = {}
        """By the identity of a record: the record, and what its group has in common."""
        self._written: _Written = {}
        """By list and first name: the records of a chunk, or one pending group, and how they were written."""

    def split(self, snapshot: QueueSnapshot, slot: int) -> tuple[QueueSnapshot, list[bytes]]:
        """As the function `split`."""
        lists: dict[QueueList, Iterable[bytes]] = {}
        counts: dict[QueueList, int] = {}
        keys_before, self._keys = self._keys, {}
        written_before, self._written = self._written, {}
        if snapshot.pending is not None:
            lists["pending"] = self._pending(snapshot.pending, written_before)
            counts["pending"] = sum(len(group.job_ids) for group in snapshot.pending)
        if snapshot.running is not None:
            groups = self._grouped(snapshot.running, _running_key, keys_before)
            slices = (each for group in groups for each in _sliced(group, _job_id, _running_chunk_size(group[0])))
            lists["running"] = self._chunks("running", slices, _job_id, _running_chunk, written_before)
            counts["running"] = len(snapshot.running)
        if snapshot.nodes is not None:
            nodes = self._grouped(snapshot.nodes, _node_key, keys_before)
            node_slices = (each for group in nodes for each in _sliced(group, _node_name, CHUNK_VALUES))
            lists["nodes"] = self._chunks("nodes", node_slices, _node_name, _node_chunk, written_before)
            counts["nodes"] = len(snapshot.nodes)
        parts = list(_filled(snapshot, lists))
        head = snapshot.model_copy(
            update={
                "pending": None,
                "running": None,
                "nodes": None,
                "parts": QueueParts(slot=slot, count=len(parts), counts=counts),
            }
        )
        return head, parts

    def _pending(self, groups: Iterable[PendingJobs], before: _Written) -> Iterator[bytes]:
        for group in groups:
            # Groups have jobs, but one without is possible.
            key = ("pending", group.job_ids[0] if group.job_ids else "")
            known = before.get(key)
            if known is None or known[0][0] is not group:
                known = ((group,), [_json(chunk) for chunk in _pending_chunks(group)])
            self._written[key] = known
            yield from known[1]

    def _chunks[T](
        self,
        listed: QueueList,
        slices: Iterable[Sequence[T]],
        name: Callable[[T], str],
        chunk: Callable[[Sequence[T]], BaseModel],
        before: _Written,
    ) -> Iterator[bytes]:
        for records in slices:
            key = (listed, name(records[0]))
            known = before.get(key)
            # Comparing equal objects takes no time, and the first different one ends it.
            if known is None or known[0] != records:
                known = (records, [_json(chunk(records))])
            self._written[key] = known
            yield from known[1]

    def _grouped[T: (RunningJob, NodeState)](
        self, records: Iterable[T], key: Callable[[T], object], before: _Keys
    ) -> Iterable[list[T]]:
        groups: dict[object, list[T]] = {}
        for record in records:
            number = id(record)
            known = before.get(number)
            if known is None or known[0] is not record:
                known = (record, key(record))
            self._keys[number] = known
            groups.setdefault(known[1], []).append(record)
        return groups.values()


def _json(chunk: BaseModel) -> bytes:
    return chunk.model_dump_json(exclude_defaults=True).encode()


def _job_id(job: RunningJob) -> str:
    return job.job_id


def _node_name(node: NodeState) -> str:
    return node.name


def _filled(snapshot: QueueSnapshot, lists: dict[QueueList, Iterable[bytes]]) -> Iterator[bytes]:
    """Yield the parts, each as full as allowed."""
    number, size = 0, 0
    content: dict[QueueList, list[bytes]] = {}
    for name, chunks in lists.items():
        for written in chunks:
            if content and size + len(written) > PART_BYTES:
                yield _part(snapshot, number, content)
                number, size, content = number + 1, 0, {}
                if number == MAX_PARTS:
                    raise QueueTooLarge(f"the queue needs more than {MAX_PARTS} parts of {PART_BYTES // 1024} KiB")
            content.setdefault(name, []).append(written)
            size += len(written) + 1
    yield _part(snapshot, number, content)


def _part(snapshot: QueueSnapshot, number: int, content: dict[QueueList, list[bytes]]) -> bytes:
    head = {"generation": snapshot.generation, "taken_at": snapshot.taken_at.isoformat(), "number": number}
    lists = (b',"%s":[%s]' % (name.encode(), b",".join(chunks)) for name, chunks in content.items())
    return json.dumps(head)[:-1].encode() + b"".join(lists) + b"}"


def _pending_chunks(group: PendingJobs) -> Iterator[PendingChunk]:
    shared = group.model_copy(update={"job_ids": (), "array_tasks": {}})
    continued = False
    for job_ids, array_tasks in _slices(group):
        yield PendingChunk(shared=shared, continued=continued, job_ids=names_of(job_ids), array_tasks=dict(array_tasks))
        continued = True


def _slices(group: PendingJobs) -> Iterator[tuple[list[JobId], dict[JobId, tuple[tuple[int, int], ...]]]]:
    """Yield the ids and tasks of a group, at most `CHUNK_VALUES` at a time."""
    job_ids: list[JobId] = []
    array_tasks: dict[JobId, tuple[tuple[int, int], ...]] = {}
    size = 0
    for job_id in group.job_ids:
        job_ids.append(job_id)
        ranges = group.array_tasks.get(job_id)
        size += 1
        if ranges is not None:
            for begin in range(0, len(ranges) or 1, CHUNK_VALUES):
                array_tasks[job_id] = ranges[begin : begin + CHUNK_VALUES]
                size += len(array_tasks[job_id])
                if size >= CHUNK_VALUES:
                    yield job_ids, array_tasks
                    job_ids, array_tasks, size = [], {}, 0
        if size >= CHUNK_VALUES:
            yield job_ids, array_tasks
            job_ids, array_tasks, size = [], {}, 0
    if job_ids or array_tasks or not group.job_ids:
        yield job_ids, array_tasks


def _running_chunk_size(job: RunningJob) -> int:
    return max(CHUNK_VALUES // max(len(job.nodes), 1), 1)


def _running_chunk(jobs: Sequence[RunningJob]) -> RunningChunk:
    first = jobs[0]
    gres = _gres_of_each_node(first)
    return RunningChunk(
        uid=first.uid,
        user=first.user,
        cpus=first.cpus,
        memory_mib=first.memory_mib,
        limit_microseconds=_limit_microseconds(first),
        gres=gres or {},
        gres_by_node=first.gres if gres is None else {},
        extra=first.extra,
        job_ids=names_of(job.job_id for job in jobs),
        started_at=times_of(job.started_at for job in jobs),
        node_count=len(first.nodes),
        nodes=names_of(name for job in jobs for name in job.nodes),
    )


def _running_key(job: RunningJob) -> object:
    gres = _gres_of_each_node(job)
    # A job with different resources on its nodes is a group of its own.
    resources = job.job_id if gres is None else tuple(sorted(gres.items()))
    return job.uid, job.user, job.cpus, job.memory_mib, _limit_microseconds(job), job.extra, len(job.nodes), resources


def _gres_of_each_node(job: RunningJob) -> dict[str, int] | None:
    """The resources that a job has on each of its nodes; None if they differ."""
    if not job.gres:
        return {}
    one = next(iter(job.gres.values()))
    return one if one and job.gres == dict.fromkeys(job.nodes, one) else None


def _limit_microseconds(job: RunningJob) -> int | None:
    return None if job.ends_by is None else (job.ends_by - job.started_at) // timedelta(microseconds=1)


def _node_chunk(nodes: Sequence[NodeState]) -> NodeChunk:
    idle_since = [node.idle_since for node in nodes if node.idle_since is not None]
    registered_at = [node.registered_at for node in nodes if node.registered_at is not None]
    return NodeChunk(
        shared=nodes[0].model_copy(update={"name": "", "idle_since": None, "registered_at": None}),
        names=names_of(node.name for node in nodes),
        idle_since=times_of(idle_since) if idle_since else None,
        registered_at=times_of(registered_at) if registered_at else None,
    )


def _node_key(node: NodeState) -> object:
    known = (node.idle_since is None, node.registered_at is None)
    resources = (tuple(sorted(node.gres.items())), tuple(sorted(node.gres_allocated.items())))
    capacity = (node.cpus, node.cpus_allocated, node.memory_mib, node.memory_allocated_mib)
    return node.states, capacity, resources, node.features, node.reason, node.extra, known


def _sliced[T](records: Sequence[T], name: Callable[[T], str], size: int) -> Iterator[Sequence[T]]:
    """Cut a list before some names, which are the same in the next snapshot: so one change leaves most slices alone."""
    begin = 0
    for number, record in enumerate(records):
        if number > begin and (number - begin >= size or hash(name(record)) % CUT_AT_EVERY == 0):
            yield records[begin:number]
            begin = number
    yield records[begin:]
