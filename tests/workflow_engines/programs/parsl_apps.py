"""Runs three apps of Parsl on a worker that it starts in a job."""

import os
import sys

import parsl  # type: ignore[import-not-found]
from parsl.config import Config  # type: ignore[import-not-found]
from parsl.executors import HighThroughputExecutor  # type: ignore[import-not-found]
from parsl.launchers import SimpleLauncher  # type: ignore[import-not-found]
from parsl.providers import SlurmProvider  # type: ignore[import-not-found]


def square(number: int) -> int:
    return number * number


def main() -> None:
    programs = f"{sys.prefix}/bin"
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
    provider = SlurmProvider(
        exclusive=False,
        max_blocks=1,
        cores_per_node=1,
        mem_per_node=1,
        walltime="00:10:00",
        cmd_timeout=60,
        launcher=SimpleLauncher(),
        worker_init=f"export PATH={programs}:$PATH",
    )
    executor = HighThroughputExecutor(
        label="slurm", address="127.0.0.1", max_workers_per_node=1, provider=provider, encrypted=False
    )
    with parsl.load(Config(executors=[executor])):
        app = parsl.python_app(square)
        print("squares", [future.result() for future in map(app, [3, 4, 5])])


if __name__ == "__main__":
    main()
