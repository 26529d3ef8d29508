"""Generic resources (such as GPUs) of jobs and nodes, in the notation of queue snapshots."""

from collections.abc import Iterator
from functools import lru_cache

from clusterra_contracts.gres import gres_counts, name_and_count

from clusterra_proxy.slurmrestd.records import JobRecord

_MAX_KNOWN = 512
"""The length of the longest list whose content is remembered."""


def requested_gres(record: JobRecord) -> str:
    """Return `PendingJobs.gres` of a job: requests per node, per task and per job, in this order.

    Slurm's total for the job, which names no types, is used in two cases: for requests per socket, because the number
    of sockets of a node is unknown, and for `--ntasks-per-gpu`, which leaves GPUs in none of the lists.
    """
    requested = gres_request(record.tres_per_node, record.tres_per_task, record.tres_per_job)
    if not requested:
        sums = {name: count for name, count in parse_gres(record.tres_req_str) if ":" not in name}
        per_socket = dict(parse_gres(record.tres_per_socket))
        counts = {name: sums.get(name.partition(":")[0], count) for name, count in per_socket.items()} or sums
        requested = ",".join(f"job/{name}={count}" for name, count in counts.items())
    return requested


def gres_request(per_node: str, per_task: str, per_job: str) -> str:
    """Write three TRES lists in the notation of `PendingJobs.gres`."""
    return ",".join(
        f"{per}/{name}={count}"
        for per, tres in (("node", per_node), ("task", per_task), ("job", per_job))
        for name, count in parse_gres(tres)
    )


def memory_per_gpu_mib(record: JobRecord) -> int | None:
    """Return the memory that a job requests with `--mem-per-gpu`."""
    return dict(parse_gres(record.memory_per_tres)).get("gpu")


def allocated_gres(record: JobRecord) -> dict[str, dict[str, int]]:
    """Return `RunningJob.gres` of a job. While a job is completing, Slurm gives only the total for all its nodes."""
    hosts = record.hosts
    if record.gres_detail:
        allocated = [gres_counts(text) for text in record.gres_detail]
    else:
        nodes = max(len(hosts), 1)
        sums = {name: count for name, count in parse_gres(record.tres_alloc_str) if ":" not in name}
        allocated = [{name: -(-count // nodes) for name, count in sums.items()}] * nodes
    return {name: counts for name, counts in zip(hosts, allocated, strict=False) if counts}


def parse_gres(tres: str) -> tuple[tuple[str, int], ...]:
    """Return the name with type, and the count, of each generic resource in a TRES list.

    Slurm writes them as `gres/gpu`, `gres/gpu:2`, `gres/gpu:h100:2` or `gres/gpu:h100=2`, also with `gres:`. Thousands
    of jobs have the same few lists, and each snapshot needs them all.
    """
    return _parse_known_gres(tres) if len(tres) <= _MAX_KNOWN else tuple(_parse_gres(tres))


@lru_cache(maxsize=8192)
def _parse_known_gres(tres: str) -> tuple[tuple[str, int], ...]:
    return tuple(_parse_gres(tres))


def _parse_gres(tres: str) -> Iterator[tuple[str, int]]:
    for item in tres.split(","):
        kind, name = item[:5], item[5:]
        if name and kind in ("gres/", "gres:"):
            yield name_and_count(name.replace("=", ":"))
