"""Reads a script's `#SBATCH` lines, and what sbatch takes from `#PBS` and `#BSUB` lines, as options and values."""

from collections.abc import Iterator
from dataclasses import dataclass

from clusterra_sbatch import foreign
from clusterra_sbatch.getopt import read
from clusterra_sbatch.options import OF_FOREIGN_LINES, SBATCH, Option
from clusterra_sbatch.problems import HINT, InvalidScript, Problem
from clusterra_sbatch.words import Word, own_words


@dataclass(frozen=True)
class Directive:
    """One option of a script, with its line number, counted from 1."""

    line: int
    option: Option
    value: str | None

    def problem(self, reason: str) -> Problem:
        """Return the problem that names this line and option."""
        if self.value is None:
            return Problem(self.line, f"{self.option.name}: {reason}")
        corrected = f"correct the value of {self.option.name} on line {self.line}"
        hint = corrected if reason.startswith("must be ") else HINT
        return Problem(self.line, f"{self.option.name}={self.value}: {reason}", hint)


def parse(script: str) -> tuple[Directive, ...]:
    """Return the options of a script in the order in which sbatch applies them.

    Like sbatch, it reads `#SBATCH` lines up to the first command, and `#PBS` or `#BSUB` lines after them. Raises
    InvalidScript, naming the lines, for malformed lines and unknown options.
    """
    found = tuple(scan(script))
    if problems := [each for each in found if isinstance(each, Problem)]:
        raise InvalidScript(problems)
    return tuple(each for each in found if isinstance(each, Directive))


def scan(script: str) -> Iterator[Directive | Problem]:
    """Yield what `parse` returns, and problems in between. A line is read up to its first problem."""
    words: list[Word] = []
    for each in own_words(script):
        if isinstance(each, Problem):
            yield each
        else:
            words.append(each)
    given: dict[str, str] = {}
    for found in read(words, SBATCH):
        if isinstance(found, Problem):
            yield found
        else:
            given[found.option.long] = found.value or ""
            yield Directive(found.line, found.option, found.value)
    if "ignore-pbs" in given:
        return
    for setting in foreign.settings(script, given):
        if isinstance(setting, Problem):
            yield setting
        else:
            line, (name, value) = setting
            yield Directive(line, OF_FOREIGN_LINES[name], value)
