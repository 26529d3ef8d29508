"""Reads durations and points in time as Slurm does. Its clock is UTC here."""

import calendar
import re
from datetime import datetime, timedelta

MAX_SECONDS = 2**31 - 1
"""The longest duration: Slurm counts in 32 bits, and what is longer comes out as something else."""

_DURATION = re.compile(
    r"(?:(?P<days>[0-9]{1,10})-(?:(?P<h>[0-9]{1,10})(?::(?P<m>[0-9]{1,10})(?::(?P<s>[0-9]{1,10}))?)?)?"
    r"|(?P<first>[0-9]{1,10})(?::(?P<second>[0-9]{1,10})(?::(?P<third>[0-9]{1,10}))?)?)"
)
_UNLIMITED = frozenset({"-1", "INFINITE", "UNLIMITED"})
_HOURS = {"midnight": 0, "elevenses": 11, "noon": 12, "fika": 15, "teatime": 16}
_DAYS = {"today": 0, "tomorrow": 1}
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_UTS = re.compile(r"uts\s*\+?([0-9]{1,18})", re.IGNORECASE | re.ASCII)
_NOW = re.compile(r"now[ \t]*", re.IGNORECASE | re.ASCII)
_DELTA = re.compile(r"([+-])\s*((?:[0-9]\s*){1,18})(?:(second|minute|hour|day|week)s?)?", re.IGNORECASE | re.ASCII)
_WORD = re.compile("|".join((*_HOURS, *_DAYS)), re.IGNORECASE | re.ASCII)
_CLOCK = re.compile(r"([0-9]|[01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?\s*(am|pm)?", re.IGNORECASE | re.ASCII)
_ISO = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{1,2})")
_MONTH_FIRST = re.compile(r"([0-9]{1,2}+)[./]?+([0-9]{1,2}+)[./]?+([0-9]{2}|(?![0-9]))")


def seconds(text: str) -> int | None:
    """Read a duration: `minutes[:seconds]`, `hours:minutes:seconds` or `days-[hours[:minutes[:seconds]]]`.

    None is one without an end. Raises ValueError for another text, and for one above MAX_SECONDS.
    """
    if text.upper() in _UNLIMITED:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("must be a time, such as 30 (minutes), 1:30:00 or 2-12")
    part = {name: int(digits or 0) for name, digits in found.groupdict().items()}
    total = part["days"] * 86400 + part["h"] * 3600 + part["m"] * 60 + part["s"]
    if found["third"] is not None:
        total += part["first"] * 3600 + part["second"] * 60 + part["third"]
    else:
        total += part["first"] * 60 + part["second"]
    if total > MAX_SECONDS:
        raise ValueError("must be at most 24855 days")
    return total


def timestamp(text: str, now: datetime) -> int:
    """Read a point in time, in UTC, as seconds since the epoch. Raises ValueError.

    A time of day is the next one, and a date without a year is the next one. `now` may have a distance.
    """
    if text[:3].lower() == "uts":
        found = _UTS.fullmatch(text)
        if found is None or int(found[1]) < 1_000_000:
            raise ValueError("after uts must be seconds since 1970")
        return int(found[1])
    point = _Point(now)
    at = 0
    while at < len(text):
        at = at + 1 if text[at] in " \t-T" else point.read(text, at)
    return point.timestamp()


class _Point:
    """A point in time, of which words, times of day and dates set a part each."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._clock: tuple[int, int, int] | None = None
        self._month_and_day: tuple[int, int] | None = None
        self._year: int | None = None

    def read(self, text: str, at: int) -> int:
        """Read what stands here, and return the place behind it."""
        if found := _NOW.match(text, at):
            return self._from_now(text, found.end())
        if found := _WORD.match(text, at):
            word = found.group().lower()
            if word in _HOURS:
                self._clock = (_HOURS[word], 0, 0)
            else:
                self._on(self._now + timedelta(days=_DAYS[word]))
            return found.end()
        if ":" in text[at + 1 : at + 3]:
            return self._time_of_day(text, at)
        if found := _ISO.match(text, at):
            self._date(found[2], found[3])
            self._year = int(found[1])
            return found.end()
        if found := _MONTH_FIRST.match(text, at):
            self._date(found[1], found[2])
            if found[3] and int(found[3]):
                self._year = 2000 + int(found[3])
            return found.end()
        raise ValueError("must be a time, such as now+1hour, 16:00, tomorrow or 2026-01-31T12:30:00 (UTC)")

    def _from_now(self, text: str, at: int) -> int:
        distance = 0
        if at < len(text):
            found = _DELTA.match(text, at)
            if found is None or not (found[3] or found.end() == len(text)):
                raise ValueError("must be a distance, such as now+1hour")
            count = int("".join(found[2].split())) * _UNITS[(found[3] or "second").lower()]
            distance = -count if found[1] == "-" else count
            at = found.end()
        then = datetime.fromtimestamp(int(self._now.timestamp()), self._now.tzinfo) + timedelta(seconds=distance)
        self._on(then)
        self._clock = (then.hour, then.minute, then.second)
        return at

    def _time_of_day(self, text: str, at: int) -> int:
        found = _CLOCK.match(text, at)
        if found is None:
            raise ValueError("must be a time of day, such as 16:00 or 4:30PM")
        hour, half = int(found[1]), (found[4] or "").lower()
        if half and hour > 12:
            raise ValueError("must be an hour up to 12 with AM or PM")
        if half == "pm":
            hour = 12 if hour == 12 else hour + 12
        elif half == "am" and hour == 12:
            hour = 0
        self._clock = (hour, int(found[2]), int(found[3] or 0))
        return found.end()

    def _date(self, month: str, day: str) -> None:
        if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
            raise ValueError("must be a date, such as 2026-01-31 or 01/31/26")
        self._month_and_day = (int(month), int(day))

    def _on(self, day: datetime) -> None:
        self._month_and_day, self._year = (day.month, day.day), day.year

    def timestamp(self) -> int:
        now = self._now
        if self._clock is None and self._month_and_day is None:
            raise ValueError("must be a time, such as now+1hour, 16:00, tomorrow or 2026-01-31T12:30:00 (UTC)")
        clock = self._clock or (0, 0, 0)
        if self._month_and_day is None:
            self._on(now if clock[:2] > (now.hour, now.minute) else now + timedelta(days=1))
        month, day = self._month_and_day or (now.month, now.day)
        year = self._year
        if year is None:
            later = (month, day, *clock[:2]) > (now.month, now.day, now.hour, now.minute)
            year = now.year if later else now.year + 1
        found = calendar.timegm((year, month, day, *clock))
        if found <= 0:
            raise ValueError("must be a time from 1970 on")
        return found
