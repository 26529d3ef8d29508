"""What is wrong with a script, line by line."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

MAX_FINDINGS = 100
"""Maximum number of problems, and of warnings, that are reported for one script."""
MAX_SHOWN = 10
"""Maximum number of problems in the text of an error."""
MAX_CHARACTERS = 500
"""Maximum length of a problem's reason, which may show what the script has."""
HINT = "remove the line from the script, or set a field of the job instead"


@dataclass(frozen=True)
class Problem:
    """What is wrong with one line of a script. Lines are counted from 1."""

    line: int
    reason: str
    hint: str = HINT

    def __str__(self) -> str:
        shown = self.reason if len(self.reason) <= MAX_CHARACTERS else f"{self.reason[:MAX_CHARACTERS]}..."
        return f"line {self.line} of the script: {shown}"


class InvalidScript(ValueError):
    """A script that sbatch would reject, or that has an option which cannot have its effect here."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(islice(problems, MAX_FINDINGS))
        """At least one problem, in the order of the lines."""
        shown = "; ".join(map(str, self.problems[:MAX_SHOWN]))
        more = len(self.problems) - MAX_SHOWN
        super().__init__(f"{shown}; and {more} more" if more > 0 else shown)

    @property
    def hint(self) -> str:
        """What to do about the first problem."""
        return self.problems[0].hint
