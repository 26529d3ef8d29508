"""The files of workers: what slurmd prints, and its spool folder."""

import shutil
from pathlib import Path

from clusterra_contracts.identity import ShapeName, WorkerName


class WorkerFiles:
    """Of all workers that failed, the output of the last one of each shape stays."""

    def __init__(self, logs: Path, spool: str | None) -> None:
        """`spool` holds `{worker}`, or is None when slurmd's spool folders are not ours to remove."""
        self._logs = logs
        self._spool = spool
        logs.mkdir(parents=True, exist_ok=True)

    def output(self, worker: WorkerName) -> Path:
        """Where a worker's standard output and error go."""
        return self._logs / f"{worker}.log"

    def last_failure(self, shape: ShapeName) -> Path:
        """The output of the last worker of a shape that ended by itself."""
        return self._logs / f"{shape}.failed.log"

    def remove_spool(self, worker: WorkerName) -> None:
        """Remove the spool folder of a worker that has ended."""
        if self._spool is not None:
            shutil.rmtree(self._spool.format(worker=worker), ignore_errors=True)

    def put_away(self, worker: WorkerName, shape: ShapeName, *, failed: bool) -> None:
        """Keep the output as the shape's last failure, or remove it. Raises OSError."""
        output = self.output(worker)
        if not failed:
            output.unlink(missing_ok=True)
        elif output.exists():
            output.replace(self.last_failure(shape))
