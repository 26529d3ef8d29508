"""The queue of a large and busy cluster."""

import random
from datetime import UTC, datetime, timedelta

from clusterra_contracts.queue import NodeState, PendingJobs, QueueSnapshot, RunningJob

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def large_snapshot(pending: int, running: int, nodes: int, generation: int = 1) -> QueueSnapshot:
    """Jobs of 50 users with a few requests each, and nodes with random names."""
    rng = random.Random(1)
    names = sorted(f"general-small-{rng.randrange(36**5):05x}" for _ in range(nodes))
    requests = [(20001 + user, 1 << rng.randrange(4), rng.randrange(1, 48)) for user in range(50) for _ in range(4)]
    waiting: list[list[int]] = [[] for _ in requests]
    for number in range(pending):
        waiting[rng.randrange(len(requests))].append(running + number + 1)
    return QueueSnapshot(
        generation=generation,
        taken_at=START,
        pending=tuple(
            PendingJobs(
                job_ids=tuple(map(str, ids)),
                count=len(ids),
                cpus=cpus,
                memory_per_cpu_mib=2048,
                partition="main",
                uid=uid,
                reason="Resources",
                time_limit_seconds=hours * 3600,
                first_submitted_at=START,
            )
            for (uid, cpus, hours), ids in zip(requests, waiting, strict=True)
            if ids
        ),
        running=tuple(
            RunningJob(
                job_id=str(number + 1),
                uid=uid,
                user=f"user{uid}",
                nodes=(rng.choice(names),),
                cpus=cpus,
                started_at=(started := START - timedelta(seconds=rng.randrange(10**5))),
                ends_by=started + timedelta(hours=hours),
                memory_mib=cpus * 2048,
            )
            for number in range(running)
            for uid, cpus, hours in [rng.choice(requests)]
        ),
        nodes=tuple(
            NodeState(
                name=name,
                states=("MIXED",),
                cpus=16,
                cpus_allocated=rng.randrange(17),
                memory_mib=65536,
                memory_allocated_mib=0,
                features=("general", "general-small"),
                registered_at=START - timedelta(seconds=rng.randrange(10**5)),
            )
            for name in names
        ),
    )
