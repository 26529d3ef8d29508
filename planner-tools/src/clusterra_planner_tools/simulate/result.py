"""The result of a simulation: all that is needed to recompute its figures."""

from pathlib import Path

from clusterra_contracts.identity import Wire
from pydantic import ValidationError


class ResultUnreadable(ValueError):
    """The file holds no result. The text names the file and the problem."""


class Part(Wire):
    """What a job used on one worker."""

    worker: int
    cpus: int
    memory_gib: float


class JobRun(Wire):
    """The last run of a job; `id` is the trace's first column. Times are in seconds of the trace's clock."""

    id: int
    submit: float
    start: float
    end: float
    parts: tuple[Part, ...]


class WorkerRun(Wire):
    """A worker. It is paid from its launch to its release."""

    id: int
    shape: str
    launch: float
    release: float


class Result(Wire):
    """All jobs that ran and all workers that were bought."""

    jobs: tuple[JobRun, ...]
    workers: tuple[WorkerRun, ...]


def write(result: Result, path: Path) -> None:
    """Write a result as JSON. Raises OSError."""
    path.write_text(result.model_dump_json() + "\n", encoding="utf-8")


def read(path: Path) -> Result:
    """Read a result that `write` wrote. Raises ResultUnreadable."""
    try:
        return Result.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ResultUnreadable(f"{path}: {error.strerror}; name a file that `simulate --out` wrote") from error
    except ValidationError as error:
        raise ResultUnreadable(f"{path}: {error.errors()[0]['msg']} at {error.errors()[0]['loc']}") from error
