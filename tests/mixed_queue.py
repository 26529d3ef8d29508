"""A queue of jobs of all job cases that can run on the lab's workers."""

import random
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from clusterra_lab.slurm.config import SHARED_PATH
from job_cases import CASES

FILL = "fill"
"""The name of a job that runs from the beginning until the other jobs are released. It uses all licences and the whole
QOS `two`. Its user also submits the other jobs with this name, by sbatch."""

UNTIL_RELEASE = f"until [ -e {SHARED_PATH}/let-go ]; do sleep 0.2; done\n"
"""Script of a job that runs until the other jobs are released."""

LEFT_OUT = {
    "no worker has so many GPUs, although Slurm accepts the job": ("more gpus of the job than any node has",),
    "no worker has such an Extra": ("extra", "extra that the node has not"),
    "workers are bought only for the partition main": ("another partition",),
    "no job can run on a placeholder, and the proxy rejects it": ("named placeholder",),
}
"""Reason -> the cases that cannot run in the lab."""

CHANGED = {
    "nodes from to with tasks that need more": "-N 2-4 -n 80 -C general",
    "features in parentheses": "-C '(general|compute)&compute-small'",
    "heterogeneous": "-n 2 -c 4",
    # Otherwise it may run before it is held.
    "held by an administrator": "--begin=now+5",
    "licences taken": "-t 60 -L matlab:1",
    "qos used up": "-t 60 --qos=two -c 2",
    "throttled array": "-t 60 --array=0-4%1",
    "reservation to come": "--reservation=later -c 2",
    "named node": "-t 60 -w {node} -c 2",
    "named node among several": "-t 60 -w {node} -N 2",
    "excluded placeholder": "-x {node}",
}
"""Options that replace those of a case, because the lab has other shapes."""

_COMPONENTS = {"heterogeneous": ("--gpus=1 -C l4", "-N 2 --mem=3000")}

APART = {"boots": "-C memory-large", "more workers than there may be": "-N {most} --exclusive"}
"""Jobs that are not in the table, and that are submitted only for their explanations."""

_MORE = {"chain": "-d afterok:{last}", "small": "-c 2", "array of some size": "--array=1-6 -c 2", **APART}
"""All jobs that are not in the table."""

_WITH_SBATCH = (
    *("-O", "--mincpus", "--hint", "--spread-job", "--contiguous", "--prefer", "{node}", "--reservation"),
    *("--mem-per-gpu", "--cpus-per-gpu", "--ntasks-per-gpu", "--sockets-per-node"),
)
"""Options that the HTTP API does not accept, or that only users of a login node have."""

RELEASED = {
    "begin time": ("scontrol update jobid={job} starttime=now",),
    "held by the user": ("scontrol release {job}",),
    "held by an administrator": ("scontrol release {job}",),
    "heterogeneous and held": ("scontrol release {job}",),
    "partition that is down": ("scontrol update jobid={job} partition=main",),
}
"""Commands that let the jobs of a case start at the end."""

RELEASE_ALL = (
    "sacctmgr --immediate modify qos none set MaxJobsPerUser=-1",
    "sacctmgr --immediate modify account idle set MaxJobs=-1",
    "scontrol update reservationname=later starttime=now",
)
"""Commands that remove the limits for which several cases wait."""


@dataclass(frozen=True)
class Queued:
    """One job to submit."""

    case: str
    options: str
    """Options of sbatch. `{fill}` stands for the id of a running job, `{node}` for its node, `{last}` for the id of the
    previous job, `{most}` for the largest number of workers."""
    components: tuple[str, ...]
    then: tuple[str, ...]
    """Commands after the submit; `{job}` stands for the job's id."""
    released: tuple[str, ...]
    """Commands that let the job start at the end."""
    seconds: float
    """Run time."""

    @property
    def by_sbatch(self) -> bool:
        """Whether it can only be submitted on a login node."""
        return bool(self.components) or self.name == FILL or any(option in self.options for option in _WITH_SBATCH)

    @property
    def name(self) -> str:
        """The name of the job."""
        named = re.search(r"-J (\S+)", self.options)
        return named[1] if named else self.case.replace(" ", "-")

    @property
    def _body(self) -> str:
        return UNTIL_RELEASE if self.case == "throttled array" else f"sleep {self.seconds}\n"

    def script(self, options: str = "") -> str:
        """The batch script: `options`, then the components, then the body."""
        lines = [options, *(line for each in self.components for line in ("hetjob", each))]
        return "#!/bin/sh\n" + "".join(f"#SBATCH {line}\n" for line in lines if line) + self._body

    def runs(self, job_id: str) -> tuple[str, ...]:
        """The ids of all runs of the job: its array tasks or its components."""
        array = re.search(r"--array=(\d+)-(\d+)(?::(\d+))?", self.options)
        if array is None:
            return tuple(str(int(job_id) + offset) for offset in range(1 + len(self.components)))
        first, last, step = (int(number or 1) for number in array.groups())
        return tuple(f"{job_id}_{task}" for task in range(first, last + 1, step))


def sample(case: str) -> Queued:
    """One job of a case."""
    return next(each for each in _cases() if each.case == case)


def mixed_queue(jobs: int, seed: int) -> list[Queued]:
    """A queue of `jobs` jobs, in which every case occurs once before any occurs twice."""
    rng = random.Random(seed)
    cases = [each for each in _cases() if each.case not in APART]
    queue: list[Queued] = []
    while len(queue) < jobs:
        queue += rng.sample(cases, min(len(cases), jobs - len(queue)))
    return [_timed(each, rng) for each in queue]


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


def _timed(job: Queued, rng: random.Random) -> Queued:
    limit = rng.choice(("", " -t 5"))
    options = job.options if "-t " in job.options else job.options + limit
    return Queued(job.case, options, job.components, job.then, job.released, rng.choice((0.0, 0.3, 1.0)))
