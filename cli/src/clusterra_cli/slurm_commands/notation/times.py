"""Times as Slurm's commands write and read them. Moments are seconds since 1970, shown in the local zone."""

import os
import re
import time
from calendar import isleap
from datetime import datetime, timedelta

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400
_UNITS = {"second": 1, "minute": MINUTE, "hour": HOUR, "day": DAY, "week": 7 * DAY}
_CLOCK = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{1,7})(?::([0-9]{1,7}))?(?::([0-9]{1,7}))?")
_RELATIVE = re.compile(r"now(?:([+-])([0-9]{1,9})([a-z]*))?")
_FORMATS = (
    *("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"),
    *("%m/%d/%y-%H:%M:%S", "%m/%d/%y-%H:%M", "%m/%d/%y"),
)
_FORMATS_OF_YEAR = ("%m/%d-%H:%M:%S", "%m/%d-%H:%M", "%m/%d", "%m.%d")
_COMPACT = re.compile(r"([0-9]{2})([0-9]{2})([0-9]{2})?(-[0-9:]+)?")
"""Months and days without marks between them, such as `1102` and `110226-12:00`."""


def span(seconds: int) -> str:
    """A time as squeue writes it: `0:05`, `1:02:03`, `2-00:00:00`."""
    days, rest = divmod(seconds, DAY)
    hours, rest = divmod(rest, HOUR)
    minutes, left = divmod(rest, MINUTE)
    if seconds < 0 or seconds > YEAR:
        return "INVALID"
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{left:02}"
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def full_span(seconds: int) -> str:
    """A time as sacct and scontrol write it: `00:00:05`, `2-00:00:00`."""
    days, rest = divmod(max(seconds, 0), DAY)
    text = f"{rest // HOUR:02}:{rest % HOUR // MINUTE:02}:{rest % MINUTE:02}"
    return f"{days}-{text}" if days else text


def precise_span(microseconds: int) -> str:
    """A CPU time as sacct writes it: `00:01.234`, `01:02:03`."""
    seconds, rest = divmod(microseconds, 1_000_000)
    if seconds >= HOUR or not microseconds:
        return full_span(seconds)
    return f"{seconds // MINUTE:02}:{seconds % MINUTE:02}.{rest // 1000:03}"


def moment(seconds: int) -> str:
    """A moment as commands write it, in the form that SLURM_TIME_FORMAT names."""
    wanted = os.environ.get("SLURM_TIME_FORMAT", "standard")
    local = time.localtime(seconds)
    if wanted == "relative":
        wanted = "%H:%M:%S" if abs(seconds - time.time()) < DAY else "%d %b %H:%M"
    return time.strftime("%Y-%m-%dT%H:%M:%S" if wanted == "standard" or "%" not in wanted else wanted, local)


def duration(text: str) -> int:
    """The seconds of a time as people write it: `90` (minutes), `90:00`, `1:30:00`, `1-12`. Raises ValueError."""
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    days, *parts = found.groups()
    numbers = [int(each) for each in parts if each is not None]
    scales = (HOUR, MINUTE, 1) if days is not None or len(numbers) == 3 else (MINUTE, 1, 0)
    return int(days or 0) * DAY + sum(each * scale for each, scale in zip(numbers, scales, strict=False))


def read_moment(text: str, now: float) -> int | None:
    """The moment that a person writes, such as `now-2hours`, `today`, `2026-05-01T10:00`; None for no moment."""
    lower = text.strip().lower()
    today = datetime.fromtimestamp(now).replace(  # noqa: DTZ006 - local time is meant
        hour=0, minute=0, second=0, microsecond=0
    )
    words = {"today": today, "midnight": today, "tomorrow": today + timedelta(days=1), "noon": today.replace(hour=12)}
    words["yesterday"] = today - timedelta(days=1)
    if lower in words:
        return int(words[lower].timestamp())
    if relative := _RELATIVE.fullmatch(lower):
        sign, count, unit = relative.groups()
        scale = next(
            (seconds for name, seconds in _UNITS.items() if name.startswith((unit or "second").rstrip("s"))), 0
        )
        if unit and not scale:
            return None
        return int(now) + (-1 if sign == "-" else 1) * int(count or 0) * (scale or 1)
    return _calendar(text.strip(), today)


def _calendar(text: str, today: datetime) -> int | None:
    if compact := _COMPACT.fullmatch(text):
        text = "/".join(each for each in compact.groups()[:3] if each) + (compact[4] or "")
    for form in ("%H:%M:%S", "%H:%M"):
        if found := _parsed(text, form):
            return int(today.replace(hour=found.hour, minute=found.minute, second=found.second).timestamp())
    for form in _FORMATS:
        if found := _parsed(text, form):
            return int(found.timestamp())
    for form in _FORMATS_OF_YEAR:
        # With a leap year, so that the 29th of February is a day.
        if found := _parsed(f"2024 {text}", f"%Y {form}"):
            leap = (found.month, found.day) == (2, 29) and not isleap(today.year)
            return None if leap else int(found.replace(year=today.year).timestamp())
    return None


def _parsed(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)  # noqa: DTZ007 - local time is meant
    except ValueError:
        return None
