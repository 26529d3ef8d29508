"""The demo's jobs: what is submitted, and what each must have written when it is done."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

_HEAD = '#!/bin/bash\necho "started=$(date +%s.%N) uid=$(id -u) gid=$(id -g) node=$SLURMD_NODENAME"\n'
_TAIL = 'echo "ended=$(date +%s.%N)"\n'
_STARTED = re.compile(r"started=(?P<at>[\d.]+) uid=(?P<uid>\d+) gid=(?P<gid>\d+) node=(?P<node>[a-z0-9-]+)")
_ENDED = re.compile(r"ended=(?P<at>[\d.]+)")


@dataclass(frozen=True)
class Order:
    """A job to submit: its script between a head and a tail that tell the time, and the lines it must print."""

    name: str
    user: int
    """Which of the demo's users submits it."""
    body: str
    job: dict[str, Any]
    lines: tuple[str, ...]
    """The expected lines; `{task}` stands for the array task, `{square}` for its square."""
    tasks: tuple[int, ...] = field(default=())

    @property
    def script(self) -> str:
        """The whole batch script."""
        return _HEAD + self.body + _TAIL

    def job_ids(self, job_id: str) -> tuple[str, ...]:
        """The ids of its runs: one for each array task, else the job's own."""
        return tuple(f"{job_id}_{task}" for task in self.tasks) or (job_id,)

    def expected(self, job_id: str) -> tuple[str, ...]:
        """The lines that the run of this id must print between head and tail."""
        _, _, task = job_id.partition("_")
        return tuple(line.format(task=task, square=int(task or 0) ** 2) for line in self.lines)


@dataclass(frozen=True)
class Output:
    """What a run's output file says."""

    started_at: datetime
    ended_at: datetime
    uid: int
    node: str
    lines: tuple[str, ...]


def read_output(text: str) -> Output | None:
    """Read a finished run's output; None when head or tail are missing."""
    lines = text.splitlines()
    head = _STARTED.fullmatch(lines[0]) if lines else None
    tail = _ENDED.fullmatch(lines[-1]) if lines else None
    if head is None or tail is None:
        return None
    return Output(
        started_at=datetime.fromtimestamp(float(head["at"]), UTC),
        ended_at=datetime.fromtimestamp(float(tail["at"]), UTC),
        uid=int(head["uid"]),
        node=head["node"],
        lines=tuple(lines[1:-1]),
    )


GIB = 1024

ORDERS: tuple[Order, ...] = (
    Order(
        name="hello",
        user=0,
        body='for step in 1 2 3 4 5 6; do echo "step $step of 6"; sleep 0.5; done\n',
        job={"cpus_per_task": 1, "memory_per_cpu": 2 * GIB},
        lines=tuple(f"step {step} of 6" for step in range(1, 7)),
    ),
    Order(
        name="squares",
        user=1,
        body='echo "task $SLURM_ARRAY_TASK_ID: $((SLURM_ARRAY_TASK_ID * SLURM_ARRAY_TASK_ID))"\nsleep 1\n',
        job={"array": "1-20", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB},
        lines=("task {task}: {square}",),
        tasks=tuple(range(1, 21)),
    ),
    Order(
        name="two-nodes",
        user=0,
        body='echo "nodes: $SLURM_JOB_NUM_NODES"\n'
        "srun --ntasks=2 --ntasks-per-node=1 sh -c 'echo \"rank $SLURM_PROCID\"' | sort\n",
        job={"nodes": "2", "tasks": 2, "tasks_per_node": 1, "cpus_per_task": 2, "memory_per_cpu": 4 * GIB},
        lines=("nodes: 2", "rank 0", "rank 1"),
    ),
    *(
        Order(
            name=f"{family}-family",
            user=1,
            body=f'echo "{family}: $SLURM_CPUS_ON_NODE cpus"\nsleep 1\n',
            job={"cpus_per_task": 4, "memory_per_cpu": gib * GIB},
            lines=(f"{family}: 4 cpus",),
        )
        for family, gib in (("compute", 2), ("general", 4), ("memory", 8))
    ),
)
