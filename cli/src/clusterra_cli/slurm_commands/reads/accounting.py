"""Reads jobs from accounting and from the queue as one list: a job is known as soon as its submit was answered."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from clusterra_cli.slurm_commands.fields.job_values import Job
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.notation import states
from clusterra_cli.slurm_commands.notation.hostlists import ranges
from clusterra_cli.slurm_commands.notation.sizes import resources
from clusterra_cli.slurm_commands.reads.queue import Queue
from clusterra_cli.slurm_commands.records import Record, count, objects, part, text, texts

AT_ONCE = 8
"""The most requests for named jobs that are sent concurrently."""
_REQUEUES = frozenset({"NODE_FAIL", "PREEMPTED", "REQUEUED"})
"""Ends after which Slurm may requeue a job."""
MAX_BITS = 4_000_000
"""Slurm has no larger arrays."""
_UNITS = {"M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}


def read_jobs(
    gateway: Gateway, queue: Queue, ids: Sequence[str], window: tuple[int, int | None], *, duplicates: bool = False
) -> list[Record]:
    """The jobs with these ids, or all of a time from `window[0]` to its end, in the order of their ids.

    Jobs that only the queue has get the form that accounting gives them later. Raises Refused.
    """
    start, end = window
    query = {"start_time": str(start)} | ({} if end is None else {"end_time": str(end)})
    if duplicates:
        query["show_duplicates"] = "true"
    found = _named(gateway, query, ids) if ids else objects(gateway.slurm("slurmdb/jobs/", query), "jobs")
    queued = queue.some([each.partition(".")[0] for each in ids]) if ids else queue.all()
    fresh = {job.id: job for job in queued if ids or _eligible(job, start, end)}
    merged = [_later(each, fresh.pop(count(each, "job_id"), None)) for each in found]
    # What was resized or requeued has several records, of which the queue's belongs to the last.
    known = {count(each, "job_id") for each in merged}
    merged += [as_accounted(job) for number, job in fresh.items() if number not in known]
    return sorted(merged, key=lambda each: (count(part(each, "array"), "job_id") or count(each, "job_id"),))


def _named(gateway: Gateway, query: Mapping[str, str], ids: Sequence[str]) -> list[Record]:
    """The jobs with these ids. slurmrestd takes one id in a request, so these are sent beside each other."""
    from concurrent.futures import ThreadPoolExecutor

    def read(job_id: str) -> tuple[Record, ...]:
        return objects(gateway.slurm("slurmdb/jobs/", {**query, "step": job_id}), "jobs")

    first, *rest = dict.fromkeys(each.partition(".")[0] for each in ids)
    # The first one finds out which version of the API there is.
    found = list(read(first))
    if rest:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            found += [each for jobs in threads.map(read, rest) for each in jobs]
    return list({_identity(each): each for each in found}.values())


def _identity(record: Record) -> tuple[object, ...]:
    """What a record is found by twice, where `12` and `12_3` are named."""
    times = part(record, "time")
    return count(record, "job_id"), count(times, "submission"), count(times, "start"), text(record, "cluster")


def _eligible(job: Job, start: int, end: int | None) -> bool:
    """Whether a job counts for a time, as accounting decides: jobs that cannot start yet do not."""
    since = count(job.record, "eligible_time")
    over = count(job.record, "end_time") if job.base in states.ENDED else 0
    return 0 < since <= job.now and (end is None or since <= end) and not (over and over < start)


def _later(record: Record, job: Job | None) -> Record:
    """What is known of a job: accounting, unless the queue knows already that it has ended, or was requeued."""
    state = states.base(texts(part(record, "state"), "current"))
    if job is not None and state not in states.ENDED and job.base in states.ENDED:
        return as_accounted(job)
    if job is not None and state in states.ENDED and job.base not in states.ENDED:
        # A list that is some seconds old may have a job that has ended as one that runs.
        requeued = count(job.record, "restart_cnt") > count(record, "restart_cnt")
        if requeued or state in _REQUEUES:
            return as_accounted(job)
    array = part(record, "array")
    tasks = job.shown_tasks if job is not None and job.tasks else readable_tasks(text(array, "task"))
    return {**record, "array": {**array, "task": tasks}} if tasks != text(array, "task") else record


def readable_tasks(tasks: str) -> str:
    """The tasks of an array, which accounting has as the bits of a hexadecimal number, as people write them."""
    if not re.fullmatch(f"0x[0-9A-Fa-f]{{1,{MAX_BITS // 4}}}", tasks):
        return tasks
    bits = bin(int(tasks, 16))[:1:-1]
    numbers = (place for place, bit in enumerate(bits) if bit == "1")
    return ",".join("-".join(map(str, each)) for each in ranges(numbers))


def as_accounted(job: Job) -> Mapping[str, Any]:
    """A job of the queue in the form of accounting."""
    record, running = job.record, job.base not in ("PENDING",)
    return {
        "job_id": job.id,
        "array": {"job_id": job.array_id, "task_id": record.get("array_task_id"), "task": job.shown_tasks},
        "name": text(record, "name"),
        "account": text(record, "account"),
        "partition": text(record, "partition"),
        "qos": text(record, "qos"),
        "cluster": text(record, "cluster"),
        "user": job.user,
        "user_id": count(record, "user_id"),
        "group": job.group,
        "group_id": count(record, "group_id"),
        "state": {"current": [job.base], "reason": text(record, "state_reason")},
        "exit_code": record.get("exit_code"),
        "derived_exit_code": record.get("derived_exit_code"),
        "nodes": text(record, "nodes"),
        "allocation_nodes": count(record, "node_count") if running else 0,
        "constraints": text(record, "features"),
        "comment": {"job": text(record, "comment"), "administrator": text(record, "admin_comment")},
        "priority": record.get("priority"),
        "required": {"CPUs": count(record, "cpus")},
        "restart_cnt": count(record, "restart_cnt"),
        "working_directory": text(record, "current_working_directory"),
        "stdout": text(record, "standard_output"),
        "stderr": text(record, "standard_error"),
        "submit_line": text(record, "submit_line"),
        "time": {
            "submission": count(record, "submit_time"),
            "eligible": count(record, "eligible_time"),
            "start": count(record, "start_time") if running else 0,
            "end": count(record, "end_time") if job.base in states.ENDED else 0,
            "elapsed": job.elapsed_seconds,
            "limit": record.get("time_limit"),
        },
        "tres": {
            "allocated": _tres(text(record, "tres_alloc_str")) if running else [],
            "requested": _tres(text(record, "tres_req_str")),
        },
        "steps": [],
    }


def _tres(items: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for name, value in resources(items).items():
        kind, _, named = name.partition("/")
        scale = _UNITS.get(value[-1:], 1)
        digits = value.rstrip("".join(_UNITS))
        amount = float(digits) if digits.replace(".", "", 1).isdecimal() else 0
        found.append({"type": kind, "name": named, "count": int(amount * scale)})
    return found
