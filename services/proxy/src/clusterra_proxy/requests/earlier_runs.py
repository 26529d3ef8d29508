"""Leaves out runs of jobs that were put back after they had ended: a list has each job once, with its last run.

Slurm lets an ended job start again (`scontrol requeue`). slurmdbd then keeps the ended run beside the new one, under
the same id. A job of another user or name with this id is another job: ids begin again when slurmctld loses its state.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from clusterra_proxy.slurmrestd.records import JobRecord

_NEVER = datetime.min.replace(tzinfo=UTC)


def without_earlier_runs(records: Iterable[JobRecord]) -> tuple[JobRecord, ...]:
    """The records, in their order, without the ended runs of jobs of which there is a later run."""
    kept = tuple(records)
    newest: dict[str, JobRecord] = {}
    for record in kept:
        known = newest.get(record.id)
        if known is None or _submitted_at(record) > _submitted_at(known):
            newest[record.id] = record
    return tuple(record for record in kept if not _is_followed(record, newest[record.id]))


def _is_followed(run: JobRecord, newest: JobRecord) -> bool:
    if not run.ended or newest.restart_cnt <= run.restart_cnt:
        return False
    same_user = run.user_id == newest.user_id or None in (run.user_id, newest.user_id)
    return same_user and run.name == newest.name


def _submitted_at(record: JobRecord) -> datetime:
    return record.submit_time or _NEVER
