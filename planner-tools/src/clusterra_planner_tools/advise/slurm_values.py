"""Reads the values that Slurm's accounting writes: times, durations, sizes, resources and states.

Everything here is text of unknown origin. A value that cannot be understood raises ValueError.
"""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

MAX_SECONDS = 50 * 366 * 86400
"""Longer than any accounting database: what exceeds it is no duration."""
MAX_COUNT = 10_000_000
"""More CPUs or nodes than any cluster has."""
MAX_MIB = 1 << 40
NO_VALUE = frozenset({"", "unknown", "none", "n/a", "invalid", "(null)", "not_set"})
NO_LIMIT = frozenset({"unlimited", "partition_limit", "infinite", "not_set", "invalid", *NO_VALUE})
_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?(?:\.\d{1,9})?", re.ASCII)
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTPEkmgtpe]?)i?[Bb]?([cn]?)", re.ASCII)
_MIB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3, "E": 1024.0**4}
_GPUS = re.compile(r"gres/gpu(?::([a-zA-Z0-9_.-]{1,64}))?", re.ASCII)


def moment(text: str, zone: ZoneInfo | None) -> float | None:
    """The seconds since 1970; None for no moment. A time without a zone is in `zone`; None: that of this machine."""
    if text.lower() in NO_VALUE:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 10:
        return float(text) or None
    if len(text) > 40:
        raise ValueError("a time is too long")
    found = datetime.fromisoformat(text)
    if found.tzinfo is None and zone is not None:
        found = found.replace(tzinfo=zone)
    try:
        seconds = found.timestamp()
    except (OverflowError, OSError) as error:
        raise ValueError("a time is out of range") from error
    return seconds if seconds > 0 else None


def duration(text: str) -> float | None:
    """Seconds of `[DAYS-][HOURS:]MINUTES:SECONDS`; None where there is none."""
    if text.lower() in NO_LIMIT:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("a duration cannot be read")
    days, *parts = match.groups()
    numbers = [int(each) for each in parts if each is not None]
    # With days, the first number is hours; without, it is minutes unless there are three.
    if days is None and len(numbers) < 3:
        numbers = [0, *numbers]
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    return bounded(int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds, MAX_SECONDS)


def bounded(value: float, most: float) -> float:
    """The value. Raises ValueError unless it is from 0 to `most`."""
    if not 0 <= value <= most or not math.isfinite(value):
        raise ValueError("a number is out of range")
    return float(value)


def count(text: str) -> int | None:
    """A number such as `12`, `1K` or `1.50K`; None where there is none."""
    if text.lower() in NO_VALUE:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return int(bounded(int(text), MAX_COUNT))
    match = _SIZE.fullmatch(text)
    if match is None or match[3]:
        raise ValueError("a number cannot be read")
    power = " KMGTPE".index(match[2].upper() or " ")
    return int(bounded(float(match[1]) * 1024.0**power, MAX_COUNT))


@lru_cache(maxsize=65536)
def memory(text: str) -> tuple[float, str] | None:
    """MiB, and what they are for: `c` each CPU, `n` each node, empty the whole job; None where there is none."""
    if text.lower() in NO_VALUE:
        return None
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("a memory size cannot be read")
    mib = bounded(float(match[1]) * _MIB[match[2].upper()], MAX_MIB)
    return (mib, match[3]) if mib else None


@lru_cache(maxsize=65536)
def resources(text: str) -> Mapping[str, str]:
    """The parts of a text such as `cpu=4,gres/gpu:a100=2,mem=16G,node=1`."""
    if len(text) > 4096:
        raise ValueError("a list of resources is too long")
    pairs = (each.partition("=") for each in text.split(","))
    return {name.strip(): value.strip() for name, sign, value in pairs if sign}


def gpus(found: Mapping[str, str]) -> tuple[int, str]:
    """The GPUs of the whole job and their model, which is empty where any will do."""
    total, models = 0, {}
    for name, value in found.items():
        if match := _GPUS.fullmatch(name):
            number = count(value) or 0
            if match[1]:
                models[match[1].lower()] = number
            else:
                total = number
    total = max(total, sum(models.values()))
    # A job for several models is rare; the one of which it has most decides.
    return total, max(models, key=lambda model: models[model]) if total and models else ""


def state(text: str) -> str:
    """The first word of a state such as `CANCELLED by 1000`, without a mark such as that of `COMPLETED+`."""
    return (text.split() or [""])[0].rstrip("+").upper()[:20]
