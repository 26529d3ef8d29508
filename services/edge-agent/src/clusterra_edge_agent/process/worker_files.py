"""The files of workers: slurmd's output and its spool folder."""

import shutil
from pathlib import Path

from clusterra_contracts.identity import ShapeName, WorkerName


class WorkerFiles:
    """Manages the files of workers. Of each shape, the output of the last failed worker is kept."""

    def __init__(self, logs: Path, spool: str | None) -> None:
        """`spool` contains `{worker}`. It is None when slurmd's spool folders are not the agent's to remove."""
        self._logs = logs
        self._spool = spool
        logs.mkdir(parents=True, exist_ok=True)

    def output(self, worker: WorkerName) -> Path:
        """Path of the file that gets a worker's standard output and error."""
        return self._logs / f"{worker}.log"

    def last_failure(self, shape: ShapeName) -> Path:
        """Path of the kept output: that of the last worker of this shape that ended by itself."""
        return self._logs / f"{shape}.failed.log"

    def remove_spool(self, worker: WorkerName) -> None:
        """Removes the spool folder of a worker that has ended."""
        if self._spool is not None:
            shutil.rmtree(self._spool.format(worker=worker), ignore_errors=True)

    def dispose_output(self, worker: WorkerName, shape: ShapeName, *, failed: bool) -> None:
        """Keeps the output as the shape's last failure if the worker failed, else deletes it. Raises OSError."""
        output = self.output(worker)
        if not failed:
            output.unlink(missing_ok=True)
        elif output.exists():
            output.replace(self.last_failure(shape))
