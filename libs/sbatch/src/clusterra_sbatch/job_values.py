"""Checks the values of a job, whichever way they came: as sbatch checks its options before it asks Slurm.

slurmrestd checks less, and answers some of these values as if it had failed itself.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from clusterra_sbatch.script_job import ScriptJob
from clusterra_sbatch.values import OptionValue, Untranslatable

SHARED = frozenset({"none", "oversubscribe", "user", "mcs", "topo"})
OPEN_MODES = frozenset({"append", "truncate"})

type _Parse = Callable[[OptionValue], object]

_PARSED: dict[str, _Parse] = {
    "nodes": OptionValue.nodes,
    "distribution": OptionValue.distribution,
    "kill_warning_signal": OptionValue.signal,
}
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def check_values(job: ScriptJob) -> None:
    """Raise ValueError, naming the field, for a value or a combination of values that no job can have."""
    if (problem := next(_problems(job), None)) is not None:
        raise ValueError(problem)


def _problems(job: ScriptJob) -> Iterator[str]:
    for name, parse in _PARSED.items():
        value: str | None = getattr(job, name)
        if value:
            try:
                parse(OptionValue(value, _NO_TIME))
            except Untranslatable as error:
                yield f"{name}: {error}"
    for name, given, known in (("shared", job.shared, SHARED), ("open_mode", job.open_mode, OPEN_MODES)):
        if not all(each.lower() in known for each in given or ()):
            yield f"{name}: must be one of {', '.join(sorted(known))}"
    if job.begin_time and job.deadline and job.deadline < job.begin_time:
        yield "deadline: it is before begin_time"
    if job.time_minimum and job.time_limit and job.time_minimum > job.time_limit:
        yield "time_minimum: it is longer than time_limit"
    if job.tasks_per_core and job.threads_per_core and job.tasks_per_core > job.threads_per_core:
        yield "tasks_per_core: there are more than threads_per_core"
    yield from _gpu_problems(job)


def _gpu_problems(job: ScriptJob) -> Iterator[str]:
    if "gres/gpu" in (job.tres_per_task or "") and not (
        job.tasks or job.tres_per_job or job.nodes or job.minimum_nodes
    ):
        yield "tres_per_task: GPUs for each task need a number of tasks, or of GPUs for the job"
    if job.tres_per_socket and not job.sockets_per_node:
        yield "tres_per_socket: GPUs for each socket need sockets_per_node"
