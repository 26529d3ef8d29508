"""A queue of jobs that ask for everything in the table of job cases that can run on the lab's workers."""

import random
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from clusterra_lab.slurm.config import SHARED_PATH
from job_cases import CASES

FILL = "fill"
"""The name of a job that runs from the beginning until the others are let go, by whom they are submitted with sbatch.
It has all the licences and all of the QOS `two`."""

UNTIL_LET_GO = f"until [ -e {SHARED_PATH}/let-go ]; do sleep 0.2; done\n"
"""What a job does that stays until the others are let go."""

LEFT_OUT = {
    "no worker has so many GPUs, although Slurm takes it": ("more gpus of the job than any node has",),
    "no worker has such an Extra": ("extra", "extra that the node has not"),
    "workers are bought for the partition main alone": ("another partition",),
    "nothing ever runs on a placeholder, and the proxy refuses it": ("named placeholder",),
}
"""The cases that cannot run here, by the reason."""

CHANGED = {
    "nodes from to with tasks that need more": "-N 2-4 -n 80 -C general",
    "features in parentheses": "-C '(general|compute)&compute-small'",
    "heterogeneous": "-n 2 -c 4",
    "begin time": "--begin=now+20",
    # Else it may run before it is held.
    "held by an administrator": "--begin=now+5",
    "licences taken": "-t 60 -L matlab:1",
    "qos used up": "-t 60 --qos=two -c 2",
    "throttled array": "-t 60 --array=0-4%1",
    "reservation to come": "--reservation=later -c 2",
    "named node": "-t 60 -w {node} -c 2",
    "named node among several": "-t 60 -w {node} -N 2",
    "excluded placeholder": "-x {node}",
}
"""Options that are of the lab's shapes."""

_COMPONENTS = {"heterogeneous": ("--gpus=1 -C l4", "-N 2 --mem=3000")}

APART = {"boots": "-C memory-large", "more workers than there may be": "-N {most} --exclusive"}
"""Jobs that are not in the table, for their reasons alone."""

_MORE = {"chain": "-d afterok:{last}", "small": "-c 2", "array of some size": "--array=1-6 -c 2", **APART}
"""Jobs that are not in the table."""

_WITH_SBATCH = (
    *("-O", "--mincpus", "--hint", "--spread-job", "--contiguous", "--prefer", "{node}", "--reservation"),
    *("--mem-per-gpu", "--cpus-per-gpu", "--ntasks-per-gpu", "--sockets-per-node"),
)
"""What the interface does not take, and what only Slurm's own users ask for."""

RELEASED = {
    "held by the user": ("scontrol release {job}",),
    "held by an administrator": ("scontrol release {job}",),
    "heterogeneous and held": ("scontrol release {job}",),
    "partition that is down": ("scontrol update jobid={job} partition=main",),
}
"""Commands that let jobs of these cases start in the end."""

LET_GO = (
    "sacctmgr --immediate modify qos none set MaxJobsPerUser=-1",
    "sacctmgr --immediate modify account idle set MaxJobs=-1",
    "scontrol update reservationname=later starttime=now",
)
"""What lets the jobs start that wait for more than a release of their own."""


@dataclass(frozen=True)
class Queued:
    """One job to submit."""

    case: str
    options: str
    """Of sbatch. `{fill}` is the id of a job that runs, `{node}` its node, `{last}` the id of the job before, `{most}`
    how many workers there may be."""
    components: tuple[str, ...]
    then: tuple[str, ...]
    """Commands after the submit; `{job}` is the job's id."""
    released: tuple[str, ...]
    """Commands that let it start in the end."""
    seconds: float
    """How long it runs."""

    @property
    def by_sbatch(self) -> bool:
        """Whether it can only be submitted on a login node."""
        return bool(self.components) or self.name == FILL or any(option in self.options for option in _WITH_SBATCH)

    @property
    def name(self) -> str:
        """Of the job."""
        named = re.search(r"-J (\S+)", self.options)
        return named[1] if named else self.case.replace(" ", "-")

    @property
    def _body(self) -> str:
        return UNTIL_LET_GO if self.case == "throttled array" else f"sleep {self.seconds}\n"

    def script(self, options: str = "") -> str:
        """The batch script, with options that its components come after."""
        lines = [options, *(line for each in self.components for line in ("hetjob", each))]
        return "#!/bin/sh\n" + "".join(f"#SBATCH {line}\n" for line in lines if line) + self._body

    def runs(self, job_id: str) -> tuple[str, ...]:
        """The ids of what runs in the end: of the tasks of an array, or of the components."""
        array = re.search(r"--array=(\d+)-(\d+)(?::(\d+))?", self.options)
        if array is None:
            return tuple(str(int(job_id) + offset) for offset in range(1 + len(self.components)))
        first, last, step = (int(number or 1) for number in array.groups())
        return tuple(f"{job_id}_{task}" for task in range(first, last + 1, step))


def sample(case: str) -> Queued:
    """One job of a case."""
    return next(each for each in _cases() if each.case == case)


def mixed_queue(jobs: int, seed: int) -> list[Queued]:
    """So many jobs: every option once before any of them is there twice."""
    chosen = random.Random(seed)
    cases = [each for each in _cases() if each.case not in APART]
    queue: list[Queued] = []
    while len(queue) < jobs:
        queue += chosen.sample(cases, min(len(cases), jobs - len(queue)))
    return [_timed(each, chosen) for each in queue]


def _cases() -> Iterator[Queued]:
    left_out = {name for names in LEFT_OUT.values() for name in names}
    for case in CASES:
        if not case.refused and case.name not in left_out:
            yield Queued(
                case.name,
                CHANGED.get(case.name, case.options),
                _COMPONENTS.get(case.name, case.components),
                (shlex.join(case.then),) if case.then else (),
                RELEASED.get(case.name, ()),
                seconds=0.0,
            )
    for name, options in _MORE.items():
        yield Queued(name, options, (), (), (), seconds=0.0)


def _timed(job: Queued, chosen: random.Random) -> Queued:
    limit = chosen.choice(("", " -t 5"))
    options = job.options if "-t " in job.options else job.options + limit
    return Queued(job.case, options, job.components, job.then, job.released, chosen.choice((0.0, 0.3, 1.0)))
