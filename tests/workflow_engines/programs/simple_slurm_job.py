"""Submits a job with simple_slurm, and waits for its end."""

from pathlib import Path

from simple_slurm import Slurm  # type: ignore[import-not-found]


def main() -> None:
    output = Path.cwd() / "simple.out"
    held = Slurm("--hold", job_name="held", time="00:05:00", mem="200M", output=output)
    held_id = held.sbatch("true")
    held.squeue.update_squeue()
    print("held", held.squeue.jobs[held_id]["ST"])
    held.scancel.cancel_job(held_id)
    Slurm("--wait", job_name="simple", time="00:05:00", mem="200M", output=output).sbatch("echo job $SLURM_JOB_NAME")
    print(output.read_text())


if __name__ == "__main__":
    main()
