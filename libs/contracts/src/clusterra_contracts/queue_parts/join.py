"""Joins the parts of a snapshot."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from pydantic import TypeAdapter, ValidationError

from clusterra_contracts.identity import JobId
from clusterra_contracts.queue import NodeState, PendingJobs, QueueSnapshot, RunningJob
from clusterra_contracts.queue_parts.columns import expand_names, expand_times
from clusterra_contracts.queue_parts.part import NodeChunk, PendingChunk, QueuePart, RunningChunk

_JOB_IDS: TypeAdapter[tuple[JobId, ...]] = TypeAdapter(tuple[JobId, ...])


class InvalidPart(ValueError):
    """A part of a snapshot has invalid values. The error names none of them."""


def is_whole(head: QueueSnapshot, parts: Sequence[QueuePart]) -> bool:
    """Whether these are all parts of a snapshot, in order, and of no other one."""
    if head.parts is None or len(parts) != head.parts.count:
        return False
    return all(
        (part.generation, part.taken_at, part.number) == (head.generation, head.taken_at, number)
        for number, part in enumerate(parts)
    )


def join(head: QueueSnapshot, parts: Sequence[QueuePart]) -> QueueSnapshot | None:
    """Return the snapshot of all these parts, or None if they are not all of one snapshot. Raises InvalidPart.

    The running jobs are sorted by id, and the nodes by name. It takes a second for 100,000 jobs, and may be called on a
    thread.
    """
    if head.parts is None or not is_whole(head, parts):
        return None
    lists = head.parts.counts
    try:
        pending = tuple(_pending(chunk for part in parts for chunk in part.pending))
        running = [job for part in parts for chunk in part.running for job in _running(chunk)]
        nodes = [node for part in parts for chunk in part.nodes for node in _nodes(chunk)]
    except ValidationError as error:
        raise InvalidPart(f"a part of the queue has {error.error_count()} invalid values") from None
    except (ValueError, OverflowError) as error:
        raise InvalidPart(f"a part of the queue is invalid: {error}") from None
    return head.model_copy(
        update={
            "pending": pending if "pending" in lists else None,
            "running": tuple(sorted(running, key=_job_id_order)) if "running" in lists else None,
            "nodes": tuple(sorted(nodes, key=lambda node: node.name)) if "nodes" in lists else None,
            "parts": None,
        }
    )


def _pending(chunks: Iterable[PendingChunk]) -> Iterator[PendingJobs]:
    shared: PendingJobs | None = None
    job_ids: list[JobId] = []
    array_tasks: dict[JobId, list[tuple[int, int]]] = {}
    for chunk in chunks:
        if shared is not None and not chunk.continued:
            yield _group(shared, job_ids, array_tasks)
        if shared is None or not chunk.continued:
            shared, job_ids, array_tasks = chunk.shared, [], {}
        job_ids += expand_names(chunk.job_ids)
        for job_id, ranges in chunk.array_tasks.items():
            array_tasks.setdefault(job_id, []).extend(ranges)
    if shared is not None:
        yield _group(shared, job_ids, array_tasks)


def _group(shared: PendingJobs, job_ids: list[JobId], array_tasks: dict[JobId, list[tuple[int, int]]]) -> PendingJobs:
    tasks = {job_id: tuple(ranges) for job_id, ranges in array_tasks.items()}
    return shared.model_copy(update={"job_ids": _JOB_IDS.validate_python(job_ids), "array_tasks": tasks})


def _running(chunk: RunningChunk) -> Iterator[RunningJob]:
    job_ids, started = expand_names(chunk.job_ids), expand_times(chunk.started_at)
    names, size = expand_names(chunk.nodes), chunk.node_count
    if len(names) != size * len(job_ids):
        raise ValueError("the columns of running jobs have different lengths")
    limit = None if chunk.limit_microseconds is None else timedelta(microseconds=chunk.limit_microseconds)
    for number, (job_id, started_at) in enumerate(zip(job_ids, started, strict=True)):
        nodes = names[number * size : (number + 1) * size]
        yield RunningJob(
            job_id=job_id,
            uid=chunk.uid,
            user=chunk.user,
            nodes=nodes,
            cpus=chunk.cpus,
            started_at=started_at,
            ends_by=None if limit is None else started_at + limit,
            memory_mib=chunk.memory_mib,
            gres=dict.fromkeys(nodes, chunk.gres) if chunk.gres else chunk.gres_by_node,
            extra=chunk.extra,
        )


def _nodes(chunk: NodeChunk) -> Iterator[NodeState]:
    names = expand_names(chunk.names)
    unknown = (None,) * len(names)
    idle_since = unknown if chunk.idle_since is None else expand_times(chunk.idle_since)
    registered_at = unknown if chunk.registered_at is None else expand_times(chunk.registered_at)
    for name, idle, registered in zip(names, idle_since, registered_at, strict=True):
        yield chunk.shared.model_copy(update={"name": name, "idle_since": idle, "registered_at": registered})


def _job_id_order(job: RunningJob) -> tuple[int, int]:
    whole, _, task = job.job_id.partition("_")
    return int(whole), int(task or 0)
