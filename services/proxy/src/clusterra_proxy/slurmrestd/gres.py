"""Generic resources (GPUs) that jobs ask for and nodes have, in the one spelling of the queue's snapshots."""

import re
from collections.abc import Iterator

from clusterra_proxy.slurmrestd.records import JobRecord

_COUNT = re.compile(r"(\d+)([KMGTP]?)")
_IN_PARENTHESES = re.compile(r"\([^)]*\)")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def requested_gres(record: JobRecord) -> str:
    """As `PendingJobs.gres`: per node, task and job, in this order.

    How many sockets a node has is not known, and `--ntasks-per-gpu` leaves GPUs in no list at all: for both, Slurm's
    own sum for the job counts, which has no types.
    """
    requested = [
        f"{per}/{name}={count}"
        for per, tres in (("node", record.tres_per_node), ("task", record.tres_per_task), ("job", record.tres_per_job))
        for name, count in parse_gres(tres)
    ]
    if not requested:
        sums = {name: count for name, count in parse_gres(record.tres_req_str) if ":" not in name}
        per_socket = dict(parse_gres(record.tres_per_socket))
        counts = {name: sums.get(name.partition(":")[0], count) for name, count in per_socket.items()} or sums
        requested = [f"job/{name}={count}" for name, count in counts.items()]
    return ",".join(requested)


def memory_per_gpu_mib(record: JobRecord) -> int | None:
    """What a job asks for with `--mem-per-gpu`."""
    return dict(parse_gres(record.memory_per_tres)).get("gpu")


def allocated_gres(record: JobRecord) -> dict[str, dict[str, int]]:
    """As `RunningJob.gres`. While Slurm cleans up after a job it tells no more than the sum for all its nodes."""
    if record.gres_detail:
        allocated = [gres_counts(text) for text in record.gres_detail]
    else:
        nodes = max(len(record.hosts), 1)
        sums = {name: count for name, count in parse_gres(record.tres_alloc_str) if ":" not in name}
        allocated = [{name: -(-count // nodes) for name, count in sums.items()}] * nodes
    return {name: counts for name, counts in zip(record.hosts, allocated, strict=False) if counts}


def gres_counts(text: str) -> dict[str, int]:
    """As `NodeState.gres`, of a node's list: in parentheses are sockets or indices, which may have commas."""
    counts: dict[str, int] = {}
    for item in filter(None, _IN_PARENTHESES.sub("", text).split(",")):
        name, count = _name_and_count(item)
        counts[name] = counts.get(name, 0) + count
    return {name: count for name, count in counts.items() if count}


def parse_gres(tres: str) -> Iterator[tuple[str, int]]:
    """Name with type, and count, of the generic resources in a list of Slurm's.

    They are spelled `gres/gpu`, `gres/gpu:2`, `gres/gpu:h100:2` or `gres/gpu:h100=2`, also with `gres:`.
    """
    for item in tres.split(","):
        kind, name = item[:5], item[5:]
        if kind in ("gres/", "gres:"):
            yield _name_and_count(name.replace("=", ":"))


def _name_and_count(item: str) -> tuple[str, int]:
    """Name with type, and count, of `gpu:h100:2`; where none is told it is one."""
    name, _, last = item.rpartition(":")
    counted = _COUNT.fullmatch(last) if name else None
    return (name, int(counted[1]) * 1024 ** _POWERS[counted[2]]) if counted else (item, 1)
