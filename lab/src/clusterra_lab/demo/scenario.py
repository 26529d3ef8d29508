"""The demo's jobs: their scripts and options, and the output that each must write."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

_HEAD = '#!/bin/bash\necho "started=$(date +%s.%N) uid=$(id -u) gid=$(id -g) node=$SLURMD_NODENAME"\n'
_TAIL = 'echo "ended=$(date +%s.%N)"\n'
_STARTED = re.compile(r"started=(?P<at>[\d.]+) uid=(?P<uid>\d+) gid=(?P<gid>\d+) node=(?P<node>[a-z0-9-]+)")
_OF_SLURM = re.compile(r"\[[\dT:.-]+\] (error|fatal|warning): ")
"""A line of slurmstepd itself, which writes to the job's standard error while slurmctld or a node is away."""
_ENDED = re.compile(r"ended=(?P<at>[\d.]+)")


@dataclass(frozen=True)
class DemoJob:
    """A job to submit: a script body between a head and a tail that print the time, and the lines it must print."""

    name: str
    user: int
    """Index of the user who submits it."""
    body: str
    options: dict[str, Any]
    """Fields of the submit request besides script and name."""
    lines: tuple[str, ...]
    """The expected lines; `{task}` stands for the array task, `{square}` for its square."""
    tasks: tuple[int, ...] = field(default=())

    @property
    def script(self) -> str:
        """The whole batch script."""
        return _HEAD + self.body + _TAIL

    def job_ids(self, job_id: str) -> tuple[str, ...]:
        """The ids of its runs: one per array task, else the id of the job itself."""
        return tuple(f"{job_id}_{task}" for task in self.tasks) or (job_id,)

    def expected(self, job_id: str) -> tuple[str, ...]:
        """The lines that the run with this id must print between head and tail."""
        _, _, task = job_id.partition("_")
        return tuple(line.format(task=task, square=int(task or 0) ** 2) for line in self.lines)


@dataclass(frozen=True)
class Output:
    """The parsed output file of a run."""

    started_at: datetime
    ended_at: datetime
    uid: int
    node: str
    lines: tuple[str, ...]


def read_output(text: str) -> Output | None:
    """Parse the output of a finished run, without the lines of Slurm itself; None when head or tail is missing."""
    lines = [line for line in text.splitlines() if not _OF_SLURM.match(line)]
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

DEMO_JOBS: tuple[DemoJob, ...] = (
    DemoJob(
        name="hello",
        user=0,
        body='for step in 1 2 3 4 5 6; do echo "step $step of 6"; sleep 0.5; done\n',
        options={"cpus_per_task": 1, "memory_per_cpu": 2 * GIB},
        lines=tuple(f"step {step} of 6" for step in range(1, 7)),
    ),
    DemoJob(
        name="squares",
        user=1,
        body='echo "task $SLURM_ARRAY_TASK_ID: $((SLURM_ARRAY_TASK_ID * SLURM_ARRAY_TASK_ID))"\nsleep 1\n',
        options={"array": "1-20", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB},
        lines=("task {task}: {square}",),
        tasks=tuple(range(1, 21)),
    ),
    DemoJob(
        name="two-nodes",
        user=0,
        body='echo "nodes: $SLURM_JOB_NUM_NODES"\n'
        "srun --ntasks=2 --ntasks-per-node=1 sh -c 'echo \"rank $SLURM_PROCID\"' | sort\n",
        options={"nodes": "2", "tasks": 2, "tasks_per_node": 1, "cpus_per_task": 2, "memory_per_cpu": 4 * GIB},
        lines=("nodes: 2", "rank 0", "rank 1"),
    ),
    *(
        DemoJob(
            name=f"{family}-family",
            user=1,
            body=f'echo "{family}: $SLURM_CPUS_ON_NODE cpus"\nsleep 1\n',
            options={"cpus_per_task": 4, "memory_per_cpu": gib * GIB},
            lines=(f"{family}: 4 cpus",),
        )
        for family, gib in (("compute", 2), ("general", 4), ("memory", 8))
    ),
)
