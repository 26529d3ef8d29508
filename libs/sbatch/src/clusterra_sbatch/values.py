"""Parses the values of sbatch's options into the units of slurmrestd's job description."""

import re
from dataclasses import dataclass
from datetime import datetime

from clusterra_sbatch import node_counts, times

SIGNALS = (
    *("HUP", "INT", "QUIT", "ABRT", "KILL", "ALRM", "TERM", "CHLD", "USR1", "USR2", "PIPE", "URG"),
    *("CONT", "STOP", "TSTP", "TTIN", "TTOU", "XCPU"),
)
"""The names that Slurm knows. It sends no signal for another name, and slurmrestd does not say so."""
MAX_SIGNAL = 64
"""The largest signal of Linux."""
MAX_SIGNAL_SECONDS = 65535
"""The longest time between a signal and the time limit that Slurm takes."""
MAX_INTEGER = 2**31 - 2
"""The largest integer that sbatch takes."""

_INTEGER = re.compile(r"\s*([+-]?[0-9]{1,18})", re.ASCII)
_SIZE = re.compile(r"\s*\+?([0-9]{1,18})(?:([kKmMgGtT])[bB]?)?", re.ASCII)
_SIGNAL = re.compile(r"(r?b?r?):?([^@]*)(?:@(.*))?", re.IGNORECASE | re.ASCII | re.DOTALL)
_SIGNAL_NAME = re.compile(r"\s*(?:SIG)?([A-Z]+[0-9]?)\s*", re.IGNORECASE | re.ASCII)
_SECONDS = re.compile(r"\s*\+?([0-9]{1,18})|", re.ASCII)
_NAME = r"[A-Za-z][A-Za-z0-9_.-]*"
_TYPE = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_COUNT = r"([0-9]{1,15})([kKmMgG]?)"
_GRES = re.compile(rf"({_NAME})(?:[:=](?:({_TYPE})[:=])?{_COUNT}|[:=]({_NAME}))?")
"""A type may begin with a digit, such as `2080ti`, if a count follows it."""
_GPUS = re.compile(rf"(?:({_TYPE})[:=])?{_COUNT}|({_NAME})")
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_DISTRIBUTION = re.compile(
    r"(?:plane=[1-9][0-9]{0,8}|(?:arbitrary|hostfile|(?:block|cyclic|\*)(?::(?:block|cyclic|fcyclic|\*)){0,2})(?:,(?:no)?pack)?"
    r"|(?:no)?pack)",
    re.IGNORECASE | re.ASCII,
)


class Untranslatable(ValueError):
    """An option or value that cannot be translated to fields of a job; the text gives the reason."""


