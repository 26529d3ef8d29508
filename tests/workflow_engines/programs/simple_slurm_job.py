"""Submits a job with simple_slurm, and waits for its output."""

import time
from pathlib import Path

from simple_slurm import Slurm  # type: ignore[import-not-found]

LISTED_SECONDS = 60
ENDED_SECONDS = 180


def main() -> None:
    output = Path.cwd() / "simple.out"
    held = Slurm(hold=True, job_name="held", time="00:05:00", mem="200M", output=output)
    held_id = held.sbatch("true")
    began = time.monotonic()
    # The gateway's list of jobs may be some seconds old.
    while held_id not in held.squeue.jobs and time.monotonic() < began + LISTED_SECONDS:
        held.squeue.update_squeue()
        time.sleep(0.2)
    print("held", held.squeue.jobs[held_id]["ST"])
    print(f"listed after {time.monotonic() - began:.1f} s")
    held.scancel.cancel_job(held_id)
    Slurm(job_name="simple", time="00:05:00", mem="200M", output=output).sbatch("echo job $SLURM_JOB_NAME")
    began = time.monotonic()
    while not (output.exists() and output.read_text()) and time.monotonic() < began + ENDED_SECONDS:
        time.sleep(0.2)
    print(output.read_text())


if __name__ == "__main__":
    main()
