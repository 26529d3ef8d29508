"""Waits for a job, or follows its output, and returns the exit code with which the command ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from clusterra_cli.output import JobText, Output, note, visible

if TYPE_CHECKING:
    from clusterra import Job
    from clusterra.models import JobRecord

type Stream = Literal["stdout", "stderr"]


def follow(job: "Job", output: Output, *, tail: int | None = None) -> int:
    """Print the job's output as it is written, until the job has ended. Returns its exit code."""
    from clusterra.errors import Forbidden, NotFound

    try:
        print_output(job, output, tail=tail)
    except (NotFound, Forbidden) as error:
        note(f"the output of job {job.id} cannot be followed: {error}")
    return wait(job, output)


def wait(job: "Job", output: Output) -> int:
    """Wait until the job has ended. Returns its exit code."""
    return end_of(job.wait(), output)


def end_of(record: "JobRecord", output: Output) -> int:
    """Print how a job has ended. Returns its exit code."""
    from clusterra.result import returncode

    if output.json:
        output.json_line(record)
    elif record.state != "COMPLETED":
        how = f" with the exit code {record.exit_code}" if record.exit_code else ""
        how = f" by the signal {record.signal}" if record.signal else how
        because = f": {record.reason}" if record.reason not in ("", "None") else ""
        note(f"job {record.job_id} has ended as {visible(record.state)}{how}{because}")
    return returncode(record.state, record.exit_code, record.signal)


def print_output(job: "Job", output: Output, *, tail: int | None = None, stream: Stream = "stdout") -> None:
    """Print the job's output until it is complete. JSON lines have `output`."""
    shown = JobText()
    try:
        for chunk in job.follow(tail=tail, stream=stream):
            if output.json:
                output.json_line({"output": chunk})
            else:
                shown.write(chunk)
    finally:
        shown.end()


@contextmanager
def interruptible(*job_ids: str) -> Iterator[None]:
    """Says, at Ctrl-C, that the jobs go on."""
    try:
        yield
    except KeyboardInterrupt:
        ids = " ".join(job_ids)
        go_on = f"job {ids} goes on; to end it" if len(job_ids) == 1 else f"jobs {ids} go on; to end them"
        note(f"\n{go_on}: clusterra cancel {ids}")
        raise
