"""Runs one job with PSI/J, in the current folder."""

from datetime import timedelta
from pathlib import Path

from psij import (  # type: ignore[import-not-found]
    Job,
    JobAttributes,
    JobExecutor,
    JobSpec,
    ResourceSpecV1,
)
from psij.executors.batch.slurm import SlurmExecutorConfig  # type: ignore[import-not-found]


def main() -> None:
    here = Path.cwd()
    job = Job(
        JobSpec(
            executable="/bin/sh",
            arguments=["-c", "sleep 5; echo job $SLURM_JOB_ID"],
            directory=here,
            stdout_path=here / "psij.out",
            resources=ResourceSpecV1(node_count=1, processes_per_node=1, cpu_cores_per_process=1),
            attributes=JobAttributes(duration=timedelta(minutes=5)),
            launcher="single",
        )
    )
    # PSI/J takes a job that squeue does not list for completed, and looks for it 2 s after the submit.
    polls = SlurmExecutorConfig(queue_polling_interval=5)
    JobExecutor.get_instance("slurm", config=polls).submit(job)
    status = job.wait(timedelta(minutes=3))
    print("state", status.state.name if status else "none", job.native_id)


if __name__ == "__main__":
    main()
