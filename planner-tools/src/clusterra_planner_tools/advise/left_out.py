"""Records that are no jobs to simulate, and why."""

from collections import Counter
from dataclasses import dataclass, field


class LeftOut(ValueError):
    """A record is left out. The text is the reason: one of few, so that reasons can be counted."""

    expected = False
    """Whether it is in order, such as a job that never ran."""


class NotAJob(LeftOut):
    """A record that no job is expected of, such as a step or a job that never ran."""

    expected = True


class NotReadable(ValueError):
    """The input as a whole is nothing that can be read. The text says what to give."""


@dataclass(slots=True)
class Counts:
    """What was found in an input beside jobs. Counted by reason."""

    records: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    """Records that cannot be understood."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Records that are in order and no work: steps, jobs that never ran."""
    assumed: Counter[str] = field(default_factory=Counter)
    """What had to be assumed for jobs."""
    first_bad: dict[str, int] = field(default_factory=dict)
    """For each reason, the number of the first bad record."""

    def left_out(self, error: LeftOut) -> None:
        """Count a record that is left out."""
        if error.expected:
            self.skipped[str(error)] += 1
        else:
            self.bad[str(error)] += 1
            self.first_bad.setdefault(str(error), self.records)
