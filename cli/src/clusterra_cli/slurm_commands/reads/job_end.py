"""Waits for the end of a job, and returns its exit code. While the gateway or Slurm is away, it waits on."""

import time
from collections.abc import Sequence

from clusterra_cli.slurm_commands.failures import INVALID_JOB, Away, CommandFailed, NotKnown, Refused
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.notation import states
from clusterra_cli.slurm_commands.records import Record, count, exit_code, objects, part, texts

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 10.0
UNKNOWN_SECONDS = 60.0
"""After so long without a record of the job nobody knows it."""


def exit_code_of(gateway: Gateway, job_id: str) -> int:
    """The exit code of a job at its end: the highest one of an array, and 1 for a job that a signal ended.

    It has no time limit of its own: the job has one, and whoever waits can be interrupted. Raises CommandFailed where
    the job can be read no longer, as after the end of the sign-in, and where nobody knows the job.
    """
    pause, codes, seen_at = FIRST_PAUSE_SECONDS, dict[int, int](), time.monotonic()
    while True:
        over = False
        try:
            records = _records(gateway, job_id)
            over = bool(records) and all(has_ended(each) for each in records)
            if over and any(count(each, "array_job_id") for each in records):
                # Slurm forgets each task some minutes after its end.
                codes = ended_codes(_accounted(gateway, job_id)) | codes
        except Away:
            records, over, seen_at = [], False, time.monotonic()
        except Refused as error:
            raise CommandFailed(f"error: job {job_id} goes on: {error}") from None
        codes |= ended_codes(records)
        if over:
            return max(codes.values(), default=0)
        if records:
            seen_at = time.monotonic()
        elif time.monotonic() - seen_at > UNKNOWN_SECONDS:
            raise CommandFailed(f"error: job {job_id}: {INVALID_JOB}")
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)


def ended_codes(records: Sequence[Record]) -> dict[int, int]:
    """The exit codes of those records that have ended, by their ids."""
    found = {}
    for record in records:
        if has_ended(record):
            code, signal = exit_code(record)
            ended_otherwise = states.base(_named(record)) != "COMPLETED" and not code
            found[count(record, "job_id")] = 1 if signal or ended_otherwise else code
    return found


def has_ended(record: Record) -> bool:
    """Whether a job, or the task of an array, has ended."""
    return states.shown(_named(record)) in states.ENDED


def _named(record: Record) -> Sequence[str]:
    return texts(record, "job_state") or texts(part(record, "state"), "current")


def _records(gateway: Gateway, job_id: str) -> list[Record]:
    """The records of the queue, or those of accounting once Slurm has forgotten the job."""
    try:
        return list(objects(gateway.slurm(f"slurm/job/{job_id}"), "jobs"))
    except NotKnown:
        pass
    return _accounted(gateway, job_id)


def _accounted(gateway: Gateway, job_id: str) -> list[Record]:
    try:
        return [each for each in objects(gateway.slurm(f"slurmdb/job/{job_id}"), "jobs") if count(each, "job_id")]
    except NotKnown:
        return []
