"""The classes by which Slurm keeps jobs from workers: what a job's expression and a node's Extra say of them.

Every job asks for `open=1|<class>=1` (set at its submission, from what was asked for alone). A worker starts open; one
that is closed names the classes that it still takes. So a class that nobody has decided about waits at a closed worker,
and whatever nobody closes takes all.
"""

import json
import re
from collections.abc import Iterable

from pydantic import TypeAdapter, ValidationError

OPEN = "open"
_CLASS = re.compile(r"open=1\|([A-Za-z0-9._-]+)=1")
_EXTRA = TypeAdapter(dict[str, int])


def class_of(expression: str) -> str | None:
    """The class in a job's expression; None for a job that was not given one, and so is refused nowhere."""
    found = _CLASS.search(expression)
    return found.group(1) if found else None


def extra_of(taken: Iterable[str] | None) -> str:
    """A worker's Extra that takes these classes only, or all (None)."""
    if taken is None:
        return json.dumps({OPEN: 1}, separators=(",", ":"))
    return json.dumps({OPEN: 0, **dict.fromkeys(sorted(taken), 1)}, separators=(",", ":"))


def is_ours(extra: str) -> bool:
    """Whether an Extra is one that we may replace: none, or one of this kind."""
    if not extra:
        return True
    try:
        return OPEN in _EXTRA.validate_json(extra)
    except ValidationError:
        return False
