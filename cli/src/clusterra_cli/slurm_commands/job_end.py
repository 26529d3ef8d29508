"""Waits for the end of a job, and tells its exit code. While nothing can be known, it waits on."""

import time
from collections.abc import Sequence

from clusterra_cli.slurm_commands.failures import Away, NotKnown
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.notation import states
from clusterra_cli.slurm_commands.records import Record, count, exit_code, objects, part, texts

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 10.0


def exit_code_of(gateway: Gateway, job_id: str) -> int:
    """The exit code of a job at its end: the highest one of an array, and 1 for a job that a signal ended.

    It has no time limit of its own: the job has one, and whoever waits can be interrupted.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            ends = ended_codes(_records(gateway, job_id))
        except Away:
            ends = None
        if ends is not None:
            return max(ends, default=0)
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)


def ended_codes(records: Sequence[Record]) -> list[int] | None:
    """The exit codes of the records of a job; None while one of them has not ended, or none is known."""
    if not records:
        return None
    found = []
    for record in records:
        named = texts(record, "job_state") or texts(part(record, "state"), "current")
        if states.told(named) not in states.ENDED:
            return None
        code, signal = exit_code(record)
        ended_otherwise = states.base(named) != "COMPLETED" and not code
        found.append(1 if signal or ended_otherwise else code)
    return found


def _records(gateway: Gateway, job_id: str) -> list[Record]:
    """The records of the queue, or those of accounting once Slurm has forgotten the job."""
    try:
        return list(objects(gateway.slurm(f"slurm/job/{job_id}"), "jobs"))
    except NotKnown:
        pass
    try:
        return [each for each in objects(gateway.slurm(f"slurmdb/job/{job_id}"), "jobs") if count(each, "job_id")]
    except NotKnown:
        return []
