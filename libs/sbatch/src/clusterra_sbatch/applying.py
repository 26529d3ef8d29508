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
from clusterra_sbatch.options import EXPORT, GPUS_PER_NODE, GRES, HINT, MULTITHREAD, Fields
from clusterra_sbatch.problems import InvalidScript
from clusterra_sbatch.script_job import ScriptJob

NOTHING_FURTHER = FurtherFields()


@dataclass(frozen=True)
class Applied:
    """A job with its script's directives, and what they say besides its fields."""

    job: ScriptJob
    export: str | None = None
    """The value of `--export`."""
    hint: str | None = None
    """The value of `--hint`, which sbatch ignores beside `--threads-per-core`."""
    gpus_per_node: str | None = None
    """The value of `--gpus-per-node` in the notation of `tres_per_node`, which has other resources too."""
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
    hint: str | None = fields.pop(HINT, None)
    if "threads_per_core" in fields or job.threads_per_core is not None:
        hint = None
    elif hint is not None and hint.lower() != MULTITHREAD:
        fields["threads_per_core"] = 1
    gpus_per_node: str | None = fields.get(GPUS_PER_NODE)
    if gres := ",".join(fields.pop(name) for name in (GRES, GPUS_PER_NODE) if name in fields):
        fields["tres_per_node"] = gres
    given = {
        name: value
        for described in (job, further)
        for name, value in described.model_dump(exclude_defaults=True, exclude_none=True).items()
    }
    fields = _without_replaced(fields, given)
    given = with_flags(fields, given)
    if export is not None:
        given["environment"] = export.apply(job.environment)
    return Applied(
        ScriptJob.model_validate(fields | given),
        export=export.text if export else None,
        hint=hint,
        gpus_per_node=None if "tres_per_node" in given else gpus_per_node,
        warnings=checked.warnings,
    )


def _without_replaced(fields: Fields, given: Fields) -> Fields:
    """Leave out the script's fields of which the request gives another one in their place."""
    replaced = {name for options in EXCLUSIVE if options.keys() & given.keys() for name in options}
    return {name: value for name, value in fields.items() if name not in replaced}
