"""Submits a job with simple_slurm, and waits for its output."""

import time
from pathlib import Path

from simple_slurm import Slurm  # type: ignore[import-not-found]

ENDED_SECONDS = 180


def main() -> None:
    output = Path.cwd() / "simple.out"
    held = Slurm(hold=True, job_name="held", time="00:05:00", mem="200M", output=output)
    held_id = held.sbatch("true")
    held.squeue.update_squeue()
    print("held", held.squeue.jobs[held_id]["ST"])
    held.scancel.cancel_job(held_id)
    Slurm(job_name="simple", time="00:05:00", mem="200M", output=output, wait=True).sbatch("echo job $SLURM_JOB_NAME")
    began = time.monotonic()
    while not (output.exists() and output.read_text()) and time.monotonic() < began + ENDED_SECONDS:
        time.sleep(0.2)
    print(output.read_text())


if __name__ == "__main__":
    main()