@dataclass(frozen=True)
class OptionValue:
    """The value of one option. Each method parses it as one of sbatch's kinds of values.

    All methods raise Untranslatable.
    """

    text: str
    now: datetime

    def integer(self, least: int = 0) -> int:
        """Parse an integer of at least `least`."""
        found = _INTEGER.fullmatch(self.text)
        if found is None:
            raise Untranslatable("must be an integer")
        if int(found[1]) < least:
            raise Untranslatable(f"must be {least} or more")
        if int(found[1]) > MAX_INTEGER:
            raise Untranslatable(f"must be at most {MAX_INTEGER}")
        return int(found[1])

    def mebibytes(self) -> int:
        """Parse a size with the unit K, M, G or T, by default M, into MiB, rounded up."""
        found = _SIZE.fullmatch(self.text)
        if found is None:
            raise Untranslatable("must be a size, such as 500M or 2G")
        size, unit = int(found[1]), (found[2] or "m").lower()
        return -(-size // 1024) if unit == "k" else size * {"m": 1, "g": 1024, "t": 1024**2}[unit]

    def seconds(self) -> int | None:
        """Parse a duration into seconds, as `times.seconds` does. None is one without an end."""
        try:
            return times.seconds(self.text)
        except ValueError as error:
            raise Untranslatable(str(error)) from None

    def minutes(self) -> int | None:
        """Parse a time limit into minutes, rounded up. None is none: as sbatch writes it, with 0 for one."""
        found = self.seconds()
        return -(-found // 60) if found else None

    def timestamp(self) -> int:
        """Parse a time into seconds since the epoch, as `times.timestamp` does."""
        try:
            return times.timestamp(self.text, self.now)
        except (ValueError, OverflowError) as error:
            reason = "must be a time before the year 10000" if isinstance(error, OverflowError) else str(error)
            raise Untranslatable(reason) from None

    def nodes(self) -> str:
        """Parse a number of nodes, a range or a list of numbers, and return it as slurmrestd takes it."""
        try:
            return node_counts.parse(self.text).text
        except ValueError as error:
            raise Untranslatable(str(error)) from None

    def signal(self) -> tuple[str, int, tuple[str, ...]]:
        """Parse `[{R|B}:]signal[@seconds]` into the signal, the seconds before the time limit, and Slurm's flags."""
        found = _SIGNAL.fullmatch(self.text)
        seconds = _SECONDS.fullmatch((found and found[3]) or "")
        if found is None or seconds is None:
            raise Untranslatable("must be a signal, such as USR1@60 or B:TERM@120")
        name = _SIGNAL_NAME.fullmatch(found[2])
        number = _INTEGER.fullmatch(found[2].rstrip(" \t"))
        if name is not None and name[1].upper() in SIGNALS:
            signal = name[1].upper()
        elif number is not None and 0 < int(number[1]) <= MAX_SIGNAL:
            signal = str(int(number[1]))
        else:
            raise Untranslatable(f"must be a number from 1 to {MAX_SIGNAL} or one of {', '.join(SIGNALS)}")
        # A number is missing behind the `@`: sbatch takes that for zero.
        delay = 60 if found[3] is None else int(seconds[1] or 0)
        if delay > MAX_SIGNAL_SECONDS:
            raise Untranslatable(f"must be at most {MAX_SIGNAL_SECONDS} s before the time limit")
        flags = (("b", "BATCH_JOB"), ("r", "RESERVATION_JOB"))
        return signal, delay, tuple(flag for letter, flag in flags if letter in found[1].lower())

    def yes(self) -> bool:
        """Parse yes or no, as sbatch does."""
        if self.text.lower() not in {"yes", "no"}:
            raise Untranslatable("must be yes or no")
        return self.text.lower() == "yes"

    def given(self) -> str | None:
        """Return the text unchanged, for Slurm itself parses names and lists of names. An empty one is none."""
        return self.text or None

    def gres(self) -> str | None:
        """Convert `gpu:h100:2,shard:1` to the notation of the `tres_*` fields. None: none is wanted."""
        if self.text.lower() in {"", "none"}:
            return None
        if self.text.lower() in {"help", "list"}:
            raise Untranslatable("it only makes sbatch print a list")
        items = [item.removeprefix("gres/") for item in self.text.split(",") if item]
        found = [_GRES.fullmatch(item) for item in items]
        if not all(found) or any(item.groups()[0] == "gres" for item in found if item):
            raise Untranslatable("must be a list, such as gpu:2 or gpu:h100:2")
        written: list[str] = []
        for name, kind, number, unit, kind_alone in (item.groups() for item in found if item):
            of_kind = f":{kind or kind_alone}" if kind or kind_alone else ""
            written.append(f"gres/{name}{of_kind}" + (f":{_plain(number, unit)}" if number else ""))
        return ",".join(written) or None

    def gpus(self, equals: str = ":") -> str | None:
        """Convert `2`, `h100:2` or `a100:1,h100:1` to GPUs in the notation of the `tres_*` fields. None: none."""
        if not self.text:
            return None
        items = [_GPUS.fullmatch(item) for item in self.text.split(",")]
        if not all(items):
            raise Untranslatable("must be a number of GPUs, such as 2 or h100:2")
        written: list[str] = []
        for kind, number, unit, kind_alone in (item.groups() for item in items if item):
            of_kind = f":{kind or kind_alone}" if kind or kind_alone else ""
            written.append(f"gres/gpu{of_kind}" + (f"{equals}{_plain(number, unit)}" if number else ""))
        return ",".join(written)

    def distribution(self) -> str:
        """Return the layout of tasks unchanged, if Slurm knows it."""
        if not _DISTRIBUTION.fullmatch(self.text):
            raise Untranslatable("must be a layout of tasks, such as block:cyclic or plane=4")
        return self.text


def _plain(number: str, unit: str) -> int:
    return int(number) * _UNITS[unit.lower()]
