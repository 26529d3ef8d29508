"""Durations as people read them, in mails and in messages."""

from datetime import timedelta

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def duration(took: timedelta) -> str:
    """A duration in its two largest units, such as `2 h 5 min` or `3 min`. A negative one is `0 s`."""
    left = max(int(took.total_seconds()), 0)
    index = next((index for index, (_, seconds) in enumerate(_UNITS) if left >= seconds), len(_UNITS) - 1)
    parts = list[str]()
    for name, seconds in _UNITS[index : index + 2]:
        count, left = divmod(left, seconds)
        if count or not parts:
            parts.append(f"{count} {name}")
    return " ".join(parts)
