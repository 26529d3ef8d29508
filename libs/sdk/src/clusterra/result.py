"""How a job ended."""

from dataclasses import dataclass

SIGNAL_BASE = 128


@dataclass(frozen=True, slots=True)
class Result:
    """How a job ended, and the end of its output."""

    job_id: str
    state: str
    """Slurm's state, such as `COMPLETED`, `FAILED`, `CANCELLED` or `TIMEOUT`."""
    exit_code: int | None
    """None for a job that a signal, a cancel or a limit ended."""
    signal: int | None
    output: str
    """The last lines of the output, at most 10,000 and at most 1 MiB. It is text of the job, and no markup."""

    @property
    def ok(self) -> bool:
        """Whether the job has completed with 0."""
        return self.returncode == 0

    @property
    def returncode(self) -> int:
        """The exit code as a shell has it: 128 and the signal for a job that a signal ended, 1 without either."""
        return returncode(self.state, self.exit_code, self.signal)


def returncode(state: str, exit_code: int | None, signal: int | None) -> int:
    """The exit code of a job as a shell has it. A job that has not completed is never 0."""
    if state == "COMPLETED":
        return exit_code or 0
    if exit_code:
        return exit_code
    return SIGNAL_BASE + signal if signal else 1
