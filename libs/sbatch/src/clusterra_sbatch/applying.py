"""Applies a script's directives to a job: slurmrestd ignores them, so they become fields as sbatch would set them.

The request takes precedence over the script, as sbatch's command line takes precedence over directives. Of two
directives, the later one wins.
"""

from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import JobDescription

from clusterra_sbatch.checking import EXCLUSIVE, check, with_flags
from clusterra_sbatch.environment import Export
from clusterra_sbatch.problems import InvalidScript
from clusterra_sbatch.script_job import ScriptJob
from clusterra_sbatch.sizes import with_tasks_and_nodes
from clusterra_sbatch.translations import (
    EXPORT,
    GPUS_PER_NODE,
    GRES,
    GRES_FLAGS,
    HINT,
    INSTEAD_OF_HINT,
    MULTITHREAD,
    UMASK,
    UNLIMITED,
    Fields,
)

NOTHING_FURTHER = FurtherFields()


@dataclass(frozen=True)
class Applied:
    """A job with its script's directives, and what they say besides its fields."""

    job: ScriptJob
    export: str | None = None
    """The value of `--export`."""
    hint: str | None = None
    """The value of `--hint`, which sbatch ignores beside options that say the same."""
    gpus_per_node: str | None = None
    """The value of `--gpus-per-node` in the notation of `tres_per_node`, which has other resources too."""
    unlimited: bool = False
    """Whether the script asks for no time limit, also where the cluster sets one for jobs that ask for nothing."""
    warnings: tuple[str, ...] = ()
    """The options that were accepted without their effect, with their lines."""


def apply(script: str, job: JobDescription, further: FurtherFields = NOTHING_FURTHER, *, now: datetime) -> Applied:
    """Return the job with the script's directives applied. Relative times count from `now`.

    A field with its default value counts as not given, because a message carries defaults too. Raises InvalidScript,
    naming the lines, for a script with problems.
    """
    checked = check(script, now=now)
    if checked.problems:
        raise InvalidScript(checked.problems)
    fields = dict(checked.fields)
    export: Export | None = fields.pop(EXPORT, None)
    umask: str | None = fields.pop(UMASK, None)
    unlimited: bool = fields.pop(UNLIMITED, False)
    hint = _hint(fields, job, further)
    gpus_per_node: str | None = fields.get(GPUS_PER_NODE)
    if (binding := fields.pop(GRES_FLAGS, None)) is not None:
        fields["flags"] = (*fields.get("flags", ()), binding)
    if gres := ",".join(fields.pop(name) for name in (GRES, GPUS_PER_NODE) if name in fields):
        fields["tres_per_node"] = gres
    given = {
        name: value
        for described in (job, further)
        for name, value in described.model_dump(exclude_defaults=True, exclude_none=True).items()
    }
    fields = _without_replaced(fields, given)
    given = with_flags(fields, given)
    environment = job.environment if export is None else export.apply(job.environment)
    if umask is not None and not any(item.startswith("SLURM_UMASK=") for item in environment):
        environment = (*environment, f"SLURM_UMASK={umask}")
    given["environment"] = environment
    return Applied(
        ScriptJob.model_validate(with_tasks_and_nodes(fields, given)),
        export=export.text if export else None,
        hint=hint,
        gpus_per_node=None if "tres_per_node" in given else gpus_per_node,
        unlimited=unlimited and "time_limit" not in given,
        warnings=checked.warnings,
    )


def _hint(fields: Fields, job: JobDescription, further: FurtherFields) -> str | None:
    """Take the hint out of the script's fields and set what it means. Beside options of the same kind it means nothing.

    Of several hints, the last one says how many threads of a core are used.
    """
    hint: str | None = fields.pop(HINT, None)
    instead = {*fields, *job.model_dump(exclude_none=True), *further.model_dump(exclude_none=True)}
    if hint is None or not INSTEAD_OF_HINT.isdisjoint(instead):
        return None
    if hint.lower().split(",")[-1] != MULTITHREAD:
        fields["threads_per_core"] = 1
    return hint


def _without_replaced(fields: Fields, given: Fields) -> Fields:
    """Leave out the script's fields of which the request gives another one in their place."""
    replaced = {name for options in EXCLUSIVE if options.keys() & given.keys() for name in options}
    return {name: value for name, value in fields.items() if name not in replaced}
