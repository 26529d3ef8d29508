"""Starts a Dask cluster of two workers, computes with it, and ends it."""

import os

from dask.distributed import Client  # type: ignore[import-not-found]
from dask_jobqueue import SLURMCluster  # type: ignore[import-not-found]


def square(number: int) -> int:
    return number * number


def job_id() -> str:
    return os.environ["SLURM_JOB_ID"]


def main() -> None:
    # Workers of the lab have no network of their own: on a cluster, `interface` names one that workers reach.
    with (
        SLURMCluster(cores=1, memory="400MB", walltime="00:10:00", interface="lo", log_directory="logs") as cluster,
        Client(cluster) as client,
    ):
        cluster.scale(jobs=2)
        client.wait_for_workers(2, timeout=90)
        print("sum", sum(client.gather(client.map(square, range(10)))))
        print("jobs", len(set(client.run(job_id).values())))
        cluster.scale(jobs=0)


if __name__ == "__main__":
    main()
