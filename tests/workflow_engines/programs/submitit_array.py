"""Runs an array of three tasks with submitit, in the current folder."""

import submitit  # type: ignore[import-not-found]


def square(number: int) -> int:
    return number * number


def main() -> None:
    executor = submitit.AutoExecutor(folder="logs/%j")
    executor.update_parameters(timeout_min=5, slurm_array_parallelism=2, cpus_per_task=1, mem_gb=0.3)
    jobs = executor.map_array(square, [3, 4, 5])
    print("ids", [job.job_id for job in jobs])
    print("squares", [job.result() for job in jobs])
    print("states", [job.state for job in jobs])


if __name__ == "__main__":
    main()
