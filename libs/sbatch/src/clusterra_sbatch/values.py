"""Parses the values of sbatch's options into the units of slurmrestd's job description."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

SIGNALS = (
    *("HUP", "INT", "QUIT", "ABRT", "KILL", "ALRM", "TERM", "CHLD", "USR1", "USR2", "PIPE", "URG"),
    *("CONT", "STOP", "TSTP", "TTIN", "TTOU", "XCPU"),
)
"""The names that Slurm knows. It sends no signal for another name, and slurmrestd does not say so."""
MAX_SIGNAL = 64
"""The largest signal of Linux."""
MAX_SIGNAL_SECONDS = 65535
"""The longest time between a signal and the time limit that Slurm takes."""


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
        if not re.fullmatch(r"\d{1,9}", self.text):
            raise Untranslatable("must be an integer")
        if int(self.text) < least:
            raise Untranslatable(f"must be {least} or more")
        return int(self.text)

    def mebibytes(self) -> int:
        """Parse a size with the unit K, M, G or T, by default M, into MiB, rounded up."""
        match = re.fullmatch(r"(\d{1,15})(?:([kKmMgGtT])[bB]?)?", self.text)
        if match is None:
            raise Untranslatable("must be a size, such as 500M or 2G")
        size, unit = int(match.group(1)), (match.group(2) or "m").lower()
        return -(-size // 1024) if unit == "k" else size * {"m": 1, "g": 1024, "t": 1024**2}[unit]

    def minutes(self) -> int:
        """Parse a time limit into minutes, rounded up.

        Formats: `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`.
        """
        match = re.fullmatch(r"(?:(\d{1,10})-)?(\d{1,10})(?::(\d{1,10}))?(?::(\d{1,10}))?", self.text)
        if match is None:
            raise Untranslatable("must be a finite time, such as 30, 1:30:00 or 2-12")
        days, *rest = match.groups()
        first, second, third = (int(part) if part is not None else None for part in rest)
        if days is not None:
            parts = (int(days), first, second, third)
        elif third is not None:
            parts = (0, first, second, third)
        else:
            parts = (0, 0, first, second)
        seconds = sum((part or 0) * unit for part, unit in zip(parts, (86400, 3600, 60, 1), strict=True))
        if seconds == 0:
            raise Untranslatable("must be longer than zero")
        return -(-seconds // 60)

    def timestamp(self) -> int:
        """Parse a time into seconds since the epoch.

        Formats: `now[+count[unit]]`, `uts...`, or a date with or without time, in UTC.
        """
        if match := re.fullmatch(r"uts(\d{1,10})", self.text):
            return int(match.group(1))
        if match := re.fullmatch(r"now(?:\+(\d{1,10})(second|minute|hour|day|week)?s?)?", self.text, re.IGNORECASE):
            count, unit = int(match.group(1) or 0), (match.group(2) or "second").lower()
            try:
                return int((self.now + timedelta(**{f"{unit}s": count})).timestamp())
            except OverflowError:
                raise Untranslatable("must be a time before the year 10000") from None
        try:
            timestamp = datetime.fromisoformat(self.text)
        except ValueError:
            raise Untranslatable(
                "must be a time, such as now+1hour, uts1767225600 or 2026-01-31T12:30:00 (UTC)"
            ) from None
        seconds = int((timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)).timestamp())
        if seconds < 0:
            raise Untranslatable("must be a time from 1970 on")
        return seconds

    def signal(self) -> tuple[str, int, tuple[str, ...]]:
        """Parse `[{R|B}:]signal[@seconds]` into the signal, the seconds before the time limit, and Slurm's flags."""
        match = re.fullmatch(
            r"(?:([rRbB]{1,2}):)?(?:SIG)?([A-Za-z]{2,5}\d?|\d{1,5})(?:@(\d{1,5}))?", self.text, re.IGNORECASE
        )
        if match is None:
            raise Untranslatable("must be a signal, such as USR1@60 or B:TERM@120")
        letters, signal, seconds = (match.group(1) or "").upper(), match.group(2).upper(), int(match.group(3) or 60)
        if signal not in SIGNALS and not (signal.isdecimal() and 0 < int(signal) <= MAX_SIGNAL):
            raise Untranslatable(f"must be a number from 1 to {MAX_SIGNAL} or one of {', '.join(SIGNALS)}")
        if seconds > MAX_SIGNAL_SECONDS:
            raise Untranslatable(f"must be at most {MAX_SIGNAL_SECONDS} s before the time limit")
        flags = (("B", "BATCH_JOB"), ("R", "RESERVATION_JOB"))
        return signal, seconds, tuple(flag for letter, flag in flags if letter in letters)

    def yes(self) -> bool:
        """Parse yes or no, as sbatch does."""
        if self.text.lower() not in {"yes", "no"}:
            raise Untranslatable("must be yes or no")
        return self.text.lower() == "yes"

    def non_empty(self) -> str:
        """Return the text unchanged: Slurm itself parses names and lists of names."""
        if not self.text:
            raise Untranslatable("must not be empty")
        return self.text

    def gres(self) -> str:
        """Convert `gpu:h100:2,shard:1` to the notation of the `tres_*` fields."""
        items = [item.removeprefix("gres/").removeprefix("gres:") for item in self.text.split(",")]
        if not all(re.fullmatch(r"[A-Za-z][\w.-]*([:=][\w.-]+)*", item) for item in items):
            raise Untranslatable("must be a list, such as gpu:2 or gpu:h100:2")
        return ",".join(f"gres/{item}" for item in items)

    def gpus(self, equals: str = ":") -> str:
        """Convert `2`, `h100:2` or `a100:1,h100:1` to GPUs in the notation of the `tres_*` fields."""
        items = [re.fullmatch(r"(?:([A-Za-z][\w.-]*):)?(\d+)", item) for item in self.text.split(",")]
        if not all(items):
            raise Untranslatable("must be a number of GPUs, such as 2 or h100:2")
        counts = (item.groups(default="") for item in items if item)
        return ",".join(f"gres/gpu{':' if kind else ''}{kind}{equals}{count}" for kind, count in counts)
