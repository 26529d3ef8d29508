"""Generic resources (GPUs) that a job asks for, in the one spelling of the queue's snapshots."""

import re
from collections.abc import Iterator

from clusterra_proxy.records import JobRecord

_COUNT = re.compile(r"(\d+)([KMGTP]?)")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def gres(record: JobRecord) -> str:
    """As `PendingJobs.gres`: per node, task and job, in this order.

    How many sockets a node has is not known, and `--ntasks-per-gpu` leaves GPUs in no list at all: for both, Slurm's
    own sum for the job counts, which has no types.
    """
    asked = [
        f"{per}/{name}={count}"
        for per, tres in (("node", record.tres_per_node), ("task", record.tres_per_task), ("job", record.tres_per_job))
        for name, count in gres_items(tres)
    ]
    if not asked:
        sums = {name: count for name, count in gres_items(record.tres_req_str) if ":" not in name}
        per_socket = dict(gres_items(record.tres_per_socket))
        counts = {name: sums.get(name.partition(":")[0], count) for name, count in per_socket.items()} or sums
        asked = [f"job/{name}={count}" for name, count in counts.items()]
    return ",".join(asked)


def memory_per_gpu_mib(record: JobRecord) -> int | None:
    """What a job asks for with `--mem-per-gpu`."""
    return dict(gres_items(record.memory_per_tres)).get("gpu")


def gres_items(tres: str) -> Iterator[tuple[str, int]]:
    """Name with type, and count, of the generic resources in a list of Slurm's.

    They are spelled `gres/gpu`, `gres/gpu:2`, `gres/gpu:h100:2` or `gres/gpu:h100=2`, also with `gres:`.
    """
    for item in tres.split(","):
        kind, name = item[:5], item[5:]
        if kind in ("gres/", "gres:"):
            left, _, last = name.replace("=", ":").rpartition(":")
            counted = _COUNT.fullmatch(last) if left else None
            if counted:
                yield left, int(counted[1]) * 1024 ** _POWERS[counted[2]]
            else:
                yield name, 1
