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
CHUNK_VALUES = 2000
"""Maximum number of jobs, nodes, or ranges of tasks of one chunk, which bounds its size."""


class QueueTooLarge(ValueError):
    """A snapshot has more parts than are allowed."""


def split(snapshot: QueueSnapshot, slot: int) -> tuple[QueueSnapshot, list[bytes]]:
    """Return a snapshot's message without its lists, and its parts as JSON. Raises QueueTooLarge.

    It takes a second for 100,000 jobs, and may be called on a thread.
    """
    lists: dict[QueueList, Iterator[BaseModel]] = {}
    counts: dict[QueueList, int] = {}
    if snapshot.pending is not None:
        lists["pending"] = _pending_chunks(snapshot.pending)
        counts["pending"] = sum(len(group.job_ids) for group in snapshot.pending)
    if snapshot.running is not None:
        lists["running"] = _running_chunks(snapshot.running)
        counts["running"] = len(snapshot.running)
    if snapshot.nodes is not None:
        lists["nodes"] = _node_chunks(snapshot.nodes)
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


def _filled(snapshot: QueueSnapshot, lists: dict[QueueList, Iterator[BaseModel]]) -> Iterator[bytes]:
    """Yield the parts, each as full as allowed."""
    number, size = 0, 0
    content: dict[QueueList, list[bytes]] = {}
    for name, chunks in lists.items():
        for chunk in chunks:
            written = chunk.model_dump_json(exclude_defaults=True).encode()
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


def _pending_chunks(groups: Iterable[PendingJobs]) -> Iterator[PendingChunk]:
    for group in groups:
        shared = group.model_copy(update={"job_ids": (), "array_tasks": {}})
        continued = False
        for job_ids, array_tasks in _slices(group):
            yield PendingChunk(
                shared=shared, continued=continued, job_ids=names_of(job_ids), array_tasks=dict(array_tasks)
            )
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


def _running_chunks(jobs: Iterable[RunningJob]) -> Iterator[RunningChunk]:
    for group in _grouped(jobs, _running_key):
        first = group[0]
        gres = _gres_of_each_node(first)
        for chunk in _sliced(group, max(CHUNK_VALUES // max(len(first.nodes), 1), 1)):
            yield RunningChunk(
                uid=first.uid,
                user=first.user,
                cpus=first.cpus,
                memory_mib=first.memory_mib,
                limit_microseconds=_limit_microseconds(first),
                gres=gres or {},
                gres_by_node=first.gres if gres is None else {},
                extra=first.extra,
                job_ids=names_of(job.job_id for job in chunk),
                started_at=times_of(job.started_at for job in chunk),
                node_count=len(first.nodes),
                nodes=names_of(name for job in chunk for name in job.nodes),
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


def _node_chunks(nodes: Iterable[NodeState]) -> Iterator[NodeChunk]:
    for group in _grouped(nodes, _node_key):
        shared = group[0].model_copy(update={"name": "", "idle_since": None, "registered_at": None})
        for chunk in _sliced(group, CHUNK_VALUES):
            idle_since = [node.idle_since for node in chunk if node.idle_since is not None]
            registered_at = [node.registered_at for node in chunk if node.registered_at is not None]
            yield NodeChunk(
                shared=shared,
                names=names_of(node.name for node in chunk),
                idle_since=times_of(idle_since) if idle_since else None,
                registered_at=times_of(registered_at) if registered_at else None,
            )


def _node_key(node: NodeState) -> object:
    known = (node.idle_since is None, node.registered_at is None)
    resources = (tuple(sorted(node.gres.items())), tuple(sorted(node.gres_allocated.items())))
    capacity = (node.cpus, node.cpus_allocated, node.memory_mib, node.memory_allocated_mib)
    return node.states, capacity, resources, node.features, node.reason, node.extra, known


def _grouped[T](items: Iterable[T], key: Callable[[T], object]) -> Iterable[list[T]]:
    groups: dict[object, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups.values()


def _sliced[T](items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]
